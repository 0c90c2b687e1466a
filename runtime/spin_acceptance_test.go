package lockrt_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// This file does what Redisson's own tests of RSpinLock do, one test for each of theirs, under its name. A spin lock is a
// Mutex with WithBackoff here.

// spinLock returns a mutex that does not listen, of a client of its own.
func spinLock(t *testing.T, key string) *lockrt.Mutex {
	t.Helper()
	return newClient(t, lockrt.Options{}).Mutex(key, spin)
}

func TestRedisson_Spin_RedisFailed(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	m := clientOf(t, server.URL(), lockrt.Options{}).Mutex("k", spin)
	unlocks(t, locks(t, m))
	server.Kill()
	_, err := m.TryLock(patient(t))
	require.Error(t, err)
	require.NotErrorIs(t, err, lockrt.ErrNotAcquired, "nobody said so")
	require.NotErrorIs(t, err, context.DeadlineExceeded, "it does not hang")
	server.Restart()
	unlocks(t, locks(t, m))
}

func TestRedisson_Spin_TryLockWait(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	lease := locks(t, spinLock(t, key))
	start := time.Now()
	_, err := spinLock(t, key).Lock(patient(t), lockrt.WithWait(300*time.Millisecond))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	require.GreaterOrEqual(t, time.Since(start), 300*time.Millisecond)
	require.Less(t, time.Since(start), 5*time.Second)
	unlocks(t, lease)
}

// A call that must not be interrupted locks under a context that does not end with the caller's.
func TestRedisson_Spin_LockUninterruptibly(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	hooks, waiting, _ := watch()
	lease := locks(t, spinLock(t, key))
	ctx, cancel := context.WithCancel(patient(t))
	got := lockLater(context.WithoutCancel(ctx), newClient(t, lockrt.Options{Hooks: hooks}).Mutex(key, spin))
	receive(t, waiting, "the waiter")
	cancel()
	unlocks(t, lease)
	unlocks(t, gotten(t, got, "the lock"))
}

// The client listens to no messages. It finds out from the server's answer or at the next renewal that the key is
// another's.
func TestRedisson_Spin_ForceUnlock(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	m := spinLock(t, key)
	lease := locks(t, m)
	taken, err := spinLock(t, key).ForceUnlock(patient(t))
	require.NoError(t, err)
	require.True(t, taken)
	receive(t, lease.Context().Done(), "the loss") // of a release that is answered late, it would not be known
	require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost)
	unheld(t, m)
	unlocks(t, locks(t, m))
}

func TestRedisson_Spin_Expire(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	start := time.Now()
	lease := locks(t, spinLock(t, key), lockrt.WithLease(500*time.Millisecond))
	next := locks(t, spinLock(t, key))
	require.GreaterOrEqual(t, time.Since(start), 500*time.Millisecond)
	require.Less(t, time.Since(start), 6*time.Second)
	require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost)
	require.NoError(t, next.Err(), "it is not the old owner's to unlock")
	unlocks(t, next)
}

func TestRedisson_Spin_InCluster(t *testing.T) {
	t.Parallel()
	m := inCluster(t, redistest.SharedCluster(t), lockrt.Options{}).Mutex(redistest.Key(t, "{order}:42"), spin)
	for range 3 {
		lease := locks(t, m)
		require.True(t, held(t, m))
		unlocks(t, lease)
		unheld(t, m)
	}
}

func TestRedisson_Spin_AutoExpire(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	c := newClient(t, lockrt.Options{Watchdog: 2 * time.Second})
	locks(t, c.Mutex(key, spin))
	other := spinLock(t, key)
	require.NoError(t, c.Close())
	unlocks(t, locks(t, other)) // patience is shorter than the default watchdog time
}

func TestRedisson_Spin_GetHoldCount(t *testing.T) {
	t.Parallel()
	m := spinLock(t, redistest.Key(t, "k"))
	require.Equal(t, 0, standing(t, m).Count)
	outer := locks(t, m)
	require.Equal(t, 1, standing(t, m).Count)
	inner := ok(t)(m.Lock(outer.Context()))
	require.Equal(t, 2, standing(t, m).Count)
	unlocks(t, inner)
	require.Equal(t, 1, standing(t, m).Count)
	unlocks(t, outer)
	unheld(t, m)
}

func TestRedisson_Spin_IsHeldByCurrentThreadOtherThread(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	m := spinLock(t, key)
	lease := locks(t, m)
	_, err := m.TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired, "another context is not the holder")
	require.False(t, standing(t, spinLock(t, key)).Ours)
	unlocks(t, lease)
	unheld(t, m)
}

func TestRedisson_Spin_IsHeldByCurrentThread(t *testing.T) {
	t.Parallel()
	m := spinLock(t, redistest.Key(t, "k"))
	require.False(t, standing(t, m).Ours)
	lease := locks(t, m)
	require.True(t, standing(t, m).Ours)
	unlocks(t, lease)
	require.ErrorIs(t, lease.Err(), lockrt.ErrReleased)
	unheld(t, m)
}

