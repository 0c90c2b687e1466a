package runtime

import (
	"container/list"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/scripts"
)

// A home is this process's side of one key. Its goroutines queue here, first come, first
// served, and to Redis they are one owner at a time.
//
//	           ask: granted                  unlocked, nobody suits
//	┌── asking ─────────────► held ──────────────────────────► releasing ──┐
//	│     ▲  │                 │ ▲                                         │
//	│     │  │ refused         └─┘ unlocked: the next one has it           │
//	│     └──┘ head waits         without a word to Redis                  │
//	└───────────────────────────── the head's turn ◄────────────────────────┘
//
// At most one request of a home is under way. Who sent it does not matter: its answer serves
// the head of the queue, and if there is none any more, what was granted is given back.
type home struct {
	c     *Client
	key   string
	users int // calls, holds and requests that refer to this home; guarded by c.mu

	mu    sync.Mutex // guards the rest; never held while waiting for anything
	queue list.List  // of *waiter
	claim *claim     // what the queue asks with; nil before the first request for it
	hold  *hold      // what the process has in Redis, or nil
	busy  bool       // a request is under way, or a loss is being told
	shut  bool       // the client is closed: nobody enters again
}

// A place is a waiter's position in a home's queue.
type place struct {
	element *list.Element // nil when not queued; guarded by home.mu
	leading bool          // it was told to ask
	granted bool          // it has been given the lease
}

// A claim is one owner asking for a key until it is granted or given up. An owner is never used
// for another claim, so whatever late request or release names it cannot harm a later one.
type claim struct {
	owner string
	ttl   time.Duration // the longest that it asked for
	ours  bool          // Redis said so, but nobody was given it
	doubt bool          // Redis may hold the key for this owner without our knowing: a reply was lost
}

// A hold is one claim that was granted. It goes from waiter to waiter until it is released or lost.
type hold struct {
	home  *home
	claim claim
	terms terms
	guard watchdog.Lease

	// Guarded by home.mu.
	leases []*Lease // of the present holder: one, and one more for each reentry
	passed int      // times it went to another goroutine without a word to Redis
	lost   error    // why the watchdog gave it up, or nil
}

func newHome(c *Client, key string) *home {
	h := &home{c: c, key: key}
	h.queue.Init()
	return h
}

func (h *home) channel() string { return lockChannel(h.key) }

// join puts w at the end of the queue and reports whether it is to ask.
func (h *home) join(w *waiter) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.place.element = h.queue.PushBack(w)
	w.place.leading = h.hold == nil && !h.busy && h.queue.Len() == 1
	h.busy = h.busy || w.place.leading
	return w.place.leading
}

// reenter makes l one more lease of outer's hold, if outer still has it.
func (h *home) reenter(outer, l *Lease) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.shut || h.hold == nil || h.hold != outer.hold || outer.unlocked || outer.ended() != nil {
		return false
	}
	h.attach(h.hold, l)
	return true
}

// ask sends one request for the head of the queue, w.
func (h *home) ask(w *waiter) {
	h.mu.Lock()
	h.busy = true
	if h.claim == nil {
		h.claim = &claim{owner: h.c.newOwner()}
	}
	cl := h.claim
	cl.ttl = max(cl.ttl, w.terms.ttl)
	h.mu.Unlock()

	h.c.stay(h)
	h.c.spawn(func() {
		defer h.c.leave(h)
		sent := time.Now() // before the request: trust is counted from here
		ttl, err := h.c.run(scripts.Acquire, []string{h.key}, []string{millis(w.terms.ttl), cl.owner}).AsInt64()
		if rest := h.settle(w, cl, sent, ttl, err); rest != nil {
			rest()
		}
	})
}

// granted is the reply of the acquire script that means yes.
const granted = -2

// settle deals with the answer to the request that w sent with cl. It returns what is left to do
// when nobody wants what was granted, or may have been.
func (h *home) settle(w *waiter, cl *claim, sent time.Time, ttl int64, err error) (rest func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.busy = false
	cl.doubt = cl.doubt || unknown(err)
	cl.ours = cl.ours && err != nil // an answer replaces the one before
	if err == nil && ttl == granted {
		// Redis has it for us in any case. Who is it for?
		trusted := sent.Add(w.terms.ttl - watchdog.Margin(w.terms.ttl))
		next := h.head()
		switch {
		case next == nil || next.terms != w.terms || !h.c.granting():
			// w has left. Whoever is next wants other terms, and asks for them with this claim.
			cl.ours = true
		case !time.Now().Before(trusted):
			cl.ours = true
			err = errLate
		default:
			h.take(cl, w.terms, sent)
			h.give(next)
			return nil
		}
	}
	switch {
	case w.place.element == nil && h.queue.Len() == 0:
		return h.abandon()
	case w.place.element == nil:
		h.promote()
	case err != nil:
		w.news <- news{kind: failed, err: err}
	case cl.ours:
		w.news <- news{kind: failed, err: ErrClosed} // it is on its way out
	default:
		w.news <- news{kind: refusedFor, ttl: time.Duration(ttl) * time.Millisecond}
	}
	return nil
}

// leave takes w out of the queue. If it was given the lease after all, that is unlocked.
func (h *home) leave(w *waiter) {
	h.mu.Lock()
	if w.place.granted {
		h.mu.Unlock()
		h.c.spawn(func() { _ = h.unlock(w.lease) })
		return
	}
	var rest func()
	h.queue.Remove(w.place.element)
	w.place.element = nil
	switch {
	case h.busy || h.hold != nil: // who ends that looks after the queue
	case h.queue.Len() == 0:
		rest = h.abandon()
	default:
		h.promote()
	}
	h.mu.Unlock()
	if rest != nil {
		h.c.spawn(rest)
	}
}

