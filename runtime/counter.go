package lockrt

import (
	"container/list"
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
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
	c     *Client
	kind  string
	key   string
	of    counting
	users int // calls, permits and requests that refer to it; guarded by c.mu

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

// A batchRequest is one request, for several who wait. Those who leave meanwhile stay in it: sent again, it has
// to be what it was.
type batchRequest struct {
	number         *list.Element
	waiters        []*waiter
	demands        []demand
	sent           time.Time // for the first time: what was taken then lasts no longer for being asked for again
	outcomeUnknown bool      // it may have been done without our knowing
	deleted        bool      // the latch that they wait for was deleted
	last           bool      // it is sent once more, because the client is closed
	down           outage    // since it is in doubt
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

// enterCounter returns the counter of a key for a call, until exit. A call that gives back enters
// when the client is closed, too.
func (c *Client) enterCounter(kind, key string, closing bool) (*counter, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != open && !closing {
		return nil, ErrClosed
	}
	id := kind + " " + key
	ct := c.counters[id]
	if ct == nil {
		ct = &counter{c: c, kind: kind, key: key, width: mostAtOnce, permits: map[*Permit]struct{}{}}
		ct.of = countings[kind](ct)
		if c.counters == nil {
			c.counters = map[string]*counter{}
		}
		c.counters[id] = ct
	}
	ct.users++
	c.running++
	return ct, nil
}

func (ct *counter) exit() {
	ct.quit()
	ct.c.finished()
}

// stay counts one more user of a counter that has one.
func (ct *counter) stay() {
	ct.c.mu.Lock()
	defer ct.c.mu.Unlock()
	ct.users++
}

// quit takes back stay. A counter that nobody uses is forgotten.
func (ct *counter) quit() {
	ct.c.mu.Lock()
	defer ct.c.mu.Unlock()
	ct.users--
	if ct.users == 0 {
		delete(ct.c.counters, ct.kind+" "+ct.key)
	}
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

// send sends the request in doubt again, or a new one for those who queue, unless one is under way.
func (ct *counter) send() {
	if ct.asking {
		return
	}
	b := ct.round
	if b == nil {
		if ct.queue.length == 0 {
			return
		}
		b = &batchRequest{number: ct.enroll()}
		for w := ct.queue.first; w != nil && (ct.alike || len(b.waiters) < ct.width); w = w.place.after {
			b.waiters = append(b.waiters, w)
			b.demands = append(b.demands, w.demand)
		}
		ct.round = b
	}
	wanted := false
	for _, w := range b.waiters {
		wanted = wanted || w.place.queued
	}
	if b.sent.IsZero() {
		b.sent = time.Now() // before the request: trust is counted from here
	}
	ct.asking = true
	ct.answers.asks()
	ct.stay()
	ct.c.spawn(func() {
		defer ct.quit()
		granted, ttl, err := ct.of.ask(b, wanted)
		for _, w := range ct.settle(b, granted, ttl, err) {
			ct.of.undo(w)
		}
	})
}

// settle deals with the answer to b, and returns those who were granted what they do not want any more.
func (ct *counter) settle(b *batchRequest, granted int, ttl time.Duration, err error) (vain []demand) {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	ct.asking = false
	ct.answers.says(err == nil && granted < len(b.waiters), err)
	if err != nil {
		ct.failed(b, err)
		return nil
	}
	ct.round = nil
	ct.numbers.Remove(b.number)
	ct.width = granted + 1
	if granted == len(b.waiters) {
		ct.width = min(2*granted, mostAtOnce)
	}
	for i, w := range b.waiters[:granted] {
		switch {
		case !w.place.queued || !ct.c.granting():
			vain = append(vain, b.demands[i])
		case !ct.of.grant(w, b.sent):
			vain = append(vain, b.demands[i])
			ct.notify(w, event{kind: failed, err: errLate})
		default:
			ct.queue.remove(w)
			if b.deleted && w.demand.seen {
				w.notify(event{kind: failed, err: ErrDeleted})
				continue
			}
			w.place.granted = true
			w.notify(event{kind: given})
		}
	}
	head := ct.queue.first
	switch {
	case head == nil:
		ct.full = false
	case granted < len(b.waiters) && b.waiters[granted] == head:
		ct.refuse(head, ttl)
	default:
		ct.full = false
		ct.resume()
	}
	return vain
}

// refuse tells the head that it has to wait, and the others that they wait behind it. One that does not
// wait makes room for them instead.
func (ct *counter) refuse(head *waiter, ttl time.Duration) {
	head.demand.seen = true
	if head.once || head.place.asked || !head.place.leading { // or it is about to ask by itself
		head.place.leading, head.place.asked = true, false
		head.notify(event{kind: refusedFor, ttl: ttl, foreign: true, inLine: true})
	}
	if head.once { // and will not ask any more
		ct.queue.remove(head)
		ct.full = false
		ct.resume()
		return
	}
	ct.full = true
	for w := head.place.after; w != nil; w = w.place.after {
		w.demand.seen = true
		if !w.place.asked {
			continue
		}
		w.place.leading = false
		ct.notify(w, event{kind: behind})
	}
}

// failed tells those who asked with b that there was no answer. If its outcome is not known and they
// have gone, it is settled without them.
func (ct *counter) failed(b *batchRequest, err error) {
	b.outcomeUnknown = b.outcomeUnknown || transport.Unknown(err) || transport.Unconfirmed(err)
	pause := b.down.pause(ct.c.opts.Retry, err)
	for w := ct.queue.first; w != nil; w = w.place.after {
		ct.notify(w, event{kind: failed, err: err})
	}
	if !b.outcomeUnknown {
		ct.round = nil
		ct.numbers.Remove(b.number)
	}
	if ct.queue.length > 0 {
		ct.lead() // whoever asked may have left, or may be about to
		return
	}
	ct.full = false // the one who was refused has left, and the next to come asks
	if b.outcomeUnknown {
		ct.settleLater(b, err, pause)
	}
}

// settleLater sends b again in a while, though nobody waits for the answer, unless it is too late for that.
func (ct *counter) settleLater(b *batchRequest, err error, pause time.Duration) {
	ct.stay()
	ct.c.spawn(func() {
		defer ct.quit()
		again := (err == nil || passing(err)) && !b.down.longer(insistence)
		if again && !ct.c.pause(pause) {
			again, b.last = !b.last, true
		}
		ct.mu.Lock()
		defer ct.mu.Unlock()
		switch {
		case ct.round != b || ct.asking:
		case again:
			ct.send()
		default:
			ct.round = nil
			ct.numbers.Remove(b.number)
			ct.c.opts.Logger.Warn("lockgen: a request could not be withdrawn; what it took may be lost", "kind", ct.kind, "key", ct.key, "error", err)
			ct.resume()
		}
	})
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

// enroll numbers a request.
func (ct *counter) enroll() *list.Element { return ct.numbers.PushBack(ct.c.ticketNumbers.Add(1)) }

// numbered returns a request as the scripts get it.
func (ct *counter) numbered(number *list.Element) protocol.Request {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	return protocol.Request{Number: number.Value.(uint64), Oldest: ct.numbers.Front().Value.(uint64), Keep: keepResults}
}

// change has a script run that changes the count, once, however often it is sent: for the caller until ctx ends,
// at most for Options.OpTimeout, and then, if it is to be done at any rate, in the background.
func (ct *counter) change(ctx context.Context, anyway bool, cmd func(protocol.Request) protocol.Command) (int64, error) {
	return ct.once(ctx, anyway, func(r protocol.Request) (int64, error) {
		return ct.c.net.Run(cmd(r)).Int()
	})
}

// once calls send with a numbered request, like change.
func (ct *counter) once(ctx context.Context, anyway bool, send func(protocol.Request) (int64, error)) (int64, error) {
	ct.mu.Lock()
	number := ct.enroll()
	ct.mu.Unlock()
	settled := func() {
		ct.mu.Lock()
		defer ct.mu.Unlock()
		ct.numbers.Remove(number)
	}
	return ct.insist(ctx, anyway, settled, func() (int64, error) {
		n, err := send(ct.numbered(number))
		if err == nil && n == protocol.Outdated {
			err = protocol.ErrOutdated
		}
		return n, err
	})
}

// insist calls send until it is answered, like change, and then settled. Nobody waits for ever.
func (ct *counter) insist(ctx context.Context, anyway bool, settled func(), send func() (int64, error)) (int64, error) {
	type reply struct {
		n   int64
		err error
	}
	limit := time.Now().Add(min(insistence, ct.c.opts.OpTimeout)) // later Redis may not know any more that it was done
	over := limit
	if anyway {
		over = time.Now().Add(insistence)
	}
	done := make(chan reply, 1)
	ct.stay()
	ct.c.spawn(func() {
		defer ct.quit()
		finish := func(n int64, err error) {
			settled() // first, so that the caller's next request says that this one is
			done <- reply{n, err}
		}
		var down outage
		for last := false; ; {
			n, err := send()
			if err == nil || !passing(err) {
				finish(n, err)
				return
			}
			pause := down.pause(ct.c.opts.Retry, err)
			switch again := time.Now().Add(pause); {
			case again.Before(limit):
				<-time.After(pause)
			case again.Before(over) && ct.c.pause(pause):
			case again.Before(over) && !last: // the client is closed
				last = true
			default:
				finish(n, err)
				if anyway {
					ct.c.opts.Logger.Warn("lockgen: a change may not have been made", "kind", ct.kind, "key", ct.key, "error", err)
				}
				return
			}
		}
	})
	timer := time.NewTimer(ct.c.opts.OpTimeout)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.n, refused(r.err)
	case <-ctx.Done():
		return 0, ended(ctx)
	case <-timer.C:
		if anyway {
			return 0, fmt.Errorf("%w: no answer within %v; it is done as soon as Redis answers", ErrUnavailable, ct.c.opts.OpTimeout)
		}
		return 0, fmt.Errorf("%w: no answer within %v", ErrUnavailable, ct.c.opts.OpTimeout)
	}
}

// asked returns b as the scripts that grant get it.
func (ct *counter) asked(b *batchRequest) protocol.Round {
	return protocol.Round{Request: ct.numbered(b.number), Again: b.outcomeUnknown, Create: b.demands[0].create}
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
	ct, err := c.enterCounter(kind, key, false)
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

// change makes a change to a key that counts, and wakes who waits for it here. One that is to be made at any rate does not end with
// ctx, nor when the client is closed.
func (c *Client) change(ctx context.Context, op, kind, key string, anyway bool, make func(ctx context.Context, ct *counter) (int64, error)) (int64, error) {
	fail := func(err error) (int64, error) { return 0, &Error{Op: op, Key: key, Err: err} }
	if ctx = present(ctx); anyway {
		ctx = context.WithoutCancel(ctx)
	}
	if err := c.checkCounted(kind, key); err != nil {
		return fail(err)
	}
	if ctx.Err() != nil {
		return fail(ended(ctx))
	}
	ct, err := c.enterCounter(kind, key, anyway)
	if err != nil {
		return fail(err)
	}
	defer ct.exit()
	n, err := make(ctx, ct)
	if err != nil {
		return fail(err)
	}
	ct.wake()
	return n, nil
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

// enough returns why n is not how many can be wanted, given, or set.
func enough(n, least int) error {
	const most = 1<<31 - 1 // of Redisson, which counts in 32 bits
	switch {
	case n < least:
		return fmt.Errorf("%w: %d permits are fewer than %d", ErrBadOption, n, least)
	case n > most:
		return fmt.Errorf("%w: %d permits are more than Redisson can count, %d", ErrBadOption, n, most)
	}
	return nil
}
