package lockrt_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/gen"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// acquire takes key as spec says.
func acquire(t *testing.T, c *lockrt.Client, ctx context.Context, spec gen.Spec, key string) *gen.Hold {
	t.Helper()
	spec.Name = "orders.Service.Do"
	hold, err := gen.With(c).Acquire(ctx, &spec, key)
	require.NoError(t, err)
	return hold
}

// release ends hold and returns what went wrong.
func release(hold *gen.Hold) (err error) {
	hold.Release(&err)
	return err
}

func TestAcquirer_OptionsCountMore(t *testing.T) {
	t.Parallel()
	c, other := newClient(t, lockrt.Options{}), newClient(t, lockrt.Options{})
	key := redistest.Key(t, "k")
	spec := &gen.Spec{Name: "orders.Service.Do", Wait: lockrt.UntilDone, Watchdog: time.Hour}
	hold, err := gen.With(c, lockrt.WithLease(2*time.Hour), lockrt.WithWait(0)).Acquire(patient(t), spec, key)
	require.NoError(t, err)
	ms, err := redistest.Shared(t).Do("PTTL", key).AsInt64()
	require.NoError(t, err)
	require.InDelta(t, 2*time.Hour, time.Duration(ms)*time.Millisecond, float64(time.Minute))
	spare := redistest.Key(t, "free")
	_, err = gen.With(other, lockrt.WithWait(0)).Acquire(patient(t), spec, spare, key)
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	freed(t, spare)
	require.NoError(t, release(hold))

	_, err = gen.With(c, lockrt.WithLease(-time.Second)).Acquire(patient(t), spec, key)
	require.ErrorIs(t, err, lockrt.ErrBadOption)
	require.ErrorContains(t, err, "orders.Service.Do: ")
	_, err = gen.With(c, lockrt.WithWatchdog(time.Minute)).Acquire(patient(t), &gen.Spec{Name: "n", Lease: time.Second, Keep: true}, key)
	require.EqualError(t, err, "n: unusable option: a lock that is kept until its lease ends needs one of fixed length")
	freed(t, key)
}

func TestHold_KeptUntilItsLeaseEnds(t *testing.T) {
	t.Parallel()
	c, other := newClient(t, lockrt.Options{}), newClient(t, lockrt.Options{})
	key := redistest.Key(t, "k")
	spec := gen.Spec{Lease: 2 * time.Second, Keep: true}
	began := time.Now()
	hold := acquire(t, c, patient(t), spec, key)
	require.NoError(t, release(hold))
	require.ErrorIs(t, context.Cause(hold.Context()), lockrt.ErrReleased, "the call is over")
	require.EqualValues(t, 1, exists(t, key), "the lock is not")
	_, err := c.Mutex(key).TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired, "nor for this process")
	_, err = c.Mutex(key).TryLock(hold.Context())
	require.Error(t, err, "nor under the context of the call")
	lease, err := other.Mutex(key).Lock(patient(t))
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(began), spec.Lease)
	require.NoError(t, lease.Unlock(patient(t)))
	require.Zero(t, c.Stats().Losses, "that it ran out was meant")
}

func TestHold_KeptFromItsOwner(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	key := redistest.Key(t, "k")
	ctx := lockrt.WithOwner(patient(t), lockrt.NewOwner())
	require.NoError(t, release(acquire(t, c, ctx, gen.Spec{Lease: time.Minute, Keep: true}, key)))
	_, err := c.Mutex(key).TryLock(ctx)
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	require.NoError(t, second(c.Mutex(key).ForceUnlock(patient(t))))
}

func TestHold_KeptUnderAnOuterLock(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	key := redistest.Key(t, "k")
	outer := acquire(t, c, patient(t), gen.Spec{Watchdog: time.Minute}, key)
	require.NoError(t, release(acquire(t, c, outer.Context(), gen.Spec{Lease: time.Minute, Keep: true}, key)))
	require.NoError(t, outer.Context().Err())
	require.NoError(t, release(outer))
	freed(t, key) // it would be renewed for ever
}

