package locks

import (
	"context"
	"errors"
	goruntime "runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/policy"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/resource"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A waiter that gives up is recycled when no request knows it any more. A request knows it until
// its outcome is recorded; otherwise another call would get that outcome.
func TestResource_RequestKnowsItsWaiterUntilItHasSpoken(t *testing.T) {
	t.Parallel()
	r := policy.NewMutex(new(resource.Client), "k")
	w := &resource.Waiter{Call: engine.Call{Since: monotonic.Now(), Wait: leases.UntilDone}}
	r.Queue.Push(w)
	r.Busy = 1
	w.Asks.Add(1)
	release := w.Events.Hold()
	go r.Settle(&resource.AcquireOp{Waiter: w, Ticket: &resource.Ticket{Resource: &r.LineCore, Asking: 1, Asked: true}}, time.Now(), protocol.Verdict{}, false, errors.New("no"))
	for r.Mu.TryLock() { // until it settles
		r.Mu.Unlock()
		goruntime.Gosched()
	}
	require.Never(t, func() bool { return w.Asks.Load() == 0 }, 20*time.Millisecond, time.Millisecond) // its outcome is not recorded yet
	release()
	<-w.Events.Bell()
	ev, ok := w.NextEvent()
	require.True(t, ok)
	require.Equal(t, engine.Failed, ev.Kind)
	require.Eventually(t, func() bool { return w.Asks.Load() == 0 }, 20*time.Second, time.Millisecond)
}

// A ticket is handed over while a request for it is under way, which is refused after that by the server's clock. That is
// believed if the clock went on as this one did. If it was set back before the grant, the refusal may be older, and
// the server is asked.
func TestResource_ARefusalAfterTheGrantIsBelievedUnlessTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		back time.Duration
		lost bool
	}{"goes on": {0, true}, "set back": {time.Hour, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := opened(t.Context(), redistest.Shared(t).URL(), core.Settings{OpTimeout: time.Minute}, nil)
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			looks := looksOf(&c.base)
			r, err := c.mutexes.Enter(redistest.Key(t, "k"), false)
			require.NoError(t, err)
			defer r.Exit()
			cfg, err := leases.Configure(c.Core(), nil, nil)
			require.NoError(t, err)
			cfg.Polling = true
			lease := leases.New(c.Core(), core.KindMutex, context.Background())
			w := resource.NewWaiter(context.Background(), lease, &cfg)
			require.Equal(t, resource.ToAsk, r.Join(w))
			tk := r.TicketFor(w.Terms)
			op := &resource.AcquireOp{Waiter: w, Ticket: tk, Terms: w.Terms, Line: protocol.StillQueued}
			tk.To(engine.TicketAsking)
			tk.Standing, tk.Asking = true, 1
			r.Busy++
			w.Asks.Add(1)

			refused := time.Now() // by the server's clock, which says so before it is set back
			granted := refused.Add(-test.back)
			redistest.Shared(t).Do("HSET", r.Key, c.base.Wire.Owner(tk.Number), "1")
			tk.Handed(protocol.Message{Number: tk.Number, Granted: granted})
			ev, ok := w.NextEvent()
			require.True(t, ok)
			require.Equal(t, engine.Given, ev.Kind)
			lease.Core().Given()
			if test.lost {
				refused = granted.Add(time.Microsecond)
			}
			r.Settle(op, refused, protocol.Verdict{Wait: 1000, At: refused}, false, nil)
			believes(t, lease, test.lost, looks)
		})
	}
}

// looksOf returns a channel that has a value each time that the watchdog asks whether the server has a lease. The answer is that it has.
func looksOf(c *resource.Client) <-chan struct{} {
	looks := make(chan struct{}, 1000)
	c.Watchdog = watchdog.New(func(leases []*watchdog.Lease, _ []time.Duration) []error {
		looks <- struct{}{}
		return make([]error, len(leases))
	}, c.Net.RenewBatch, nil)
	return looks
}

// believes requires that a lease is lost without a look, or stays after one.
func believes(t *testing.T, l *leases.Lease, lost bool, looks <-chan struct{}) {
	t.Helper()
	if lost {
		looks = nil // by a renewal, if the machine stands still
	}
	select {
	case <-l.Context().Done():
		require.True(t, lost)
		require.ErrorIs(t, l.Err(), watchdog.ErrRefused)
		require.ErrorIs(t, l.Unlock(t.Context()), failure.ErrLost)
	case <-looks:
		require.NoError(t, l.Err())
		require.NoError(t, l.Unlock(t.Context()))
	case <-time.After(20 * time.Second):
		require.Fail(t, "nothing came of it")
	}
}

// A partlyReleased permit is one of which the process has released a part, or is about to.
type partlyReleased struct{ key string }

func (p partlyReleased) Kind() string        { return core.KindPermit }
func (p partlyReleased) Key() string         { return p.key }
func (p partlyReleased) Owner() string       { return string(make([]byte, protocol.PermitLength)) }
func (partlyReleased) Began() monotonic.Time { return monotonic.Now() }
func (partlyReleased) Lost(error)            {}
func (partlyReleased) Fewer(string) bool     { return true }

// A renewal of several permits that is answered while some of them are released here may have asked for too many: that
// is no loss of the others, but a reason to ask again.
func TestPermit_ARenewalThatAskedForTooManyIsNoLoss(t *testing.T) {
	t.Parallel()
	c, err := opened(t.Context(), redistest.Shared(t).URL(), core.Settings{OpTimeout: time.Minute, Tracks: true}, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	s := c.PermitSemaphore(redistest.Key(t, "p"), 2)
	p, err := s.AcquireN(t.Context(), 2)
	require.NoError(t, err)
	renew := func(l *watchdog.Lease) error {
		return c.base.Renew([]*watchdog.Lease{l}, []time.Duration{time.Minute})[0]
	}
	require.NoError(t, renew(p.core.Guard()))
	require.ErrorIs(t, renew(&watchdog.Lease{Holding: partlyReleased{s.key}, TTL: time.Minute}), core.ErrFewer)
	redistest.Shared(t).Do("ZREM", "{"+s.key+"}:timeout", p.hold.Owner()[:protocol.PermitLength])
	require.ErrorIs(t, renew(p.core.Guard()), watchdog.ErrRefused)
	require.ErrorIs(t, p.Release(t.Context()), failure.ErrLost, "of one of both")
}

// A parked call has no lease, and gets one under the lock of its resource: what says for which lock it waits does not look at the waiter.
func TestMutex_SubjectOfAParkedCall(t *testing.T) {
	t.Parallel()
	kind, key := policy.NewMutex(new(resource.Client), "k").Subject(nil)
	require.Equal(t, []string{core.KindMutex, "k"}, []string{kind, key})
}
