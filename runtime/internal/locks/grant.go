package locks

import (
	"errors"
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/fleet"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/runtime/observe"
)

// A grant is a granted ticket: the hold of this process in Redis. Leases enter it and leave it, it goes from waiter to waiter, and a
// guard renews it, until it is released or lost.
type grant struct {
	guard  watchdog.Lease // has a part of the terms
	ticket *ticket        // that Redis has it for; the lock of its resource guards the rest
	first  *Lease         // of its leases, see leaselist.go; or nil
	extra  *grantExtra    // nil for most grants

	state           engine.GrantState
	idle            bool // no caller works under it, it only stays locked for a while; Shutdown does not wait for it
	tokenPending    bool // the token of a RedLock is not known yet
	fenced, polling bool // of the terms
	handed          bool // it came with the release of another grant, of this process or of another one of this library: the next turn is Redisson's
	near            bool // another process wanted the key, or had it, a moment ago
	shown           bool // a reader's ticket names it to Redis, which admits the reader under it, whichever call has the grant by then
}

// A grantExtra is what few grants have.
type grantExtra struct {
	others []*Lease      // besides the first
	passed int           // number of times it went to another call without a request to Redis
	limit  time.Duration // of the present holder: WithMaxHold, or 0
	lost   error         // why the watchdog gave up, or nil
	early  *grant        // the one before, while its holder does not know yet that it is lost
}

// rare returns the extra of the grant as it is.
func (g *grant) rare() grantExtra {
	if g.extra == nil {
		return grantExtra{}
	}
	return *g.extra
}

// more returns the extra of the grant, to change it.
func (g *grant) more() *grantExtra {
	if g.extra == nil {
		g.extra = new(grantExtra)
	}
	return g.extra
}

// agree sets the terms of a new grant.
func (g *grant) agree(t engine.Terms) {
	g.guard.TTL, g.guard.Renew, g.fenced, g.polling = t.TTL, t.Renew, t.Fenced, t.Polling
}

// terms returns the terms of the grant.
func (g *grant) terms() engine.Terms {
	return engine.Terms{TTL: g.guard.TTL, Renew: g.guard.Renew, Fenced: g.fenced, Polling: g.polling}
}

// on returns the resource of the grant, whose lock guards it.
func (g *grant) on() *lineCore { return g.ticket.r }

func (g *grant) Key() string { return g.on().key }

// worked reports whether a caller works under g.
func (g *grant) worked() bool {
	for l := range g.leases {
		if l.ended() == nil {
			return true
		}
	}
	return false
}

// attach makes l a lease of the grant: the first, or a reentry.
func (g *grant) attach(l *Lease) {
	if outer := g.first; outer != nil {
		l.token, l.came = outer.token, fromItself
	}
	l.begin(g, &g.guard)
	g.add(l)
}

// limitTo ends the renewal of the grant when l has had it for hold; never, for 0.
func (g *grant) limitTo(hold time.Duration, l *Lease) {
	if hold == 0 && g.rare().limit == 0 {
		return
	}
	g.more().limit = hold
	var at time.Time
	if hold > 0 {
		at = l.began.Add(hold).Std()
	}
	g.on().c.watchdog.Limit(&g.guard, at)
}

// endLeases ends the leases because of cause.
func (g *grant) endLeases(cause error) {
	g.on().mu.Lock()
	leases := slices.Collect(g.leases)
	g.on().mu.Unlock()
	for _, l := range leases {
		l.end(cause)
	}
}

// bearer returns the first of the leases that have it at present, or nil.
func (g *grant) bearer() *leaseCore {
	g.on().mu.Lock()
	defer g.on().mu.Unlock()
	if g.first == nil {
		return nil
	}
	return &g.first.leaseCore
}

// promote turns the ticket into a grant, has it guarded, and gives it to w, whose wait ends. Redis granted it no earlier than at from,
// for ttl at first.
func (r *lineCore) promote(how trace.Action, tk *ticket, w *waiter, from time.Time, ttl time.Duration) *grant {
	tk.tracesGrant(how, from, ttl)
	tk.To(engine.TicketGranted)
	tk.UnclaimedGrant = false
	tk.end()
	g := &grant{ticket: tk}
	g.agree(w.Terms)
	g.guard.Holding = g
	old := r.kind.holds(g)
	r.Answers.Changes()
	r.stay()
	r.c.held(1)
	if !g.polling {
		r.c.hearFor(r.key)
	}
	r.c.watchdog.Start(&g.guard, from, ttl)
	r.serve(g, w)
	if old != nil {
		r.oust(old, g, w)
	} else {
		w.Notify(engine.Event{Kind: engine.Given}) // from here on another call may use w
	}
	return g
}