func TestHold_KeptForAWhile(t *testing.T) {
	t.Parallel()
	c, other := newClient(t, lockrt.Options{}), newClient(t, lockrt.Options{})
	for name, spec := range map[string]gen.Spec{
		"renewed": {Min: 200 * time.Millisecond},
		"fixed":   {Min: 200 * time.Millisecond, Lease: time.Minute},
		"longer":  {Min: 2200 * time.Millisecond, Lease: 2 * time.Second},
	} {
		key := redistest.Key(t, name)
		began := time.Now()
		hold := acquire(t, c, patient(t), spec, key)
		require.NoError(t, release(hold), name)
		require.ErrorIs(t, context.Cause(hold.Context()), lockrt.ErrReleased)
		lease, err := other.Mutex(key).Lock(patient(t))
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(began), spec.Min, name)
		require.Less(t, time.Since(began), 20*time.Second, name)
		require.NoError(t, lease.Unlock(patient(t)))
	}
	key := redistest.Key(t, "long enough")
	hold := acquire(t, c, patient(t), gen.Spec{Min: time.Nanosecond}, key)
	require.NoError(t, release(hold))
	freed(t, key)
}

// TestHold_KeptByAProcessThatEnds: what is left of the time is in Redis, so that closing shortens nothing. Nor does it wait.
func TestHold_KeptByAProcessThatEnds(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]gen.Spec{
		"min":  {Min: time.Minute, Watchdog: time.Second},
		"keep": {Lease: time.Minute, Keep: true},
	} {
		c := newClient(t, lockrt.Options{})
		key := redistest.Key(t, name)
		require.NoError(t, release(acquire(t, c, patient(t), spec, key)))
		require.NoError(t, c.Shutdown(patient(t)), "nobody works under it")
		ms, err := redistest.Shared(t).Do("PTTL", key).AsInt64()
		require.NoError(t, err)
		require.Greater(t, time.Duration(ms)*time.Millisecond, 40*time.Second, name)
		require.NoError(t, redistest.Shared(t).Do("DEL", key).Error())
	}
}

func TestHold_KeptForAWhileAndThenHandedOn(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	key := redistest.Key(t, "k")
	require.NoError(t, release(acquire(t, c, patient(t), gen.Spec{Min: 150 * time.Millisecond}, key)))
	lease, err := c.Mutex(key).Lock(patient(t))
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- c.Shutdown(patient(t)) }()
	_, err = c.Mutex(key).Lock(patient(t), lockrt.WithWait(lockrt.UntilDone))
	require.ErrorIs(t, err, lockrt.ErrClosed)
	select {
	case <-done:
		require.Fail(t, "Shutdown did not wait for the present holder")
	default:
	}
	require.NoError(t, lease.Unlock(patient(t)))
	require.NoError(t, receive(t, done, "the shutdown"))
}

func TestHold_LostWhileItWasToBeKept(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	for _, spec := range []gen.Spec{{Lease: time.Minute, Keep: true}, {Min: time.Minute}} {
		key := redistest.Key(t, "k")
		hold := acquire(t, c, patient(t), spec, key)
		require.NoError(t, second(c.Mutex(key).ForceUnlock(patient(t))))
		receive(t, hold.Context().Done(), "the loss")
		require.ErrorIs(t, release(hold), lockrt.ErrLost)
		freed(t, key)
	}
}

func TestHold_LossReportedOnly(t *testing.T) {
	t.Parallel()
	lost := make(chan struct{}, 1)
	c := newClient(t, lockrt.Options{Hooks: lockrt.Hooks{Ended: func(context.Context, lockrt.EndEvent) { lost <- struct{}{} }}})
	key := redistest.Key(t, "k")
	ctx, cancel := context.WithCancelCause(patient(t))
	hold := acquire(t, c, ctx, gen.Spec{Report: true, Fence: true}, key)
	token, ok := lockrt.TokenFrom(hold.Context())
	require.True(t, ok)
	require.Positive(t, token)
	inner := acquire(t, c, hold.Context(), gen.Spec{}, key)
	require.NoError(t, release(inner), "it enters again")
	receive(t, lost, "the end of the inner one")
	derived, stop := context.WithCancel(hold.Context())
	defer stop()
	require.NoError(t, second(c.Mutex(key).ForceUnlock(patient(t))))
	receive(t, lost, "the loss")
	require.NoError(t, hold.Context().Err())
	require.NoError(t, context.Cause(hold.Context()))
	require.NoError(t, derived.Err())
	own := errors.New("shutting down")
	cancel(own)
	require.ErrorIs(t, hold.Context().Err(), context.Canceled, "the context of the call still ends it")
	require.Equal(t, own, context.Cause(hold.Context()))
	receive(t, derived.Done(), "what is under it to end too")
	require.ErrorIs(t, release(hold), lockrt.ErrLost)
}

