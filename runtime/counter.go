package lockrt

import (
	"container/list"
	"context"
	"strconv"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A counter is this process's side of one key that counts: a semaphore or a latch. Its callers queue here, first come,
// first served, and one request at a time asks Redis for all of them, so that small demands of the same process do not
// overtake a big one.
//
//	           all granted
//	┌── idle ◄──────────────┐
//	│ first comes           │      the head is refused
//	└──────────────────► asking ─────────────────────────► full: the others wait behind it
//	                     ▲    ▲ reply lost: the same again   │
//	                     └────┴──────────────────────────────┘ a message, a release here, time, the head leaves
//
// A grant for a waiter that left is released. A request with an unknown outcome is sent again, unchanged, until the
// outcome is known: Redis stores the result under the number of the request.
type counter struct {
	referenced

	kind string
	of   counting

	// Guarded by mu:
	queue       waitQueue
	full        bool          // the head was refused
	width       int           // for how many waiters the next request asks
	alike       bool          // all want the same: one answer serves all of them
	round       *batchRequest // the request without an answer
	asking      bool          // it is under way
	numbers     list.List     // of the requests with an unknown outcome, in their order
	permits     map[*Permit]struct{}
	answers     engine.AnswerLog // of Redis
	lastMessage string           // the last message
	heard       int              // number of messages
}

// A counting is the thing that a counter counts: permits, or the open latch.
type counting interface {
	// channel is the channel on which Redisson announces a change.
	channel() string
	// ask sends b for waiters, or for none: then what b has not taken yet it never takes. The first
	// granted waiters of b have theirs; Redis refuses the others, which ask again after ttl, or
	// have no such time if ttl is negative.
	ask(b *batchRequest, wanted bool) (granted int, ttl time.Duration, err error)
	// grant gives w its permits, which it has in Redis since sent, and reports false if their lease
	// is over: then grant releases them, and w asks anew. The caller holds the counter's lock.
	grant(w *waiter, sent time.Time) bool
	// undo releases granted permits.
	undo(demand)
}

// A demand is the demand of a waiter at a counter.
type demand struct {
	n      int     // number of permits
	create int     // permits to create it with, or 0
	ids    string  // the ids of the permits, of 16 bytes each
	permit *Permit // the permit for the waiter
	seen   bool    // the latch was seen closed
}

const (
	// mostAtOnce is the largest number of waiters of one request. A request serves one waiter more than the last
	// refused request granted, twice as many after one that was granted to all, and as many as a message says that
	// there are permits.
	mostAtOnce = 64
	// keepResults is how long Redis stores the result of a request. The client repeats a request,
	// and a request may be late, for half of that time.
	keepResults = 2 * time.Minute
	insistence  = keepResults / 2
	// pollCounted is the interval in which a waiter asks without any message: some programs release
	// without one.
	pollCounted = 5 * time.Second
)

// counted are the kinds that count.
var counted = []string{kindSemaphore, kindPermit, kindLatch}

// countersOf returns the counters of a kind.
func (c *Client) countersOf(kind string) *registry[*counter] {
	switch kind {
	case kindSemaphore:
		return &c.semaphores
	case kindPermit:
		return &c.permits
	}
	return &c.latches
}

func newCounter(c *Client, kind, key string) *counter {
	ct := &counter{referenced: referenced{c: c, key: key}, kind: kind, width: mostAtOnce, permits: map[*Permit]struct{}{}}
	ct.of = countings[kind](ct)
	return ct
}

func (ct *counter) channel() string { return ct.of.channel() }

// hear records the last message. An empty one means that messages may have been missed; the message
// that a latch was opened remains true.
func (ct *counter) hear(payload string) {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	if payload == "" && protocol.OpensLatch(ct.lastMessage) {
		return
	}
	ct.lastMessage = payload
	ct.heard++
	if n, err := strconv.Atoi(payload); err == nil {
		ct.width = max(ct.width, min(n, mostAtOnce))
	}
}

// join adds w to the end of the queue. A waiter that tries once is not put behind one that waits.
func (ct *counter) join(w *waiter) entry {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	if ct.full && w.Once() {
		return turnedAway
	}
	ct.queue.Push(w)
	if w.For.demand == nil { // for a latch, which it wants open
		w.For.demand = new(demand)
	}
	w.For.demand.seen = ct.full
	if ct.full {
		return toWait
	}
	return toAsk
}

// last returns the last answer of Redis. Permits of this process are no reason to wait.
func (ct *counter) last(*waiter) (held bool, saidLast engine.AnswerLog) {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	return false, ct.answers.Look()
}

// remind makes the head of the queue ask.
func (ct *counter) remind() { ct.wake() }

// ask sends the demand of w, with the next request if one is under way.
func (ct *counter) ask(w *waiter) {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	if !w.Place.Queued() {
		return // it got what it wants a moment ago
	}
	w.Place.State = engine.PlaceAsking
	ct.send()
}

// notify answers w, if it has asked.
func (ct *counter) notify(w *waiter, ev engine.Event) {
	if w.Place.State == engine.PlaceAsking {
		w.Place.State = engine.PlaceLeading
		w.Notify(ev)
	}
}

// resume asks for the waiters, or makes the head do so.
func (ct *counter) resume() {
	for w := ct.queue.First; w != nil; w = w.Place.After {
		if w.Place.State == engine.PlaceAsking {
			ct.send()
			return
		}
	}
	if w := ct.queue.First; w != nil && w.Place.Leading() {
		w.Poke()
	}
	ct.lead()
}

// lead gives the head the turn to ask, if it does not have it. Whenever no request is under way,
// the head has the turn.
func (ct *counter) lead() {
	if w := ct.queue.First; w != nil && !w.Place.Leading() {
		w.Place.State = engine.PlaceLeading
		w.Notify(engine.Event{Kind: engine.Turn})
	}
}

// wake makes the head ask, since this process released something.
func (ct *counter) wake() {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	if w := ct.queue.First; w != nil {
		w.Poke()
	}
}

// leave removes w from the queue, and releases what it was granted after all.
func (ct *counter) leave(w *waiter) {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	if w.Place.State == engine.PlaceGranted {
		w.Place.State = engine.PlaceNone
		ct.stay()
		ct.c.spawn(func() {
			defer ct.quit()
			ct.of.undo(*w.For.demand)
		})
		return
	}
	if !w.Place.Queued() {
		return
	}
	first := ct.queue.First == w
	ct.queue.Remove(w)
	switch {
	case ct.asking: // the answer continues the queue
	case ct.queue.Length > 0:
		if first {
			ct.resume()
		}
	default:
		ct.full = false
		if ct.round != nil {
			ct.settleLater(ct.round, nil, 0)
		}
	}
}

// count makes a call wait at the counter of a key until the demand of want is granted. After an
// error it returns the waiter too, if it called want.
func (a *attempt) count(ctx context.Context, want func(*waiter)) (*waiter, error) {
	c, kind, key, cfg := a.c, a.kind, a.key, a.cfg
	if a.err != nil {
		return nil, a.err
	}
	if err := c.checkCounted(kind, key); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ended(ctx)
	}
	w := newWaiter(ctx, nil, cfg)
	want(w)
	ct, err := c.countersOf(kind).enter(key, false)
	if err != nil {
		return w, err
	}
	defer ct.exit()
	start := time.Now()
	err = c.await(ctx, ct, w, cfg, a.waits)
	if err == nil && ctx.Err() != nil {
		err = ended(ctx) // granted, but the caller does not want it any more
	}
	if err != nil {
		ct.leave(w)
		return w, err
	}
	c.counts.waited(time.Since(start))
	return w, nil
}

// countings make the counting of a counter, by its kind.
var countings = map[string]func(*counter) counting{
	kindSemaphore: newSemaphoreCounter,
	kindPermit:    newPermitCounter,
	kindLatch:     newLatchCounter,
}

// close ends the permits of this process, because the client is closed. It sends nothing to Redis.
func (ct *counter) close() {
	ct.mu.Lock()
	permits := make([]*Permit, 0, len(ct.permits))
	for p := range ct.permits {
		permits = append(permits, p)
	}
	ct.mu.Unlock()
	for _, p := range permits {
		p.end(ErrClosed)
	}
}
