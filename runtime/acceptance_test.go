package lockrt_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// This file does what Redisson's own tests of RLock, RFencedLock and the non-reentrant lock do, one test
// for each of theirs, under its name. A Java thread is a context here: the holder of a lock is the context that has its
// lease, and a call under the lease's context enters again. Times and numbers are smaller.

// jobs runs n of them at once, and fails unless all succeed.
func jobs(t *testing.T, n int, job func(i int) error) {
	t.Helper()
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- job(i) }()
	}
	for range n {
		if err := <-errs; err != nil { // each ends with its context
			t.Error(err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// lockUnlock locks, does what is to be done under the lock, and unlocks.
func lockUnlock(ctx context.Context, m *lockrt.Mutex, under func(lease *lockrt.Lease) error, opts ...lockrt.LockOption) error {
	return m.Do(ctx, func(_ context.Context, lease *lockrt.Lease) error { return under(lease) }, opts...)
}

func nothing(*lockrt.Lease) error { return nil }

// counted has one in the lock at a time, and says how many were.
type counted struct{ inside, total atomic.Int32 }

func (c *counted) enter(*lockrt.Lease) error {
	if n := c.inside.Add(1); n != 1 {
		return fmt.Errorf("%d have the lock at a time", n)
	}
	c.total.Add(1)
	c.inside.Add(-1)
	return nil
}

// held reports whether anybody has the lock, as a handle of a client sees it.
func held(t *testing.T, m *lockrt.Mutex) bool {
	t.Helper()
	return standing(t, m).Owner != ""
}

// unheld returns when nobody has the lock: a request that was answered late, and was sent once more, may have it for a moment.
func unheld(t *testing.T, lock interface {
	Inspect(ctx context.Context) (lockrt.Standing, error)
}) {
	t.Helper()
	until(t, "nobody has the lock", func() bool {
		s, err := lock.Inspect(patient(t))
		require.NoError(t, err)
		return s.Owner == "" && !s.Ours && s.Count == 0 && s.TTL == 0
	})
}

// tries locks by a call that does not wait, when nobody has the lock any more.
func tries(ctx context.Context, t *testing.T, lock lockrt.Locker) (lease *lockrt.Lease) {
	t.Helper()
	until(t, "nobody has the lock", func() bool {
		var err error
		if lease, err = lock.TryLock(ctx); errors.Is(err, lockrt.ErrNotAcquired) {
			return false
		}
		require.NoError(t, err)
		return true
	})
	return lease
}

func standing(t *testing.T, m *lockrt.Mutex) lockrt.Standing {
	t.Helper()
	s, err := m.Inspect(patient(t))
	require.NoError(t, err)
	return s
}

func locks(t *testing.T, m *lockrt.Mutex, opts ...lockrt.LockOption) *lockrt.Lease {
	t.Helper()
	lease, err := m.Lock(patient(t), opts...)
	require.NoError(t, err)
	return lease
}

func unlocks(t *testing.T, lease *lockrt.Lease) {
	t.Helper()
	require.NoError(t, lease.Unlock(t.Context()))
}

// Subscriptions of a client are on one connection, however many wait.
func TestRedisson_Lock_SubscriptionsPerConnection(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c, other := clientOf(t, server.URL(), lockrt.Options{}), clientOf(t, server.URL(), lockrt.Options{})
	jobs(t, 16, func(int) error {
		for n := range 60 {
			m := []*lockrt.Client{c, other}[n%2].Mutex(fmt.Sprintf("lock:%d", n%5))
			if err := lockUnlock(patient(t), m, nothing); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, c.Close())
	require.NoError(t, other.Close())
	until(t, "nothing is subscribed", func() bool { return channels(t, server) == 0 })
}

func TestRedisson_Lock_SinglePubSub(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c, other := clientOf(t, server.URL(), lockrt.Options{}), clientOf(t, server.URL(), lockrt.Options{})
	jobs(t, 8, func(i int) error {
		m := []*lockrt.Client{c, other}[i/4].Mutex(fmt.Sprintf("lock:%d", i%2))
		for range 20 {
			err := lockUnlock(patient(t), m, nothing, lockrt.WithWait(100*time.Millisecond))
			if err != nil && !errors.Is(err, lockrt.ErrNotAcquired) {
				return err
			}
		}
		return nil
	})
	until(t, "each client has one connection, or less", func() bool { // one that is slow is replaced
		clients, err := server.Do("CLIENT", "LIST", "TYPE", "pubsub").ToString()
		require.NoError(t, err)
		return strings.Count(clients, "\n") <= 2
	})
}

// A thread is interrupted by the end of its context here.
func TestRedisson_Lock_LockIsNotRenewedAfterInterruptedTryLock(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).Mutex(redistest.Key(t, "k"))
	for range 50 {
		ctx, cancel := context.WithCancel(patient(t))
		done := make(chan error, 1)
		go func() {
			lease, err := m.TryLock(ctx)
			if err == nil {
				err = lease.Unlock(ctx)
			}
			done <- err
		}()
		cancel()
		err := receive(t, done, "the call that was interrupted")
		if err != nil && !errors.Is(err, lockrt.ErrNotAcquired) { // the one before is being released
			require.ErrorIs(t, err, context.Canceled)
		}
	}
	gone(t, redistest.Shared(t), m.Key()) // sooner than it would expire
}

func TestRedisson_Lock_RedisFailed(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	m := clientOf(t, server.URL(), lockrt.Options{}).Mutex("k")
	unlocks(t, locks(t, m))
	server.Kill()
	_, err := m.TryLock(patient(t))
	require.Error(t, err)
	require.NotErrorIs(t, err, lockrt.ErrNotAcquired, "nobody said so")
	require.NotErrorIs(t, err, context.DeadlineExceeded, "it does not hang")
	server.Restart()
	unlocks(t, locks(t, m))
}

// In Java each reentry sets the time anew. Here it belongs to the first lease.
func TestRedisson_Lock_RemainTimeToLive2(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).Mutex(redistest.Key(t, "k"))
	lease := locks(t, m, lockrt.WithLease(time.Minute))
	for range 2 {
		inner, err := m.Lock(lease.Context(), lockrt.WithLease(time.Minute))
		require.NoError(t, err)
		unlocks(t, inner)
	}
	ttl, err := lease.TTL(patient(t))
	require.NoError(t, err)
	require.Greater(t, ttl, time.Minute-patience)
	require.LessOrEqual(t, ttl, time.Minute)
	unlocks(t, lease)
}

func TestRedisson_Lock_TryLockWait(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	lease := locks(t, newClient(t, lockrt.Options{}).Mutex(key))
	start := time.Now()
	_, err := newClient(t, lockrt.Options{}).Mutex(key).Lock(patient(t), lockrt.WithWait(500*time.Millisecond))
	took := time.Since(start)
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	require.GreaterOrEqual(t, took, 500*time.Millisecond)
	require.Less(t, took, 5*time.Second)
	unlocks(t, lease)
}

// A call that must not be interrupted locks under a context that does not end with the caller's.
func TestRedisson_Lock_LockUninterruptibly(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	hooks, waiting, _ := watch()
	lease := locks(t, newClient(t, lockrt.Options{}).Mutex(key))
	ctx, cancel := context.WithCancel(patient(t))
	got := lockLater(context.WithoutCancel(ctx), newClient(t, lockrt.Options{Hooks: hooks}).Mutex(key))
	receive(t, waiting, "the waiter")
	cancel()
	unlocks(t, lease)
	next := receive(t, got, "the lock")
	require.NoError(t, next.err)
	unlocks(t, next.lease)
}

func TestRedisson_Lock_ForceUnlock(t *testing.T) {
	t.Parallel()
	c, key := newClient(t, lockrt.Options{}), redistest.Key(t, "k")
	lease := locks(t, c.Mutex(key))
	taken, err := newClient(t, lockrt.Options{}).Mutex(key).ForceUnlock(patient(t))
	require.NoError(t, err)
	require.True(t, taken)
	receive(t, lease.Context().Done(), "the loss") // of a release that is answered late, it would not be known
	require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost)
	unheld(t, c.Mutex(key))
	unheld(t, c.Mutex(key)) // another handle
}

func TestRedisson_Lock_Expire(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	hooks, waiting, _ := watch()
	start := time.Now()
	lease := locks(t, newClient(t, lockrt.Options{}).Mutex(key), lockrt.WithLease(4*time.Second))
	got := lockLater(patient(t), newClient(t, lockrt.Options{Hooks: hooks}).Mutex(key))
	receive(t, waiting, "the waiter")
	next := receive(t, got, "the lock, when the lease is over")
	require.NoError(t, next.err)
	lasted(t, start, 4*time.Second, 4*time.Second+late)
	require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost)
	require.NoError(t, next.lease.Err(), "it is not the old owner's to unlock")
	unlocks(t, next.lease)
}

func TestRedisson_Lock_RemainTimeToLive(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).Mutex(redistest.Key(t, "k"))
	lease := locks(t, m, lockrt.WithLease(time.Hour))
	require.Greater(t, standing(t, m).TTL, 59*time.Minute)
	require.LessOrEqual(t, standing(t, m).TTL, time.Hour)
	unlocks(t, lease)
	unheld(t, m)
	lease = locks(t, m)
	require.Greater(t, standing(t, m).TTL, lockrt.DefaultWatchdog-10*time.Second)
	require.LessOrEqual(t, standing(t, m).TTL, lockrt.DefaultWatchdog)
	unlocks(t, lease)
}

