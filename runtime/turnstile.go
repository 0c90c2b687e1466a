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

// A turnstile is this process's side of one key that counts: a semaphore or a latch. Its callers
// queue here, first come, first served, and one request at a time asks Redis for all of them, so that a
// big wish is not overtaken by small ones of the same process.
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
type turnstile struct {
	c     *Client
	kind  string
	key   string
	of    counter
	users int // calls, permits and requests that refer to it; guarded by c.mu

	mu      sync.Mutex // guards the rest; never held while waiting for anything
	queue   line
	full    bool      // the head was refused
	width   int       // for how many the next round asks
	alike   bool      // they all want the same: one answer is for all of them
	round   *round    // that was sent and not answered
	asking  bool      // it is under way
	numbers list.List // of the requests whose outcome is not known, in their order
	permits map[*Permit]struct{}
	answers word   // of Redis
	said    string // the last message
	heard   int    // messages
}

// A counter is what a turnstile leads to.
type counter interface {
	// channel is where Redisson announces that asking may be worth it again.
	channel() string
	// ask sends b for those who want what it is about, or for nobody: then what it has not taken yet
	// it never will. The first so many of b have theirs; the others are refused, and it is
	// worth asking again in ttl, or nobody knows when if that is negative.
	ask(b *round, wanted bool) (granted int, ttl time.Duration, err error)
	// grant gives w what it has in Redis since sent, and reports false if that is over: then it is
	// undone, and w wants it anew. It is called under the turnstile's lock.
	grant(w *waiter, sent time.Time) bool
	// undo gives back what was granted.
	undo(wish)
}

// A wish is what a waiter wants of a turnstile.
type wish struct {
	n      int     // how many
	create int     // permits to create it with, or 0
	ids    string  // under which it is to get them, of 16 bytes each
	permit *Permit // that it is to get
	seen   bool    // the latch was closed
}

// A round is one request, for several who wait. Those who leave meanwhile stay in it: sent again, it has
// to be what it was.
type round struct {
	number  *list.Element
	waiters []*waiter
	wishes  []wish
	sent    time.Time // for the first time: what was taken then lasts no longer for being asked for again
	doubt   bool      // it may have been done without our knowing
	deleted bool      // the latch that they wait for was deleted
	last    bool      // it is sent once more, because the client is closed
	down    outage    // since it is in doubt
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

// through returns the turnstile of a key for a call, until exit. A call that gives back goes through
// when the client is closed, too.
func (c *Client) through(kind, key string, closing bool) (*turnstile, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != open && !closing {
		return nil, ErrClosed
	}
	id := kind + " " + key
	t := c.turnstiles[id]
	if t == nil {
		t = &turnstile{c: c, kind: kind, key: key, width: mostAtOnce, permits: map[*Permit]struct{}{}}
		t.of = sides[kind](t)
		if c.turnstiles == nil {
			c.turnstiles = map[string]*turnstile{}
		}
		c.turnstiles[id] = t
	}
	t.users++
	c.running++
	return t, nil
}

func (t *turnstile) exit() {
	t.quit()
	t.c.finished()
}

// stay counts one more user of a turnstile that has one.
func (t *turnstile) stay() {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	t.users++
}

// quit takes back stay. A turnstile that nobody uses is forgotten.
func (t *turnstile) quit() {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	t.users--
	if t.users == 0 {
		delete(t.c.turnstiles, t.kind+" "+t.key)
	}
}

func (t *turnstile) channel() string { return t.of.channel() }

// hear notes what was said last. Nothing says that more may have been said; that a latch was opened is
// true all the same.
func (t *turnstile) hear(payload string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if payload == "" && protocol.OpensLatch(t.said) {
		return
	}
	t.said = payload
	t.heard++
	if n, err := strconv.Atoi(payload); err == nil {
		t.width = max(t.width, min(n, mostAtOnce))
	}
}

// join puts w at the end of the queue. One who does not wait is not put behind one who does.
func (t *turnstile) join(w *waiter) entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.full && w.once {
		return turnedAway
	}
	t.queue.push(w)
	w.wish.seen = t.full
	if t.full {
		return toWait
	}
	return toAsk
}

