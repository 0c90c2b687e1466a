package locks

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A fairResource is this process's side of one fair lock. It does not use the queue of the line: Redis decides the order, and knows each
// waiter by a ticket of its own. When Redis hands the lock over to one of them, it names the waiters of this process
// right behind it; these get the lock next, in this order, without a request to Redis.
type fairResource struct {
	exclusiveCore

	lock protocol.Fair

	// Guarded by mu:
	tickets    map[uint64]*fairTicket // of the waiters, by their numbers
	spare      []*fairTicket          // that have had no waiter for a moment
	spareTimer *time.Timer            // withdraws them; nil before the first
	noted      bool                   // a waiter was in the queue
}

func newFairResource(c *clientLine, key string) *fairResource {
	r := &fairResource{lock: c.wire.Fair(key), tickets: map[uint64]*fairTicket{}}
	r.c, r.key, r.kind = c, key, r
	return r
}

// channel is the channel of w alone, on which Redisson announces its turn.
func (r *fairResource) channel(w *waiter) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lock.Channel(r.owner(w.For.ticket))
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
		tk = &fairTicket{wait: wait, terms: w.Terms}
		tk.own.of, tk.extra, tk.use = tk, &tk.own, ticketApart
		tk.enroll(&r.lineCore, w.Terms)
	}
	r.waits(tk, w, false)
	if tk.asking > 0 {
		return toWait
	}
	return toAsk
}

func (r *fairResource) name(*ticket) string { return kindFair }

// queued returns the number of waiters. Each of them asks for itself, outside of the queue of the line.
func (r *fairResource) queued() int { return len(r.tickets) }

// ended has the ticket wait no more.
func (r *fairResource) ended(tk *ticket) { delete(r.tickets, tk.Number) }

func (r *fairResource) withdrawer() engine.Withdrawer { return r.c.withdrawals.Of(kindFair, r.key) }

// served returns how many of the waiters had the present grant, or have it.
func (r *fairResource) served() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.grant == nil {
		return 0
	}
	return len(r.first().after)
}

func (r *fairResource) shuts() {
	if r.grant != nil {
		r.dismiss(r.first())
	}
	r.empty(0)
}