// The tests of clusterfailover_test.go replace masters.
func TestRedisson_Lock_InCluster(t *testing.T) {
	t.Parallel()
	m := inCluster(t, redistest.SharedCluster(t), lockrt.Options{}).Mutex(redistest.Key(t, "{order}:42"))
	for range 3 {
		lease := locks(t, m)
		require.True(t, held(t, m))
		unlocks(t, lease)
		unheld(t, m)
	}
}

func TestRedisson_Lock_AutoExpire(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	c := newClient(t, lockrt.Options{Watchdog: 2 * time.Second})
	locks(t, c.Mutex(key))
	other := newClient(t, lockrt.Options{}).Mutex(key)
	require.NoError(t, c.Close())
	unlocks(t, locks(t, other)) // patience is shorter than the default watchdog time
}

func TestRedisson_Lock_GetHoldCount(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).Mutex(redistest.Key(t, "k"))
	require.Equal(t, 0, standing(t, m).Count)
	lease := locks(t, m)
	require.Equal(t, 1, standing(t, m).Count)
	unlocks(t, lease)
	unheld(t, m)
	outer := locks(t, m)
	inner, err := m.Lock(outer.Context())
	require.NoError(t, err)
	require.Equal(t, 2, standing(t, m).Count)
	unlocks(t, inner)
	require.Equal(t, 1, standing(t, m).Count)
	unlocks(t, outer)
	unheld(t, m)
}

