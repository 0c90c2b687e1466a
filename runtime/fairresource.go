package lockrt

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A fairResource is this process's side of one fair lock. It has no queue: Redis decides the order, and knows each
// waiter by a ticket of its own. When Redis hands the lock over to one of them, it names the waiters of this process
// right behind it; these get the lock next, in this order, without a request to Redis.
type fairResource struct {
	exclusiveCore[*fairGrant]
	lineCore

	lock protocol.Fair

	// Guarded by mu:
	tickets    map[uint64]*fairTicket // of the waiters, by their numbers
	spare      []*fairTicket          // that have had no waiter for a moment
	spareTimer *time.Timer            // withdraws them; nil before the first
	noted      bool                   // a waiter was in the queue
}

func newFairResource(c *Client, key string) *fairResource {
	r := &fairResource{lock: c.wire.Fair(key), tickets: map[uint64]*fairTicket{}}
	r.c, r.key, r.on, r.kind = c, key, &r.referenced, r
	return r
}

func (r *fairResource) queueKey() string { return r.key }

// channel is the channel of w alone, on which Redisson announces its turn.
func (r *fairResource) channel(w *waiter) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lock.Channel(w.For.ticket.owner)
}

// join makes every waiter ask. Exceptions are a waiter that tries once while this process has the lock, and one that
// takes over a ticket whose request is under way.
func (r *fairResource) join(w *waiter) entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entersAgain(w) {
		return entered
	}
	if w.Once() && r.Excludes(w) {
		return turnedAway
	}
	wait := r.c.opts.FairWait
	if w.Call.Wait > 0 {
		wait = max(w.Call.Wait, time.Millisecond)
	}
	tk := r.takeSpare(w, wait)
	if tk == nil {
		tk = &fairTicket{lineTicket: lineTicket{r: &r.lineCore, apart: true}, r: r, wait: wait}
		tk.of = tk
		tk.enroll(w)
	}
	r.give(tk, w, false)
	if tk.asking > 0 {
		return toWait
	}
	return toAsk
}

// Excludes reports whether this process has the lock, which refuses a call that tries once. A waiting call asks for itself.
func (r *fairResource) Excludes(*waiter) bool { return r.grant != nil }

// ended has the ticket wait no more.
func (r *fairResource) ended(tk *lineTicket) { delete(r.tickets, tk.Number) }

func (r *fairResource) withdrawer() engine.Withdrawer { return withdrawer{r.c, kindFair, r.key} }

// served returns how many of the waiters had the present grant, or have it.
func (r *fairResource) served() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.grant == nil {
		return 0
	}
	return len(r.grant.first().after)
}

// close ends the leases of this resource because the client is closed. It sends no release to Redis.
func (r *fairResource) close() {
	r.mu.Lock()
	r.shut = true
	g := r.grant
	if g != nil {
		g.first().dismiss()
	}
	r.empty(0)
	r.mu.Unlock()
	if g != nil {
		g.endLeases(ErrClosed)
	}
}
