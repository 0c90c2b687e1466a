package lockrt_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/gen"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestOptions_ThatMeanNothing: they are errors of the first call, whether they were given to the primitive or to the call.
func TestOptions_ThatMeanNothing(t *testing.T) {
	t.Parallel()
	proxy := redistest.Proxy(t, redistest.Shared(t).Addr())
	c := clientOf(t, proxy.URL(), lockrt.Options{})
	sent := make(chan string, 100)
	proxy.OnRequest(func(cmd []string) {
		if strings.EqualFold(cmd[0], "EVALSHA") {
			sent <- strings.Join(cmd, " ")
		}
	})
	lease, watchdog, hold, fence := lockrt.WithLease(time.Second), lockrt.WithWatchdog(time.Second), lockrt.WithMaxHold(time.Second), lockrt.WithFencing()
	linger := lockrt.WithLinger(time.Millisecond)
	ctx := t.Context()
	spec := &gen.Spec{Name: "n"}
	for option, calls := range map[string][]error{
		"WithLease or WithWatchdog means nothing for a semaphore": {
			c.Semaphore("k", 1, lease).Acquire(ctx, 1), c.Semaphore("k", 1).Acquire(ctx, 1, watchdog), c.Semaphore("k", 1).TryAcquire(ctx, 1, lease),
			c.Semaphore("k", 1, watchdog).Do(ctx, 1, func(context.Context) error { return nil }),
		},
		"WithMaxHold means nothing for a semaphore": {c.Semaphore("k", 1, hold).TryAcquire(ctx, 1), c.Semaphore("k", 1).Acquire(ctx, 1, hold)},
		"WithFencing means nothing for a semaphore": {c.Semaphore("k", 1, fence).TryAcquire(ctx, 1)},
		"WithLease or WithWatchdog means nothing for a latch": {
			c.CountDownLatch("k", lease).Wait(ctx), c.CountDownLatch("k").Wait(ctx, watchdog),
		},
		"WithMaxHold means nothing for a latch":   {c.CountDownLatch("k").Wait(ctx, hold)},
		"WithFencing means nothing for a latch":   {c.CountDownLatch("k").Wait(ctx, fence)},
		"WithFencing means nothing for a permit":  {second(c.PermitSemaphore("k", 1, fence).Acquire(ctx)), second(c.PermitSemaphore("k", 1).TryAcquire(ctx, fence))},
		"WithFencing means nothing for a reader,": {second(c.RWMutex("k").RLock(ctx, fence)), second(c.RWMutex("k", fence).RLocker().TryLock(ctx))},
		"WithLinger means nothing for a fair mutex, which goes to the next one in its order": {
			second(c.FairMutex("k", linger).Lock(ctx)), second(c.FairMutex("k").TryLock(ctx, linger)),
			second(lockrt.NewMultiLock(c.Mutex("k"), c.FairMutex("l")).Lock(ctx, linger)),
		},
		"WithLinger means nothing for a read-write lock, which a process": {
			second(c.RWMutex("k", linger).Lock(ctx)), second(c.RWMutex("k").RLock(ctx, linger)), second(c.RWMutex("k", linger).RLocker().TryLock(ctx)),
		},
		"WithLinger means nothing for a red lock, whose servers do not report": {
			second(lockrt.RedLockOf(c.Mutex("k", linger)).Lock(ctx)), second(lockrt.RedLockOf(c.Mutex("k")).TryLock(ctx, linger)),
		},
		"WithLinger means nothing for a semaphore":       {c.Semaphore("k", 1, linger).Acquire(ctx, 1)},
		"WithLinger means nothing for a permit":          {second(c.PermitSemaphore("k", 1, linger).Acquire(ctx))},
		"WithLinger means nothing for a latch":           {c.CountDownLatch("k", linger).Wait(ctx)},
		"the linger time -1ns is not between 0 and 20ms": {second(c.Mutex("k", lockrt.WithLinger(-1)).Lock(ctx)), second(c.FairMutex("k").Lock(ctx, lockrt.WithLinger(-1)))},
		"the linger time 21ms is not between 0 and 20ms": {
			second(c.Mutex("k").TryLock(ctx, lockrt.WithLinger(21*time.Millisecond))),
			second(lockrt.NewMultiLock(c.Mutex("k"), c.Mutex("l")).Lock(ctx, lockrt.WithLinger(21*time.Millisecond))),
		},
		"WithWait means nothing for what tries once": {
			second(c.Mutex("k").TryLock(ctx, lockrt.WithWait(time.Second))), second(c.Mutex("k").TryLock(ctx, lockrt.WithWait(0))),
			second(c.FairMutex("k").TryLock(ctx, lockrt.WithWait(time.Second))), second(c.RWMutex("k").TryLock(ctx, lockrt.WithWait(time.Second))),
			second(c.RWMutex("k").TryRLock(ctx, lockrt.WithWait(time.Second))), second(c.RWMutex("k").RLocker().TryLock(ctx, lockrt.WithWait(lockrt.UntilDone))),
			second(c.PermitSemaphore("k", 1).TryAcquire(ctx, lockrt.WithWait(time.Second))), c.Semaphore("k", 1).TryAcquire(ctx, 1, lockrt.WithWait(time.Second)),
			second(lockrt.NewMultiLock(c.Mutex("k"), c.Mutex("l")).TryLock(ctx, lockrt.WithWait(time.Second))),
			second(lockrt.RedLockOf(c.Mutex("k")).TryLock(ctx, lockrt.WithWait(time.Second))),
			second(gen.For(c, spec, "", "k", nil).TryLock(ctx, lockrt.WithWait(time.Second))),
			second(gen.ForMulti(c, spec, []string{""}, []string{"k"}, nil).TryLock(ctx, lockrt.WithWait(time.Second))),
		},
		"a wait of -1ns is negative": {
			second(c.Mutex("k").Lock(ctx, lockrt.WithWait(-1))), second(c.Mutex("k", lockrt.WithWait(-1)).Lock(ctx)),
			second(lockrt.NewMultiLock(c.Mutex("k"), c.Mutex("l")).Lock(ctx, lockrt.WithWait(-1))), c.CountDownLatch("k").Wait(ctx, lockrt.WithWait(-1)),
		},
	} {
		for i, err := range calls {
			require.ErrorIs(t, err, lockrt.ErrBadOption, "%s %d", option, i)
			require.ErrorContains(t, err, option, "%d", i)
		}
	}
	select {
	case cmd := <-sent:
		t.Errorf("was sent: %s", cmd)
	default:
	}
	_, err := lockrt.New(lockrt.ConnOf(c), lockrt.Options{TokenTTL: -1})
	require.ErrorIs(t, err, lockrt.ErrBadOption, "the constant alone means for ever")
}