func TestRedisson_Lock_IsHeldByCurrentThreadOtherThread(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	m := newClient(t, lockrt.Options{}).Mutex(key)
	lease := locks(t, m)
	_, err := m.TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired, "another context is not the holder")
	require.False(t, standing(t, newClient(t, lockrt.Options{}).Mutex(key)).Ours)
	unlocks(t, lease)
	unheld(t, m)
}

func TestRedisson_Lock_IsHeldByCurrentThread(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).Mutex(redistest.Key(t, "k"))
	require.False(t, standing(t, m).Ours)
	lease := locks(t, m)
	require.NoError(t, lease.Err())
	require.True(t, standing(t, m).Ours)
	unlocks(t, lease)
	require.ErrorIs(t, lease.Err(), lockrt.ErrReleased)
	unheld(t, m)
}

func TestRedisson_Lock_IsLockedOtherThread(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	other := newClient(t, lockrt.Options{}).Mutex(key)
	lease := locks(t, newClient(t, lockrt.Options{}).Mutex(key))
	require.True(t, held(t, other))
	unlocks(t, lease)
	unheld(t, other)
}

// A server restarts here. The tests of clusterfailover_test.go replace masters of a cluster.
func TestRedisson_Lock_LockFailoverInCluster(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	m := clientOf(t, server.URL(), lockrt.Options{}).Mutex("k")
	for i := range 30 {
		if i%10 == 9 {
			server.Restart()
		}
		unlocks(t, locks(t, m))
	}
}

func TestRedisson_Lock_IsLocked(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).Mutex(redistest.Key(t, "k"))
	require.False(t, held(t, m))
	lease := locks(t, m)
	require.True(t, held(t, m))
	unlocks(t, lease)
	unheld(t, m)
}

