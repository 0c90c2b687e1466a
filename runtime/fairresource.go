package lockrt

import (
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A fairResource is this process's side of one fair lock. It has no queue: Redis decides the order, and knows each
// waiter by a ticket of its own. When Redis hands the lock over to one of them, it names the waiters of this process
// right behind it; these get the lock next, in this order, without a request to Redis.
type fairResource struct {
	referenced

	lock protocol.Fair

	mu         sync.Mutex             // guards the rest; never held while waiting for anything
	tickets    map[uint64]*fairTicket // of the waiters, by their numbers
	spare      []*fairTicket          // that have had no waiter for a moment
	spareTimer *time.Timer            // withdraws them; nil before the first
	grant      *fairGrant             // the grant of this process, or nil
	shut       bool                   // the client is closed: no call enters any more
	noted      bool                   // a waiter was in the queue
}

func newFairResource(c *Client, key string) *fairResource {
	return &fairResource{referenced: referenced{c: c, key: key}, lock: c.wire.Fair(key), tickets: map[uint64]*fairTicket{}}
}

// held returns the present grant, or nil.
func (r *fairResource) held() *fairGrant {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.grant
}

// entered returns how many leases the present grant has.
func (r *fairResource) entered() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.grant == nil {
		return 0
	}
	return len(r.grant.leases)
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

// reenterBy makes l one more lease of the present grant, if its owner has that.
func (r *fairResource) reenterBy(l *Lease) bool {
	if l.owner == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ownedBy(l.owner) {
		return false
	}
	r.grant.attach(r.grant, l)
	return true
}

// ownedBy reports whether o has the present grant.
func (r *fairResource) ownedBy(o *Owner) bool {
	g := r.grant
	return o != nil && !r.shut && g != nil && len(g.leases) > 0 && g.leases[0].owner == o && g.leases[0].ended() == nil
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
