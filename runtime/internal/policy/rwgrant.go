package policy

import (
	"slices"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/resource"
)

// isWriter reports whether g, of a read-write lock, is for writing.
func isWriter(g *resource.Grant) bool { return rwTicketFrom(g.Ticket).write }

func (r *RW) Holds(g *resource.Grant) (old *resource.Grant) {
	if isWriter(g) {
		r.write = g
	} else {
		r.reads = append(r.reads, g)
		r.probed = monotonic.Now()
	}
	return nil
}

// Admit admits the waiters of the owner of g, which would wait for themselves: by g, or by a read hold of their own under g. One that asks
// to write under a read hold fails.
func (r *RW) Admit(g *resource.Grant, owner *leases.Owner) {
	r.Queue.Each(func(w *resource.Waiter) {
		if w.For.Lease.Core().Rare().Owner != owner {
			return
		}
		tk := rwTicketOf(w)
		switch {
		case tk.write && !isWriter(g):
			r.Queue.Remove(w) // notified once, and in no waiter's way
			r.giveUp(tk)
			w.Notify(engine.Event{Kind: engine.Failed, Err: failure.ErrUpgrade})
		case tk.write == isWriter(g) && (tk.write || readsWith(g, w.Terms)):
			r.Queue.Remove(w)
			r.giveUp(tk)
			w.Place = engine.PlaceGranted
			g.Attach(w.For.Lease)
			w.Notify(engine.Event{Kind: engine.Given})
		case tk.Number > 0 || w.Place.Leading(): // a request is under way, or about to be: the next one is under g
			tk.names(g)
			w.Poke()
		default:
			r.Queue.Remove(w)
			tk.readsUnder(g)
			tk.names(g)
			w.Notify(engine.Event{Kind: engine.Turn})
		}
	})
}

// giveUp gives up the ticket of a waiter that needs it no more, if Redis may have a place for it.
func (r *RW) giveUp(tk *rwTicket) {
	if w := tk.own.Waiter; tk.Number > 0 && w != nil {
		r.Abandoned(w)
	}
}

// readsWith reports whether a reader on the terms t may enter g, a read grant of the same holder: g does not end before its lease would.
func readsWith(g *resource.Grant, t engine.Terms) bool {
	return g.Renewed() || !g.Guard.Renew && !t.Renew
}

func (r *RW) Next(g *resource.Grant) (next *resource.Waiter, at monotonic.Time) {
	if w := r.Queue.First; w != nil {
		if at = monotonic.Now(); r.CanPass(g, w, at) {
			return w, at
		}
	}
	return nil, 0
}

// CanPass reports whether w, a writer, can have the grant of another writer as it is, at the time at, which is now: only some times in a row, since waiters of other
// processes are unknown. A grant under which a reader may still be admitted cannot be passed on, and a writer that wants a fencing token
// asks Redis for it.
func (r *RW) CanPass(g *resource.Grant, w *resource.Waiter, at monotonic.Time) bool {
	return isWriter(g) && !g.Named && len(r.reads) == 0 && rwTicketOf(w).write && w.For.Ticket.Number == 0 &&
		g.InTurn(r.Client.Settings.Cohort, at) && resource.CanPass(r.Client.Core(), at, &g.Guard, g.Terms(), w.Terms, engine.Tokens{})
}

func (r *RW) Remove(g *resource.Grant, _ error) {
	if isWriter(g) {
		r.write = nil
		return
	}
	r.reads = slices.DeleteFunc(r.reads, func(x *resource.Grant) bool { return x == g })
}

func (r *RW) SendRelease(op *resource.ReleaseOp, _ bool) {
	op.Run(func() (protocol.Outcome, bool, error) {
		return r.Client.Withdrawals.Release(r.Lock.Release(r.Owner(op.Ticket)), op.Ticket.OutcomeUnknown)
	})
}
