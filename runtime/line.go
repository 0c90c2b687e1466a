package lockrt

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// A lineCore is the common part of the resources whose waiters are in one queue, first come, first served, and have a ticket
// each: of read-write locks, and of every kind that needs no more. The head of the queue asks Redis, see lineticket.go.
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
	referenced
	engine.Line[wish]

	kind lineKind // the resource
}

// A lineKind is what such a kind decides, and what it says to Redis. The caller holds the lock of the resource.
type lineKind interface {
	engine.Policy[wish]

	// granted makes a grant of tk, which Redis granted no earlier than at sent, and gives it to the waiter.
	granted(tk *lineTicket, sent time.Time)
	// refused returns how long the waiter of tk waits for a message at most, before it asks again. Redis has said when to
	// ask again; or nothing, for less than 0.
	refused(tk *lineTicket, wait time.Duration) time.Duration
	// ended is called when the waiter of tk waits no more.
	ended(tk *lineTicket)

	// owner returns the name of tk in Redis.
	owner(tk *lineTicket) string
	// acquire returns the request for tk, and what reads its reply.
	acquire(tk *lineTicket) (protocol.Command, func(transport.Reply) (protocol.Verdict, error))
	// release returns the release of a ticket of that name, or of its place in the wait queue of Redis.
	release(owner string) protocol.Command
	// withdrawer withdraws tickets of the key.
	withdrawer() engine.Withdrawer
}

// hear ignores the content of a message: any message is a reason to ask.
func (r *lineCore) hear(string) {}

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

// remind makes the head of the queue ask.
func (r *lineCore) remind() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Prompt(r.kind)
}

// leave removes w. If it got the lease after all, leave unlocks it.
func (r *lineCore) leave(w *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.givesBack(w) {
		return
	}
	if w.Place.Queued() {
		r.Queue.Remove(w)
	}
	tk := w.For.ticket
	tk.w = nil
	if tk.State != engine.TicketAsking {
		r.drop(tk)
	}
	r.Prompt(r.kind)
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
