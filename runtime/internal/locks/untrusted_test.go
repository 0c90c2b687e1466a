package locks

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// standStill keeps the watchdog of c from its work, as if the process stood still, from the end of a lease that it takes on. It returns what lets it go on.
func standStill(t *testing.T, c *Client) (goOn func()) {
	t.Helper()
	key := redistest.Key(t, "watched")
	watched, err := c.Mutex(key, leases.WithLease(leases.MinLease)).Lock(patient(t))
	require.NoError(t, err)
	r, known := c.mutexes.Find(key)
	require.True(t, known)
	r.Mu.Lock() // for which the report of the loss waits
	until(t, "the first lease is over", func() bool { return watched.Until().Before(time.Now()) })
	return r.Mu.Unlock
}

// TestReentry_NotIntoWhatIsNotTrusted shows that no call enters a lease whose time is over, although the watchdog has not reported its loss yet.
func TestReentry_NotIntoWhatIsNotTrusted(t *testing.T) {
	t.Parallel()
	for kind, lock := range map[string]func(c *Client, key string, opts ...leases.Option) Locker{
		"mutex":  func(c *Client, key string, opts ...leases.Option) Locker { return c.Mutex(key, opts...) },
		"fair":   func(c *Client, key string, opts ...leases.Option) Locker { return c.FairMutex(key, opts...) },
		"writer": func(c *Client, key string, opts ...leases.Option) Locker { return c.RWMutex(key, opts...) },
		"reader": func(c *Client, key string, opts ...leases.Option) Locker { return ReadLocker{c.RWMutex(key, opts...)} },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := clientOf(t, redistest.Shared(t).URL(), core.Settings{})
			m := lock(c, redistest.Key(t, "k"), leases.WithLease(3*leases.MinLease))
			ctx := leases.WithOwner(patient(t), leases.NewOwner())
			outer, err := m.Lock(ctx)
			require.NoError(t, err)
			inner, err := m.Lock(ctx)
			require.NoError(t, err)
			goOn := standStill(t, c)
			defer goOn()
			err = inner.Do(ctx, func(context.Context) error {
				until(t, "the lease is over", func() bool { return outer.Until().Before(time.Now()) })
				for name, ctx := range map[string]context.Context{"the owner": ctx, "under the lease": context.WithoutCancel(outer.Context())} {
					before := time.Now()
					if l, err := m.TryLock(ctx); err == nil { // readers may get another one
						require.True(t, l.Until().After(before), name)
						require.NoError(t, l.Unlock(ctx))
					} else {
						require.ErrorIs(t, err, failure.ErrNotAcquired, name)
					}
				}
				return nil
			})
			require.ErrorIs(t, err, failure.ErrLost, "the work went on for too long")
			require.ErrorIs(t, outer.Err(), failure.ErrLost)
		})
	}
}
