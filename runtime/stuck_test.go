package lockrt_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

const (
	stillWaits = "a call still waits"
	heldHere   = "holds itself"
)

// waitFor calls wait, which has to wait for a lock, until the log of its client was told.
func waitFor(t *testing.T, log *lines, wait func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := later(func() error { return wait(ctx) })
	until(t, "the log is told", func() bool { return log.count(stillWaits) > 0 })
	cancel()
	require.ErrorIs(t, receive(t, done, "the call"), context.Canceled)
	require.Equal(t, 1, log.count(stillWaits))
}

// suspect returns a client that tells soon, and its log.
func suspect(t *testing.T, after time.Duration) (*lockrt.Client, *lines, <-chan string) {
	t.Helper()
	log := &lines{}
	hooks, waiting, _ := watch()
	return newClient(t, lockrt.Options{DeadlockAfter: after, Logger: log.logger(), Hooks: hooks}), log, waiting
}

// TestDeadlockAfter_ByItself shows each kind of lock that is entered again with the context from outside.
func TestDeadlockAfter_ByItself(t *testing.T) {
	t.Parallel()
	for name, locker := range exclusives {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, log, _ := suspect(t, 20*time.Millisecond)
			key := redistest.Key(t, "order")
			lease, err := locker(c, key).Lock(t.Context(), lockrt.WithName("orders.Pay"))
			require.NoError(t, err)
			waitFor(t, log, func(outer context.Context) error {
				_, err := locker(c, key).Lock(outer, lockrt.WithName("orders.Refund"))
				return err
			})
			require.Equal(t, 1, log.count(heldHere))
			require.Equal(t, 1, log.count("give it the context of the lease"))
			require.Equal(t, 1, log.count("name=orders.Refund"))
			require.Equal(t, 1, log.count("held_by=orders.Pay"))
			require.Equal(t, 1, log.count("key="+key))
			require.NoError(t, lease.Unlock(t.Context()))
		})
	}
	t.Run("a writer who reads", func(t *testing.T) {
		t.Parallel()
		c, log, _ := suspect(t, 20*time.Millisecond)
		m := c.RWMutex(redistest.Key(t, "page"))
		lease, err := m.RLock(t.Context())
		require.NoError(t, err)
		waitFor(t, log, func(outer context.Context) error { _, err := m.Lock(outer); return err })
		require.Equal(t, 1, log.count(heldHere))
		require.NoError(t, lease.Unlock(t.Context()))
	})
	t.Run("permits", func(t *testing.T) {
		t.Parallel()
		c, log, _ := suspect(t, 20*time.Millisecond)
		s := c.PermitSemaphore(redistest.Key(t, "jobs"), 1)
		permit, err := s.Acquire(t.Context())
		require.NoError(t, err)
		waitFor(t, log, func(outer context.Context) error { _, err := s.Acquire(outer); return err })
		require.Equal(t, 1, log.count("this process holds some itself"))
		require.NoError(t, permit.Release(t.Context()))
	})
}

// TestDeadlockAfter_ForAnother has a call wait for another process: the log says nothing of this one.
func TestDeadlockAfter_ForAnother(t *testing.T) {
	t.Parallel()
	other := newClient(t, lockrt.Options{})
	for name, locker := range exclusives {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, log, _ := suspect(t, 20*time.Millisecond)
			key := redistest.Key(t, "order")
			lease, err := locker(other, key).Lock(t.Context())
			require.NoError(t, err)
			waitFor(t, log, func(ctx context.Context) error { _, err := locker(c, key).Lock(ctx); return err })
			require.Zero(t, log.count(heldHere))
			require.Equal(t, 1, log.count("neither a deadline nor WithWait bounds it"))
			require.NoError(t, lease.Unlock(t.Context()))
		})
	}
	t.Run("a MultiLock", func(t *testing.T) {
		t.Parallel()
		c, log, _ := suspect(t, 20*time.Millisecond)
		one, two := redistest.Key(t, "1"), redistest.Key(t, "2")
		lease, err := other.Mutex(two).Lock(t.Context())
		require.NoError(t, err)
		waitFor(t, log, func(ctx context.Context) error {
			_, err := lockrt.NewMultiLock(c.Mutex(one), c.Mutex(two)).Lock(ctx)
			return err
		})
		require.Zero(t, log.count(heldHere))
		require.NoError(t, lease.Unlock(t.Context()))
	})
	t.Run("a latch", func(t *testing.T) {
		t.Parallel()
		c, log, _ := suspect(t, 20*time.Millisecond)
		l := c.CountDownLatch(redistest.Key(t, "ready"))
		_, err := l.SetCount(t.Context(), 1)
		require.NoError(t, err)
		waitFor(t, log, func(ctx context.Context) error { return l.Wait(ctx) })
		_, err = l.Delete(t.Context())
		require.NoError(t, err)
	})
}

// TestDeadlockAfter_BoundedOrOff shows that the log has no line about a bounded wait, and none if the option says so.
func TestDeadlockAfter_BoundedOrOff(t *testing.T) {
	t.Parallel()
	other := newClient(t, lockrt.Options{})
	key := redistest.Key(t, "order")
	lease, err := other.Mutex(key).Lock(t.Context())
	require.NoError(t, err)
	soon, log, waiting := suspect(t, time.Millisecond)
	off, silent, waitingOff := suspect(t, -1)

	deadline, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	var all []<-chan error
	add := func(ctx context.Context, m *lockrt.Mutex, waiting <-chan string) {
		all = append(all, later(func() error { return m.Do(ctx, func(context.Context, *lockrt.Lease) error { return nil }) }))
		receive(t, waiting, "the waiter")
	}
	add(deadline, soon.Mutex(key), waiting)
	add(t.Context(), soon.Mutex(key, lockrt.WithWait(time.Hour)), waiting)
	add(t.Context(), off.Mutex(key), waitingOff)
	add(t.Context(), soon.Mutex(key), waiting) // that something bounds the others is all the difference
	until(t, "the last is told of", func() bool { return log.count(stillWaits) > 0 })
	require.NoError(t, lease.Unlock(t.Context()))
	for _, got := range all {
		require.NoError(t, receive(t, got, "a lock"))
	}
	require.Equal(t, 1, log.count(stillWaits))
	require.Zero(t, silent.count(stillWaits))
}
