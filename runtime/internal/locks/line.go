package locks

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// A lineCore is the common part of the resources of all locks: of mutexes, of read-write locks, of fair mutexes, and of every kind
// that needs no more. The head of the queue asks Redis, or every waiter asks for itself, apart from the queue.
//
//	           granted, or handed over   unlocked, nobody follows
//	┌── asking ──────────────────► grant, or grants ──────────► releasing ──┐
//	│    ▲   │                      │            ▲                          │
//	│    └───┘ refused: again by    └────────────┘                          │
//	│          message and by timer  without a request:                     │
//	│                                the next one has it, or others share it│
//	└──────────────────────── the head's turn ◄─────────────────────────────┘
//
// This file has the queue, ticket.go the requests to Redis, ticketmessages.go the messages, grant.go the grants, and release.go the
// releases.
type lineCore struct {
	referenced
	engine.Line[wish]

	kind lineKind // the resource
}

// A lineKind is what a kind of lock decides, and what it says to Redis. The caller holds the lock of the resource, except for name,
// owner, read and sendRelease, and where a method says so. lineCore has
// defaults for Follow and for most of the ticketRules and grantRules; exclusiveCore adds Excludes, grants, holds, remove and reenter. A kind has the rest.
type lineKind interface {
	engine.Policy[wish]

	// name returns the kind of a ticket.
	name(tk *ticket) string
	// acquire returns the command of op, or sets op.to, the batcher that sends op.
	acquire(op *acquireOp) protocol.Command
	// read reads the reply to it.
	read(tk *ticket, reply transport.Reply) (protocol.Verdict, error)
	// sendRelease sends a request for op: the first one, if first is set. Answered of op gets the answer.
	sendRelease(op *releaseOp, first bool)
	// withdrawer withdraws tickets of the key.
	withdrawer() engine.Withdrawer
	// grants returns the grants of this process.
	grants() []*grant
	// holds records g as a grant of this process. It returns a grant that Redis does not have any more, since it has g, or nil.
	holds(g *grant) (old *grant)
	// remove is called when g is released, or lost because of cause: no other call gets it.
	remove(g *grant, cause error)

	ticketRules
	grantRules
}

// The ticketRules are what a kind decides about its tickets.
type ticketRules interface {
	// ticketOf returns the ticket by which w asks, or nil if there is no need.
	ticketOf(w *waiter) *ticket
	// owner returns the name of tk in Redis.
	owner(tk *ticket) string
	// refused returns the event by which the waiter of the ticket, if there is one, learns of a refusal: ev, perhaps changed, or its
	// turn to ask again at once. ev.TTL is the time after which Redis has said to ask again, less than 0 if it has said none.
	refused(op *acquireOp, sent time.Time, reply protocol.Verdict, ev engine.Event) engine.Event
	// overtaken handles the answer to a request for a ticket that does not need one any more, and reports whether op is such.
	overtaken(op *acquireOp, reply protocol.Verdict, err error) bool
	// unwanted handles the answer for a ticket without a waiter. It returns the waiter that takes the ticket over, or nil.
	unwanted(tk *ticket) *waiter
	// abandoned gives up the ticket for which w has waited, unless another waiter needs it.
	abandoned(w *waiter)
	// ended is called when no waiter waits with tk any more.
	ended(tk *ticket)
	// learns records what m, the message that hands the lock over to tk, says about other waiters. It returns the number of fencing tokens
	// that came with it.
	learns(tk *ticket, m protocol.Message) (tokens int)
	// handedAgain handles the message that the lock is handed over to a ticket that was granted, or given up.
	handedAgain(tk *ticket)
	// displaced is called when Redis may have forgotten the order in which it has tk.
	displaced(tk *ticket)
	// soon returns the time after which tk asks, if the waiter whose turn it is has not come within d.
	soon(tk *ticket, d time.Duration) time.Duration
	// retire has Redis forget a ticket without a waiter.
	retire(tk *ticket)
}

// The grantRules are what a kind decides about its grants, and their releases.
type grantRules interface {
	// reenter makes l one more lease of g, if outer still is one. The caller does not hold the lock.
	reenter(g *grant, outer, l *Lease) bool
	// next returns the waiter that has g next, as it is, or nil.
	next(g *grant) *waiter
	// admit makes the other waiters of owner, which was given g, holders of g too: otherwise owner would wait for itself.
	admit(g *grant, owner *Owner)
	// wanted is called when another process waits for g.
	wanted(g *grant)
	// deleted is called when Redis does not have a grant: the deletion of its key notified no waiter. The caller does not hold the lock.
	deleted(g *grant)
	// queued returns the number of waiters.
	queued() int
	// shuts is called when the client is closed.
	shuts()
	// releasing completes op before it is sent.
	releasing(op *releaseOp)
	// giveUp has the ticket of op withdrawn.
	giveUp(op *releaseOp)
	// proceed continues the queue, with the outcome of op.
	proceed(op *releaseOp, done released, err error)
}

