package locks

import (
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// isWriter reports whether g, of a read-write lock, is for writing.
func isWriter(g *grant) bool { return rwTicketFrom(g.ticket).write }

func (r *rwResource) holds(g *grant) (old *grant) {
	if isWriter(g) {
		r.write = g
	} else {
		r.reads = append(r.reads, g)
		r.probed = time.Now()
	}
	return nil
}

// admit admits the waiters of the owner of g, which would wait for themselves.
func (r *rwResource) admit(g *grant, owner *Owner) {
	r.Queue.Each(func(w *waiter) {
		switch {
		case w.For.lease.rare().owner != owner || w.For.ticket.Number > 0:
		case isWriter(g) && !rwTicketOf(w).write:
			r.Queue.Remove(w)
			rwTicketOf(w).readsUnder(g)
			g.shown = true
			w.Notify(engine.Event{Kind: engine.Turn})
		case isWriter(g):
			r.Queue.Remove(w)
			w.Place = engine.PlaceGranted
			g.attach(w.For.lease)
			w.Notify(engine.Event{Kind: engine.Given})
		case rwTicketOf(w).write:
			r.Queue.Remove(w) // notified once, and in no waiter's way
			w.Notify(engine.Event{Kind: engine.Failed, Err: failure.ErrUpgrade})
		}
	})
}

func (r *rwResource) next(g *grant) *waiter {
	if w := r.Queue.First; r.canPass(g, w) {
		return w
	}
	return nil
}

// canPass reports whether w, a writer, can have the grant of another writer as it is: only some times in a row, since
// waiters of other processes are unknown. A grant under which a reader may still be admitted cannot be passed on, and a
// writer that wants a fencing token asks Redis for it.
func (r *rwResource) canPass(g *grant, w *waiter) bool {
	return w != nil && isWriter(g) && !g.shown && len(r.reads) == 0 && rwTicketOf(w).write && w.For.ticket.Number == 0 &&
		g.rare().passed+1 < r.c.opts.Cohort && canPass(r.c.core(), &g.guard, g.terms(), w.Terms, engine.Tokens{})
}

func (r *rwResource) remove(g *grant, _ error) {
	if isWriter(g) {
		r.write = nil
		return
	}
	r.reads = slices.DeleteFunc(r.reads, func(x *grant) bool { return x == g })
}

func (r *rwResource) sendRelease(op *releaseOp, _ bool) {
	op.run(func() (protocol.Outcome, error) {
		return r.c.withdrawals.Release(r.lock.Release(r.owner(op.ticket)), op.ticket.OutcomeUnknown)
	})
}
