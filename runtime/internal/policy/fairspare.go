package policy

import (
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/resource"
)

// spareFor is how long the place of a call that gave up is kept for the next call. So calls that give up early, again
// and again, come to the head of the queue.
const spareFor = 10 * time.Millisecond

func (r *Fair) Abandoned(w *resource.Waiter) {
	if tk := r.TicketOf(w); tk != nil {
		r.keep(FairTicketFrom(tk), w)
	}
}

// keep keeps the place of a ticket for a moment, for another call than w, which has gone.
func (r *Fair) keep(tk *FairTicket, w *resource.Waiter) {
	tk.Own.Waiter = nil
	tk.End()
	if w.Once() || tk.UnclaimedGrant || !tk.Standing || tk.Terms.Polling || !r.Client.Granting() {
		r.Retire(&tk.Ticket)
		return
	}
	r.Stay()
	tk.since = time.Now()
	r.spare = append(r.spare, tk)
	if r.spareTimer == nil {
		r.spareTimer = time.AfterFunc(spareFor, r.expireSpares)
	} else if len(r.spare) == 1 {
		r.spareTimer.Reset(spareFor)
	}
}

// expireSpares withdraws the tickets that no call took over.
func (r *Fair) expireSpares() {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.withdrawSpares(spareFor)
	if len(r.spare) > 0 {
		r.spareTimer.Reset(spareFor)
	}
}

// withdrawSpares withdraws the tickets that have been spare for d.
func (r *Fair) withdrawSpares(d time.Duration) {
	r.spare = slices.DeleteFunc(r.spare, func(tk *FairTicket) bool {
		if time.Since(tk.since) < d {
			return false
		}
		r.Retire(&tk.Ticket)
		r.Quit()
		return true
	})
}

// unspare withdraws a spare ticket at once.
func (r *Fair) unspare(tk *FairTicket) {
	if r.removeSpare(tk) {
		r.Retire(&tk.Ticket)
	}
}

// removeSpare removes tk from the spare tickets, and reports whether it was one of them.
func (r *Fair) removeSpare(tk *FairTicket) bool {
	i := slices.Index(r.spare, tk)
	if i < 0 {
		return false
	}
	r.spare = slices.Delete(r.spare, i, i+1)
	r.Quit()
	return true
}

// takeSpare returns a spare ticket for w, whose place lasts for wait, the one before the others in the queue, or nil.
func (r *Fair) takeSpare(w *resource.Waiter, wait time.Duration) *FairTicket {
	var best *FairTicket
	for _, tk := range r.spare {
		if !w.Once() && tk.Terms == w.Terms && tk.Wait == wait && (best == nil || tk.Number < best.Number) {
			best = tk
		}
	}
	if best != nil {
		r.removeSpare(best)
	}
	return best
}

// inherit makes the longest waiter take over a spare ticket that was granted, and leave its own. It reports whether
// there is such a waiter.
func (r *Fair) inherit(tk *FairTicket) bool {
	var successor *FairTicket
	for _, x := range r.Tickets {
		if x.Standing && x.Terms == tk.Terms && x.Wait == tk.Wait && (successor == nil || x.Number < successor.Number) {
			successor = x
		}
	}
	if successor == nil || !r.removeSpare(tk) {
		return false
	}
	w := successor.Own.Waiter
	if successor.Asking > 0 {
		w.Notify(engine.Event{Kind: engine.Turn}) // the answer to its request does not come to it any more
	}
	r.keep(successor, w)
	r.waits(tk, w, successor.Asked)
	return true
}
