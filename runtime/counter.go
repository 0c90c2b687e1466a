package lockrt

import (
	"container/list"
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A counter is this process's side of one key that counts: a semaphore or a latch. Its callers
// queue here, first come, first served, and one request at a time asks Redis for all of them, so that a
// big demand is not overtaken by small ones of the same process.
//
//	           all granted
//	┌── idle ◄──────────────┐
//	│ first comes           │      the head is refused
//	└──────────────────► asking ─────────────────────────► full: the others wait behind it
//	                     ▲    ▲ reply lost: the same again   │
//	                     └────┴──────────────────────────────┘ a message, a release here, time, the head leaves
//
// What was granted to one who left is given back. A request whose outcome is not known is sent again, as
// it was, until it is: Redis keeps what it did by its number.
type counter struct {
	referenced

	kind string
	of   counting

	mu          sync.Mutex // guards the rest; never held while waiting for anything
	queue       waitQueue
	full        bool          // the head was refused
	width       int           // for how many the next request asks
	alike       bool          // they all want the same: one answer is for all of them
	round       *batchRequest // that was sent and not answered
	asking      bool          // it is under way
	numbers     list.List     // of the requests whose outcome is not known, in their order
	permits     map[*Permit]struct{}
	answers     answerLog // of Redis
	lastMessage string    // the last message
	heard       int       // messages
}

// A counting is what a counter counts: permits, or the open latch.
type counting interface {
	// channel is where Redisson announces that asking may be worth it again.
	channel() string
	// ask sends b for those who want what it is about, or for nobody: then what it has not taken yet
	// it never will. The first so many of b have theirs; the others are refused, and it is
	// worth asking again in ttl, or nobody knows when if that is negative.
	ask(b *batchRequest, wanted bool) (granted int, ttl time.Duration, err error)
	// grant gives w what it has in Redis since sent, and reports false if that is over: then it is
	// undone, and w wants it anew. It is called under the counter's lock.
	grant(w *waiter, sent time.Time) bool
	// undo gives back what was granted.
	undo(demand)
}

// A demand is what a waiter wants of a counter.
type demand struct {
	n      int     // how many
	create int     // permits to create it with, or 0
	ids    string  // under which it is to get them, of 16 bytes each
	permit *Permit // that it is to get
	seen   bool    // the latch was closed
}

const (
	// mostAtOnce is how many waiters one request asks for at most. It asks for one more than the last one
	// that was refused was granted, for twice as many after one that was granted to all, and for as many
	// as there are said to be permits.
	mostAtOnce = 64
	// keepResults is how long Redis keeps what a request did. It is sent again, and may be late, for
	// half of it.
	keepResults = 2 * time.Minute
	insistence  = keepResults / 2
	// pollCounted is how often a waiter asks that nobody can tell when it is worth it: some who give
	// back say nothing.
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

// hear notes what was said last. Nothing says that more may have been said; that a latch was opened is
// true all the same.
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

// join puts w at the end of the queue. One who does not wait is not put behind one who does.
func (ct *counter) join(w *waiter) entry {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	if ct.full && w.once {
		return turnedAway
	}
	ct.queue.push(w)
	w.demand.seen = ct.full
	if ct.full {
		return toWait
	}
	return toAsk
}

// last returns what Redis said last. What this process has is no reason to wait.
func (ct *counter) last(*waiter) (held bool, saidLast answerLog) {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	return false, ct.answers.look()
}

// remind has the head of the queue ask.
func (ct *counter) remind() { ct.wake() }

// ask has w's demand sent, with the next request if one is under way.
func (ct *counter) ask(w *waiter) {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	if !w.place.queued {
		return // it was given what it wants a moment ago
	}
	w.place.leading, w.place.asked = true, true
	ct.send()
}

// notify answers w, if it has asked.
func (ct *counter) notify(w *waiter, ev event) {
	if w.place.asked {
		w.place.asked = false
		w.notify(ev)
	}
}

// resume asks for those who queue, or has the head do so.
func (ct *counter) resume() {
	for w := ct.queue.first; w != nil; w = w.place.after {
		if w.place.asked {
			ct.send()
			return
		}
	}
	if w := ct.queue.first; w != nil && w.place.leading {
		w.poke()
	}
	ct.lead()
}

// lead makes it the head's turn to ask, if it is not yet. Whenever no request is under way, it is the
// head's turn.
func (ct *counter) lead() {
	if w := ct.queue.first; w != nil && !w.place.leading {
		w.place.leading = true
		w.notify(event{kind: turn})
	}
}

// wake has the head ask, since something was given back here.
func (ct *counter) wake() {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	if w := ct.queue.first; w != nil {
		w.poke()
	}
}

// leave takes w out of the queue. What it was given after all is given back.
func (ct *counter) leave(w *waiter) {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	if w.place.granted {
		w.place.granted = false
		ct.stay()
		ct.c.spawn(func() {
			defer ct.quit()
			ct.of.undo(w.demand)
		})
		return
	}
	if !w.place.queued {
		return
	}
	first := ct.queue.first == w
	ct.queue.remove(w)
	switch {
	case ct.asking: // the answer looks after the queue
	case ct.queue.length > 0:
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

// count has a call wait at the counter of a key until it is granted what want demands. After an error
// the waiter is returned too, if want was called.
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
		err = ended(ctx) // granted, but not wanted any more
	}
	if err != nil {
		ct.leave(w)
		return w, err
	}
	c.counts.waited(time.Since(start))
	return w, nil
}

// countings make what counters count, by their kinds.
var countings = map[string]func(*counter) counting{
	kindSemaphore: newSemaphoreCounter,
	kindPermit:    newPermitCounter,
	kindLatch:     newLatchCounter,
}

// close ends the permits that this process has, because the client is closed. It sends nothing to Redis.
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
