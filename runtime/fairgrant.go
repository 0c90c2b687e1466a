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
	lineGrant

	resource *fairResource

	// Guarded by fairResource.mu.
	tokens engine.Tokens // the tokens that are left
	early  *fairGrant    // the one before, while its holder does not know yet that it is lost
}

func (*fairGrant) Kind() string { return kindFair }
func (*fairGrant) notified()    {} // each waiter asks for itself

// first returns the ticket that Redis has the grant for.
func (g *fairGrant) first() *fairTicket { return fairTicketFrom(g.ticket) }

func (g *fairGrant) reenter(outer, l *Lease) bool { return g.resource.reenter(g, outer, l) }

func (r *fairResource) granted(tk *lineTicket, sent time.Time) {
	fairTicketFrom(tk).promote(sent, tk.terms.TTL, engine.NewTokens(tk.w.For.lease.token, 1))
}

// promote turns the ticket into a grant, has it guarded and gives it to the waiter. Redis granted it no earlier than at from,
// for ttl at first.
func (tk *fairTicket) promote(from time.Time, ttl time.Duration, drawn engine.Tokens) {
	r, w, old := tk.r, tk.w, tk.r.grant
	g := &fairGrant{resource: r, tokens: drawn, early: old}
	r.grant = g
	g.begin(g, &tk.lineTicket, from, ttl)
	g.assign(tk)
	if old == nil {
		w.Notify(engine.Event{Kind: engine.Given}) // from here on another call may use w
		return
	}
	w.Asks.Add(1)      // w is notified later
	r.c.spawn(func() { // Redis would not have granted it, if the other one had it still
		r.c.watchdog.Lose(&old.guard, watchdog.ErrRefused)
		old.endLeases(lost(watchdog.ErrRefused))
		r.mu.Lock()
		g.early = nil
		r.mu.Unlock()
		w.Notify(engine.Event{Kind: engine.Given})
		w.Asks.Add(-1)
	})
}

// assign makes the lease of the waiter of tk the first one of g. Then the waiter can be notified.
func (g *fairGrant) assign(tk *fairTicket) {
	w := tk.w
	tk.end()
	tk.To(engine.TicketGranted)
	tk.grant = &g.lineGrant
	if w.Terms.Fenced {
		w.For.lease.token = g.tokens.Take()
	}
	g.serve(g, w)
	g.resource.admit(g, w.For.lease.owner)
}

// next returns the ticket that follows, if it can have g as it is, or nil.
func (g *fairGrant) next() *fairTicket {
	r, first := g.resource, g.first()
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
	first, w := g.first(), tk.w
	first.behind, first.after, first.placed = first.behind[1:], append(first.after, tk), true
	g.resource.c.counts.local.Add(1)
	w.For.lease.came = fromHere
	g.assign(tk)
	w.Notify(engine.Event{Kind: engine.Given})
	return true
}

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
		w := tk.w
		if w.For.lease.owner != owner {
			continue
		}
		g.attach(g, w.For.lease)
		w.Place.State = engine.PlaceGranted
		tk.end()
		tk.w = nil
		tk.retire()
		g.first().entered = append(g.first().entered, tk)
		w.Notify(engine.Event{Kind: engine.Given})
	}
}

func (g *fairGrant) remove(cause error) {
	if g.resource.grant == g {
		g.resource.grant = nil
	}
	g.first().finish()
	if cause != nil {
		g.first().dismiss()
	}
}

func (g *fairGrant) deleted() { // and perhaps the queue, too
	r := g.resource
	_, _ = r.release(g.ticket)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, tk := range r.tickets {
		tk.w.Poke()
	}
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

func (r *fairResource) release(of *lineTicket) (protocol.Outcome, error) {
	tk := fairTicketFrom(of)
	r.mu.Lock()
	var after []protocol.Departure
	for _, x := range slices.Concat(tk.after, tk.entered) {
		after = append(after, protocol.Departure{Number: x.Number, Wait: x.wait})
	}
	aside := tk.asking > 0 || tk.OutcomeUnknown
	r.mu.Unlock()
	outcome, err := r.c.runRelease(r.lock.Release(tk.owner, tk.wait, time.Now(), after), aside)
	r.c.passOn(outcome, func() { _, _ = r.release(of) })
	return outcome, err
}
