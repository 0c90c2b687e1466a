package lockrt

import (
	"slices"
	"time"
)

// spareFor is how long the place of one that gave up is kept for the next call. So those who give up at once, again and again,
// come to the head of the queue.
const spareFor = 10 * time.Millisecond

// abandon notes that nobody waits with the ticket any more. Its place is kept for a moment, for another one.
func (tk *fairTicket) abandon() {
	r, once := tk.r, tk.call.w.once
	delete(r.tickets, tk.n)
	tk.call = nil
	tk.calm()
	if once || tk.unclaimedGrant || !tk.standing || tk.terms.polling || !r.c.granting() {
		tk.retire()
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

// expireSpares has those tickets leave that nobody came for.
func (r *fairResource) expireSpares() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.empty(spareFor)
	if len(r.spare) > 0 {
		r.spareTimer.Reset(spareFor)
	}
}

// empty has those tickets leave that nobody came for since d ago.
func (r *fairResource) empty(d time.Duration) {
	r.spare = slices.DeleteFunc(r.spare, func(tk *fairTicket) bool {
		if time.Since(tk.since) < d {
			return false
		}
		tk.retire()
		r.quit()
		return true
	})
}

// unspare has a spare ticket leave at once.
func (r *fairResource) unspare(tk *fairTicket) {
	if r.removeSpare(tk) {
		tk.retire()
	}
}

// removeSpare takes tk out of those that are spare, and reports whether it was one of them.
func (r *fairResource) removeSpare(tk *fairTicket) bool {
	i := slices.Index(r.spare, tk)
	if i < 0 {
		return false
	}
	r.spare = slices.Delete(r.spare, i, i+1)
	r.quit()
	return true
}

// takeSpare returns a ticket on the terms of e that nobody waits with, the one that stands before the others, or nil.
func (r *fairResource) takeSpare(e *fairCall) *fairTicket {
	var best *fairTicket
	for _, tk := range r.spare {
		if !e.w.once && tk.terms == e.w.terms && tk.wait == e.wait && (best == nil || tk.n < best.n) {
			best = tk
		}
	}
	if best != nil {
		r.removeSpare(best)
	}
	return best
}

// inherit has the one who waits for longest take over a spare ticket that was granted, and leave its own, and reports
// whether there is one.
func (r *fairResource) inherit(tk *fairTicket) bool {
	var successor *fairTicket
	for _, x := range r.tickets {
		if x.standing && x.terms == tk.terms && x.wait == tk.wait && (successor == nil || x.n < successor.n) {
			successor = x
		}
	}
	if successor == nil || !r.removeSpare(tk) {
		return false
	}
	e := successor.call
	if successor.asking > 0 {
		e.w.notify(event{kind: turn}) // the answer to that request is not for it any more
	}
	successor.abandon()
	e.ticket, tk.call = tk, e
	r.tickets[tk.n] = tk
	return true
}