func count(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// A sequence under no lock, since its list was empty, is as the method has returned it: for each loop, and after the end of the call's context.
func TestHoldSeq_OfNoLockStaysAsItIs(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	hold, err := gen.With(c).Acquire(ctx, &gen.Spec{Name: "orders.Service.Rows", Empty: true})
	require.NoError(t, err)
	seq := gen.HoldSeq(hold, count(3))
	pairs := gen.HoldSeq2(hold, func(yield func(int, string) bool) { _ = yield(1, "one") && yield(2, "two") })
	require.NoError(t, release(hold))
	cancel()
	for range 2 {
		require.Equal(t, []int{0, 1, 2}, slices.Collect(seq))
		require.Equal(t, map[int]string{1: "one", 2: "two"}, maps.Collect(pairs))
	}
}

func TestHoldSeq_ReleasesOnceWhenTheLoopEnds(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	c := newClient(t, lockrt.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	key := redistest.Key(t, "k")
	for name, loop := range map[string]func(seq iter.Seq[int]){
		"to the end": func(seq iter.Seq[int]) {
			sum := 0
			for i := range seq {
				require.EqualValues(t, 1, exists(t, key))
				for range seq {
					require.Fail(t, "a second loop beside the first")
				}
				sum += i
			}
			require.Equal(t, 3, sum)
		},
		"break": func(seq iter.Seq[int]) {
			for range seq {
				break
			}
		},
		"panic": func(seq iter.Seq[int]) {
			require.PanicsWithValue(t, "bug", func() {
				for range seq {
					panic("bug")
				}
			})
		},
		"pulled": func(seq iter.Seq[int]) {
			next, stop := iter.Pull(seq)
			_, ok := next()
			require.True(t, ok)
			require.EqualValues(t, 1, exists(t, key))
			stop()
		},
	} {
		hold := acquire(t, c, patient(t), gen.Spec{}, key)
		seq := gen.HoldSeq(hold, count(3))
		require.NoError(t, release(hold))
		require.EqualValues(t, 1, exists(t, key), "it is the loop's: %s", name)
		loop(seq)
		freed(t, key)
		logged.Reset()
		for range seq {
			require.Fail(t, "gone through again")
		}
		require.Contains(t, logged.String(), "can be gone through once", name)
	}
	hold := acquire(t, c, patient(t), gen.Spec{}, key)
	require.Nil(t, gen.HoldSeq[int](hold, nil))
	require.Nil(t, gen.HoldSeq2[int, int](hold, nil))
	require.NoError(t, release(hold))
	freed(t, key) // there is no loop that could
}

// TestHoldSeq_ReportsALoss shows that the program learns of a lock that was lost during a loop that cannot return an error.
func TestHoldSeq_ReportsALoss(t *testing.T) {
	t.Parallel()
	type value struct{}
	reports := make(chan lockrt.UnreportedEvent, 1)
	c := newClient(t, lockrt.Options{Hooks: lockrt.Hooks{Unreported: func(ctx context.Context, e lockrt.UnreportedEvent) {
		if ctx.Value(value{}) == "of the call" {
			reports <- e
		}
	}}})
	key := redistest.Key(t, "k")
	ctx := context.WithValue(patient(t), value{}, "of the call")
	for range gen.HoldSeq(acquire(t, c, ctx, gen.Spec{Template: "k:{id}"}, key), count(3)) {
		_, err := c.Mutex(key).ForceUnlock(patient(t))
		require.NoError(t, err)
	}
	e := receive(t, reports, "the report")
	require.ErrorIs(t, e.Err, lockrt.ErrLost)
	require.Equal(t, "orders.Service.Do", e.Name)
	require.Equal(t, "k:{id}", e.Template)
}

func TestHoldSeq_TheCallEndsBeforeALoopBegins(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{}, 1)
	c := newClient(t, lockrt.Options{Hooks: lockrt.Hooks{Ended: func(context.Context, lockrt.EndEvent) { ended <- struct{}{} }}})
	key := redistest.Key(t, "k")
	ctx, cancel := context.WithCancel(patient(t))
	seq := gen.HoldSeq2(acquire(t, c, ctx, gen.Spec{}, key), func(func(int, error) bool) {})
	cancel()
	receive(t, ended, "the release")
	for _, err := range seq {
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, "orders.Service.Do: ")
	}
	require.Eventually(t, func() bool { return exists(t, key) == 0 }, 10*time.Second, time.Millisecond)
}

