package lockrt

import (
	"errors"
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// An rwGrant is a granted ticket.
type rwGrant struct {
	grantCore

	resource *rwResource
	ticket   *rwTicket

	// number of times it went from writer to writer without a request to Redis
	passed int  // number of times it went from writer to writer without a request to Redis
	shown  bool // a reader's ticket names it to Redis, which admits the reader under it, whichever call has the grant by then
}

func (g *rwGrant) Kind() string     { return rwKind(g.ticket.write) }
func (g *rwGrant) Owner() string    { return g.ticket.field }
func (g *rwGrant) Lost(cause error) { g.resource.revoke(g, cause) }

// renewed reports whether the grant lives as long as its leases do.
func (g *rwGrant) renewed() bool { return g.terms.renew && g.limit == 0 }

// trusted reports whether there is enough trust left to pass it on.
func (g *rwGrant) trusted(now time.Time) bool {
	return g.guard.Until().Sub(now) >= min(g.terms.ttl, handOverLease)/3
}

// promote turns a granted ticket into a grant and starts its renewal, from the time sent.
func (r *rwResource) promote(tk *rwTicket, sent time.Time) *rwGrant {
	t := tk.w.terms
	g := &rwGrant{grantCore: grantCore{on: &r.referenced, mu: &r.mu, terms: t, limit: tk.w.limit}, resource: r, ticket: tk}
	tk.to(ticketGranted)
	tk.grant, tk.standing = g, false
	tk.uncount()
	if tk.write {
		r.write = g
	} else {
		r.reads = append(r.reads, g)
		r.probed = time.Now()
	}
	g.start(g, sent, t.ttl)
	return g
}

// assign hands the grant to w, and to the waiters that come with it.
func (r *rwResource) assign(g *rwGrant, w *waiter) {
	w.place = place{state: placeGranted}
	g.attach(g, w.lease)
	g.limitTo(w)
	owner := w.lease.owner
	w.notify(event{kind: given}) // from here on another call may use w
	if owner != nil {
		r.admit(g, owner)
	}
}

// admit admits the waiters of the owner of g, which would wait for themselves.
func (r *rwResource) admit(g *rwGrant, owner *Owner) {
	for w := r.queue.first; w != nil; {
		next := w.place.after
		switch {
		case w.lease.owner != owner || w.rw.n > 0:
		case g.ticket.write && !w.rw.write:
			r.queue.remove(w)
			w.rw.under = g
			g.shown = true
			w.notify(event{kind: turn})
		case g.ticket.write:
			r.queue.remove(w)
			w.place = place{state: placeGranted}
			g.attach(g, w.lease)
			w.notify(event{kind: given})
		case w.rw.write:
			r.queue.remove(w) // notified once, and in no waiter's way
			w.notify(event{kind: failed, err: ErrUpgrade})
		}
		w = next
	}
}

// reenter does nothing: reentry depends on the side, and enter handles it.
func (g *rwGrant) reenter(_, _ *Lease) bool { return false }

// unlock ends l. The last lease of a grant passes it on or frees it.
func (g *rwGrant) unlock(l *Lease) error {
	r := g.resource
	if l.unlocked.Swap(true) {
		return ErrReleased
	}
	r.mu.Lock()
	if len(g.leases) > 1 {
		g.detach(l)
		cause := g.lost
		r.mu.Unlock()
		l.end(ErrReleased)
		return cause
	}
	r.mu.Unlock()

	l.end(ErrReleased) // before another caller can get it

	r.mu.Lock()
	g.detach(l)
	if len(g.leases) > 0 {
		defer r.mu.Unlock()
		return g.lost // another lease has joined
	}
	if g.lost != nil {
		defer r.mu.Unlock()
		if g.ticket.outcomeUnknown || !errors.Is(g.lost, watchdog.ErrRefused) {
			// Redis may still have it for us, or may get it again. It is not needed any more.
			r.withdraw(g.ticket, g.ticket.ttl)
		}
		return g.lost
	}
	if next := r.queue.first; r.canPass(g, next) {
		g.passed++
		r.c.counts.local.Add(1)
		next.lease.came = fromHere
		r.queue.remove(next)
		r.assign(g, next)
		r.mu.Unlock()
		return nil
	}
	r.remove(g)
	r.busy++
	g.to(grantReleasing)
	g.ticket.to(ticketReleasing)
	r.c.watchdog.Stop(&g.guard)
	r.mu.Unlock()

	done := make(chan error, 1)
	r.c.spawn(func() { _ = r.free(g.ticket, done) })
	return g.outcome(l, done)
}

// canPass reports whether w, a writer, can have the grant of another writer as it is: on the same terms, with enough
// trust left, and only some times in a row, since waiters of other processes are unknown. A lease of fixed length
// cannot be passed on, nor one under which a reader may still be admitted, and each with a token gets one of its own.
func (r *rwResource) canPass(g *rwGrant, w *waiter) bool {
	return w != nil && g.ticket.write && !g.shown && !g.guard.Extended() && len(r.reads) == 0 && w.rw.write && w.rw.n == 0 && w.terms == g.terms && g.terms.renew &&
		!g.terms.fenced && g.passed+1 < r.c.opts.Cohort && r.c.granting() && g.trusted(time.Now())
}

// remove removes a grant from those of the process.
func (r *rwResource) remove(g *rwGrant) {
	if g.ticket.write {
		r.write = nil
		return
	}
	r.reads = slices.DeleteFunc(r.reads, func(x *rwGrant) bool { return x == g })
}

// revoke ends the leases of a grant that Redis has for another owner now, or may have soon.
func (r *rwResource) revoke(g *rwGrant, cause error) {
	r.mu.Lock()
	if g.state != grantHeld {
		r.mu.Unlock()
		return // it is being released
	}
	r.remove(g)
	r.busy++ // the next waiter asks when the present holders know
	g.lost = lost(cause)
	g.to(grantLost)
	g.ticket.to(ticketDone)
	r.mu.Unlock()

	g.endLeases(lost(cause))
	r.c.depart(g.ticket.n, &g.guard, cause, func() {})

	r.mu.Lock()
	g.to(grantNotified)
	r.busy--
	r.promptHead()
	r.mu.Unlock()
	r.c.held(-1)
	r.quit()
}

// free releases a ticket, continues the queue, and sends the outcome to done unless that is nil. The resource is busy
// until then, and the caller's stay ends.
func (r *rwResource) free(tk *rwTicket, done chan<- error) error {
	defer r.quit()
	err := r.release(tk)
	r.c.disconnect(tk.n)
	if tk.grant != nil {
		r.c.held(-1)
	}
	r.mu.Lock()
	if tk.state == ticketReleasing {
		tk.to(ticketDone)
	}
	r.busy--
	r.promptHead()
	r.mu.Unlock()
	if done != nil {
		done <- err // not sooner: the caller of Unlock finds the resource ready
	}
	return err
}

// release releases a ticket. It tries until Redis has answered, at most for Options.OpTimeout;
// after that it goes on in the background.
func (r *rwResource) release(tk *rwTicket) error {
	once := func() (bool, error) {
		outcome, err := r.c.runRelease(r.lock.Release(tk.field), tk.outcomeUnknown)
		return outcome != protocol.NotOurs, err
	}
	return r.c.giveBack(tk.outcomeUnknown, false, once, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.withdraw(tk, tk.ttl)
	})
}
