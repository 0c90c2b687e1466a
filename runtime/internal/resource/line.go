package resource

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// A LineCore is the common part of the resources of all locks: of mutexes, of read-write locks, of fair mutexes, and of every kind
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
// This file has the queue, ticket.go the tickets, acquire.go the requests for the lock, ticketmessages.go the messages, grant.go the grants, and
// release.go the releases.
type LineCore struct {
	Referenced
	engine.Line[Wish]

	Kind LineKind // the resource, of which this is a part
}

// A LineKind is what a kind of lock decides, and what it says to Redis. The caller holds the lock of the resource, except for Name, Owner,
// Read and SendRelease, and where a method says so. LineCore has defaults for Follow and for most of the TicketRules and GrantRules;
// Exclusive adds Excludes, Grants, Holds, Remove and Reenter. A kind has the rest.
type LineKind interface {
	engine.Policy[Wish]

	// Name returns the kind of a ticket.
	Name(tk *Ticket) string
	// Acquire returns the command of op, or sets op.To, the batcher that sends op.
	Acquire(op *AcquireOp) protocol.Command
	// Read reads the reply to that command.
	Read(tk *Ticket, reply transport.Reply) (protocol.Verdict, error)
	// SendRelease sends a request for op: the first one, if first is set. [ReleaseOp.Answered] gets the answer.
	SendRelease(op *ReleaseOp, first bool)
	// Withdrawer withdraws tickets of the key.
	Withdrawer() engine.Withdrawer
	// Grants returns the grants of this process.
	Grants() []*Grant
	// Holds records g as a grant of this process. It returns a grant that Redis does not have any more, since it has g, or nil.
	Holds(g *Grant) (old *Grant)
	// Remove is called when g is released, or lost because of cause: no other call gets it.
	Remove(g *Grant, cause error)

	TicketRules
	GrantRules
}

// The TicketRules are what a kind decides about its tickets.
type TicketRules interface {
	// TicketOf returns the ticket by which w asks, or nil if there is no need.
	TicketOf(w *Waiter) *Ticket
	// Owner returns the name of tk in Redis.
	Owner(tk *Ticket) string
	// Refused returns the event by which the waiter of the ticket, if there is one, learns of a refusal: ev, perhaps changed, or its
	// turn to ask again at once. ev.TTL is the time after which Redis has said to ask again, less than 0 if it has said none.
	Refused(op *AcquireOp, sent time.Time, reply protocol.Verdict, ev engine.Event) engine.Event
	// Overtaken handles the answer to a request for a ticket that does not need one any more, and reports whether op is such.
	Overtaken(op *AcquireOp, reply protocol.Verdict, err error) bool
	// Unwanted handles the answer for a ticket without a waiter. It returns the waiter that takes the ticket over, or nil.
	Unwanted(tk *Ticket) *Waiter
	// Abandoned gives up the ticket for which w has waited, unless another waiter needs it.
	Abandoned(w *Waiter)
	// Ended is called when no waiter waits with tk any more.
	Ended(tk *Ticket)
	// Learns records what m, the message that hands the lock over to tk, says about other waiters. It returns the number of fencing tokens
	// that came with it.
	Learns(tk *Ticket, m protocol.Message) (tokens int)
	// HandedAgain handles the message that the lock is handed over to a ticket that was granted, or given up.
	HandedAgain(tk *Ticket)
	// Displaced is called when Redis may have forgotten the order in which it has tk.
	Displaced(tk *Ticket)
	// Soon returns the time after which tk asks, if the waiter whose turn it is has not come within d.
	Soon(tk *Ticket, d time.Duration) time.Duration
	// Retire has Redis forget a ticket without a waiter.
	Retire(tk *Ticket)
}

// The GrantRules are what a kind decides about its grants, and their releases.
type GrantRules interface {
	// Reenter makes l one more lease of g, if outer still is one. The caller does not hold the lock.
	Reenter(g *Grant, outer, l *leases.Lease) bool
	// Next returns the waiter that has g next, as it is, from the time at on; or nil.
	Next(g *Grant) (next *Waiter, at monotonic.Time)
	// Admit makes the other waiters of owner, which was given g, holders of g too: otherwise owner would wait for itself.
	Admit(g *Grant, owner *leases.Owner)
	// Wanted is called when another process waits for g.
	Wanted(g *Grant)
	// Deleted is called when Redis does not have a grant: the deletion of its key notified no waiter. The caller does not hold the lock.
	Deleted(g *Grant)
	// Queued returns the number of waiters.
	Queued() int
	// Shuts is called when the client is closed.
	Shuts()
	// Releasing completes op before it is sent.
	Releasing(op *ReleaseOp)
	// GiveUp has the ticket of op withdrawn.
	GiveUp(op *ReleaseOp)
	// Proceed continues the queue, with the outcome of op.
	Proceed(op *ReleaseOp, done Released, err error)
}

// Hear ignores the content of a message: any message is a reason to ask.
func (r *LineCore) Hear(string) {}

// queueKey returns the key, since waiters get messages in the wait queue.
func (r *LineCore) queueKey() string { return r.Key }

// Join adds w to the end of the queue.
func (r *LineCore) Join(w *Waiter) Entry {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return r.Line.Join(w, r.Kind)
}

// Last returns whether this process has a grant that excludes w, and the last answer of Redis.
func (r *LineCore) Last(w *Waiter) (held bool, said engine.AnswerLog) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return r.Line.Last(w, r.Kind)
}

