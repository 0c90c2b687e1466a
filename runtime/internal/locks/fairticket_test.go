package locks

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/policy"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/resource"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// The tests below force orders of events that no test from outside can force.

// testedFair returns the resource of a key that nobody has. With tracking the client would soon look whether the server has what
// a test gives a ticket by have, and lose it.
func testedFair(t *testing.T) *policy.Fair {
	t.Helper()
	c, err := opened(t.Context(), redistest.Shared(t).URL(), core.Settings{OpTimeout: time.Minute}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	r, err := c.fairs.Enter(redistest.Key(t, "k"), false)
	require.NoError(t, err)
	t.Cleanup(r.Exit)
	return r
}

// enters returns a ticket that somebody waits with.
func enters(r *policy.Fair, t *testing.T) *policy.FairTicket {
	t.Helper()
	cfg, err := leases.Configure(r.Client.Core(), nil, nil)
	require.NoError(t, err)
	w := resource.NewWaiter(context.Background(), leases.New(r.Client.Core(), core.KindFair, context.Background()), &cfg)
	require.Equal(t, resource.ToAsk, r.Join(w))
	return policy.FairTicketFrom(w.For.Ticket)
}

// request returns a request for tk, by a call that has gone if no call waits with tk.
func request(tk *policy.FairTicket) *resource.AcquireOp {
	w := tk.Own.Waiter
	if w == nil {
		w = engine.NewWaiter[resource.Wish]()
	}
	w.Asks.Add(1)
	return &resource.AcquireOp{Waiter: w, Ticket: &tk.Ticket, Terms: tk.Terms}
}

// have gives tk the lock, as if Redis had said that those behind have it next.
func have(r *policy.Fair, tk *policy.FairTicket, behind ...*policy.FairTicket) *resource.Grant {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	for _, x := range behind {
		tk.Behind = append(tk.Behind, x.Number)
	}
	tk.To(engine.TicketAsking)
	r.Promote(trace.Granted, &tk.Ticket, tk.Own.Waiter, time.Now(), tk.TTL)
	return r.Grant
}

// inRedis reports whether some owner has the lock.
func inRedis(r *policy.Fair, t *testing.T) bool {
	t.Helper()
	n, err := redistest.Shared(t).Do("EXISTS", r.Key).ToInt64()
	require.NoError(t, err)
	return n > 0
}

// refusal is the reply of Redis to a request of a waiter that has to wait.
func refusal() protocol.Verdict {
	return protocol.Verdict{Wait: 1000, At: time.Now().Truncate(time.Second)}
}

// A waiter that is given a lost grant, and gives up before it knows, while a request for its ticket is under way, leaves once.
func TestFairTicket_WhoGivesUpWhatIsLostLeavesOnce(t *testing.T) {
	t.Parallel()
	r := testedFair(t)
	a, b := enters(r, t), enters(r, t)
	b.Standing, b.Asking = true, 1
	b.To(engine.TicketAsking)
	g := have(r, a, b)
	require.NoError(t, g.Unlock(a.Own.Waiter.For.Lease))
	require.Same(t, g, b.Granted())
	r.Client.Watchdog.Lose(&g.Guard, watchdog.ErrRefused)
	r.Leave(b.Own.Waiter)
	r.Settle(request(b), time.Now(), refusal(), false, nil)
	for _, tk := range []*policy.FairTicket{a, b} {
		require.Eventually(t, func() bool { return !knows(r.Client, tk.Number) }, 10*time.Second, time.Millisecond, "it is withdrawn")
	}
}

// A ticket was handed the lock during a request, which is refused later, by the clock of the server: its holder does not wait for a renewal to
// learn that it has lost the lock. If that clock was set back, the refusal may be older, and the server is asked.
func TestFairTicket_ARefusalAfterTheHandOverIsBelievedUnlessTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		back time.Duration
		lost bool
	}{"goes on": {0, true}, "set back": {time.Hour, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := testedFair(t)
			looks := looksOf(r.Client)
			tk := enters(r, t)
			tk.To(engine.TicketAsking)
			tk.Standing, tk.Asking = true, 1
			op, l := request(tk), tk.Own.Waiter.For.Lease
			refused := time.Now() // by the server's clock, which says so before it is set back
			granted := refused.Add(-test.back)
			redistest.Shared(t).Do("HSET", r.Key, r.Owner(&tk.Ticket), "1")
			tk.Handed(protocol.Message{Number: tk.Number, Granted: granted})
			l.Core().Given()
			if test.lost {
				refused = granted.Add(time.Microsecond)
			}
			r.Settle(op, refused, protocol.Verdict{Wait: 1000, At: refused}, false, nil)
			believes(t, l, test.lost, looks)
		})
	}
}

