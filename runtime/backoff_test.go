package runtime_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// spin is how the tests wait without subscribing.
var spin = lockrt.WithBackoff(lockrt.ExponentialBackoff(time.Millisecond, 32*time.Millisecond))

func TestWithBackoff_KeepsThePromisesOfALocker(t *testing.T) {
	t.Parallel()
	locktest.TestLocker(t, func(c *lockrt.Client, key string) lockrt.Locker { return c.Mutex(key, spin) }, locktest.NoListening)
}

// Whatever waits with it subscribes to nothing.
func TestWithBackoff_SubscribesToNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	one, two := clientOf(t, server.URL(), lockrt.Options{}), clientOf(t, server.URL(), lockrt.Options{})
	for name, lock := range map[string]func(c *lockrt.Client) func(ctx context.Context) (func() error, error){
		"mutex": func(c *lockrt.Client) func(ctx context.Context) (func() error, error) {
			return leasing(c.Mutex("mutex", spin))
		},
		"fair": func(c *lockrt.Client) func(ctx context.Context) (func() error, error) {
			return leasing(c.FairMutex("fair", spin))
		},
		"write": func(c *lockrt.Client) func(ctx context.Context) (func() error, error) {
			return leasing(c.RWMutex("rw", spin))
		},
		"permit": func(c *lockrt.Client) func(ctx context.Context) (func() error, error) {
			return func(ctx context.Context) (func() error, error) {
				p, err := c.PermitSemaphore("permit", 1, spin).Acquire(ctx)
				if err != nil {
					return nil, err
				}
				return func() error { return p.Release(ctx) }, nil
			}
		},
	} {
		end, err := lock(one)(patient(t))
		require.NoError(t, err, name)
		got := later(func() error {
			end, err := lock(two)(patient(t))
			if err != nil {
				return err
			}
			return end()
		})
		until(t, "the other one waits", func() bool { return two.Stats().Waiting > 0 })
		require.Zero(t, channels(t, server), name)
		require.NoError(t, end(), name)
		require.NoError(t, receive(t, got, name), name)
		require.Zero(t, channels(t, server), name)
	}
}

func leasing(m lockrt.Locker) func(ctx context.Context) (func() error, error) {
	return func(ctx context.Context) (func() error, error) {
		l, err := m.Lock(ctx)
		if err != nil {
			return nil, err
		}
		return func() error { return l.Unlock(ctx) }, nil
	}
}

func TestWithBackoff_BoundedAttempts(t *testing.T) {
	t.Parallel()
	l := newLine(t, lockrt.Options{})
	lease := ok(t)(newClient(t, lockrt.Options{}).Mutex(l.key).Lock(patient(t)))
	asked := l.seen(asks)
	_, err := l.client.Mutex(l.key).Lock(patient(t), lockrt.WithBackoff(lockrt.ConstantBackoff(time.Millisecond).Attempts(5)))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	require.ErrorContains(t, err, "in 5 attempts")
	require.Len(t, asked, 5)
	free(t, lease)
}

func TestWithBackoff_BadPolicies(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).Mutex(redistest.Key(t, "k"))
	for what, b := range map[string]lockrt.Backoff{
		"begins with 0s is shorter than 1ms": {},
		"of at most 1ms begins with 2ms":     lockrt.ExponentialBackoff(2*time.Millisecond, time.Millisecond),
		"grow by -1ms is negative":           lockrt.LinearBackoff(time.Millisecond, -time.Millisecond, time.Second),
		"with less than one attempt":         lockrt.ConstantBackoff(time.Second).Attempts(0),
	} {
		_, err := m.Lock(patient(t), lockrt.WithBackoff(b))
		require.ErrorIs(t, err, lockrt.ErrBadOption)
		require.ErrorContains(t, err, what)
	}
}

func TestBackoff_Pauses(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		b    lockrt.Backoff
		want []time.Duration
	}{
		"constant":    {lockrt.ConstantBackoff(64 * ms), []time.Duration{64 * ms, 64 * ms, 64 * ms}},
		"linear":      {lockrt.LinearBackoff(10*ms, 20*ms, 55*ms), []time.Duration{10 * ms, 30 * ms, 50 * ms, 55 * ms, 55 * ms}},
		"exponential": {lockrt.ExponentialBackoff(10*ms, 100*ms), []time.Duration{10 * ms, 20 * ms, 40 * ms, 80 * ms, 100 * ms}},
		"unbounded":   {lockrt.ExponentialBackoff(ms, math.MaxInt64), append([]time.Duration{ms}, lockrt.Longest(lockrt.ExponentialBackoff(2*ms, math.MaxInt64), 99)...)},
	} {
		got := lockrt.Longest(test.b, len(test.want))
		require.Equal(t, test.want, got, name)
		for _, d := range got {
			require.Positive(t, d, name)
		}
		for i, longest := range got {
			pause := lockrt.Pause(test.b, i+1)
			require.GreaterOrEqual(t, pause, longest/2, name)
			require.LessOrEqual(t, pause, longest, name)
		}
	}
}

// What follows does what Redisson's own tests of RSpinLock do that are not those of RLock; these are
// TestWithBackoff_KeepsThePromisesOfALocker.

func TestRedisson_Spin_TryLockWait(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	lease := ok(t)(newClient(t, lockrt.Options{}).Mutex(key, spin).Lock(patient(t)))
	start := time.Now()
	_, err := newClient(t, lockrt.Options{}).Mutex(key, spin).Lock(patient(t), lockrt.WithWait(300*time.Millisecond))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	require.GreaterOrEqual(t, time.Since(start), 300*time.Millisecond)
	require.Less(t, time.Since(start), 5*time.Second)
	free(t, lease)
}

func TestRedisson_Spin_TryLockAsync(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	hooks, waiting, _ := watch()
	lease := ok(t)(newClient(t, lockrt.Options{}).Mutex(key, spin).Lock(patient(t)))
	got := lockLater(patient(t), newClient(t, lockrt.Options{Hooks: hooks}).Mutex(key, spin))
	receive(t, waiting, "the waiter")
	require.Empty(t, got)
	free(t, lease)
	free(t, gotten(t, got, "the lock, after the unlock"))
}

func TestRedisson_Spin_Concurrency_MultiInstance(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	var c counted
	jobs(t, 16, func(int) error {
		client, err := lockrt.Open(redistest.Shared(t).URL(), lockrt.Options{})
		if err != nil {
			return err
		}
		for range 5 {
			if err = errors.Join(err, lockUnlock(patient(t), client.Mutex(key, spin), c.enter)); err != nil {
				break
			}
		}
		return errors.Join(err, client.Close())
	})
	require.EqualValues(t, 80, c.total.Load())
	gone(t, redistest.Shared(t), key)
}
