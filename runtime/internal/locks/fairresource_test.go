package locks

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// The tests below force orders of events that no test from outside can force.

// testedFairResource returns the resource of a key that nobody has. With tracking the client would soon look whether the server has what
// a test gives a ticket by have, and lose it.
func testedFairResource(t *testing.T) *fairResource {
	t.Helper()
	c, err := opened(t.Context(), redistest.Shared(t).URL(), Settings{OpTimeout: time.Minute}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	r, err := c.fairs.enter(redistest.Key(t, "k"), false)
	require.NoError(t, err)
	t.Cleanup(r.exit)
	return r
}

// enters returns a ticket that somebody waits with.
func (r *fairResource) enters(t *testing.T) *fairTicket {
	t.Helper()
	cfg, err := configure(r.c.core(), nil, nil)
	require.NoError(t, err)
	w := newWaiter(context.Background(), newLease(r.c.core(), kindFair, r.key, context.Background()), cfg)
	require.Equal(t, toAsk, r.join(w))
	return fairTicketFrom(w.For.ticket)
}

// request returns a request for tk, by a call that has gone if no call waits with tk.
func (tk *fairTicket) request() *acquireOp {
	w := tk.own.w
	if w == nil {
		w = engine.NewWaiter[wish]()
	}
	w.Asks.Add(1)
	return &acquireOp{w: w, ticket: &tk.ticket, terms: tk.terms}
}

// have gives tk the lock, as if Redis had said that those behind have it next.
func (r *fairResource) have(tk *fairTicket, behind ...*fairTicket) *grant {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range behind {
		tk.behind = append(tk.behind, x.Number)
	}
	tk.To(engine.TicketAsking)
	r.promote(trace.Granted, &tk.ticket, tk.own.w, time.Now(), tk.ttl)
	return r.grant
}

// inRedis reports whether some owner has the lock.
func (r *fairResource) inRedis(t *testing.T) bool {
	t.Helper()
	n, err := redistest.Shared(t).Do("EXISTS", r.key).ToInt64()
	require.NoError(t, err)
	return n > 0
}

// refusal is what Redis says to one that is to wait.
func refusal() protocol.Verdict {
	return protocol.Verdict{Wait: 1000, At: time.Now().Truncate(time.Second)}
}

// One that is given what is lost, and gives up before it knows, while a request of it is under way, leaves once.
func TestFairResource_WhoGivesUpWhatIsLostLeavesOnce(t *testing.T) {
	t.Parallel()
	r := testedFairResource(t)
	a, b := r.enters(t), r.enters(t)
	b.Standing, b.asking = true, 1
	b.To(engine.TicketAsking)
	g := r.have(a, b)
	require.NoError(t, g.unlock(a.own.w.For.lease))
	require.Same(t, g, b.granted())
	r.c.watchdog.Lose(&g.guard, watchdog.ErrRefused)
	r.leave(b.own.w)
	r.settle(b.request(), time.Now(), refusal(), false, nil)
	for _, tk := range []*fairTicket{a, b} {
		require.Eventually(t, func() bool { return !r.c.knows(tk.Number) }, 10*time.Second, time.Millisecond, "it is withdrawn")
	}
}

// knows reports whether the ticket n has a subscriber.
func (c *clientLine) knows(n uint64) bool {
	_, known, _ := c.subscribers.Find(n)
	return known
}

// A ticket whose grant came too late has lost its place, and the followers in that grant are not valid any more.
func TestFairResource_WhoFollowsIsForgottenWithTheGrant(t *testing.T) {
	t.Parallel()
	r := testedFairResource(t)
	a, b := r.enters(t), r.enters(t)
	b.Standing = true
	past := time.Now().Add(-10 * time.Second)
	a.Sees(engine.SightingOf(past, past))
	a.handed(protocol.Message{Granted: past.Add(time.Second), Behind: []uint64{b.Number}})
	require.Nil(t, a.granted())
	r.settle(a.request(), time.Now(), refusal(), false, nil)
	g := r.have(a)
	_ = g.unlock(a.own.w.For.lease) // Redis does not have it
	require.Nil(t, b.granted())
	r.leave(b.own.w)
}

// A grant that Redis is known to have for another owner is not passed on.
func TestFairResource_WhatIsLostIsNotPassedOn(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(r *fairResource, g *grant, other *fairTicket){
		"granted to another claim": func(r *fairResource, _ *grant, other *fairTicket) {
			r.mu.Lock()
			defer r.mu.Unlock()
			other.To(engine.TicketAsking)
			r.promote(trace.Granted, &other.ticket, other.own.w, time.Now(), other.ttl)
		},
		"known to have been taken": func(_ *fairResource, g *grant, _ *fairTicket) { fairTicketFrom(g.ticket).behind = nil },
		"told to its holder":       func(_ *fairResource, g *grant, _ *fairTicket) { g.endLeases(lost(watchdog.ErrRefused)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := testedFairResource(t)
			a, b, other := r.enters(t), r.enters(t), r.enters(t)
			g := r.have(a, b)
			lose(r, g, other)
			_ = g.unlock(a.own.w.For.lease) // Redis does not have it
			require.Nil(t, b.granted())
			r.leave(b.own.w)
			r.leave(other.own.w)
		})
	}
}

// A call takes over a ticket of which two requests are under way. The later one was refused before, and the earlier one fails: the call
// has to ask, since it gets no other answer.
func TestFairResource_WhoTakesOverATicketHearsOfAnOldFailure(t *testing.T) {
	t.Parallel()
	r := testedFairResource(t)
	tk := r.enters(t)
	r.mu.Lock()
	tk.Standing, tk.asked, tk.asking = true, true, 2
	tk.To(engine.TicketAsking)
	r.mu.Unlock()
	first := time.Now()
	r.leave(tk.own.w)
	r.settle(tk.request(), first.Add(time.Millisecond), refusal(), false, nil)
	w := newWaiter(context.Background(), newLease(r.c.core(), kindFair, r.key, context.Background()), lockConfig{wait: UntilDone, Terms: tk.terms})
	require.Equal(t, toWait, r.join(w))
	require.Same(t, &tk.ticket, w.For.ticket)
	r.settle(tk.request(), first, protocol.Verdict{}, false, errors.New("the connection broke"))
	ev, ok := w.NextEvent()
	require.True(t, ok, "it waits for nothing")
	require.Equal(t, engine.Turn, ev.Kind)
	r.leave(w)
}

// No ticket follows in a grant that was taken by force, also if it is granted at the same moment.
func TestFairResource_WhatIsTakenWhileItIsGrantedIsNotPassedOn(t *testing.T) {
	t.Parallel()
	r := testedFairResource(t)
	for range 1000 {
		tk := r.enters(t)
		r.mu.Lock()
		tk.asking, tk.asked, tk.behind = 1, true, []uint64{1 << 40}
		tk.To(engine.TicketAsking)
		w, both := tk.own.w, sync.WaitGroup{}
		r.mu.Unlock()
		both.Go(func() { tk.taken() })
		both.Go(func() { r.settle(tk.request(), time.Now(), protocol.Verdict{Wait: protocol.Granted}, false, nil) })
		both.Wait()
		r.mu.Lock()
		granted, behind := tk.granted() != nil, tk.behind
		r.mu.Unlock()
		require.False(t, granted && behind != nil)
		r.leave(w)
	}
}

// A ticket was handed the lock during a request, which is refused: its grant is lost, and no other one that this process has, or had, since.
func TestFairResource_ARefusalIsNotForTheNextGrant(t *testing.T) {
	t.Parallel()
	r := testedFairResource(t)
	tk, other := r.enters(t), r.enters(t)
	r.mu.Lock()
	tk.asking = 2
	tk.To(engine.TicketAsking)
	r.mu.Unlock()
	at := time.Now().Truncate(time.Second)
	tk.handed(protocol.Message{Number: tk.Number, Granted: at.Add(-time.Millisecond)})
	var release *releaseOp
	func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		require.Same(t, tk, r.first())
		other.To(engine.TicketAsking)
		r.promote(trace.Granted, &other.ticket, other.own.w, time.Now(), other.ttl) // the holder of tk is about to know that it is lost
		release = r.endGrant(r.grant)                                               // the other call gives up
		require.True(t, r.overtaken(tk.request(), protocol.Verdict{Wait: 1000, At: at}, nil))
	}()
	r.sendRelease(release, true)
	_ = release.outcome(nil) // Redis does not have it
	_ = tk.own.w.For.lease.grant.unlock(tk.own.w.For.lease)
}