// last returns what Redis said last. What this process has is no reason to wait.
func (t *turnstile) last(*waiter) (held bool, saidLast word) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return false, t.answers.look()
}

// remind has the head of the queue ask.
func (t *turnstile) remind() { t.wake() }

// ask has w's wish sent, with the next request if one is under way.
func (t *turnstile) ask(w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !w.place.queued {
		return // it was given what it wants a moment ago
	}
	w.place.leading, w.place.asked = true, true
	t.send()
}

// send sends the round in doubt again, or a new round for those who queue, unless one is under way.
func (t *turnstile) send() {
	if t.asking {
		return
	}
	b := t.round
	if b == nil {
		if t.queue.length == 0 {
			return
		}
		b = &round{number: t.enroll()}
		for w := t.queue.first; w != nil && (t.alike || len(b.waiters) < t.width); w = w.place.after {
			b.waiters = append(b.waiters, w)
			b.wishes = append(b.wishes, w.wish)
		}
		t.round = b
	}
	wanted := false
	for _, w := range b.waiters {
		wanted = wanted || w.place.queued
	}
	if b.sent.IsZero() {
		b.sent = time.Now() // before the request: trust is counted from here
	}
	t.asking = true
	t.answers.asks()
	t.stay()
	t.c.spawn(func() {
		defer t.quit()
		granted, ttl, err := t.of.ask(b, wanted)
		for _, w := range t.settle(b, granted, ttl, err) {
			t.of.undo(w)
		}
	})
}

// settle deals with the answer to b, and returns those who were granted what they do not want any more.
func (t *turnstile) settle(b *round, granted int, ttl time.Duration, err error) (vain []wish) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asking = false
	t.answers.says(err == nil && granted < len(b.waiters), err)
	if err != nil {
		t.failed(b, err)
		return nil
	}
	t.round = nil
	t.numbers.Remove(b.number)
	t.width = granted + 1
	if granted == len(b.waiters) {
		t.width = min(2*granted, mostAtOnce)
	}
	for i, w := range b.waiters[:granted] {
		switch {
		case !w.place.queued || !t.c.granting():
			vain = append(vain, b.wishes[i])
		case !t.of.grant(w, b.sent):
			vain = append(vain, b.wishes[i])
			t.tell(w, news{kind: failed, err: errLate})
		default:
			t.queue.remove(w)
			if b.deleted && w.wish.seen {
				w.tell(news{kind: failed, err: ErrDeleted})
				continue
			}
			w.place.granted = true
			w.tell(news{kind: given})
		}
	}
	head := t.queue.first
	switch {
	case head == nil:
		t.full = false
	case granted < len(b.waiters) && b.waiters[granted] == head:
		t.refuse(head, ttl)
	default:
		t.full = false
		t.goOn()
	}
	return vain
}

// refuse tells the head that it has to wait, and the others that they wait behind it. One that does not
// wait makes room for them instead.
func (t *turnstile) refuse(head *waiter, ttl time.Duration) {
	head.wish.seen = true
	if head.once || head.place.asked || !head.place.leading { // or it is about to ask by itself
		head.place.leading, head.place.asked = true, false
		head.tell(news{kind: refusedFor, ttl: ttl, foreign: true, inLine: true})
	}
	if head.once { // and will not ask any more
		t.queue.remove(head)
		t.full = false
		t.goOn()
		return
	}
	t.full = true
	for w := head.place.after; w != nil; w = w.place.after {
		w.wish.seen = true
		if !w.place.asked {
			continue
		}
		w.place.leading = false
		t.tell(w, news{kind: behind})
	}
}