// knows reports whether the ticket n has a subscriber.
func knows(c *resource.Client, n uint64) bool {
	_, known, _ := c.Subscribers.Find(n)
	return known
}

// A ticket whose grant came too late has lost its place, and the followers in that grant are not valid any more.
func TestFairTicket_WhoFollowsIsForgottenWithTheGrant(t *testing.T) {
	t.Parallel()
	r := testedFair(t)
	a, b := enters(r, t), enters(r, t)
	b.Standing = true
	past := time.Now().Add(-10 * time.Second)
	a.Sees(engine.SightingOf(past, past))
	a.Handed(protocol.Message{Granted: past.Add(time.Second), Behind: []uint64{b.Number}})
	require.Nil(t, a.Granted())
	r.Settle(request(a), time.Now(), refusal(), false, nil)
	g := have(r, a)
	_ = g.Unlock(a.Own.Waiter.For.Lease) // Redis does not have it
	require.Nil(t, b.Granted())
	r.Leave(b.Own.Waiter)
}

// follows returns a grant that its first ticket has left to the second one, b, which stands in the queue.
func follows(r *policy.Fair, t *testing.T) (g *resource.Grant, b *policy.FairTicket) {
	t.Helper()
	a, b := enters(r, t), enters(r, t)
	b.Standing = true
	b.To(engine.TicketQueued)
	g = have(r, a, b)
	require.NoError(t, g.Unlock(a.Own.Waiter.For.Lease))
	require.Same(t, g, b.Granted())
	return g, b
}

// A client that shuts down has its fair locks go on: the release of the present holder names the tickets that had the grant after the first.
func TestFair_ShutdownLeavesTheTicketsOfTheGrant(t *testing.T) {
	t.Parallel()
	r := testedFair(t)
	g, b := follows(r, t)
	require.Equal(t, 1, r.Served())
	r.EndsLinger()
	require.Equal(t, 1, r.Served())
	_ = g.Unlock(b.Own.Waiter.For.Lease) // Redis does not have it
}

// A grant that Redis is known to have for another owner is not passed on.
func TestFairTicket_WhatIsLostIsNotPassedOn(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(r *policy.Fair, g *resource.Grant, other *policy.FairTicket){
		"granted to another claim": func(r *policy.Fair, _ *resource.Grant, other *policy.FairTicket) {
			r.Mu.Lock()
			defer r.Mu.Unlock()
			other.To(engine.TicketAsking)
			r.Promote(trace.Granted, &other.Ticket, other.Own.Waiter, time.Now(), other.TTL)
		},
		"known to have been taken": func(_ *policy.Fair, g *resource.Grant, _ *policy.FairTicket) {
			policy.FairTicketFrom(g.Ticket).Behind = nil
		},
		"told to its holder": func(_ *policy.Fair, g *resource.Grant, _ *policy.FairTicket) {
			g.EndLeases(failure.Lost(watchdog.ErrRefused))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := testedFair(t)
			a, b, other := enters(r, t), enters(r, t), enters(r, t)
			g := have(r, a, b)
			lose(r, g, other)
			_ = g.Unlock(a.Own.Waiter.For.Lease) // Redis does not have it
			require.Nil(t, b.Granted())
			r.Leave(b.Own.Waiter)
			r.Leave(other.Own.Waiter)
		})
	}
}

