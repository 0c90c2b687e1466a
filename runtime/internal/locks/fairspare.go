package locks

import (
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
)

// spareFor is how long the place of a call that gave up is kept for the next call. So calls that give up early, again
// and again, come to the head of the queue.
const spareFor = 10 * time.Millisecond

func (r *fairResource) abandoned(w *waiter) {
	if tk := r.ticketOf(w); tk != nil {
		r.keep(fairTicketFrom(tk), w)
	}
}

// keep keeps the place of a ticket for a moment, for another call than w, which has gone.
func (r *fairResource) keep(tk *fairTicket, w *waiter) {
	tk.own.w = nil
	tk.end()
	if w.Once() || tk.UnclaimedGrant || !tk.Standing || tk.terms.Polling || !r.c.granting() {
		r.retire(&tk.ticket)
		return
	}
	r.stay()
	tk.since = time.Now()
	r.spare = append(r.spare, tk)
	if r.spareTimer == nil {
		r.spareTimer = time.AfterFunc(spareFor, r.expireSpares)
	} else if len(r.spare) == 1 {
		r.spareTimer.Reset(spareFor)
	}
}

// expireSpares withdraws the tickets that no call took over.
func (r *fairResource) expireSpares() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.empty(spareFor)
	if len(r.spare) > 0 {
		r.spareTimer.Reset(spareFor)
	}
}

// empty withdraws the tickets that have been spare for d.
func (r *fairResource) empty(d time.Duration) {
	r.spare = slices.DeleteFunc(r.spare, func(tk *fairTicket) bool {
		if time.Since(tk.since) < d {
			return false
		}
		r.retire(&tk.ticket)
		r.quit()
		return true
	})
}

// unspare withdraws a spare ticket at once.
func (r *fairResource) unspare(tk *fairTicket) {
	if r.removeSpare(tk) {
		r.retire(&tk.ticket)
	}
}

// removeSpare removes tk from the spare tickets, and reports whether it was one of them.
func (r *fairResource) removeSpare(tk *fairTicket) bool {
	i := slices.Index(r.spare, tk)
	if i < 0 {
		return false
	}
	r.spare = slices.Delete(r.spare, i, i+1)
	r.quit()
	return true
}

// takeSpare returns a spare ticket for w, whose place lasts for wait, the one before the others in the queue, or nil.
func (r *fairResource) takeSpare(w *waiter, wait time.Duration) *fairTicket {
	var best *fairTicket
	for _, tk := range r.spare {
		if !w.Once() && tk.terms == w.Terms && tk.wait == wait && (best == nil || tk.Number < best.Number) {
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
func (r *fairResource) inherit(tk *fairTicket) bool {
	var successor *fairTicket
	for _, x := range r.tickets {
		if x.Standing && x.terms == tk.terms && x.wait == tk.wait && (successor == nil || x.Number < successor.Number) {
			successor = x
		}
	}
	if successor == nil || !r.removeSpare(tk) {
		return false
	}
	w := successor.own.w
	if successor.asking > 0 {
		w.Notify(engine.Event{Kind: engine.Turn}) // the answer to its request does not come to it any more
	}
	r.keep(successor, w)
	r.waits(tk, w, successor.asked)
	return true
}

// waits has w, which has asked before or not, wait with tk.
func (r *fairResource) waits(tk *fairTicket, w *waiter, asked bool) {
	w.For.ticket, tk.own.w, tk.asked = &tk.ticket, w, asked
	r.tickets[tk.Number] = tk
}
