package lockrt

import (
	"sync"

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
// What Redis grants, it grants to the resource. Which waiter asked for it does not matter: it serves
// the head of the queue, and if there is none any more it is given back.
//
// This file is about the queue, ticket.go about asking Redis, grant.go about what Redis granted and release.go about giving
// that back.
type resource struct {
	referenced

	mu      sync.Mutex // guards the rest; never held while waiting for anything
	busy    int32      // requests under way, or a loss that is being reported
	shut    bool       // the client is closed: nobody enters again
	queue   waitQueue  // of those who wait
	ticket  *ticket    // what the queue asks with; nil while there is a grant, or no need
	grant   *grant     // what the process has in Redis, or nil
	answers answerLog  // by Redis

	first ticket // there always is one
}

func newResource(c *Client, key string) *resource {
	return &resource{referenced: referenced{c: c, key: key}}
}

func (r *resource) channel() string { return protocol.LockChannel(r.key) }

func (r *resource) queueKey() string { return r.key }

// newTicket returns an empty ticket.
func (r *resource) newTicket() *ticket {
	if r.first.n == 0 {
		return &r.first
	}
	return new(ticket)
}

// hear has no use for what is said on the channel: that something was is a reason to ask.
func (r *resource) hear(string) {}

// join puts w at the end of the queue. One who does not wait is put there if nobody is before it, and waits for the answer
// to an earlier request of this process.
func (r *resource) join(w *waiter) entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ownedBy(w.lease.owner) { // granted a moment ago, to another call of this one's owner
		w.place.granted = true
		r.grant.attach(r.grant, w.lease)
		return entered
	}
	first := r.grant == nil && r.queue.length == 0
	if w.once && !first {
		return turnedAway // nobody is to hand it anything
	}
	r.queue.push(w)
	if first && r.busy == 0 {
		w.place.leading = true
		return toAsk
	}
	return toWait
}

// last returns whether this process has the key, and what Redis said last.
func (r *resource) last(*waiter) (held bool, said answerLog) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.grant != nil, r.answers.look()
}

// remind has the head of the queue ask.
func (r *resource) remind() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.promptHead()
}

// leave takes w out of the queue. If it was given the lease after all, that is unlocked.
func (r *resource) leave(w *waiter) {
	r.mu.Lock()
	switch {
	case w.place.granted:
		r.mu.Unlock()
		l := w.lease
		r.c.spawn(func() { _ = l.grant.unlock(l) })
		return
	case !w.place.queued:
		r.mu.Unlock()
		return
	}
	var rest func()
	leading := w.place.leading
	r.queue.remove(w)
	switch {
	case r.busy > 0 || r.grant != nil: // who ends that looks after the queue
	case r.queue.length == 0:
		rest = r.abandon()
	case leading:
		r.promptHead()
	}
	r.mu.Unlock()
	if rest != nil {
		r.c.spawn(rest)
	}
}

// close ends the leases of this resource because the client is closed. It sends nothing to Redis.
func (r *resource) close() {
	r.mu.Lock()
	r.shut = true
	g := r.grant
	r.mu.Unlock()
	if g != nil {
		g.endLeases(ErrClosed)
	}
}

func (r *resource) head() *waiter { return r.queue.first }

// promptHead makes it the head's turn to ask, unless there is no need. A head whose turn it is already
// is reminded.
func (r *resource) promptHead() {
	w := r.head()
	switch {
	case w == nil || r.busy > 0 || r.grant != nil:
	case w.place.leading:
		w.poke()
	default:
		w.place.leading = true
		w.notify(event{kind: turn})
	}
}
