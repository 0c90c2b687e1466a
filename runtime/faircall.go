package lockrt

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// A fairCall is the contest of one waiter. It asks Redis with a ticket: one of its own, or that of a waiter that gave
// up a moment ago, which keeps its place.
type fairCall struct {
	r    *fairResource
	w    *waiter
	wait time.Duration // the duration of its place

	// Guarded by fairResource.mu.
	ticket *fairTicket // nil before it joins
	asked  bool        // it has asked at least once
}

// contest returns the contest of a waiter.
func (r *fairResource) contest(w *waiter, cfg lockConfig) *fairCall {
	e := &fairCall{r: r, w: w, wait: r.c.opts.FairWait}
	if cfg.wait > 0 {
		e.wait = max(cfg.wait, time.Millisecond)
	}
	return e
}

func (e *fairCall) queueKey() string { return e.r.key }

// channel is the channel of this waiter alone, on which Redisson announces its turn.
func (e *fairCall) channel() string {
	e.r.mu.Lock()
	defer e.r.mu.Unlock()
	return e.r.lock.Channel(e.ticket.owner)
}

// hear ignores the content of a message: any message is a reason to ask.
func (e *fairCall) hear(string) {}

// join makes every waiter ask. Exceptions are a waiter that tries once while this process has the lock, and one that
// takes over a ticket whose request is under way.
func (e *fairCall) join(w *waiter) entry {
	r := e.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.admits(w.For.lease) { // granted a moment ago, to another call of the same owner
		w.Place.State = engine.PlaceGranted
		return entered
	}
	if w.Once() && r.grant != nil {
		return turnedAway
	}
	tk := r.takeSpare(e)
	if tk == nil {
		tk = &fairTicket{r: r, terms: w.Terms, wait: e.wait}
		tk.Number, tk.Made = r.c.ticketNumbers.Add(1), monotonic.Now()
		tk.owner = r.c.wire.Owner(tk.Number)
		r.c.subscribers.Connect(tk.Number, tk)
	}
	e.ticket, tk.call = tk, e
	r.tickets[tk.Number] = tk
	if tk.asking > 0 {
		return toWait
	}
	return toAsk
}

// last returns whether this process has the lock, which refuses a call that tries once. A waiting call asks for itself.
func (e *fairCall) last(*waiter) (held bool, said engine.AnswerLog) {
	e.r.mu.Lock()
	defer e.r.mu.Unlock()
	return e.r.grant != nil, engine.AnswerLog{}
}

// remind makes the waiter ask, if it has not asked yet.
func (e *fairCall) remind() {
	e.r.mu.Lock()
	defer e.r.mu.Unlock()
	if tk := e.ticket; tk != nil && tk.call == e && tk.grant == nil && tk.asking == 0 {
		e.w.Notify(engine.Event{Kind: engine.Turn})
	}
}

// ask sends one request.
func (e *fairCall) ask(w *waiter) {
	r := e.r
	r.mu.Lock()
	defer r.mu.Unlock()
	tk := e.ticket
	if tk == nil || tk.grant != nil || tk.call != e || tk.Left() {
		return // it got what it wants a moment ago
	}
	e.asked = true
	tk.asking++
	tk.To(engine.TicketAsking)
	t := tk.terms
	// A process that would not hear of a grant gets the lock only when it asks.
	req := protocol.FairRequest{Owner: tk.owner, Queue: protocol.NotQueued, Lease: t.TTL, Wait: tk.wait, Hears: !w.Once() && !t.Polling}
	if t.Fenced {
		req.Tokens = 1
	}
	if !w.Once() {
		req.Queue = protocol.Queued
		if tk.Standing {
			req.Queue = protocol.StillQueued
		}
		tk.Standing = true
		if !r.noted {
			r.noted = true
			r.c.stood.Note(r.key)
		}
	}
	r.request(w, r.lock.Acquire(req, time.Now()), tk)
}

func (tk *fairTicket) answered(sent time.Time, reply transport.Reply, again bool) {
	verdict, err := readFair(reply)
	if rest := tk.settle(sent, verdict, again, err); rest != nil {
		rest()
	}
}

// leave gives the ticket up. If the waiter got the lease after all, leave unlocks it.
func (e *fairCall) leave(w *waiter) {
	r := e.r
	r.mu.Lock()
	defer r.mu.Unlock()
	tk := e.ticket
	if !r.givesBack(w) && tk != nil && tk.call == e {
		tk.abandon()
	}
}