// A call takes over a ticket of which two requests are under way. The later one was refused before, and the earlier one fails: the call
// has to ask, since it gets no other answer.
func TestFairTicket_WhoTakesOverATicketHearsOfAnOldFailure(t *testing.T) {
	t.Parallel()
	r := testedFair(t)
	tk := enters(r, t)
	r.Mu.Lock()
	tk.Standing, tk.Asked, tk.Asking = true, true, 2
	tk.To(engine.TicketAsking)
	r.Mu.Unlock()
	first := time.Now()
	r.Leave(tk.Own.Waiter)
	r.Settle(request(tk), first.Add(time.Millisecond), refusal(), false, nil)
	w := resource.NewWaiter(context.Background(), leases.New(r.Client.Core(), core.KindFair, context.Background()), &leases.Config{Wait: leases.UntilDone, Terms: tk.Terms})
	require.Equal(t, resource.ToWait, r.Join(w))
	require.Same(t, &tk.Ticket, w.For.Ticket)
	r.Settle(request(tk), first, protocol.Verdict{}, false, errors.New("the connection broke"))
	ev, ok := w.NextEvent()
	require.True(t, ok, "it waits for nothing")
	require.Equal(t, engine.Turn, ev.Kind)
	r.Leave(w)
}

// No ticket follows in a grant that was taken by force, also if it is granted at the same moment.
func TestFairTicket_WhatIsTakenWhileItIsGrantedIsNotPassedOn(t *testing.T) {
	t.Parallel()
	r := testedFair(t)
	for range 1000 {
		tk := enters(r, t)
		r.Mu.Lock()
		tk.Asking, tk.Asked, tk.Behind = 1, true, []uint64{1 << 40}
		tk.To(engine.TicketAsking)
		w, both := tk.Own.Waiter, sync.WaitGroup{}
		r.Mu.Unlock()
		both.Go(func() { tk.Taken() })
		both.Go(func() { r.Settle(request(tk), time.Now(), protocol.Verdict{Wait: protocol.Granted}, false, nil) })
		both.Wait()
		r.Mu.Lock()
		granted, behind := tk.Granted() != nil, tk.Behind
		r.Mu.Unlock()
		require.False(t, granted && behind != nil)
		r.Leave(w)
	}
}

// A ticket was handed the lock during a request, which is refused: its grant is lost, and no other one that this process has, or had, since.
func TestFairTicket_ARefusalIsNotForTheNextGrant(t *testing.T) {
	t.Parallel()
	r := testedFair(t)
	tk, other := enters(r, t), enters(r, t)
	r.Mu.Lock()
	tk.Asking = 2
	tk.To(engine.TicketAsking)
	r.Mu.Unlock()
	at := time.Now().Truncate(time.Second)
	tk.Handed(protocol.Message{Number: tk.Number, Granted: at.Add(-time.Millisecond)})
	var release *resource.ReleaseOp
	func() {
		r.Mu.Lock()
		defer r.Mu.Unlock()
		require.Same(t, tk, r.First())
		other.To(engine.TicketAsking)
		r.Promote(trace.Granted, &other.Ticket, other.Own.Waiter, time.Now(), other.TTL) // the holder of tk is about to know that it is lost
		release = r.EndGrant(r.Grant)                                                    // the other call gives up
		require.True(t, r.Overtaken(request(tk), protocol.Verdict{Wait: 1000, At: at}, nil))
	}()
	r.SendRelease(release, true)
	_ = release.Outcome(nil) // Redis does not have it
	_ = tk.Own.Waiter.For.Lease.Core().Grant.Unlock(tk.Own.Waiter.For.Lease)
}

// A try gives up, and is withdrawn before its request arrives at the server. When the server has granted it, it is withdrawn again.
func TestFairTicket_WhatIsGrantedAfterItsWithdrawalIsWithdrawnAgain(t *testing.T) {
	t.Parallel()
	r := testedFair(t)
	tk := enters(r, t)
	r.Mu.Lock()
	tk.Asking, tk.Asked = 1, true
	tk.To(engine.TicketAsking)
	r.Mu.Unlock()
	sent := time.Now()
	op := request(tk)
	tk.Own.Waiter.Call.Wait = 0
	r.Leave(tk.Own.Waiter)
	require.Eventually(t, func() bool { return !knows(r.Client, tk.Number) }, 10*time.Second, time.Millisecond, "it is withdrawn")

	reply := r.Client.Net.Run(r.Lock.Acquire(protocol.FairRequest{Owner: r.Owner(&tk.Ticket), Queue: protocol.NotQueued, Lease: time.Hour, Wait: tk.Wait}, time.Now()))
	require.True(t, inRedis(r, t))
	verdict, err := r.Read(&tk.Ticket, reply)
	r.Settle(op, sent, verdict, false, err)
	require.Eventually(t, func() bool { return !inRedis(r, t) }, 10*time.Second, time.Millisecond, "it is withdrawn again")
}

