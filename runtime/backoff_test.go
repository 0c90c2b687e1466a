package lockrt_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// spin is how the tests wait without subscribing.
var spin = lockrt.WithBackoff(lockrt.ExponentialBackoff(time.Millisecond, 32*time.Millisecond))

func TestWithBackoff_KeepsThePromisesOfALocker(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(c *lockrt.Client, key string) lockrt.Locker{
		"mutex": func(c *lockrt.Client, key string) lockrt.Locker { return c.Mutex(key, spin) },
		"fair":  func(c *lockrt.Client, key string) lockrt.Locker { return c.FairMutex(key, spin) },
		"write": func(c *lockrt.Client, key string) lockrt.Locker { return c.RWMutex(key, spin) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			locktest.TestLocker(t, of, locktest.NoListening)
		})
	}
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
		"read": func(c *lockrt.Client) func(ctx context.Context) (func() error, error) {
			if c == one {
				return leasing(c.RWMutex("read", spin))
			}
			return leasing(c.RWMutex("read", spin).RLocker())
		},
		"semaphore": func(c *lockrt.Client) func(ctx context.Context) (func() error, error) {
			return func(ctx context.Context) (func() error, error) {
				s := c.Semaphore("semaphore", 2, spin)
				return func() error { return s.Release(ctx, 2) }, s.Acquire(ctx, 2)
			}
		},
		"latch": func(c *lockrt.Client) func(ctx context.Context) (func() error, error) {
			return func(ctx context.Context) (func() error, error) {
				l := c.CountDownLatch("latch", spin)
				if c == one {
					return func() error { return second(l.CountDown(ctx)) }, second(l.SetCount(ctx, 1))
				}
				return func() error { return nil }, l.Wait(ctx)
			}
		},
		"redlock": func(c *lockrt.Client) func(ctx context.Context) (func() error, error) {
			return leasing(lockrt.RedLockOf(c.Mutex("one", spin), c.Mutex("two", spin), c.Mutex("three", spin)))
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

// A waiting call asks as often as the policy allows, for every kind of lock.
func TestWithBackoff_BoundedAttempts(t *testing.T) {
	t.Parallel()
	five := lockrt.WithBackoff(lockrt.ConstantBackoff(time.Millisecond).Attempts(5))
	for name := range waits(nil) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, other := &line{server: redistest.Shared(t), key: redistest.Key(t, "k")}, newClient(t, lockrt.Options{})
			l.proxy = redistest.Proxy(t, l.server.Addr())
			l.client = clientOf(t, l.proxy.URL(), lockrt.Options{}) // that never listens, or it would ask once more when it does
			var err error
			switch name {
			case "mutex":
				_, err = other.Mutex(l.key).Lock(patient(t))
			case "fair":
				_, err = other.FairMutex(l.key).Lock(patient(t))
			case "write", "read":
				_, err = other.RWMutex(l.key).Lock(patient(t))
			case "semaphore":
				_, err = other.Semaphore(l.key, 0).TrySetPermits(t.Context(), 0, 0)
			case "permit":
				_, err = other.PermitSemaphore(l.key, 0).TrySetPermits(t.Context(), 0, 0)
			case "latch":
				_, err = other.CountDownLatch(l.key).SetCount(t.Context(), 1)
			}
			require.NoError(t, err)
			asked := l.seen(redistest.EvalSHA(scripts.Take.SHA1(), scripts.Acquire.SHA1(), scripts.FairAcquire.SHA1(), scripts.RWWrite.SHA1(),
				scripts.RWRead.SHA1(), scripts.SemaphoreAcquire.SHA1(), scripts.PermitAcquire.SHA1(), scripts.LatchCount.SHA1()))
			err = waits(l.client, five)[name](l.key)
			require.ErrorIs(t, err, lockrt.ErrNotAcquired)
			require.ErrorContains(t, err, "in 5 attempts")
			require.GreaterOrEqual(t, len(asked), 5)
			require.LessOrEqual(t, len(asked), 5*3, "an attempt is sent more than once only where its answer is late")
			require.Zero(t, l.client.Stats().Waiting)
		})
	}
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

// A waiting call tolerates that many errors in a row and no more, for every kind of lock. A release goes on trying.
func TestRetry_BoundedAttempts(t *testing.T) {
	t.Parallel()
	retry := lockrt.ConstantBackoff(time.Millisecond).Attempts(3)
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{Retry: retry})
	lease := ok(t)(c.Mutex("warm").Lock(patient(t)))
	free(t, lease)
	server.Kill()
	for name, wait := range waits(c) {
		err := wait("k")
		require.ErrorIs(t, err, lockrt.ErrUnavailable, name)
		require.ErrorContains(t, err, "in 3 attempts", name)
		require.NotErrorIs(t, err, lockrt.ErrNotAcquired, name)
	}
	server.Restart()

	l := newLine(t, lockrt.Options{Retry: retry.Attempts(1)})
	lease = ok(t)(l.client.Mutex(l.key, unexpiring).Lock(patient(t)))
	lost := l.proxy.DropRequest(gives, 3, redistest.Close)
	require.NoError(t, lease.Unlock(t.Context()))
	receive(t, lost.Done(), "the requests that are lost")
	gone(t, l.server, l.key)
}

// A request without an answer is no attempt of WithBackoff: the wait goes on until it is over.
func TestWithBackoff_NoAnswerIsNoAttempt(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{Retry: lockrt.ConstantBackoff(time.Millisecond)})
	free(t, ok(t)(c.Mutex("warm").Lock(patient(t))))
	server.Kill()
	once := lockrt.WithBackoff(lockrt.ConstantBackoff(time.Millisecond).Attempts(1))
	for name, wait := range waits(c, once, lockrt.WithWait(100*time.Millisecond)) {
		err := wait("k")
		require.ErrorIs(t, err, lockrt.ErrUnavailable, name)
		require.NotErrorIs(t, err, lockrt.ErrNotAcquired, name)
		require.NotContains(t, err.Error(), "attempt", name)
	}
}

// waits are all ways to wait.
func waits(c *lockrt.Client, opts ...lockrt.LockOption) map[string]func(key string) error {
	return map[string]func(key string) error{
		"mutex": func(key string) error { return second(c.Mutex(key, opts...).Lock(context.Background())) },
		"fair":  func(key string) error { return second(c.FairMutex(key, opts...).Lock(context.Background())) },
		"write": func(key string) error { return second(c.RWMutex(key, opts...).Lock(context.Background())) },
		"read":  func(key string) error { return second(c.RWMutex(key, opts...).RLock(context.Background())) },
		"semaphore": func(key string) error {
			return c.Semaphore(key, 1, opts...).Acquire(context.Background(), 1)
		},
		"permit": func(key string) error {
			return second(c.PermitSemaphore(key, 1, opts...).Acquire(context.Background()))
		},
		"latch": func(key string) error { return c.CountDownLatch(key, opts...).Wait(context.Background()) },
	}
}