func TestRedisson_Spin_IsLockedOtherThread(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	other := spinLock(t, key)
	lease := locks(t, spinLock(t, key))
	require.True(t, held(t, other))
	unlocks(t, lease)
	unheld(t, other)
}

func TestRedisson_Spin_IsLocked(t *testing.T) {
	t.Parallel()
	m := spinLock(t, redistest.Key(t, "k"))
	require.False(t, held(t, m))
	lease := locks(t, m)
	require.True(t, held(t, m))
	unlocks(t, lease)
	unheld(t, m)
}

// Only a lease can unlock. So a lease that is over stands for a thread that does not hold the lock.
func TestRedisson_Spin_UnlockFail(t *testing.T) {
	t.Parallel()
	m := spinLock(t, redistest.Key(t, "k"))
	old := locks(t, m)
	unlocks(t, old)
	lease := locks(t, m)
	require.ErrorIs(t, old.Unlock(t.Context()), lockrt.ErrReleased)
	require.True(t, held(t, m))
	unlocks(t, lease)
}

func TestRedisson_Spin_LockUnlock(t *testing.T) {
	t.Parallel()
	m := spinLock(t, redistest.Key(t, "k"))
	for range 2 {
		unlocks(t, locks(t, m))
		freed(t, m.Key())
	}
}

func TestRedisson_Spin_Reentrancy(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	m, other := spinLock(t, key), spinLock(t, key)
	outer := ok(t)(m.TryLock(patient(t)))
	unlocks(t, ok(t)(m.TryLock(outer.Context())))
	for _, stranger := range []*lockrt.Mutex{m, other} {
		_, err := stranger.TryLock(patient(t))
		require.ErrorIs(t, err, lockrt.ErrNotAcquired, "one lease is left")
	}
	unlocks(t, outer)
	unlocks(t, tries(patient(t), t, other))
}

// spinConcurrency has goroutines of several clients take turns.
func spinConcurrency(t *testing.T, clients, each, times int) {
	t.Helper()
	key := redistest.Key(t, "k")
	var c counted
	ms := make([]*lockrt.Mutex, clients)
	for n := range ms {
		ms[n] = spinLock(t, key)
	}
	jobs(t, clients*each, func(i int) error {
		for range times {
			if err := lockUnlock(patient(t), ms[i%clients], c.enter); err != nil {
				return err
			}
		}
		return nil
	})
	require.EqualValues(t, clients*each*times, c.total.Load())
	gone(t, redistest.Shared(t), key)
}

func TestRedisson_Spin_Concurrency_SingleInstance(t *testing.T) {
	t.Parallel()
	spinConcurrency(t, 1, 15, 1)
}

func TestRedisson_Spin_ConcurrencyLoop_MultiInstance(t *testing.T) {
	t.Parallel()
	spinConcurrency(t, 8, 1, 10)
}

func TestRedisson_Spin_Concurrency_MultiInstance(t *testing.T) {
	t.Parallel()
	spinConcurrency(t, 30, 1, 1)
}

// A goroutine does here what Java does asynchronously.
func TestRedisson_Spin_TryLockAsync(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	hooks, waiting, _ := watch()
	lease := locks(t, spinLock(t, key))
	got := lockLater(patient(t), newClient(t, lockrt.Options{Hooks: hooks}).Mutex(key, spin))
	receive(t, waiting, "the waiter")
	requireNothing(t, got)
	unlocks(t, lease)
	unlocks(t, gotten(t, got, "the lock, after the unlock"))
}

func TestRedisson_Spin_TimedTryLockAsync(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	hooks, waiting, _ := watch()
	lease := locks(t, spinLock(t, key))
	got := lockLater(patient(t), newClient(t, lockrt.Options{Hooks: hooks}).Mutex(key, spin), lockrt.WithWait(patience))
	receive(t, waiting, "the waiter")
	unlocks(t, lease)
	unlocks(t, gotten(t, got, "the lock, within the wait"))
}

func TestRedisson_Spin_TryLockAsyncWaitTime(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	lease := locks(t, spinLock(t, key))
	got := lockLater(patient(t), spinLock(t, key), lockrt.WithWait(100*time.Millisecond))
	require.ErrorIs(t, receive(t, got, "the end of the wait").err, lockrt.ErrNotAcquired)
	unlocks(t, lease)
}

func TestRedisson_Spin_TryLockAsyncFailed(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	lease := locks(t, spinLock(t, key))
	_, err := spinLock(t, key).TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	unlocks(t, lease)
}

func TestRedisson_Spin_TryLockAsyncSucceed(t *testing.T) {
	t.Parallel()
	unlocks(t, ok(t)(spinLock(t, redistest.Key(t, "k")).TryLock(patient(t))))
}
