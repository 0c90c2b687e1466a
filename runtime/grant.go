package lockrt

import (
	"errors"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// A grant is a granted ticket. It goes from waiter to waiter until it is released or lost.
type grant struct {
	grantCore

	resource *resource
	ticket   *ticket
	since    monotonic.Time // when Redis was last asked for other waiters

	passed int32 // number of times it went to another call without a request to Redis
	handed bool  // it came from another process of this library, so the next turn is Redisson's
	near   bool  // another process of this library wanted the key a moment ago
}

func (*grant) Kind() string               { return kindMutex }
func (g *grant) Owner() string            { return g.resource.c.wire.Owner(g.ticket.Number) }
func (g *grant) core() *engine.TicketCore { return &g.ticket.TicketCore }

func (g *grant) reenter(outer, l *Lease) bool { return g.resource.reenter(g, outer, l) }

// succeed gives the grant to l in place of outer, if no other lease has it, and reports whether it
// did.
func (g *grant) succeed(outer, l *Lease) bool {
	r := g.resource
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shut || r.grant != g || outer.unlocked.Load() || outer.ended() != nil || !g.leases.only(outer) {
		return false
	}
	outer.unlocked.Store(true)
	g.leases.remove(outer)
	g.attach(g, l)
	return true
}

// expire stops the renewal of the grant, unless another lease gets it or has entered it: l, its only lease, is of no
// use.
func (g *grant) expire(l *Lease) {
	r := g.resource
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.grant == g && g.leases.only(l) {
		g.more().limit = 1 // the next holder has a limit of its own
		r.c.watchdog.Limit(&g.guard, now())
	}
}

// keep ends l and leaves the key locked.
func (g *grant) keep(l *Lease) {
	l.end(ErrReleased)
	r := g.resource
	r.mu.Lock()
	defer r.mu.Unlock()
	g.rest()
}

// rest records that no caller works under g any more, if that is so.
func (g *grant) rest() {
	if r := g.resource; r.grant == g && !g.idle && !g.worked() {
		g.idle = true
		r.c.held(-1)
	}
}

// unlock ends l. The last lease of a grant passes it on or frees it.
func (g *grant) unlock(l *Lease) error {
	op, err := g.end(l)
	if op == nil {
		return err
	}
	g.resource.free(op)
	return op.outcome(l)
}

// end ends l. If that was the last lease and no caller of this process can have the grant, it returns the release to
// send to Redis; else the result.
func (g *grant) end(l *Lease) (*releaseOp, error) {
	r := g.resource
	if l.unlocked.Swap(true) {
		return nil, ErrReleased
	}
	l.end(ErrReleased) // before another caller can get it

	r.mu.Lock()
	g.leases.remove(l)
	if outer := g.leases.first; outer != nil {
		if !g.idle && outer.ended() != nil {
			g.rest()
		}
		lost := g.rare().lost
		r.mu.Unlock()
		return nil, lost
	}
	if lost := g.rare().lost; lost != nil {
		defer r.mu.Unlock()
		g.withdrawLost()
		return nil, lost
	}
	next := r.Queue.First
	if next != nil && r.canPass(g, next) && !errors.Is(l.ended(), ErrLost) {
		g.passed++
		r.c.counts.local.Add(1)
		r.leaseOf(next).came = fromHere
		if g.idle {
			g.idle = false
			r.c.held(1)
		}
		r.assign(next)
		r.mu.Unlock()
		return nil, nil
	}
	if g.linger() != nil && next == nil && !errors.Is(l.ended(), ErrLost) && g.beginLinger() {
		r.mu.Unlock()
		return nil, nil
	}
	op := r.endGrant(g, next)
	r.mu.Unlock()
	return op, nil
}

// endGrant ends the grant, and returns its release. That may grant the key again, for next, the head of the queue or nil.
func (r *resource) endGrant(g *grant, next *waiter) *releaseOp {
	r.grant = nil
	r.Busy++
	g.state.To(engine.GrantReleasing)
	g.ticket.To(engine.TicketReleasing)
	g.linger().stop()
	r.c.watchdog.Stop(&g.guard)
	if g.ticket.rare().settled == nil { // otherwise the release comes after the answer to its request
		r.c.traces(trace.Unlocks, r.key, g.ticket.Number)
	}
	op := newReleaseOp(r, g.ticket, g)
	if next != nil && r.c.granting() && r.c.attends(r.key) {
		op.again, op.terms = r.ticketFor(next.Terms), next.Terms
		op.again.follows(g.ticket)
		op.again.Standing = true
		op.again.To(engine.TicketQueued)
	}
	op.plain = op.again == nil && !g.ticket.OthersWait && !g.ticket.Standing
	return op
}

// withdrawLost has Redis release a lost grant that no caller works under any more, if Redis may still have it for us, or
// may get it again.
func (g *grant) withdrawLost() {
	if g.ticket.OutcomeUnknown || g.ticket.rare().settled != nil || !errors.Is(g.rare().lost, watchdog.ErrRefused) {
		g.resource.withdraw(g.ticket)
	}
}

func (g *grant) remove(cause error) {
	r := g.resource
	r.grant = nil
	r.Busy++ // the next waiter asks when the present holder knows
	g.linger().stop()
	if errors.Is(cause, watchdog.ErrRefused) {
		r.c.traces(trace.Lost, r.key, g.ticket.Number)
	} else {
		r.c.traces(trace.RunsOut, r.key, g.ticket.Number)
	}
	if g.leases.first == nil { // it lingered
		g.withdrawLost()
	}
}

func (g *grant) notified() { g.resource.Continue(g.resource) }

func (g *grant) outlived() {
	if g.ticket.ttl > g.guard.TTL { // Redis may have it for longer than its last holder asked for
		g.on.mu.Lock()
		defer g.on.mu.Unlock()
		g.resource.withdraw(g.ticket)
	}
}

func (g *grant) deleted() {
	_, _ = withdrawer{g.on.c, kindMutex, g.on.key}.mutex([]*engine.Withdrawal{{Number: g.ticket.Number, Tokens: int(g.ticket.inLine)}})
}

// promote turns the ticket into a grant and starts its renewal. Redis granted it no earlier than at from, for ttl at
// first.
func (r *resource) promote(how trace.Action, tk *ticket, t engine.Terms, from time.Time, ttl time.Duration) *grant {
	r.c.tracesGrant(how, r.key, tk.Number, from, ttl, tk.rare().tokens.Next)
	tk.To(engine.TicketGranted)
	tk.UnclaimedGrant = false
	g := &grant{grantCore: grantCore{on: &r.referenced}, resource: r, ticket: tk, since: monotonic.Now()}
	g.agree(t)
	g.near = r.c.contended.Lately(r.key, g.since.Std())
	r.ticket = nil
	r.grant = g
	r.Answers.Changes()
	if tk.extra != nil {
		tk.extra.recheck.Stop()
	}
	g.start(g, from, ttl)
	return g
}

// assign hands the grant to w, the head of the queue.
func (r *resource) assign(w *waiter) {
	r.Queue.Remove(w)
	w.Place.State = engine.PlaceGranted
	r.grant.tokenPending = w.Follows && w.Terms.Fenced
	l := r.leaseOf(w)
	if w.Terms.Fenced {
		l.token = r.grant.ticket.more().tokens.Take()
	}
	r.grant.attach(r.grant, l)
	r.grant.limitTo(w.Limit, l)
	r.grant.lingersFor(time.Duration(w.Linger) * time.Microsecond)
	w.Notify(engine.Event{Kind: engine.Given}) // from here on another call may use w
	if l.owner == nil {
		return
	}
	r.Queue.Each(func(v *waiter) {
		if v.For.lease != nil && v.For.lease.owner == l.owner { // waiters of one owner enter together
			r.Queue.Remove(v)
			v.Place.State = engine.PlaceGranted
			r.grant.attach(r.grant, v.For.lease)
			v.Notify(engine.Event{Kind: engine.Given})
		}
	})
}

// While no other process is known to wait, a grant may circulate in a process for this long before
// the process asks Redis whether that is still so.
const localPassLimit = 10 * time.Millisecond

// Within a second after another process wanted the key, the process asks this often: where goroutines pass a grant on
// without a pause, Go reads the message that another process wants it too late.
const nearPassLimit = 500 * time.Microsecond

// canPass reports whether w can have the grant as it is, in its turn.
func (r *resource) canPass(g *grant, w *waiter) bool {
	if !r.c.canPass(&g.guard, g.terms(), w.Terms, g.ticket.rare().tokens) {
		return false
	}
	if g.ticket.java > 0 {
		return int(g.passed)+1 < min(r.c.opts.Cohort, cohortBesideJava)
	}
	if r.c.opts.Cohort == 1 || g.ticket.OthersWait || !r.c.heard() {
		return int(g.passed)+1 < r.c.opts.Cohort
	}
	return monotonic.Since(g.since) < g.passLimit()
}

// passLimit returns for how long g may circulate.
func (g *grant) passLimit() time.Duration {
	if g.near {
		return nearPassLimit
	}
	return localPassLimit
}

// canPass reports whether a hold on some terms can be passed on to a waiter that wants others: with enough trust left, and as
// passesTo says.
func (c *Client) canPass(guard *watchdog.Lease, held, wanted engine.Terms, left engine.Tokens) bool {
	return c.canPassAt(monotonic.Now(), guard, held, wanted, left)
}

// canPassAt is canPass at the time at, which is now.
func (c *Client) canPassAt(at monotonic.Time, guard *watchdog.Lease, held, wanted engine.Terms, left engine.Tokens) bool {
	return held.PassesTo(wanted, left) && c.granting() &&
		!guard.Extended() && // a holder's extension is not for the next one
		guard.TrustedAt(at.Add(min(held.TTL, handOverLease)/3))
}