// Only a lease can unlock. So a lease that is over stands for a thread that does not hold the lock.
func TestRedisson_Lock_UnlockFail(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).Mutex(redistest.Key(t, "k"))
	old := locks(t, m)
	unlocks(t, old)
	lease := locks(t, m)
	require.ErrorIs(t, old.Unlock(t.Context()), lockrt.ErrReleased)
	require.True(t, held(t, m))
	require.NoError(t, lease.Err())
	unlocks(t, lease)
}

func TestRedisson_Lock_LockUnlock(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).Mutex(redistest.Key(t, "k"))
	for range 2 {
		unlocks(t, locks(t, m))
		freed(t, m.Key())
	}
}

func TestRedisson_Lock_Reentrancy(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	m, other := newClient(t, lockrt.Options{}).Mutex(key), newClient(t, lockrt.Options{}).Mutex(key)
	outer, err := m.TryLock(patient(t))
	require.NoError(t, err)
	inner, err := m.TryLock(outer.Context())
	require.NoError(t, err)
	unlocks(t, inner)
	for _, stranger := range []*lockrt.Mutex{m, other} {
		_, err = stranger.TryLock(patient(t))
		require.ErrorIs(t, err, lockrt.ErrNotAcquired, "one lease is left")
	}
	unlocks(t, outer)
	unlocks(t, tries(patient(t), t, other))
}