// close ends the leases of this home because the client is closed. Redis is told nothing.
func (h *home) close() {
	h.mu.Lock()
	h.shut = true
	var leases []*Lease
	if h.hold != nil {
		leases = append(leases, h.hold.leases...)
	}
	h.mu.Unlock()
	for _, l := range leases {
		l.end(ErrClosed)
	}
}

// guard returns what guards the present hold, or nil.
func (h *home) guard() *watchdog.Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hold == nil {
		return nil
	}
	return &h.hold.guard
}

func (h *home) head() *waiter {
	if front := h.queue.Front(); front != nil {
		return front.Value.(*waiter)
	}
	return nil
}

// promote makes it the head's turn to ask, unless it already is or there is no need.
func (h *home) promote() {
	w := h.head()
	if w == nil || w.place.leading || h.busy || h.hold != nil {
		return
	}
	w.place.leading = true
	w.news <- news{kind: turn}
}

// abandon gives up the claim, for nobody wants it any more. It returns what is left to do without
// holding h.mu, or nil.
func (h *home) abandon() (rest func()) {
	cl := h.claim
	h.claim = nil
	switch {
	case cl == nil:
		return nil
	case cl.ours:
		h.busy = true
		h.c.stay(h)
		return func() { _ = h.free(*cl) }
	case cl.doubt:
		return func() { h.c.withdraw(h.key, *cl) }
	}
	return nil
}

// free gives a claim that Redis granted back to it, and then lets the queue go on. The home is
// busy until then, and left by the caller's stay.
func (h *home) free(cl claim) error {
	defer h.c.leave(h)
	err := h.c.release(h.key, cl)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.busy = false
	h.promote()
	return err
}

// unlock ends l. The last lease of a hold passes it on or frees it.
func (h *home) unlock(l *Lease) error {
	h.mu.Lock()
	if l.unlocked {
		h.mu.Unlock()
		return ErrReleased
	}
	l.unlocked = true
	h.mu.Unlock()

	l.end(ErrReleased) // before anybody else can get it

	h.mu.Lock()
	hd := l.hold
	hd.leases = slices.DeleteFunc(hd.leases, func(x *Lease) bool { return x == l })
	if len(hd.leases) > 0 {
		h.mu.Unlock()
		return hd.lost
	}
	if hd.lost != nil {
		h.mu.Unlock()
		if hd.claim.doubt || !errors.Is(hd.lost, watchdog.ErrRefused) {
			// Redis may still have it for us, or may get it again. It is not needed any more.
			h.c.spawn(func() { h.c.withdraw(h.key, hd.claim) })
		}
		return hd.lost
	}
	if next := h.head(); h.suits(hd, next) {
		hd.passed++
		h.give(next)
		h.mu.Unlock()
		return nil
	}
	h.hold = nil
	h.busy = true
	h.c.watchdog.Stop(&hd.guard)
	h.mu.Unlock()

	done := make(chan error, 1)
	h.c.spawn(func() {
		err := h.free(hd.claim)
		h.c.held(-1)
		done <- err
	})
	timer := time.NewTimer(h.c.opts.OpTimeout)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf("no answer within %v; the key is given back as soon as Redis answers, or expires", h.c.opts.OpTimeout)
	}
}

// lose ends the leases of a hold that Redis has for somebody else now, or may have soon.
func (h *home) lose(hd *hold, cause error) {
	h.mu.Lock()
	if h.hold != hd {
		h.mu.Unlock()
		return // it is being released
	}
	h.hold = nil
	h.busy = true // the next one asks when the present one knows
	hd.lost = lost(cause)
	leases := slices.Clone(hd.leases)
	h.mu.Unlock()

	for _, l := range leases {
		l.end(hd.lost)
	}

	h.mu.Lock()
	h.busy = false
	h.promote()
	h.mu.Unlock()
	h.c.held(-1)
	h.c.leave(h)
}

// take turns the claim into a hold and has it guarded.
func (h *home) take(cl *claim, t terms, sent time.Time) {
	cl.ours = false
	hd := &hold{home: h, claim: *cl, terms: t}
	hd.guard = watchdog.Lease{
		Key:   h.key,
		Owner: cl.owner,
		TTL:   t.ttl,
		Renew: t.renew,
		Lost:  func(cause error) { h.lose(hd, cause) },
	}
	h.claim = nil
	h.hold = hd
	h.c.stay(h)
	h.c.held(1)
	h.c.watchdog.Start(&hd.guard, sent)
}

// give hands the hold to w, the head of the queue.
func (h *home) give(w *waiter) {
	h.queue.Remove(w.place.element)
	w.place = place{granted: true}
	h.attach(h.hold, w.lease)
	w.news <- news{kind: given}
}

func (h *home) attach(hd *hold, l *Lease) {
	l.begin(hd)
	hd.leases = append(hd.leases, l)
}

// suits reports whether w can have the hold as it is: on the same terms, in its turn, and with
// enough trust left. A lease of fixed length cannot be passed on, since the next holder is
// promised all of it.
func (h *home) suits(hd *hold, w *waiter) bool {
	return w != nil && h.c.granting() && w.terms == hd.terms && hd.terms.renew && hd.passed+1 < h.c.opts.Cohort &&
		time.Until(hd.guard.Until()) > hd.terms.ttl/3
}
