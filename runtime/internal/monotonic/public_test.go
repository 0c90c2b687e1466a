package monotonic_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// today fails for a date that is not that of the wall clock, to a minute or two.
func today(t *testing.T, what string, date time.Time) {
	t.Helper()
	require.WithinDuration(t, time.Now().Round(0), date.Round(0), 2*time.Minute, what)
}

// TestDate_OfUsers shows that users get right dates after the wall clock was set: this process began when it was another one.
func TestDate_OfUsers(t *testing.T) {
	t.Parallel()
	require.Greater(t, monotonic.Now().Std().Round(0).Sub(time.Now().Round(0)), time.Hour, "the clock was set")
	ends, renewals := make(chan lockrt.EndEvent, 10), make(chan lockrt.RenewEvent, 1000)
	deadlocks, waiting := make(chan lockrt.DeadlockEvent, 10), make(chan string, 10)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := lockrt.Open(ctx, redistest.Shared(t).URL(), lockrt.Options{
		Watchdog: 3 * time.Second, DeadlockAfter: 100 * time.Millisecond, OpTimeout: 10 * time.Second,
		Hooks: lockrt.Hooks{
			Waiting:  func(_ context.Context, e lockrt.AcquireEvent) { waiting <- e.Key },
			Ended:    func(_ context.Context, e lockrt.EndEvent) { ends <- e },
			Renewed:  func(_ context.Context, e lockrt.RenewEvent) { renewals <- e },
			Deadlock: func(_ context.Context, e lockrt.DeadlockEvent) { deadlocks <- e },
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	first, second := c.Mutex(redistest.Key(t, "first")), c.Mutex(redistest.Key(t, "second"))
	one, err := first.Lock(ctx)
	require.NoError(t, err)
	other, err := second.Lock(ctx)
	require.NoError(t, err)

	_, err = first.TryLock(t.Context())
	var refused *lockrt.Error
	require.ErrorAs(t, err, &refused)
	require.NotNil(t, refused.Holder)
	today(t, "Holder.Since", refused.Holder.Since)
	today(t, "Holder.Seen", refused.Holder.Seen)

	ended, given := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := second.Lock(one.Context(), lockrt.WithWait(time.Minute))
		ended <- err
	}()
	<-waiting
	under, stop := context.WithTimeout(other.Context(), time.Minute)
	defer stop()
	go func() {
		_, err := first.Lock(under)
		given <- err
	}()
	<-waiting
	s := c.Snapshot()
	require.Len(t, s.Held, 2)
	require.Len(t, s.Waiting, 2)
	for _, h := range s.Held {
		today(t, "HeldLock.Since", h.Since)
	}
	for _, w := range s.Waiting {
		today(t, "WaitingCall.Since", w.Since)
		today(t, "WaitingCall.Deadline", *w.Deadline)
	}
	require.Equal(t, s.Held, withLeft(c.Snapshot().Held, s.Held), "a hold has one date")
	for range 2 {
		e := <-deadlocks
		for _, call := range e.Deadlock.Calls {
			today(t, "DeadlockedCall.Since", call.Since)
		}
	}
	today(t, "RenewEvent.Until", (<-renewals).Until)
	require.NoError(t, one.Unlock(ctx))
	require.Error(t, <-ended)
	require.NoError(t, <-given)
	today(t, "EndEvent.At", (<-ends).At)
	require.NoError(t, other.Unlock(ctx))
}

// withLeft returns held with the times to live of others, which pass.
func withLeft(held, others []lockrt.HeldLock) []lockrt.HeldLock {
	for i := range held {
		held[i].Left = others[i].Left
	}
	return held
}
