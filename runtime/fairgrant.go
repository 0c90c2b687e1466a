package lockrt

import (
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// A fairGrant is a ticket that was granted. It goes from waiter to waiter, as long as Redis has said who follows.
type fairGrant struct {
	grantCore

	resource *fairResource
	ticket   *fairTicket // that Redis has it for

	// Guarded by fairResource.mu.
	tokens engine.Tokens // the tokens that are left
	early  *fairGrant    // the one before, while its holder does not know yet that it is lost
}

func (*fairGrant) Kind() string               { return kindFair }
func (g *fairGrant) Owner() string            { return g.ticket.owner }
func (g *fairGrant) core() *engine.TicketCore { return &g.ticket.TicketCore }

func (g *fairGrant) reenter(outer, l *Lease) bool { return g.resource.reenter(g, outer, l) }

// promote turns the ticket into a grant, has it guarded and gives it to w. Redis granted it no earlier than at from, for ttl
// at first. It returns what is left to do without holding r.mu, or nil.
func (tk *fairTicket) promote(from time.Time, ttl time.Duration, drawn engine.Tokens) (rest func()) {
	r, w, t := tk.r, tk.call.w, tk.terms
	tk.To(engine.TicketGranted)
	tk.UnclaimedGrant = false
	g := &fairGrant{grantCore: grantCore{on: &r.referenced}, resource: r, ticket: tk, tokens: drawn}
	g.agree(t)
	old := r.grant
	r.grant, g.early = g, old
	g.start(g, from, ttl)
	g.assign(tk)
	if old == nil {
		w.Notify(engine.Event{Kind: engine.Given}) // from here on another call may use w
		return nil
	}
	w.Asks.Add(1)   // w is notified later
	return func() { // Redis would not have granted it, if the other one had it still
		r.c.watchdog.Lose(&old.guard, watchdog.ErrRefused)
		old.endLeases(lost(watchdog.ErrRefused))
		r.mu.Lock()
		g.early = nil
		r.mu.Unlock()
		w.Notify(engine.Event{Kind: engine.Given})
		w.Asks.Add(-1)
	}
}

// assign makes the lease of who waits with tk the first one of g. Then the waiter can be notified.
func (g *fairGrant) assign(tk *fairTicket) {
	r, w := g.resource, tk.call.w
	tk.recheck.Stop()
	delete(r.tickets, tk.Number)
	tk.To(engine.TicketGranted)
	tk.grant, w.Place.State = g, engine.PlaceGranted
	if w.Terms.Fenced {
		w.For.lease.token = g.tokens.Take()
	}
	g.attach(g, w.For.lease)
	g.limitTo(w.Limit, w.For.lease)
	r.admit(g, w.For.lease.owner)
}

// next returns the ticket that follows, if it can have g as it is, or nil.
func (g *fairGrant) next() *fairTicket {
	r, first := g.resource, g.ticket
	if r.grant != g || g.early != nil {
		return nil
	}
	for i, n := range first.behind {
		if tk := r.tickets[n]; tk != nil {
			first.behind = first.behind[i:]
			if len(first.after)+1 < r.c.opts.Cohort && tk.wait == first.wait && r.c.canPass(&g.guard, g.terms(), tk.terms, g.tokens) {
				return tk
			}
			return nil
		}
	}
	return nil
}

// pass gives g to the ticket that follows, if there is one.
func (g *fairGrant) pass() bool {
	tk := g.next()
	if tk == nil {
		return false
	}
	first, w := g.ticket, tk.call.w
	first.behind, first.after = first.behind[1:], append(first.after, tk)
	g.resource.c.counts.local.Add(1)
	w.For.lease.came = fromHere
	g.assign(tk)
	w.Notify(engine.Event{Kind: engine.Given})
	return true
}

// supersede notes that Redis has the lock for somebody else, of which the watchdog is about to tell: nobody follows.
func (g *fairGrant) supersede() { g.ticket.behind = nil }

// finish ends what those had who came after tk. A request of one of them that is under way, or was not answered, could put it
// in the queue again, or give it the lock: it is withdrawn.
func (tk *fairTicket) finish() {
	for _, x := range tk.after {
		if x.asking == 0 && !x.OutcomeUnknown {
			x.To(engine.TicketDone)
			continue
		}
		x.grant = nil
		x.retire()
	}
}

// dismiss takes those out of the queue who had what tk was granted, which tk itself may have still. To Redis, which hands the
// lock to the head of the queue, they wait.
func (tk *fairTicket) dismiss() {
	for _, x := range tk.after {
		x.retire()
	}
	tk.after = nil
}

// admit lets those in who are of the owner that was given g, and would wait for themselves. Their places are given up, and
// the release says so too: it may come first, find one of them at the head of the queue, and give the key to nobody.
func (r *fairResource) admit(g *fairGrant, owner *Owner) {
	if owner == nil {
		return
	}
	for _, tk := range r.tickets {
		w := tk.call.w
		if w.For.lease.owner != owner {
			continue
		}
		g.attach(g, w.For.lease)
		w.Place.State = engine.PlaceGranted
		tk.recheck.Stop()
		delete(r.tickets, tk.Number)
		tk.call = nil
		tk.retire()
		g.ticket.entered = append(g.ticket.entered, tk)
		w.Notify(engine.Event{Kind: engine.Given})
	}
}

func (g *fairGrant) free() *releaseOp { return g.ticket.release(&g.grantCore) }

func (g *fairGrant) forget(refused bool) {
	if tk := g.ticket; !refused || tk.OutcomeUnknown || tk.asking > 0 {
		tk.retire()
	}
}

func (g *fairGrant) remove(cause error) {
	if g.resource.grant == g {
		g.resource.grant = nil
	}
	g.ticket.finish()
	if cause != nil {
		g.ticket.dismiss()
	}
}

func (g *fairGrant) deleted() { // and perhaps the queue, too
	r := g.resource
	_, _ = r.releaseOnce(g.ticket)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, tk := range r.tickets {
		tk.call.w.Poke()
	}
}

// release releases the ticket, and its grant unless that is nil: behind a request that is under way, and again when that is
// answered, see settle. It does not block.
func (tk *fairTicket) release(of *grantCore) *releaseOp {
	op := releaseOf(tk, &tk.r.referenced, &tk.TicketCore, of)
	op.placed = len(tk.after) > 0
	tk.sendRelease(op)
	return op
}

func (tk *fairTicket) sendRelease(op *releaseOp) {
	op.run(func() (protocol.Outcome, error) { return tk.r.releaseOnce(tk) })
}

func (tk *fairTicket) giveUp(*releaseOp) {
	tk.OutcomeUnknown = true
	tk.retire()
	for _, x := range tk.after {
		x.retire()
	}
}

func (tk *fairTicket) proceed(*releaseOp, released, error) {
	for _, x := range tk.after {
		tk.r.c.subscribers.Disconnect(x.Number)
	}
	if tk.State == engine.TicketRevived {
		tk.To(engine.TicketDone)
		tk.retire()
	}
}

// releaseOnce releases a ticket, or takes it out of the queue, and returns what became of the lock, as far as is known.
func (r *fairResource) releaseOnce(tk *fairTicket) (protocol.Outcome, error) {
	var after []protocol.Departure
	r.mu.Lock()
	for _, x := range slices.Concat(tk.after, tk.entered) {
		after = append(after, protocol.Departure{Number: x.Number, Wait: x.wait})
	}
	aside := tk.asking > 0 || tk.OutcomeUnknown
	r.mu.Unlock()
	outcome, err := r.c.runRelease(r.lock.Release(tk.owner, tk.wait, time.Now(), after), aside)
	if outcome == protocol.FreedForNobody {
		r.c.spawn(func() {
			if r.c.pause(handOverLease) {
				_, _ = r.releaseOnce(tk) // which passes the lock on to the next one, if it is free still
			}
		})
	}
	return outcome, err
}