// oust has old lost, and then notifies w, which has g: Redis would not have granted g if it had old still.
func (r *lineCore) oust(old, g *grant, w *waiter) {
	g.more().early = old
	w.Asks.Add(1)
	r.c.spawn(func() {
		r.c.watchdog.Lose(&old.guard, watchdog.ErrRefused)
		old.endLeases(lost(watchdog.ErrRefused))
		r.mu.Lock()
		g.extra.early = nil
		r.mu.Unlock()
		w.Notify(engine.Event{Kind: engine.Given})
		w.Asks.Add(-1)
	})
}

// serve makes the lease of w one of g, and those of its owner's other waiters.
func (r *lineCore) serve(g *grant, w *waiter) {
	if w.Place.Queued() {
		r.Queue.Remove(w)
	}
	w.Place = engine.PlaceGranted
	l := r.leaseOf(w)
	if w.Terms.Fenced {
		l.token = g.ticket.more().tokens.Take()
	}
	g.tokenPending = w.Follows && w.Terms.Fenced
	g.attach(l)
	g.limitTo(w.Limit, l)
	if g.ticket.use == ticketOfHead { // keys of other kinds do not linger
		g.lingersFor(time.Duration(w.Linger) * time.Microsecond)
	}
	if l.rare().owner != nil {
		r.kind.admit(g, l.rare().owner)
	}
}

// give gives g to w, whose wait ends.
func (r *lineCore) give(g *grant, w *waiter) {
	r.serve(g, w)
	w.Notify(engine.Event{Kind: engine.Given}) // from here on another call may use w
}

// pass gives g to the next waiter of this process without a request, if there is one that may have it as it is, and reports whether it did.
func (r *lineCore) pass(g *grant) bool {
	w := r.kind.next(g)
	if w == nil {
		return false
	}
	g.more().passed++
	r.c.counts.local.Add(1)
	r.leaseOf(w).came = fromHere
	if g.idle {
		g.idle = false
		r.c.held(1)
	}
	r.give(g, w)
	return true
}

func (g *grant) Kind() string                 { return g.on().kind.name(g.ticket) }
func (g *grant) Owner() string                { return g.on().kind.owner(g.ticket) }
func (g *grant) reenter(outer, l *Lease) bool { return g.on().kind.reenter(g, outer, l) }

// unlock ends l. The last lease of a grant passes it on or frees it.
func (g *grant) unlock(l *Lease) error {
	op, err := g.end(l)
	if op == nil {
		return err
	}
	g.on().kind.sendRelease(op, true)
	return op.outcome(l)
}

// end ends l. If that was the last lease and no caller of this process can have the grant, it returns the release to
// send to Redis; else the result.
func (g *grant) end(l *Lease) (*releaseOp, error) {
	r := g.on()
	l.end(failure.ErrReleased) // before another caller can get it

	r.mu.Lock()
	defer r.mu.Unlock()
	if l.unlocked {
		return nil, failure.ErrReleased
	}
	l.unlocked = true
	g.remove(l)
	loss := g.rare().lost
	switch outer := g.first; {
	case outer != nil:
		if !g.idle && outer.ended() != nil {
			g.rest()
		}
	case loss != nil:
		g.forget()
	case errors.Is(l.ended(), failure.ErrLost):
		return r.endGrant(g), nil
	case r.pass(g), g.linger() != nil && g.beginLinger():
	default:
		return r.endGrant(g), nil
	}
	return nil, loss
}

// rest records that no caller works under g any more, if that is so.
func (g *grant) rest() {
	if g.state <= engine.GrantLingering && !g.idle && !g.worked() {
		g.idle = true
		g.on().c.held(-1)
	}
}