func TestHoldSeq2_TellsInItsErrors(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	key := redistest.Key(t, "k")
	own := errors.New("row 2")
	rows := func(yield func(int, error) bool) { _ = yield(1, nil) && yield(2, own) }
	hold := acquire(t, c, patient(t), gen.Spec{}, key)
	seq := gen.HoldSeq2(hold, rows)
	var got []error
	for i, err := range seq {
		if i == 2 {
			require.NoError(t, second(c.Mutex(key).ForceUnlock(patient(t))))
		}
		got = append(got, err)
	}
	require.Len(t, got, 3)
	require.NoError(t, got[0])
	require.Equal(t, own, got[1])
	require.ErrorIs(t, got[2], lockrt.ErrLost)
	for _, err := range seq {
		require.ErrorIs(t, err, lockrt.ErrReleased)
		got = nil
	}
	require.Nil(t, got)

	seq = gen.HoldSeq2(acquire(t, c, patient(t), gen.Spec{}, key), rows)
	require.PanicsWithValue(t, "bug", func() {
		for range seq {
			panic("bug")
		}
	})
	freed(t, key)
	pairs := gen.HoldSeq2(acquire(t, c, patient(t), gen.Spec{}, key), func(yield func(int, string) bool) { yield(1, "a") })
	for range pairs {
		break
	}
	freed(t, key)
	for range pairs {
		require.Fail(t, "gone through again")
	}
}

func TestHold_LentUntilClose(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	key := redistest.Key(t, "k")
	own := errors.New("disk full")
	ctx, cancel := context.WithCancel(patient(t))
	hold := acquire(t, c, ctx, gen.Spec{}, key).Lend()
	require.NoError(t, release(hold))
	cancel()
	require.EqualValues(t, 1, exists(t, key), "whoever has it may still be writing")
	closes := 0
	closing := func() error {
		if closes++; closes == 1 {
			require.EqualValues(t, 1, exists(t, key))
		}
		return own
	}
	require.ErrorIs(t, hold.Close(closing), own)
	freed(t, key)
	require.Equal(t, own, hold.Close(closing), "only the first time there is something to release")
	require.Equal(t, 2, closes)

	hold = acquire(t, c, patient(t), gen.Spec{}, key).Lend()
	require.NoError(t, second(c.Mutex(key).ForceUnlock(patient(t))))
	require.ErrorIs(t, hold.Close(func() error { return nil }), lockrt.ErrLost)
	hold = acquire(t, c, patient(t), gen.Spec{}, key).Lend()
	require.PanicsWithValue(t, "bug", func() { _ = hold.Close(func() error { panic("bug") }) })
	freed(t, key)
}

// TestHold_KeptWithAnUnknownOutcome: the answer to what makes sure of the rest of the time gets lost. The caller is
// told, the key stays locked for as long as this process lives, and is released when its time is over.
func TestHold_KeptWithAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	l := newLine(t, lockrt.Options{})
	other := newClient(t, lockrt.Options{})
	spec := gen.Spec{Lease: 2 * time.Second, Min: 2400 * time.Millisecond}
	atBest(t, "was the outcome unknown", func() bool { // another request may lose its reply, or the lease be over, on a busy machine
		key := redistest.Key(t, "k")
		began := time.Now()
		hold := acquire(t, l.client, patient(t), spec, key)
		lost := l.proxy.DropReply(redistest.EvalSHA(scripts.Renew.SHA1()), 1, redistest.Close)
		defer lost.Stop()
		err := release(hold)
		if err == nil || errors.Is(err, lockrt.ErrLost) || exists(t, key) == 0 {
			return false
		}
		receive(t, lost.Done(), "the reply to get lost")
		lease, err := other.Mutex(key).Lock(patient(t))
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(began), spec.Lease)
		require.NoError(t, lease.Unlock(patient(t)))
		return true
	})
}

// TestHold_ReleasedWithAnUnknownOutcome: the reply to the release at the end of a loop gets lost, and asking again frees the key.
func TestHold_ReleasedWithAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	l := newLine(t, lockrt.Options{})
	seq := gen.HoldSeq(acquire(t, l.client, patient(t), gen.Spec{Watchdog: time.Minute}, l.key), count(2))
	lost := l.proxy.DropReply(gives, 1, redistest.Close)
	for range seq {
		require.EqualValues(t, 1, exists(t, l.key))
	}
	receive(t, lost.Done(), "the reply to get lost")
	freed(t, l.key)
}