// hear ignores the content of a message: any message is a reason to ask.
func (r *lineCore) hear(string) {}

// queueKey returns the key, since waiters get messages in the wait queue.
func (r *lineCore) queueKey() string { return r.key }

// join adds w to the end of the queue.
func (r *lineCore) join(w *waiter) entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Join(w, r.kind)
}

// last returns whether this process has a grant that excludes w, and the last answer of Redis.
func (r *lineCore) last(w *waiter) (held bool, said engine.AnswerLog) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Last(w, r.kind)
}

// remind makes the head of the queue ask; or w, if it asks for itself and has taken over a ticket of which no request is under way.
func (r *lineCore) remind(w *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if tk := w.For.ticket; tk != nil && tk.use == ticketApart && tk.waiter() == w && tk.asking == 0 {
		w.Notify(engine.Event{Kind: engine.Turn})
	}
	r.Prompt(r.kind)
}

// leave removes w. If it got the lease after all, leave unlocks it.
func (r *lineCore) leave(w *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.Place == engine.PlaceGranted {
		l := w.For.lease
		r.c.spawn(func() { _ = l.grant.unlock(l) })
		return
	}
	first := r.Queue.First == w
	if w.Place.Queued() {
		r.Queue.Remove(w)
	}
	r.kind.abandoned(w)
	if first {
		r.Prompt(r.kind)
	}
}

// held returns the grants of this process.
func (r *lineCore) held() []*grant {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kind.grants()
}

// close ends the leases of this resource because the client is closed. It sends no release of them to Redis.
func (r *lineCore) close() {
	r.mu.Lock()
	r.shut = true
	held := r.kind.grants()
	r.kind.shuts()
	r.mu.Unlock()
	for _, g := range held {
		g.endLeases(failure.ErrClosed)
	}
}

// changed does nothing: tickets are asked one by one.
func (r *lineCore) changed() {}

// endsLinger does what a kind does when the client is closed.
func (r *lineCore) endsLinger() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kind.shuts()
}

// subject returns the lock that w waits for.
func (r *lineCore) subject(w *waiter) (kind, key string) {
	if w.For.lease != nil {
		return w.For.lease.kind(), w.For.lease.key
	}
	return kindMutex, r.key // a parked call has no lease, and gets one
}

// leaseOf returns the lease for w, which it makes anew if w was parked: then its call has no owner. The caller holds r.mu, so the
// context of the call, which may be of any type, is not asked for anything.
func (r *lineCore) leaseOf(w *waiter) *Lease {
	if w.For.lease == nil {
		l := emptyLease(r.c.core())
		l.prepare(r.c.core(), kindMutex, r.key, w.Call.Ctx)
		l.label = w.Call.Label
		w.For.lease = l
	}
	return w.For.lease
}

// Most kinds need no more than these. A ticket is given up when its request is answered.

func (r *lineCore) Follow(*waiter) bool                                { return false }
func (r *lineCore) owner(tk *ticket) string                            { return r.c.wire.Owner(tk.Number) }
func (r *lineCore) overtaken(*acquireOp, protocol.Verdict, error) bool { return false }
func (r *lineCore) ended(*ticket)                                      {}
func (r *lineCore) learns(*ticket, protocol.Message) int               { return 1 }
func (r *lineCore) handedAgain(*ticket)                                {}
func (r *lineCore) displaced(*ticket)                                  {}
func (r *lineCore) soon(_ *ticket, d time.Duration) time.Duration      { return d }
func (r *lineCore) retire(tk *ticket)                                  { r.withdraw(tk, tk.ttl) }

func (r *lineCore) reenter(_ *grant, _, _ *Lease) bool  { return false }
func (r *lineCore) next(*grant) *waiter                 { return nil }
func (r *lineCore) admit(*grant, *Owner)                {}
func (r *lineCore) wanted(*grant)                       {}
func (r *lineCore) deleted(*grant)                      {}
func (r *lineCore) queued() int                         { return r.Queue.Length() }
func (r *lineCore) shuts()                              {}
func (r *lineCore) releasing(*releaseOp)                {}
func (r *lineCore) giveUp(op *releaseOp)                { r.kind.retire(op.ticket) }
func (r *lineCore) proceed(*releaseOp, released, error) { r.Continue(r.kind) }

func (r *lineCore) ticketOf(w *waiter) *ticket {
	if tk := w.For.ticket; tk != nil && tk.waiter() == w {
		return tk
	}
	return nil
}

func (r *lineCore) refused(_ *acquireOp, _ time.Time, _ protocol.Verdict, ev engine.Event) engine.Event {
	return ev
}

func (r *lineCore) unwanted(tk *ticket) *waiter {
	r.drop(tk)
	r.Prompt(r.kind)
	return nil
}

func (r *lineCore) abandoned(w *waiter) {
	if tk := r.ticketOf(w); tk != nil {
		tk.extra.w = nil
		if tk.State != engine.TicketAsking {
			r.drop(tk)
		}
	}
}