// Java keeps an entry for the renewal; here that is the lease: it is trusted and renewed.
func TestRedisson_Lock_ConcurrencyTryLockUnLock(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).Mutex(redistest.Key(t, "k"))
	var times counted
	jobs(t, 16, func(int) error {
		for range 200 {
			lease, err := m.TryLock(patient(t))
			if errors.Is(err, lockrt.ErrNotAcquired) {
				continue
			}
			if err == nil {
				err = errors.Join(lease.Err(), times.enter(lease), lease.Unlock(patient(t)))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	require.NotZero(t, times.total.Load())
	gone(t, redistest.Shared(t), m.Key()) // a late grant for a call that tried once is released meanwhile
}

func TestRedisson_Lock_Concurrency_SingleInstance(t *testing.T) {
	t.Parallel()
	c, key := newClient(t, lockrt.Options{}), redistest.Key(t, "k")
	var times counted
	jobs(t, 15, func(int) error { return lockUnlock(patient(t), c.Mutex(key), times.enter) })
	require.EqualValues(t, 15, times.total.Load())
}

// The time that each has the lock is that of a request to the server.
func TestRedisson_Lock_ConcurrencyLoop_MultiInstance(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	clients := make([]*lockrt.Client, 16)
	for i := range clients {
		clients[i] = newClient(t, lockrt.Options{})
	}
	var times counted
	jobs(t, len(clients), func(i int) error {
		for range 25 {
			err := lockUnlock(patient(t), clients[i].Mutex(key), func(lease *lockrt.Lease) error {
				_, err := lease.TTL(patient(t))
				return errors.Join(err, times.enter(lease))
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	require.EqualValues(t, 400, times.total.Load())
	freed(t, key)
}

func TestRedisson_Lock_Concurrency_MultiInstance(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	clients := make([]*lockrt.Client, 50)
	for i := range clients {
		clients[i] = newClient(t, lockrt.Options{})
	}
	var times counted
	jobs(t, len(clients), func(i int) error { return lockUnlock(patient(t), clients[i].Mutex(key), times.enter) })
	require.EqualValues(t, 50, times.total.Load())
}

// Java's listeners are told by the server that a key expired or was deleted. Here the holder is, by the
// context of its lease and by a hook, and there is nothing to remove.
func TestRedisson_Lock_LockListener(t *testing.T) {
	t.Parallel()
	hooks, _, ends := watch()
	m := newClient(t, lockrt.Options{Hooks: hooks}).Mutex(redistest.Key(t, "k"))
	expires := locks(t, m, lockrt.WithLease(300*time.Millisecond))
	receive(t, expires.Context().Done(), "the end of the lease")
	require.ErrorIs(t, receive(t, ends, "the hook").Cause, lockrt.ErrLost)
	goes := locks(t, m, lockrt.WithWatchdog(900*time.Millisecond))
	deleted(t, redistest.Shared(t), goes)
	require.ErrorIs(t, receive(t, ends, "the hook").Cause, lockrt.ErrLost)
	require.ErrorIs(t, expires.Unlock(t.Context()), lockrt.ErrLost)
	require.ErrorIs(t, goes.Unlock(t.Context()), lockrt.ErrLost)
	unlocks(t, locks(t, m))
	require.ErrorIs(t, receive(t, ends, "the hook").Cause, lockrt.ErrReleased)
	require.Empty(t, ends, "once for each")
}

// heavy has each of several goroutines use a lock, a value and a semaphore of its own name again and again.
func heavy(t *testing.T, lock func(m *lockrt.Mutex) (*lockrt.Lease, error)) {
	for _, size := range []struct{ goroutines, rounds int }{{2, 100}, {10, 40}, {20, 40}} {
		t.Run(fmt.Sprintf("%d goroutines, %d rounds", size.goroutines, size.rounds), func(t *testing.T) {
			t.Parallel()
			c, key := newClient(t, lockrt.Options{}), redistest.Key(t, "k")
			value := redistest.Shared(t).NewClient()
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // all of it, also where the machine is slow
			defer cancel()
			jobs(t, size.goroutines, func(i int) error {
				semaphore := c.Semaphore(fmt.Sprintf("%s:semaphore:%d", key, i), 0)
				for n := range size.rounds {
					lease, err := lock(c.Mutex(fmt.Sprintf("%s:%d", key, (i+n)%size.goroutines)))
					if errors.Is(err, lockrt.ErrNotAcquired) {
						continue
					}
					if err == nil {
						err = errors.Join(
							value.Do(ctx, value.B().Set().Key(key+":value").Value("1").PxMilliseconds(60_000).Build()).Error(),
							semaphore.Release(ctx, 1),
							semaphore.Acquire(ctx, 1),
							lease.Unlock(ctx),
						)
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
			for i := range size.goroutines {
				gone(t, redistest.Shared(t), fmt.Sprintf("%s:%d", key, i)) // or being released, for one whose wait was over
				redistest.Shared(t).Do("DEL", fmt.Sprintf("%s:semaphore:%d", key, i))
			}
			redistest.Shared(t).Do("DEL", key+":value")
		})
	}
}

func TestRedisson_LockHeavy_LockUnlockRLock(t *testing.T) {
	t.Parallel()
	heavy(t, func(m *lockrt.Mutex) (*lockrt.Lease, error) { return m.Lock(patient(t)) })
}

func TestRedisson_LockHeavy_TryLockUnlockRLock(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	heavy(t, func(m *lockrt.Mutex) (*lockrt.Lease, error) {
		return m.Lock(patient(t), lockrt.WithWait(time.Duration(n.Add(1)%10)*time.Millisecond))
	})
}

// renewedFor returns once the lease was renewed for that long.
func renewedFor(t *testing.T, lease *lockrt.Lease, d time.Duration) {
	t.Helper()
	until, poll := time.Now().Add(d), time.NewTicker(5*time.Millisecond)
	defer poll.Stop()
	over := patient(t)
	for !lease.Until().After(until) {
		require.NoError(t, lease.Err())
		select {
		case <-poll.C:
		case <-over.Done():
			require.Fail(t, "the lease was not renewed for that long")
		}
	}
}

// afterTimeout loses a lock with the server that it is on. The next one is renewed.
func afterTimeout(t *testing.T, of func(c *lockrt.Client) lockrt.Locker) {
	t.Helper()
	const watchdog = 5 * time.Second // so that a machine that stands still loses nothing
	server := redistest.Server(t)
	m := of(clientOf(t, server.URL(), lockrt.Options{Watchdog: watchdog}))
	lease := ok(t)(m.Lock(patient(t)))
	server.Restart()
	receive(t, lease.Context().Done(), "the loss to be told")
	require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost)
	lease = ok(t)(m.Lock(patient(t)))
	renewedFor(t, lease, watchdog*3/2)
	require.EqualValues(t, 1, number(t, server, "EXISTS", "k"))
	unlocks(t, lease)
	gone(t, server, "k")
}

func TestRedisson_LockExpirationRenewal_LockAfterTimeout(t *testing.T) {
	t.Parallel()
	afterTimeout(t, func(c *lockrt.Client) lockrt.Locker { return c.Mutex("k") })
}

func TestRedisson_LockExpirationRenewal_WriteLockAfterTimeout(t *testing.T) {
	t.Parallel()
	afterTimeout(t, func(c *lockrt.Client) lockrt.Locker { return c.RWMutex("k") })
}

func TestRedisson_LockExpirationRenewal_ReadLockAfterTimeout(t *testing.T) {
	t.Parallel()
	afterTimeout(t, func(c *lockrt.Client) lockrt.Locker { return c.RWMutex("k").RLocker() })
}

func TestRedisson_LockExpirationRenewal_LockReentrantRenew(t *testing.T) {
	t.Parallel()
	const watchdog = 5 * time.Second
	m := newClient(t, lockrt.Options{Watchdog: watchdog}).Mutex(redistest.Key(t, "k"))
	outer := locks(t, m)
	inner, err := m.Lock(outer.Context())
	require.NoError(t, err)
	unlocks(t, inner)
	unlocks(t, outer)
	lease := locks(t, m)
	renewedFor(t, lease, watchdog*3/2)
	require.True(t, held(t, m))
	unlocks(t, lease)
}

// Java counts from 1. Here tokens begin with the server's time, so that they rise after a restart too.
func TestRedisson_FencedLock_TokenIncrease(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).Mutex(redistest.Key(t, "k"), lockrt.WithFencing())
	var last int64
	for name, lock := range map[string]func() (*lockrt.Lease, error){
		"lock and get token":     func() (*lockrt.Lease, error) { return m.Lock(patient(t)) },
		"lock for a while":       func() (*lockrt.Lease, error) { return m.Lock(patient(t), lockrt.WithLease(10*time.Second)) },
		"try lock and get token": func() (*lockrt.Lease, error) { return m.TryLock(patient(t)) },
		"try lock for a while": func() (*lockrt.Lease, error) {
			return m.Lock(patient(t), lockrt.WithWait(time.Second), lockrt.WithLease(10*time.Second))
		},
	} {
		lease, err := lock()
		require.NoError(t, err, name)
		require.Greater(t, lease.Token(), last, name)
		last = lease.Token()
		unlocks(t, lease)
	}
}

// A lock is not reentrant here without the context of its lease. Where Java throws at once, a waiting call waits: for
// that long, or until its context ends.
func TestRedisson_NonReentrantLock_SameThreadIsRefused(t *testing.T) {
	t.Parallel()
	c, key := newClient(t, lockrt.Options{}), redistest.Key(t, "k")
	for name, m := range map[string]*lockrt.Mutex{"the same handle": c.Mutex(key), "another handle": c.Mutex(key)} {
		lease := locks(t, c.Mutex(key))
		_, err := m.TryLock(patient(t))
		require.ErrorIs(t, err, lockrt.ErrNotAcquired, name)
		_, err = m.Lock(patient(t), lockrt.WithWait(20*time.Millisecond))
		require.ErrorIs(t, err, lockrt.ErrNotAcquired, name)
		short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err = m.Lock(short)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded, name)
		require.NoError(t, lease.Err(), name)
		unlocks(t, lease)
		unheld(t, m) // by one unlock
	}
}

func TestRedisson_NonReentrantLock_ContendingThreadAcquiresOnRelease(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	hooks, waiting, _ := watch()
	c := newClient(t, lockrt.Options{Hooks: hooks})
	for _, other := range []*lockrt.Client{c, newClient(t, lockrt.Options{Hooks: hooks})} {
		lease := locks(t, c.Mutex(key))
		got := lockLater(patient(t), other.Mutex(key))
		receive(t, waiting, "the waiter")
		unlocks(t, lease)
		next := receive(t, got, "the lock")
		require.NoError(t, next.err)
		unlocks(t, next.lease)
	}
}

func TestRedisson_NonReentrantLock_TwoHandles(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	c := newClient(t, lockrt.Options{})
	one, two := c.Mutex(key), c.Mutex(key)
	lease := locks(t, one)
	_, err := two.TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	unlocks(t, lease)
	lease = locks(t, two)
	_, err = one.TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	unlocks(t, lease)
}