// A lease whose time is over before a renewal was confirmed is lost, and Redis may have the lock still, since a renewal may have had no
// answer: the holder gives it back, whether it has waited for it or not.
func TestFairMutex_WhatIsLostByTimeIsGivenBack(t *testing.T) {
	t.Parallel()
	r := testedFair(t)
	for name, lock := range map[string]func(*FairMutex) (*leases.Lease, error){
		"waited":       func(m *FairMutex) (*leases.Lease, error) { return m.Lock(t.Context()) },
		"did not wait": func(m *FairMutex) (*leases.Lease, error) { return m.TryLock(t.Context()) },
	} {
		lease, err := lock(r.Client.Face.(*Client).FairMutex(r.Key, leases.WithLease(time.Hour)))
		require.NoError(t, err)
		r.Client.Watchdog.Lose(lease.Core().Guard(), watchdog.ErrElapsed)
		require.True(t, inRedis(r, t))
		require.ErrorIs(t, lease.Unlock(t.Context()), failure.ErrLost)
		require.Eventually(t, func() bool { return !inRedis(r, t) }, 10*time.Second, time.Millisecond, name)
	}
}

// Redis grants the lock to the ticket of a waiter that has, or had, the grant of the ticket before it: that grant is lost, and the lock is free.
func TestFairTicket_AGrantOfItsOwnEndsTheOneThatItFollowsIn(t *testing.T) {
	t.Parallel()
	for name, grants := range map[string]func(r *policy.Fair, tk *policy.FairTicket, op *resource.AcquireOp){
		"by the answer to a request": func(r *policy.Fair, _ *policy.FairTicket, op *resource.AcquireOp) {
			r.Settle(op, time.Now(), protocol.Verdict{Wait: protocol.Granted}, false, nil)
		},
		"by a message": func(_ *policy.Fair, tk *policy.FairTicket, _ *resource.AcquireOp) {
			tk.Handed(protocol.Message{Number: tk.Number, Granted: time.Now()})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := testedFair(t)
			a, b := enters(r, t), enters(r, t)
			op, l := request(b), b.Own.Waiter.For.Lease
			b.Asking = 1
			b.To(engine.TicketAsking)
			g := have(r, a, b)
			require.NoError(t, g.Unlock(a.Own.Waiter.For.Lease))
			require.Same(t, g, b.Granted())
			redistest.Shared(t).Do("HSET", r.Key, r.Owner(&b.Ticket), "1")
			grants(r, b, op)
			require.Eventually(t, func() bool { return l.Core().Ended() != nil && !inRedis(r, t) }, 10*time.Second, time.Millisecond, "nobody has the lock of %s", name)
			require.ErrorIs(t, l.Core().Ended(), watchdog.ErrRefused)
			require.ErrorIs(t, g.Unlock(l), failure.ErrLost)
		})
	}
}

