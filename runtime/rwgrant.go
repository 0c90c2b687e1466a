package lockrt

import (
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
)

// An rwGrant is a granted ticket.
type rwGrant struct {
	grantCore

	resource *rwResource
	ticket   *rwTicket

	passed int  // number of times it went from writer to writer without a request to Redis
	shown  bool // a reader's ticket names it to Redis, which admits the reader under it, whichever call has the grant by then
}

func (g *rwGrant) Kind() string             { return rwKind(g.ticket.write) }
func (g *rwGrant) Owner() string            { return g.ticket.field }
func (g *rwGrant) core() *engine.TicketCore { return &g.ticket.TicketCore }

// renewed reports whether the grant lives as long as its leases do.
func (g *rwGrant) renewed() bool { return g.terms.Renew && g.limit == 0 }

// trusted reports whether there is enough trust left to pass it on.
func (g *rwGrant) trusted(now time.Time) bool {
	return g.guard.Until().Sub(now) >= min(g.terms.TTL, handOverLease)/3
}

// promote turns a granted ticket into a grant and starts its renewal, from the time sent.
func (r *rwResource) promote(tk *rwTicket, sent time.Time) *rwGrant {
	t := tk.w.Terms
	g := &rwGrant{grantCore: grantCore{on: &r.referenced, terms: t, limit: tk.w.Limit}, resource: r, ticket: tk}
	tk.To(engine.TicketGranted)
	tk.grant, tk.Standing, tk.UnclaimedGrant = g, false, false
	tk.uncount()
	if tk.write {
		r.write = g
	} else {
		r.reads = append(r.reads, g)
		r.probed = time.Now()
	}
	g.start(g, sent, t.TTL)
	return g
}

// assign hands the grant to w, and to the waiters that come with it.
func (r *rwResource) assign(g *rwGrant, w *waiter) {
	w.Place = engine.Place[wish]{State: engine.PlaceGranted}
	g.attach(g, w.For.lease)
	g.limitTo(w.Limit, w.For.lease)
	owner := w.For.lease.owner
	w.Notify(engine.Event{Kind: engine.Given}) // from here on another call may use w
	if owner != nil {
		r.admit(g, owner)
	}
}

// admit admits the waiters of the owner of g, which would wait for themselves.
func (r *rwResource) admit(g *rwGrant, owner *Owner) {
	for w := r.queue.First; w != nil; {
		next := w.Place.After
		switch {
		case w.For.lease.owner != owner || w.For.rw.Number > 0:
		case g.ticket.write && !w.For.rw.write:
			r.queue.Remove(w)
			w.For.rw.under = g
			g.shown = true
			w.Notify(engine.Event{Kind: engine.Turn})
		case g.ticket.write:
			r.queue.Remove(w)
			w.Place = engine.Place[wish]{State: engine.PlaceGranted}
			g.attach(g, w.For.lease)
			w.Notify(engine.Event{Kind: engine.Given})
		case w.For.rw.write:
			r.queue.Remove(w) // notified once, and in no waiter's way
			w.Notify(engine.Event{Kind: engine.Failed, Err: ErrUpgrade})
		}
		w = next
	}
}

// reenter does nothing: reentry depends on the side, and enter handles it.
func (g *rwGrant) reenter(_, _ *Lease) bool { return false }

func (g *rwGrant) pass() bool {
	r := g.resource
	next := r.queue.First
	if !r.canPass(g, next) {
		return false
	}
	g.passed++
	r.c.counts.local.Add(1)
	next.For.lease.came = fromHere
	r.queue.Remove(next)
	r.assign(g, next)
	return true
}

func (g *rwGrant) free() *releaseOp { return g.ticket.release(&g.grantCore) }

func (g *rwGrant) forget(refused bool) {
	if !refused || g.ticket.OutcomeUnknown {
		g.resource.withdraw(g.ticket, g.ticket.ttl)
	}
}

// canPass reports whether w, a writer, can have the grant of another writer as it is: only some times in a row, since
// waiters of other processes are unknown. A grant under which a reader may still be admitted cannot be passed on, and each
// with a token gets one of its own.
func (r *rwResource) canPass(g *rwGrant, w *waiter) bool {
	return w != nil && g.ticket.write && !g.shown && len(r.reads) == 0 && w.For.rw.write && w.For.rw.Number == 0 &&
		g.passed+1 < r.c.opts.Cohort && r.c.canPass(&g.guard, g.terms, w.Terms, engine.Tokens{})
}

// remove removes a grant from those of the process.
func (r *rwResource) remove(g *rwGrant) {
	if g.ticket.write {
		r.write = nil
		return
	}
	r.reads = slices.DeleteFunc(r.reads, func(x *rwGrant) bool { return x == g })
}

func (g *rwGrant) remove(error) {
	g.resource.remove(g)
	g.resource.busy++ // the next waiter asks when the present holders know
}

func (g *rwGrant) notified() {
	g.resource.busy--
	g.resource.promptHead()
}