// endGrant ends the grant, and returns its release.
func (r *lineCore) endGrant(g *grant) *releaseOp {
	r.Busy++
	g.state.To(engine.GrantReleasing)
	g.ticket.To(engine.TicketReleasing)
	g.linger().stop()
	r.kind.remove(g, nil)
	r.c.watchdog.Stop(&g.guard)
	return r.releaseOf(g.ticket, g)
}

// forget has Redis release a lost grant that no caller works under any more, if Redis may still have it for us, or may get it again.
func (g *grant) forget() {
	refused := errors.Is(g.rare().lost, watchdog.ErrRefused)
	if tk := g.ticket; !refused || tk.OutcomeUnknown || tk.UnclaimedGrant || tk.asking > 0 {
		tk.UnclaimedGrant = tk.UnclaimedGrant || !refused
		g.on().kind.retire(tk)
	}
}

// taken has the grant lost, which Redis does not have any more. It does not block.
func (g *grant) taken() {
	g.on().c.spawn(func() { g.on().c.watchdog.Lose(&g.guard, watchdog.ErrRefused) })
}

// Lost revokes a grant that Redis has for another owner now, or may have soon: it ends the leases.
func (g *grant) Lost(cause error) {
	r := g.on()
	r.mu.Lock()
	if g.state > engine.GrantLingering {
		r.mu.Unlock()
		return // it is being released
	}
	r.Busy++ // the next waiter asks when the present holders know
	g.more().lost = lost(cause)
	g.state.To(engine.GrantLost)
	g.ticket.To(engine.TicketDone)
	g.linger().stop()
	r.kind.remove(g, cause)
	if g.first == nil { // it lingered
		g.forget()
	}
	r.mu.Unlock()

	g.notifyLoss(lost(cause))
	if errors.Is(cause, watchdog.ErrRefused) {
		r.c.spawn(func() { r.kind.deleted(g) })
	}
}

// notifyLoss ends the leases because of cause, and then continues the queue if the grant is lost.
func (g *grant) notifyLoss(cause error) {
	g.endLeases(cause)
	r := g.on()
	r.mu.Lock()
	first := g.state == engine.GrantLost
	if first {
		g.state.To(engine.GrantNotified)
		r.Continue(r.kind)
	}
	r.mu.Unlock()
	if !first {
		return
	}
	left := g.guard.Ends().Sub(now())
	if errors.Is(cause, watchdog.ErrRefused) {
		left = 0
	}
	r.c.subscribers.Depart(g.ticket.Number, left, g.outlived)
	if !g.idle {
		r.c.held(-1)
	}
	r.quit()
}

// outlived is called when the lease is over that its holder was promised.
func (g *grant) outlived() {
	if g.ticket.ttl > g.guard.TTL { // Redis may have it for longer than its last holder asked for
		g.on().mu.Lock()
		defer g.on().mu.Unlock()
		g.on().withdraw(g.ticket, g.ticket.ttl)
	}
}

// Show shows the leases of the grant, or that it lingers.
func (g *grant) Show() (s fleet.Shown) {
	g.on().mu.Lock()
	defer g.on().mu.Unlock()
	if g.state == engine.GrantLingering {
		return fleet.Shown{Since: g.linger().over.Add(-g.linger().d), Lingers: true}
	}
	for l := range g.leases {
		if s.Holds == 0 {
			s = fleet.Shown{Name: l.label.Name(), Since: l.began, Token: l.token, Ctx: l.parent}
		}
		s.Holds, s.Since = s.Holds+1, min(s.Since, l.began)
	}
	s.Queued = g.on().kind.queued()
	return s
}

// ownHolder returns the call of this Client that holds a lock, or nil. For a call that reads, that is one that writes.
func (c *clientLine) ownHolder(kind, key string) *observe.Holder {
	held := c.grantsOf(key)
	i := slices.IndexFunc(held, func(g *grant) bool {
		of := g.guard.Kind()
		return of == kind && of != kindRead || of == kindWrite && kind == kindRead || of == kindRead && kind == kindWrite
	})
	if i < 0 {
		return nil
	}
	g := held[i]
	s := g.Show()
	if s.Holds == 0 {
		return nil // for a moment between two holders
	}
	return &observe.Holder{Own: true, Process: c.fleet.Process(), Owner: g.guard.Owner(), Since: s.Since.Std(), Seen: now()}
}
