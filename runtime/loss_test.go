package lockrt_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/gen"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// errWork is what work failed with besides the end of its context.
var errWork = errors.New("half of the work is done")

// lostWork is work under a lease that is lost meanwhile: it returns what its context said, as most work does.
func lostWork(t *testing.T, server *redistest.RedisServer, keys ...string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		until(t, "it is lost", func() bool { // once may not do: a request that was answered late, and was sent once more, locks again
			require.NoError(t, server.Do(append([]string{"DEL"}, keys...)...).Error())
			return ctx.Err() != nil
		})
		loss := &lockrt.Error{}
		require.ErrorAs(t, context.Cause(ctx), &loss)
		require.Equal(t, "hold", loss.Op)
		require.Contains(t, keys, loss.Key)
		require.NotContains(t, loss.Error(), "\n")
		return fmt.Errorf("%w: %w", errWork, ctx.Err())
	}
}

// A lost lease does not look like a caller who went away, whatever the work returned, and says which key it was.
func TestLoss_IsNoEndOfTheCallersContext(t *testing.T) {
	t.Parallel()
	type do func(ctx context.Context, c *lockrt.Client, key string, work func(ctx context.Context) error) error
	locker := func(of func(c *lockrt.Client, key string) lockrt.Locker) do {
		return func(ctx context.Context, c *lockrt.Client, key string, work func(ctx context.Context) error) error {
			return of(c, key).(interface {
				Do(context.Context, func(context.Context, *lockrt.Lease) error, ...lockrt.LockOption) error
			}).Do(ctx, func(ctx context.Context, l *lockrt.Lease) error {
				err := work(ctx)
				loss := &lockrt.Error{}
				require.ErrorAs(t, l.Err(), &loss)
				require.Contains(t, loss.Key, key)
				return err
			}, unexpiring)
		}
	}
	for name, do := range map[string]do{
		"Mutex":     locker(exclusives["Mutex"]),
		"FairMutex": locker(exclusives["FairMutex"]),
		"RWMutex":   locker(exclusives["RWMutex"]),
		"MultiLock": locker(func(c *lockrt.Client, key string) lockrt.Locker {
			return lockrt.NewMultiLock(c.Mutex(key), c.Mutex(key+":2"))
		}),
		"reader": func(ctx context.Context, c *lockrt.Client, key string, work func(ctx context.Context) error) error {
			return c.RWMutex(key).RDo(ctx, func(ctx context.Context, _ *lockrt.Lease) error { return work(ctx) })
		},
		"permit": func(ctx context.Context, c *lockrt.Client, key string, work func(ctx context.Context) error) error {
			return c.PermitSemaphore(key, 1).Do(ctx, func(ctx context.Context, _ *lockrt.Permit) error {
				return work(ctx)
			}, lockrt.WithWatchdog(300*time.Millisecond))
		},
		"generated": func(ctx context.Context, c *lockrt.Client, key string, work func(ctx context.Context) error) (err error) {
			hold, err := gen.With(c).Acquire(ctx, &gen.Spec{Name: "n", Wait: lockrt.UntilDone}, key)
			if err != nil {
				return err
			}
			defer hold.Release(&err)
			return work(hold.Context())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, key := redistest.Shared(t), redistest.Key(t, "k")
			c := newClient(t, lockrt.Options{})
			lost := lostWork(t, server, key, "{"+key+"}:timeout") // of permits
			err := do(patient(t), c, key, lost)
			require.ErrorIs(t, err, lockrt.ErrLost)
			require.ErrorIs(t, err, errWork)
			require.NotErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			of := &lockrt.Error{}
			require.ErrorAs(t, err, &of)
			require.Contains(t, of.Key, key)

			// Unless the caller went away too.
			ctx, cancel := context.WithCancel(patient(t))
			err = do(ctx, c, key, func(ctx context.Context) error {
				err := lost(ctx)
				cancel()
				return err
			})
			require.ErrorIs(t, err, lockrt.ErrLost)
			require.ErrorIs(t, err, context.Canceled)
		})
	}
}

// The error of Do after a loss is one line of text, with the key and the name of the lock.
func TestLoss_SaysKeyAndName(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{})
	named := lockrt.WithName("orders.Service.Pay")
	for kind, lock := range map[string]func(key string) lockrt.Locker{
		"mutex": func(key string) lockrt.Locker { return c.Mutex(key, named) },
		"fair":  func(key string) lockrt.Locker { return c.FairMutex(key, named) },
		"write": func(key string) lockrt.Locker { return c.RWMutex(key, named) },
		"read":  func(key string) lockrt.Locker { return c.RWMutex(key, named).RLocker() },
		"multi": func(key string) lockrt.Locker {
			return lockrt.NewMultiLock(c.Mutex(key, named), c.FairMutex(key+":2", named))
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			key := redistest.Key(t, "k")
			err := lockrt.DoUnder(patient(t), lock(key), func(ctx context.Context, _ *lockrt.Lease) error {
				return lostWork(t, server, key, key+":2")(ctx)
			}, unexpiring)
			require.ErrorIs(t, err, lockrt.ErrLost)
			require.ErrorIs(t, err, errWork)
			require.NotContains(t, err.Error(), "\n")
			loss := &lockrt.Error{}
			require.ErrorAs(t, err, &loss)
			require.Contains(t, loss.Key, key)
			require.Equal(t, "orders.Service.Pay", loss.Name)
		})
	}
}