// failed tells those who asked with b that there was no answer. If its outcome is not known and they
// have gone, it is settled without them.
func (t *turnstile) failed(b *round, err error) {
	b.doubt = b.doubt || transport.Unknown(err) || transport.Unconfirmed(err)
	pause := b.down.pause(t.c.opts.Retry, err)
	for w := t.queue.first; w != nil; w = w.place.after {
		t.tell(w, news{kind: failed, err: err})
	}
	if !b.doubt {
		t.round = nil
		t.numbers.Remove(b.number)
	}
	if t.queue.length > 0 {
		t.lead() // whoever asked may have left, or may be about to
		return
	}
	t.full = false // the one who was refused has left, and the next to come asks
	if b.doubt {
		t.settleLater(b, err, pause)
	}
}

// settleLater sends b again in a while, though nobody waits for the answer, unless it is too late for that.
func (t *turnstile) settleLater(b *round, err error, pause time.Duration) {
	t.stay()
	t.c.spawn(func() {
		defer t.quit()
		again := (err == nil || passing(err)) && !b.down.longer(insistence)
		if again && !t.c.pause(pause) {
			again, b.last = !b.last, true
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		switch {
		case t.round != b || t.asking:
		case again:
			t.send()
		default:
			t.round = nil
			t.numbers.Remove(b.number)
			t.c.opts.Logger.Warn("lockgen: a request could not be withdrawn; what it took may be lost", "kind", t.kind, "key", t.key, "error", err)
			t.goOn()
		}
	})
}

// tell answers w, if it has asked.
func (t *turnstile) tell(w *waiter, n news) {
	if w.place.asked {
		w.place.asked = false
		w.tell(n)
	}
}

// goOn asks for those who queue, or has the head do so.
func (t *turnstile) goOn() {
	for w := t.queue.first; w != nil; w = w.place.after {
		if w.place.asked {
			t.send()
			return
		}
	}
	if w := t.queue.first; w != nil && w.place.leading {
		w.poke()
	}
	t.lead()
}

// lead makes it the head's turn to ask, if it is not yet. Whenever no request is under way, it is the
// head's turn.
func (t *turnstile) lead() {
	if w := t.queue.first; w != nil && !w.place.leading {
		w.place.leading = true
		w.tell(news{kind: turn})
	}
}

// wake has the head ask, since something was given back here.
func (t *turnstile) wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := t.queue.first; w != nil {
		w.poke()
	}
}

// leave takes w out of the queue. What it was given after all is given back.
func (t *turnstile) leave(w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.place.granted {
		w.place.granted = false
		t.stay()
		t.c.spawn(func() {
			defer t.quit()
			t.of.undo(w.wish)
		})
		return
	}
	if !w.place.queued {
		return
	}
	first := t.queue.first == w
	t.queue.remove(w)
	switch {
	case t.asking: // the answer looks after the queue
	case t.queue.length > 0:
		if first {
			t.goOn()
		}
	default:
		t.full = false
		if t.round != nil {
			t.settleLater(t.round, nil, 0)
		}
	}
}

// enroll numbers a request.
func (t *turnstile) enroll() *list.Element { return t.numbers.PushBack(t.c.claims.Add(1)) }

// numbered returns what the scripts are told of a request.
func (t *turnstile) numbered(number *list.Element) protocol.Request {
	t.mu.Lock()
	defer t.mu.Unlock()
	return protocol.Request{Number: number.Value.(uint64), Oldest: t.numbers.Front().Value.(uint64), Keep: keepResults}
}

// change has a script run that changes the count, once, however often it is sent: for the caller until ctx ends,
// at most for Options.OpTimeout, and then, if it is to be done at any rate, in the background.
func (t *turnstile) change(ctx context.Context, anyway bool, cmd func(protocol.Request) protocol.Command) (int64, error) {
	return t.once(ctx, anyway, func(r protocol.Request) (int64, error) {
		return t.c.net.Run(cmd(r)).Int()
	})
}