// A try gives up, and is withdrawn before its request arrives at the server. When the server has granted it, it is withdrawn again.
func TestFairResource_WhatIsGrantedAfterItsWithdrawalIsWithdrawnAgain(t *testing.T) {
	t.Parallel()
	r := testedFairResource(t)
	tk := r.enters(t)
	r.mu.Lock()
	tk.asking, tk.asked = 1, true
	tk.To(engine.TicketAsking)
	r.mu.Unlock()
	sent := time.Now()
	op := tk.request()
	tk.own.w.Call.Wait = 0
	r.leave(tk.own.w)
	require.Eventually(t, func() bool { return !r.c.knows(tk.Number) }, 10*time.Second, time.Millisecond, "it is withdrawn")

	reply := r.c.net.Run(r.lock.Acquire(protocol.FairRequest{Owner: r.owner(&tk.ticket), Queue: protocol.NotQueued, Lease: time.Hour, Wait: tk.wait}, time.Now()))
	require.True(t, r.inRedis(t))
	verdict, err := r.read(&tk.ticket, reply)
	r.settle(op, sent, verdict, false, err)
	require.Eventually(t, func() bool { return !r.inRedis(t) }, 10*time.Second, time.Millisecond, "it is withdrawn again")
}

// A lease whose time is over before a renewal was confirmed is lost, and Redis may have the lock still, since a renewal may have had no
// answer: the holder gives it back, whether it has waited for it or not.
func TestFairMutex_WhatIsLostByTimeIsGivenBack(t *testing.T) {
	t.Parallel()
	r := testedFairResource(t)
	for name, lock := range map[string]func(*FairMutex) (*Lease, error){
		"waited":       func(m *FairMutex) (*Lease, error) { return m.Lock(t.Context()) },
		"did not wait": func(m *FairMutex) (*Lease, error) { return m.TryLock(t.Context()) },
	} {
		lease, err := lock(r.c.face.(*Client).FairMutex(r.key, WithLease(time.Hour)))
		require.NoError(t, err)
		r.c.watchdog.Lose(lease.guard, watchdog.ErrElapsed)
		require.True(t, r.inRedis(t))
		require.ErrorIs(t, lease.Unlock(t.Context()), failure.ErrLost)
		require.Eventually(t, func() bool { return !r.inRedis(t) }, 10*time.Second, time.Millisecond, name)
	}
}