// Remind makes the head of the queue ask; or w, if it asks for itself and has taken over a ticket of which no request is under way.
func (r *LineCore) Remind(w *Waiter) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if tk := w.For.Ticket; tk != nil && tk.Use == TicketApart && tk.Waiter() == w && tk.Asking == 0 && w.Events.Empty() {
		w.Notify(engine.Event{Kind: engine.Turn})
	}
	if r.Queue.IsDeputy(w) && r.Queue.First.Place.Leading() {
		r.Queue.First.Poke() // also while it asks: the answer may be older than the reason
		return
	}
	r.Prompt(r.Kind)
}

// Leave removes w. If w got the lease after all, Leave unlocks the lease.
func (r *LineCore) Leave(w *Waiter) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if w.Place == engine.PlaceGranted {
		l := w.For.Lease
		r.Client.Spawn(func() { _ = l.Core().Grant.Unlock(l) })
		return
	}
	leads := r.Queue.First == w || r.Queue.IsDeputy(w) // then another one does
	if w.Place.Queued() {
		r.Queue.Remove(w)
	}
	r.Kind.Abandoned(w)
	if leads {
		r.Prompt(r.Kind)
	}
}

// Held returns the grants of this process.
func (r *LineCore) Held() []*Grant {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return r.Kind.Grants()
}

// Close ends the leases of this resource because the client is closed. It sends no release of them to Redis.
func (r *LineCore) Close() {
	r.Mu.Lock()
	r.Shut = true
	held := r.Kind.Grants()
	r.Kind.Shuts()
	r.Mu.Unlock()
	for _, g := range held {
		g.EndLeases(failure.ErrClosed)
	}
}

// Guards returns the leases of the watchdog for the grants of this process.
func (r *LineCore) Guards() (all []*watchdog.Lease) {
	for _, g := range r.Held() {
		all = append(all, &g.Guard)
	}
	return all
}

// EachWaiting calls f for the waiters in the queue. Those of other kinds than a mutex have a lease, which knows its kind.
func (r *LineCore) EachWaiting(f func(w *Waiter, kind string)) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.Queue.Each(func(w *Waiter) { f(w, core.KindMutex) })
}

// Changed does nothing: the client makes the waiter of each ticket ask.
func (r *LineCore) Changed() {}

// EndsLinger does nothing: the grants of most kinds do not linger.
func (r *LineCore) EndsLinger() {}

// Subject returns the lock that w waits for, for a kind whose waiters always have a lease.
func (r *LineCore) Subject(w *Waiter) (kind, key string) {
	return w.For.Lease.Core().Kind(), r.Key
}

// leaseOf returns the lease for w, which it makes anew if w was parked: then its call has no owner. The caller holds r.Mu, so the
// context of the call, which may be of any type, is not asked for anything.
func (r *LineCore) leaseOf(w *Waiter) *leases.Lease {
	if w.For.Lease == nil {
		l := leases.Empty(r.Client.Core())
		l.Core().Prepare(core.KindMutex, w.Call.Ctx)
		l.Core().Label = w.Call.Label
		w.For.Lease = l
	}
	return w.For.Lease
}

// These are the defaults of a LineKind, and most kinds need no more. A ticket is given up when its request is answered.

func (r *LineCore) Follow(*Waiter) bool                                { return false }
func (r *LineCore) Owner(tk *Ticket) string                            { return r.Client.Wire.Owner(tk.Number) }
func (r *LineCore) Overtaken(*AcquireOp, protocol.Verdict, error) bool { return false }
func (r *LineCore) Ended(*Ticket)                                      {}
func (r *LineCore) Learns(*Ticket, protocol.Message) int               { return 1 }
func (r *LineCore) HandedAgain(*Ticket)                                {}
func (r *LineCore) Displaced(*Ticket)                                  {}
func (r *LineCore) Soon(_ *Ticket, d time.Duration) time.Duration      { return d }
func (r *LineCore) Retire(tk *Ticket)                                  { r.withdraw(tk, tk.TTL) }

func (r *LineCore) Reenter(_ *Grant, _, _ *leases.Lease) bool    { return false }
func (r *LineCore) Next(*Grant) (none *Waiter, _ monotonic.Time) { return nil, 0 }
func (r *LineCore) Admit(*Grant, *leases.Owner)                  {}
func (r *LineCore) Wanted(*Grant)                                {}
func (r *LineCore) Deleted(*Grant)                               {}
func (r *LineCore) Queued() int                                  { return r.Queue.Length() }
func (r *LineCore) Shuts()                                       {}
func (r *LineCore) Releasing(*ReleaseOp)                         {}
func (r *LineCore) GiveUp(op *ReleaseOp)                         { r.Kind.Retire(op.Ticket) }
func (r *LineCore) Proceed(*ReleaseOp, Released, error)          { r.Continue(r.Kind) }

func (r *LineCore) TicketOf(w *Waiter) *Ticket {
	if tk := w.For.Ticket; tk != nil && tk.Waiter() == w {
		return tk
	}
	return nil
}

func (r *LineCore) Refused(_ *AcquireOp, _ time.Time, _ protocol.Verdict, ev engine.Event) engine.Event {
	return ev
}

func (r *LineCore) Unwanted(tk *Ticket) *Waiter {
	r.Drop(tk)
	r.Prompt(r.Kind)
	return nil
}

func (r *LineCore) Abandoned(w *Waiter) {
	if tk := r.TicketOf(w); tk != nil {
		tk.Extra.Waiter = nil
		if tk.State != engine.TicketAsking {
			r.Drop(tk)
		}
	}
}
