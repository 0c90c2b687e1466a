package lockrt

import (
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A resource is this process's side of one key. Its goroutines queue here, first come, first
// served, and to Redis they are one owner at a time.
//
//	           granted, or handed over     unlocked, nobody follows
//	┌── asking ─────────────► held ──────────────────────────► releasing ──┐
//	│    ▲   │                 │ ▲  ▲                              │       │
//	│    │   │ refused:        └─┘  └──────────────────────────────┘       │
//	│    └───┘ in line     unlocked: the        kept: nobody else wants it │
//	│                      next one has it                                 │
//	└──────────────────────── the head's turn ◄────────────────────────────┘
//
// Redis grants to the resource. It does not matter which waiter asked: the resource serves the head of its queue, and
// releases the key if there is none any more.
//
// This file has the queue, ticket.go the requests to Redis, grant.go the grants, linger.go those that stay with the process for
// a moment after an unlock, and release.go the releases.
type resource struct {
	exclusiveCore[*grant]
	engine.Line[wish]

	ticket *ticket // the ticket of the queue; nil while there is a grant, or no need; guarded by mu

	first ticket // in place, since there always is one
}

func newResource(c *Client, key string) *resource {
	return &resource{exclusiveCore: exclusiveCore[*grant]{referenced: referenced{c: c, key: key}}}
}

func (r *resource) channel(*waiter) string { return protocol.LockChannel(r.key) }

func (r *resource) queueKey() string { return r.key }

// lockKey returns the key that messages to a ticket are about.
func (r *resource) lockKey() string { return r.key }

// newTicket returns an empty ticket.
func (r *resource) newTicket() *ticket {
	if r.first.Number == 0 {
		return &r.first
	}
	return new(ticket)
}

// hear ignores the content of a message: any message is a reason to ask.
func (r *resource) hear(string) {}

// join adds w to the end of the queue, unless it can have the grant at once.
func (r *resource) join(w *waiter) entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entersAgain(w) {
		return entered
	}
	if g := r.grant; g != nil && g.state == engine.GrantLingering {
		if g.canResume(w.Terms, monotonic.Now()) {
			g.resume(w.For.lease)
			r.Queue.Push(w)
			r.assign(w)
			return toWait // for the event that is there already
		}
		r.endLinger() // the queue is empty, and the key is about to be free
	}
	return r.Join(w, r)
}

// Excludes reports whether this process has the key: its waiters have it one at a time.
func (r *resource) Excludes(*waiter) bool { return r.grant != nil }

// Follow has nothing to do: a grant goes to the head when it is unlocked, see [resource.canPass].
func (r *resource) Follow(*waiter) bool { return false }

// last returns whether this process has the key, and the last answer of Redis.
func (r *resource) last(w *waiter) (held bool, said engine.AnswerLog) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Last(w, r)
}

// remind makes the head of the queue ask.
func (r *resource) remind(*waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Prompt(r)
}

// leave removes w from the queue. If it got the lease after all, leave unlocks it.
func (r *resource) leave(w *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.givesBack(w) || !w.Place.Queued() {
		return
	}
	leading := w.Place.Leading()
	r.Queue.Remove(w)
	switch {
	case r.Busy > 0 || r.grant != nil: // the goroutine that ends that continues the queue
	case r.Queue.Empty():
		r.abandon()
	case leading:
		r.Prompt(r)
	}
}

// close ends the leases of this resource because the client is closed. It sends nothing to Redis.
func (r *resource) close() {
	r.mu.Lock()
	r.shut = true
	g := r.grant
	r.endLinger()
	r.mu.Unlock()
	if g != nil {
		g.endLeases(ErrClosed)
	}
}

// park frees the lease of w, unless the owner of its call has to be known.
func (r *resource) park(w *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.Place.Queued() && w.For.lease != nil && w.For.lease.owner == nil {
		w.For.lease = nil
	}
}

// leaseOf returns the lease for w, which it makes anew if w was parked: then its call has no owner. The caller holds r.mu, so the
// context of the call, which may be of any type, is not asked for anything.
func (r *resource) leaseOf(w *waiter) *Lease {
	if w.For.lease == nil {
		l := emptyLease(r.c)
		l.prepare(r.c, kindMutex, r.key, w.Call.Ctx)
		l.lease, l.name = l, w.Call.Name
		w.For.lease = l
	}
	return w.For.lease
}
