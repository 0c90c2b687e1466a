package lockrt

import (
	"errors"
	"slices"
	"time"

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

	passed       int32 // number of times it went to another goroutine without a request to Redis
	handed       bool  // it came from another process of this library, so the next turn is Redisson's
	idle         bool  // no caller works under it, it only stays locked for a while; Shutdown does not wait for it
	tokenPending bool  // the token of a RedLock is not known yet
}

func (*grant) Kind() string       { return kindMutex }
func (g *grant) Owner() string    { return g.resource.c.wire.Owner(g.ticket.n) }
func (g *grant) Lost(cause error) { g.resource.revoke(g, cause) }

// reenter makes l one more lease of the grant, if outer still has it.
func (g *grant) reenter(outer, l *Lease) bool {
	r := g.resource
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shut || r.grant != g || outer.unlocked.Load() || outer.ended() != nil {
		return false
	}
	g.attach(g, l)
	return true
}

// succeed gives the grant to l in place of outer, if no other lease has it, and reports whether it
// did.
func (g *grant) succeed(outer, l *Lease) bool {
	r := g.resource
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shut || r.grant != g || outer.unlocked.Load() || outer.ended() != nil || len(g.leases) != 1 || g.leases[0] != outer {
		return false
	}
	outer.unlocked.Store(true)
	g.leases = g.leases[:0]
	g.attach(g, l)
	return true
}

// reenterBy makes l one more lease of the present grant, if its owner has that.
func (r *resource) reenterBy(l *Lease) bool {
	if l.owner == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ownedBy(l.owner) {
		return false
	}
	r.grant.attach(r.grant, l)
	return true
}

// expire stops the renewal of the grant, unless another lease gets it or has entered it: l, its only lease, is of no
// use.
func (g *grant) expire(l *Lease) {
	r := g.resource
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.grant == g && len(g.leases) == 1 && g.leases[0] == l {
		g.limit = 1 // the next holder has a limit of its own
		r.c.watchdog.Limit(&g.guard, now())
	}
}

// ownedBy reports whether o has the present grant.
func (r *resource) ownedBy(o *Owner) bool {
	g := r.grant
	return o != nil && !r.shut && g != nil && g.lost == nil && !g.tokenPending && g.worked() && g.leases[0].owner == o
}