// TestOptions_WaitOfThePrimitive: a wait that a primitive was made with counts for Lock, and not for TryLock.
func TestOptions_WaitOfThePrimitive(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	key := redistest.Key(t, "k")
	lease, err := c.Mutex(key, lockrt.WithWait(lockrt.UntilDone)).TryLock(patient(t))
	require.NoError(t, err)
	for _, l := range []lockrt.Locker{c.Mutex(key, lockrt.WithWait(lockrt.UntilDone)), lockrt.NewMultiLock(c.Mutex(key, lockrt.WithWait(time.Hour)))} {
		_, err = l.TryLock(patient(t))
		require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	}
	require.NoError(t, lease.Unlock(t.Context()))
}

// TestOptions_TheLastCounts: of an option that is given twice in one place the last one counts, and that of a call more than that of the lock.
func TestOptions_TheLastCounts(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	key := redistest.Key(t, "k")
	m := c.Mutex(key, lockrt.WithName("first"), lockrt.WithName("last"), lockrt.WithLease(-1), lockrt.WithWatchdog(time.Hour),
		lockrt.WithWait(-1), lockrt.WithWait(time.Hour), lockrt.WithWait(0))
	for _, test := range []struct {
		opts []lockrt.LockOption
		want lockrt.HeldLock
	}{
		{nil, lockrt.HeldLock{Name: "last", Lease: time.Hour, Renewed: true}},
		{[]lockrt.LockOption{lockrt.WithName("call"), lockrt.WithWatchdog(time.Hour), lockrt.WithLease(-1), lockrt.WithLease(time.Minute)},
			lockrt.HeldLock{Name: "call", Lease: time.Minute}},
	} {
		lease, err := m.Lock(patient(t), test.opts...)
		require.NoError(t, err)
		held := c.Snapshot().Held[0]
		require.Equal(t, test.want, lockrt.HeldLock{Name: held.Name, Lease: held.Lease, Renewed: held.Renewed})
		_, err = m.Lock(patient(t))
		require.ErrorIs(t, err, lockrt.ErrNotAcquired)
		require.NoError(t, lease.Unlock(t.Context()))
	}
}

// A lock with the longest duration that there is, in any option, is granted, extended and released.
func TestOptions_TheLongestDurations(t *testing.T) {
	t.Parallel()
	const longest = time.Duration(math.MaxInt64)
	c := newClient(t, lockrt.Options{})
	for name, opt := range map[string]lockrt.LockOption{
		"lease":    lockrt.WithLease(longest),
		"watchdog": lockrt.WithWatchdog(longest),
		"max hold": lockrt.WithMaxHold(longest),
		"wait":     lockrt.WithWait(longest),
		"backoff":  lockrt.WithBackoff(lockrt.ConstantBackoff(longest)),
	} {
		key := redistest.Key(t, name)
		for kind, l := range map[string]lockrt.Locker{
			"mutex":   c.Mutex(key + "m"),
			"fair":    c.FairMutex(key + "f"),
			"write":   c.RWMutex(key + "w"),
			"read":    c.RWMutex(key + "r").RLocker(),
			"permits": lockrt.PermitLocker(c.PermitSemaphore(key+"p", 1)),
			"multi":   lockrt.NewMultiLock(c.Mutex(key+"1"), c.RWMutex(key+"2"), c.FairMutex(key+"3")),
			"mutexes": lockrt.NewMultiLock(c.Mutex(key+"7"), c.Mutex(key+"8"), c.Mutex(key+"9")),
			"red":     lockrt.RedLockOf(c.Mutex(key+"4"), c.Mutex(key+"5"), c.Mutex(key+"6")),
		} {
			lease, err := l.Lock(patient(t), opt)
			require.NoError(t, err, "%s, %s", name, kind)
			require.NoError(t, lease.Extend(t.Context(), longest), "%s, %s", name, kind)
			require.NoError(t, lease.Err(), "%s, %s", name, kind)
			require.NoError(t, lease.Unlock(t.Context()), "%s, %s", name, kind)
		}
	}
}
