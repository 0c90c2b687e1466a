package lockrt

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// A lineCore is the common part of the resources whose waiters have a ticket each: of read-write locks, of fair mutexes, and of
// every kind that needs no more. The head of the queue asks Redis, or every waiter asks for itself, apart from the queue: see
// lineticket.go.
//
//	           granted              the last one unlocks
//	┌── asking ────────► grant, or grants ────────────────► releasing ──┐
//	│    ▲   │            ▲      │                                      │
//	│    └───┘            └──────┘                                      │
//	│   refused: again    without a request: others follow, or share it │
//	│   by message and                                                  │
//	│   by timer                                                        │
//	└──────────────────────── the head's turn ◄─────────────────────────┘
type lineCore struct {
	engine.Line[wish]

	on   *referenced
	kind lineKind // the resource
}

// A lineKind is what such a kind decides, and what it says to Redis. The caller holds the lock of the resource, except for release.
type lineKind interface {
	engine.Policy[wish]

	// granted makes a grant of tk, which Redis granted no earlier than at sent, and gives it to the waiter.
	granted(tk *lineTicket, sent time.Time)
	// refused returns what the waiter of tk, if there is one, gets to know of a refusal: ev, or when to ask again instead, at the
	// latest. Redis has said when to ask again; or nothing, for less than 0.
	refused(tk *lineTicket, sent time.Time, reply protocol.Verdict, ev engine.Event) engine.Event
	// overtaken handles the answer to a request for a ticket that does not need one any more, and reports whether tk is such.
	overtaken(tk *lineTicket, reply protocol.Verdict, err error) bool
	// unwanted handles the answer for a ticket without a waiter. It returns the waiter that takes the ticket over, or nil.
	unwanted(tk *lineTicket) *waiter
	// abandoned gives up a ticket, for which w has waited.
	abandoned(tk *lineTicket, w *waiter)
	// ended is called when the waiter of tk waits no more.
	ended(tk *lineTicket)

	// owner returns the name of tk in Redis.
	owner(tk *lineTicket) string
	// acquire returns the request for tk.
	acquire(tk *lineTicket) protocol.Command
	// read reads the reply to it.
	read(tk *lineTicket, reply transport.Reply) (protocol.Verdict, error)
	// release releases tk, or takes it out of the wait queue of Redis.
	release(tk *lineTicket) (protocol.Outcome, error)
	// withdrawer withdraws tickets of the key.
	withdrawer() engine.Withdrawer
}

// hear ignores the content of a message: any message is a reason to ask.
func (r *lineCore) hear(string) {}

// join adds w to the end of the queue.
func (r *lineCore) join(w *waiter) entry {
	r.on.mu.Lock()
	defer r.on.mu.Unlock()
	return r.Join(w, r.kind)
}

// last returns whether this process has a grant that excludes w, and the last answer of Redis.
func (r *lineCore) last(w *waiter) (held bool, said engine.AnswerLog) {
	r.on.mu.Lock()
	defer r.on.mu.Unlock()
	return r.Last(w, r.kind)
}

// remind makes the head of the queue ask; or w, if it asks for itself and has taken over a ticket of which no request is under way.
func (r *lineCore) remind(w *waiter) {
	r.on.mu.Lock()
	defer r.on.mu.Unlock()
	if tk := w.For.ticket; tk != nil && tk.apart && tk.waits() && tk.w == w && tk.asking == 0 {
		w.Notify(engine.Event{Kind: engine.Turn})
	}
	r.Prompt(r.kind)
}

// leave removes w. If it got the lease after all, leave unlocks it.
func (r *lineCore) leave(w *waiter) {
	r.on.mu.Lock()
	defer r.on.mu.Unlock()
	if r.on.givesBack(w) {
		return
	}
	if w.Place.Queued() {
		r.Queue.Remove(w)
	}
	if tk := w.For.ticket; tk != nil && tk.w == w {
		tk.w = nil
		r.kind.abandoned(tk, w)
	}
	r.Prompt(r.kind)
}

// Most kinds need no more than these. A ticket is given up when its request is answered.

func (r *lineCore) Follow(*waiter) bool         { return false }
func (r *lineCore) ended(*lineTicket)           {}
func (r *lineCore) owner(tk *lineTicket) string { return r.on.c.wire.Owner(tk.Number) }

func (r *lineCore) refused(_ *lineTicket, _ time.Time, _ protocol.Verdict, ev engine.Event) engine.Event {
	return ev
}

func (r *lineCore) overtaken(*lineTicket, protocol.Verdict, error) bool { return false }

func (r *lineCore) unwanted(tk *lineTicket) *waiter {
	tk.Rest()
	r.drop(tk)
	r.Prompt(r.kind)
	return nil
}

func (r *lineCore) abandoned(tk *lineTicket, _ *waiter) {
	if tk.State != engine.TicketAsking {
		r.drop(tk)
	}
}

// givesBack unlocks the lease of w, which leaves, in the background, and reports false if it has got none.
func (e *referenced) givesBack(w *waiter) bool {
	if w.Place.State != engine.PlaceGranted {
		return false
	}
	l := w.For.lease
	e.c.spawn(func() { _ = l.grant.unlock(l) })
	return true
}

// An asker gets the answer to a request, of which again says that it was sent more than once: another one of these requests may
// have taken effect, or may do so later.
type asker interface {
	answered(sent time.Time, reply transport.Reply, again bool)
}

// request sends a request of w on a goroutine of its own, more than once if the answer is late, and passes the answer on.
func (e *referenced) request(w *waiter, cmd protocol.Command, by asker) {
	w.Asks.Add(1)
	e.stay()
	e.c.spawn(func() {
		defer e.quit()
		sent := time.Now() // before the request: the trust counts from here
		reply, again := e.c.net.RunGrantInTime(cmd, isGranted)
		by.answered(sent, reply, again)
		w.Asks.Add(-1)
	})
}