// held returns the present grant, or nil.
func (r *resource) held() *grant {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.grant
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

// worked reports whether a caller works under g.
func (g *grant) worked() bool {
	return slices.ContainsFunc(g.leases, func(l *Lease) bool { return l.ended() == nil })
}

// drop counts one grant less, unless that is done already.
func (g *grant) drop() {
	r := g.resource
	r.mu.Lock()
	idle := g.idle
	r.mu.Unlock()
	if !idle {
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
	g.detach(l)
	if len(g.leases) > 0 {
		if !g.idle && g.leases[0].ended() != nil {
			g.rest()
		}
		lost := g.lost
		r.mu.Unlock()
		return nil, lost
	}
	if g.lost != nil {
		defer r.mu.Unlock()
		if g.ticket.outcomeUnknown || g.ticket.rare().settled != nil || !errors.Is(g.lost, watchdog.ErrRefused) {
			// Redis may still have it for us, or may get it again. It is not needed any more.
			r.withdraw(g.ticket)
		}
		return nil, g.lost
	}
	next := r.head()
	if r.canPass(g, next) && !errors.Is(l.ended(), ErrLost) {
		g.passed++
		r.c.counts.local.Add(1)
		next.lease.came = fromHere
		if g.idle {
			g.idle = false
			r.c.held(1)
		}
		r.assign(next)
		r.mu.Unlock()
		return nil, nil
	}
	r.grant = nil
	r.busy++
	g.to(grantReleasing)
	g.ticket.to(ticketReleasing)
	r.c.watchdog.Stop(&g.guard)
	if g.ticket.rare().settled == nil { // otherwise the release comes after the answer to its request
		r.c.traces(trace.Unlocks, r.key, g.ticket.n)
	}
	op := newReleaseOp(r, g.ticket, g)
	if next != nil && r.c.granting() && r.c.attends(r.key) {
		op.again, op.terms = r.ticketFor(next.terms), next.terms
		op.again.standing = true
		op.again.to(ticketQueued)
	}
	op.plain = op.again == nil && !g.ticket.othersWait && !g.ticket.standing
	r.mu.Unlock()
	return op, nil
}

// revoke ends the leases of a grant that Redis has for another owner now, or may have soon.
func (r *resource) revoke(g *grant, cause error) {
	r.mu.Lock()
	if r.grant != g {
		r.mu.Unlock()
		return // it is being released
	}
	r.grant = nil
	r.busy++ // the next waiter asks when the present holder knows
	g.lost = lost(cause)
	g.to(grantLost)
	g.ticket.to(ticketDone)
	if errors.Is(cause, watchdog.ErrRefused) {
		r.c.traces(trace.Lost, r.key, g.ticket.n)
	} else {
		r.c.traces(trace.RunsOut, r.key, g.ticket.n)
	}
	late := *g.ticket
	r.mu.Unlock()

	r.notifyLoss(g, lost(cause))
	if errors.Is(cause, watchdog.ErrRefused) {
		// The deletion of the key notified no waiter.
		r.c.spawn(func() { _ = r.c.releaseOnce(r.key, &late) })
	}
}

// notifyLoss ends the leases of a lost grant, and then continues the queue.
func (r *resource) notifyLoss(g *grant, cause error) {
	g.endLeases(cause)
	r.mu.Lock()
	first := g.state == grantLost
	if first {
		g.to(grantNotified)
		r.busy--
		r.promptHead()
	}
	r.mu.Unlock()
	if first {
		r.c.depart(g.ticket.n, &g.guard, cause, func() {
			if g.ticket.ttl > g.terms.ttl { // Redis may have it for longer than its last holder asked for
				r.lockAndWithdraw(g.ticket)
			}
		})
		g.drop()
		r.quit()
	}
}

// promote turns the ticket into a grant and starts its renewal. Redis granted it no earlier than at from, for ttl at
// first.
func (r *resource) promote(how trace.Action, tk *ticket, t terms, from time.Time, ttl time.Duration) *grant {
	r.c.tracesGrant(how, r.key, tk.n, from, ttl, tk.rare().tokens.next)
	tk.to(ticketGranted)
	tk.unclaimedGrant = false
	g := &grant{grantCore: grantCore{on: &r.referenced, mu: &r.mu, terms: t}, resource: r, ticket: tk, since: monotonic.Now()}
	r.ticket = nil
	r.grant = g
	r.answers.changes()
	if x := tk.extra; x != nil && x.recheck != nil {
		x.recheck.Stop()
	}
	g.start(g, from, ttl)
	return g
}

// assign hands the grant to w, the head of the queue.
func (r *resource) assign(w *waiter) {
	r.queue.remove(w)
	w.place.state = placeGranted
	r.grant.tokenPending = w.follows && w.terms.fenced
	if w.terms.fenced {
		w.lease.token = r.grant.ticket.more().tokens.take()
	}
	r.grant.attach(r.grant, w.lease)
	r.grant.limitTo(w)
	owner := w.lease.owner
	w.notify(event{kind: given}) // from here on another call may use w
	if owner == nil {
		return
	}
	for v := r.queue.first; v != nil; { // waiters of one owner enter together
		next := v.place.after
		if v.lease.owner == owner {
			r.queue.remove(v)
			v.place.state = placeGranted
			r.grant.attach(r.grant, v.lease)
			v.notify(event{kind: given})
		}
		v = next
	}
}

// While no other process is known to wait, a grant may circulate in a process for this long before
// the process asks Redis whether that is still so.
const localPassLimit = 10 * time.Millisecond

// canPass reports whether w can have the grant as it is, in its turn.
func (r *resource) canPass(g *grant, w *waiter) bool {
	if w == nil || !r.c.canPass(&g.guard, g.terms, w.terms, g.ticket.rare().tokens) {
		return false
	}
	if r.c.opts.Cohort == 1 || g.ticket.othersWait || !r.c.heard() {
		return int(g.passed)+1 < r.c.opts.Cohort
	}
	return monotonic.Since(g.since) < localPassLimit
}

// canPass reports whether a hold on some terms can be passed on to a waiter that wants others: only on the same terms,
// and with enough trust left. A lease of fixed length cannot be passed on, since the next holder is promised all of it.
func (c *Client) canPass(guard *watchdog.Lease, held, wanted terms, left tokens) bool {
	return wanted == held && held.renew && (!wanted.fenced || left.left > 0) && c.granting() &&
		!guard.Extended() && // a holder's extension is not for the next one
		time.Until(guard.Until()) >= min(held.ttl, handOverLease)/3
}
