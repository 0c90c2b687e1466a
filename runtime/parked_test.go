package lockrt_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

type callKey struct{}

// A call that has nothing to do until the key is released has no lease meanwhile. The lease that it gets is that of any other call, and
// others see what it waits for.
func TestParked_HasItsLeaseAtTheGrant(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	holder, c := clientOf(t, server.URL(), lockrt.Options{}), clientOf(t, server.URL(), lockrt.Options{})
	key := redistest.Key(t, "k")
	atBest(t, "was the lease, which lasts two seconds when it is handed over, renewed in time", func() bool {
		held := ok(t)(holder.Mutex(key).Lock(patient(t)))
		under := context.WithValue(patient(t), callKey{}, "value")
		first, second := make(chan *lockrt.Lease, 1), make(chan *lockrt.Lease, 1)
		go func() { first <- ok(t)(c.Mutex(key).Lock(under, lockrt.WithName("first"), lockrt.WithFencing())) }()
		until(t, "it is parked", func() bool { return lockrt.Parked(c, key) == 1 })
		waiting := c.Snapshot().Waiting
		require.Len(t, waiting, 1)
		require.Equal(t, lockrt.KindMutex, waiting[0].Kind)
		require.Equal(t, "first", waiting[0].Name)
		go func() {
			second <- ok(t)(c.Mutex(key).Lock(lockrt.WithOwner(patient(t), lockrt.NewOwner()), lockrt.WithFencing()))
		}()
		until(t, "both wait", func() bool { return c.Stats().Waiting == 2 })

		free(t, held)
		lease := receive(t, first, "the lock, from another process")
		require.Equal(t, key, lease.Key())
		require.Same(t, c, lease.Client())
		require.Positive(t, lease.Token())
		require.Equal(t, "value", lease.Context().Value(callKey{}))
		again, err := c.Mutex(key).Lock(lease.Context())
		if err == nil {
			err = again.Unlock(t.Context())
		}
		err = errors.Join(err, lease.Unlock(t.Context()))
		require.Error(t, lease.Context().Err())
		var failure *lockrt.Error
		require.ErrorAs(t, lease.Unlock(t.Context()), &failure)
		require.Equal(t, "first", failure.Name)
		last := receive(t, second, "the lock, from this process")
		err = errors.Join(err, last.Unlock(t.Context()))
		if errors.Is(err, lockrt.ErrLost) {
			return false // the machine stood still
		}
		require.NoError(t, err)
		return true
	})
}

// Close and Shutdown end each call that waits, also a Shutdown that itself waits for a lease.
func TestParked_EndsWithTheClient(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(c *lockrt.Client, others func()) error{
		"close": func(c *lockrt.Client, others func()) error {
			defer others()
			return c.Close()
		},
		"shutdown": func(c *lockrt.Client, others func()) error {
			defer others()
			return c.Shutdown(context.Background())
		},
		"shutdown beside a lease": func(c *lockrt.Client, others func()) error {
			lease, err := c.Mutex(redistest.Key(t, "other")).Lock(context.Background())
			if err != nil {
				return err
			}
			over := make(chan error, 1)
			go func() { over <- c.Shutdown(context.Background()) }()
			others()
			return errors.Join(lease.Unlock(context.Background()), <-over)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Shared(t)
			holder, c := clientOf(t, server.URL(), lockrt.Options{}), clientOf(t, server.URL(), lockrt.Options{})
			keys := []string{redistest.Key(t, "mutex"), redistest.Key(t, "fair"), redistest.Key(t, "rw"), redistest.Key(t, "permits")}
			all := func(c *lockrt.Client) []lockrt.Locker {
				permits := c.PermitSemaphore(keys[3], 1)
				return []lockrt.Locker{c.Mutex(keys[0]), c.FairMutex(keys[1]), c.RWMutex(keys[2]), lockrt.PermitLocker(permits)}
			}
			const each = 3
			var held []*lockrt.Lease
			failures := make(chan error, each*len(all(c)))
			for i, lock := range all(holder) {
				held = append(held, ok(t)(lock.Lock(patient(t))))
				for range each {
					go func() {
						_, err := all(c)[i].Lock(patient(t))
						failures <- err
					}()
				}
			}
			until(t, "all wait", func() bool { return c.Stats().Waiting == each*len(all(c)) })
			until(t, "one is parked", func() bool { return lockrt.Parked(c, keys[0]) == 1 })
			require.NoError(t, end(c, func() {
				for range cap(failures) {
					require.ErrorIs(t, receive(t, failures, "its end"), lockrt.ErrClosed)
				}
			}))
			free(t, held...)
		})
	}
}
