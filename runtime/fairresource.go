package lockrt

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A fairResource is this process's side of one fair lock. It has no queue: Redis decides the order, and knows each
// waiter by a ticket of its own. When Redis hands the lock over to one of them, it names the waiters of this process
// right behind it; these get the lock next, in this order, without a request to Redis.
type fairResource struct {
	exclusiveCore[*fairGrant]

	lock protocol.Fair

	// Guarded by mu:
	tickets    map[uint64]*fairTicket // of the waiters, by their numbers
	spare      []*fairTicket          // that have had no waiter for a moment
	spareTimer *time.Timer            // withdraws them; nil before the first
	noted      bool                   // a waiter was in the queue
}

func newFairResource(c *Client, key string) *fairResource {
	return &fairResource{exclusiveCore: exclusiveCore[*fairGrant]{referenced: referenced{c: c, key: key}}, lock: c.wire.Fair(key), tickets: map[uint64]*fairTicket{}}
}

// served returns how many of the waiters had the present grant, or have it.
func (r *fairResource) served() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.grant == nil {
		return 0
	}
	return len(r.grant.ticket.after)
}

// close ends the leases of this resource because the client is closed. It sends no release to Redis.
func (r *fairResource) close() {
	r.mu.Lock()
	r.shut = true
	g := r.grant
	if g != nil {
		g.ticket.dismiss()
	}
	r.empty(0)
	r.mu.Unlock()
	if g != nil {
		g.endLeases(ErrClosed)
	}
}