// once calls send with what the scripts are told of a request, like change.
func (t *turnstile) once(ctx context.Context, anyway bool, send func(protocol.Request) (int64, error)) (int64, error) {
	t.mu.Lock()
	number := t.enroll()
	t.mu.Unlock()
	settled := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.numbers.Remove(number)
	}
	return t.insist(ctx, anyway, settled, func() (int64, error) {
		n, err := send(t.numbered(number))
		if err == nil && n == protocol.Outdated {
			err = protocol.ErrOutdated
		}
		return n, err
	})
}

// insist calls send until it is answered, like change, and then settled. Nobody waits for ever.
func (t *turnstile) insist(ctx context.Context, anyway bool, settled func(), send func() (int64, error)) (int64, error) {
	type reply struct {
		n   int64
		err error
	}
	limit := time.Now().Add(min(insistence, t.c.opts.OpTimeout)) // later Redis may not know any more that it was done
	over := limit
	if anyway {
		over = time.Now().Add(insistence)
	}
	done := make(chan reply, 1)
	t.stay()
	t.c.spawn(func() {
		defer t.quit()
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
			pause := down.pause(t.c.opts.Retry, err)
			switch again := time.Now().Add(pause); {
			case again.Before(limit):
				<-time.After(pause)
			case again.Before(over) && t.c.pause(pause):
			case again.Before(over) && !last: // the client is closed
				last = true
			default:
				finish(n, err)
				if anyway {
					t.c.opts.Logger.Warn("lockgen: a change may not have been made", "kind", t.kind, "key", t.key, "error", err)
				}
				return
			}
		}
	})
	timer := time.NewTimer(t.c.opts.OpTimeout)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.n, refused(r.err)
	case <-ctx.Done():
		return 0, ended(ctx)
	case <-timer.C:
		if anyway {
			return 0, fmt.Errorf("%w: no answer within %v; it is done as soon as Redis answers", ErrUnavailable, t.c.opts.OpTimeout)
		}
		return 0, fmt.Errorf("%w: no answer within %v", ErrUnavailable, t.c.opts.OpTimeout)
	}
}

// asked returns what the scripts that grant are told of b.
func (t *turnstile) asked(b *round) protocol.Round {
	return protocol.Round{Request: t.numbered(b.number), Again: b.doubt, Create: b.wishes[0].create}
}

// pass has a call wait at the turnstile of a key until it is granted what want wishes for. After an error
// the waiter is returned too, if want was called.
func (a *attempt) pass(ctx context.Context, want func(*waiter)) (*waiter, error) {
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
	t, err := c.through(kind, key, false)
	if err != nil {
		return w, err
	}
	defer t.exit()
	start := time.Now()
	err = c.await(ctx, t, w, cfg, a.waits)
	if err == nil && ctx.Err() != nil {
		err = ended(ctx) // granted, but not wanted any more
	}
	if err != nil {
		t.leave(w)
		return w, err
	}
	c.counts.waited(time.Since(start))
	return w, nil
}

// change makes a change to a key that counts, and wakes who waits for it here. One that is to be made at any rate does not end with
// ctx, nor when the client is closed.
func (c *Client) change(ctx context.Context, op, kind, key string, anyway bool, make func(ctx context.Context, t *turnstile) (int64, error)) (int64, error) {
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
	t, err := c.through(kind, key, anyway)
	if err != nil {
		return fail(err)
	}
	defer t.exit()
	n, err := make(ctx, t)
	if err != nil {
		return fail(err)
	}
	t.wake()
	return n, nil
}

// sides are what turnstiles lead to.
var sides = map[string]func(*turnstile) counter{
	kindSemaphore: newSemaphoreSide,
	kindPermit:    newPermitSide,
	kindLatch:     newLatchSide,
}

// close ends the permits that this process has, because the client is closed. Redis is told nothing.
func (t *turnstile) close() {
	t.mu.Lock()
	permits := make([]*Permit, 0, len(t.permits))
	for p := range t.permits {
		permits = append(permits, p)
	}
	t.mu.Unlock()
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
