package lockrt

import (
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
)

// An rwGrant is a granted ticket.
type rwGrant struct {
	lineGrant

	resource *rwResource
	write    bool

	passed int  // number of times it went from writer to writer without a request to Redis
	shown  bool // a reader's ticket names it to Redis, which admits the reader under it, whichever call has the grant by then
}

func (g *rwGrant) Kind() string { return rwKind(g.write) }

// renewed reports whether the grant lives as long as its leases do.
func (g *rwGrant) renewed() bool { return g.guard.Renew && g.rare().limit == 0 }

// trusted reports whether there is enough trust left to pass it on.
func (g *rwGrant) trusted(now time.Time) bool {
	return g.guard.Until().Sub(now) >= min(g.guard.TTL, handOverLease)/3
}

func (r *rwResource) granted(tk *lineTicket, sent time.Time) {
	g, w := &rwGrant{resource: r, write: rwTicketFrom(tk).write}, tk.w
	if g.write {
		r.write = g
	} else {
		r.reads = append(r.reads, g)
		r.probed = time.Now()
	}
	g.begin(g, tk, sent, tk.terms.TTL)
	r.assign(g, w)
}

// assign hands the grant to w, and to the waiters that come with it.
func (r *rwResource) assign(g *rwGrant, w *waiter) {
	owner := w.For.lease.owner
	g.give(g, w)
	if owner != nil {
		r.admit(g, owner)
	}
}

// admit admits the waiters of the owner of g, which would wait for themselves.
func (r *rwResource) admit(g *rwGrant, owner *Owner) {
	r.Queue.Each(func(w *waiter) {
		switch {
		case w.For.lease.owner != owner || w.For.ticket.Number > 0:
		case g.write && !rwTicketOf(w).write:
			r.Queue.Remove(w)
			rwTicketOf(w).readsUnder(g)
			g.shown = true
			w.Notify(engine.Event{Kind: engine.Turn})
		case g.write:
			r.Queue.Remove(w)
			w.Place.State = engine.PlaceGranted
			g.attach(g, w.For.lease)
			w.Notify(engine.Event{Kind: engine.Given})
		case rwTicketOf(w).write:
			r.Queue.Remove(w) // notified once, and in no waiter's way
			w.Notify(engine.Event{Kind: engine.Failed, Err: ErrUpgrade})
		}
	})
}

func (g *rwGrant) pass() bool {
	r := g.resource
	next := r.Queue.First
	if !r.canPass(g, next) {
		return false
	}
	g.passed++
	r.c.counts.local.Add(1)
	next.For.lease.came = fromHere
	r.Queue.Remove(next)
	r.assign(g, next)
	return true
}

// canPass reports whether w, a writer, can have the grant of another writer as it is: only some times in a row, since
// waiters of other processes are unknown. A grant under which a reader may still be admitted cannot be passed on, and each
// with a token gets one of its own.
func (r *rwResource) canPass(g *rwGrant, w *waiter) bool {
	return w != nil && g.write && !g.shown && len(r.reads) == 0 && rwTicketOf(w).write && w.For.ticket.Number == 0 &&
		g.passed+1 < r.c.opts.Cohort && r.c.canPass(&g.guard, g.terms(), w.Terms, engine.Tokens{})
}

func (g *rwGrant) remove(error) {
	r := g.resource
	r.Busy++ // the next waiter asks when the present holders know
	if g.write {
		r.write = nil
		return
	}
	r.reads = slices.DeleteFunc(r.reads, func(x *rwGrant) bool { return x == g })
}