// While the leases of the grant before it, which it shows to be lost, have not ended, a grant is for no caller: neither for the other calls of its owner, nor
// for those that follow.
func TestFairTicket_WhatCameTooEarlyIsForNoCaller(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"the caller gets it", "the caller has left", "it is lost, too"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := testedFair(t)
			ends, held := make(chan struct{}), make(chan struct{})
			goOn := sync.OnceFunc(func() { close(held) })
			defer goOn()
			var calls atomic.Int32
			r.Client.Core().AtEnd = func(string) {
				if calls.Add(1) == 1 {
					close(ends)
					<-held
				}
			}
			old, next, same, after := enters(r, t), enters(r, t), enters(r, t), enters(r, t)
			o := leases.NewOwner()
			for _, tk := range []*policy.FairTicket{next, same} {
				tk.Own.Waiter.For.Lease.Core().OwnedBy(o)
			}
			w, x, lost := next.Own.Waiter, same.Own.Waiter, old.Own.Waiter.For.Lease
			have(r, old)
			r.Mu.Lock()
			next.Behind = []uint64{after.Number}
			after.Standing = true
			after.To(engine.TicketQueued)
			next.To(engine.TicketAsking)
			g := r.Promote(trace.Granted, &next.Ticket, w, time.Now(), next.TTL)
			r.Mu.Unlock()
			receive(t, ends, "the end of the lease before")
			require.True(t, w.Events.Empty())
			require.True(t, x.Events.Empty(), "it would hold the lock beside the holder of the lost grant")
			again := leases.New(r.Client.Core(), core.KindFair, context.Background())
			again.Core().OwnedBy(o)
			require.False(t, r.ReenterBy(again), "so would it")
			if name == "it is lost, too" {
				r.Client.Watchdog.Lose(&g.Guard, watchdog.ErrRefused)
				goOn()
				w.Events.Wait()
				require.True(t, w.Events.TakeIf(engine.Given))
				require.ErrorIs(t, w.For.Lease.Core().Ended(), failure.ErrLost)
				require.False(t, x.Events.TakeIf(engine.Given), "the watchdog does not know its lease")
				r.Leave(x)
				return
			}
			if name == "the caller has left" {
				op, err := g.End(w.For.Lease)
				require.NoError(t, err)
				require.NotNil(t, op, "it is released")
				require.Nil(t, after.Granted())
				r.SendRelease(op, true)
				goOn()
				return
			}
			goOn()
			for _, waiter := range []*resource.Waiter{w, x} {
				waiter.Events.Wait()
				require.True(t, waiter.Events.TakeIf(engine.Given))
			}
			require.ErrorIs(t, lost.Core().Ended(), watchdog.ErrRefused)
			require.NoError(t, g.Unlock(x.For.Lease))
			require.NoError(t, g.Unlock(w.For.Lease))
			require.Same(t, g, after.Granted())
			_ = g.Unlock(after.Own.Waiter.For.Lease) // Redis does not have it
		})
	}
}

// The tickets that follow in a grant stand in the queue of Redis until the release of the grant names them. They are forgotten after that
// release, and withdrawn where there is none.
func TestFairTicket_WhoFollowedLeavesTheQueue(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		state engine.TicketState
		ends  func(t *testing.T, r *policy.Fair, g *resource.Grant, l *leases.Lease)
	}{
		"by the release": {engine.TicketDone, func(t *testing.T, r *policy.Fair, g *resource.Grant, l *leases.Lease) {
			redistest.Shared(t).Do("HSET", r.Key, r.Owner(g.Ticket), "1")
			require.NoError(t, g.Unlock(l))
		}},
		"after a release that has failed": {engine.TicketWithdrawing, func(t *testing.T, r *policy.Fair, g *resource.Grant, l *leases.Lease) {
			r.Mu.Lock()
			g.Ticket.OutcomeUnknown = true
			r.Mu.Unlock()
			redistest.Shared(t).Do("SET", r.Key, "of another type")
			require.Error(t, g.Unlock(l))
		}},
		"after the loss of the grant": {engine.TicketWithdrawing, func(t *testing.T, r *policy.Fair, g *resource.Grant, l *leases.Lease) {
			r.Client.Watchdog.Lose(&g.Guard, watchdog.ErrRefused)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := testedFair(t)
			g, b := follows(r, t)
			l := b.Own.Waiter.For.Lease
			test.ends(t, r, g, l)
			require.Equal(t, test.state, stateOf(&b.Ticket))
			require.Eventually(t, func() bool { return !knows(r.Client, b.Number) }, 10*time.Second, time.Millisecond)
			redistest.Shared(t).Do("DEL", r.Key)
			_ = g.Unlock(l) // if it is not unlocked yet
		})
	}
}

// The queue in Redis is gone, as the answer to one waiter says: the others ask again.
func TestFairTicket_WhoseQueueIsGoneAsksAgain(t *testing.T) {
	t.Parallel()
	r := testedFair(t)
	tk, other := enters(r, t), enters(r, t)
	op, w := request(tk), other.Own.Waiter
	r.Mu.Lock()
	tk.Asking, other.Standing = 1, true
	tk.To(engine.TicketAsking)
	other.To(engine.TicketQueued)
	r.Mu.Unlock()
	r.Settle(op, time.Now(), protocol.Verdict{Wait: 1000, At: time.Now(), Unplaced: true}, false, nil)
	ev, ok := w.NextEvent()
	require.True(t, ok, "it waits for nothing")
	require.Equal(t, engine.Reason, ev.Kind)
	r.Leave(tk.Own.Waiter)
	r.Leave(w)
}
