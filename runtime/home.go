package lockrt

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// A home is this process's side of one key. Its goroutines queue here, first come, first
// served, and to Redis they are one owner at a time.
//
//	           granted, or handed over     unlocked, nobody suits
//	┌── claiming ───────────► held ──────────────────────────► releasing ──┐
//	│    ▲   │                 │ ▲  ▲                              │       │
//	│    │   │ refused:        └─┘  └──────────────────────────────┘       │
//	│    └───┘ in line     unlocked: the        kept: nobody else wants it │
//	│                      next one has it                                 │
//	└──────────────────────── the head's turn ◄────────────────────────────┘
//
// What Redis grants, it grants to the home. Which waiter asked for it does not matter: it serves
// the head of the queue, and if there is none any more it is given back.
//
// This file is about the queue and what the process holds; claim.go is about getting it.
type home struct {
	c     *Client
	key   string
	users int32 // calls, holds and requests that refer to this home; guarded by c.mu

	mu    sync.Mutex // guards the rest; never held while waiting for anything
	busy  int32      // requests under way, or a loss being told
	shut  bool       // the client is closed: nobody enters again
	queue line       // of those who wait
	claim *claim     // what the queue asks with; nil while there is a hold, or no need
	hold  *hold      // what the process has in Redis, or nil
	said  word       // by Redis

	first claim // there always is one
}

// A place is a waiter's position in the queue of a home or a turnstile.
type place struct {
	queued  bool // guarded by the lock of the queue, with the rest
	leading bool // it was told to ask
	asked   bool // at a turnstile: it has asked, and was not told anything since
	granted bool // it has been given the lease

	before, after *waiter
}

// A line is a queue of waiters, linked through their places: unlike a list from the library it
// allocates nothing.
type line struct {
	first, last *waiter
	length      int
}

func (q *line) push(w *waiter) {
	w.place.queued, w.place.before, w.place.after = true, q.last, nil
	if q.last == nil {
		q.first = w
	} else {
		q.last.place.after = w
	}
	q.last = w
	q.length++
}

func (q *line) remove(w *waiter) {
	p := &w.place
	if p.before == nil {
		q.first = p.after
	} else {
		p.before.place.after = p.after
	}
	if p.after == nil {
		q.last = p.before
	} else {
		p.after.place.before = p.before
	}
	*p = place{}
	q.length--
}

// A hold is one claim that was granted. It goes from waiter to waiter until it is released or lost.
type hold struct {
	home  *home
	claim *claim
	terms terms
	guard watchdog.Lease
	since monotonic.Time // when Redis was last asked whether others wait

	// Guarded by home.mu.
	leases []*Lease      // of the present holder: one, and one more for each reentry
	one    [1]*Lease     // room for the first
	limit  time.Duration // of the present holder: WithMaxHold, or 0
	passed int           // times it went to another goroutine without a word to Redis
	handed bool          // it came from another process of this library, so the next turn is Redisson's
	wanted bool          // another process of this library waits for it
	idle   bool          // nobody works under it, it only stays locked for a while; then Shutdown does not wait for it
	told   bool          // its leases know that it was lost
	vague  bool          // a red lock has yet to say which token it comes with
	lost   error         // why the watchdog gave it up, or nil
}

func (*hold) Kind() string        { return kindMutex }
func (hd *hold) Key() string      { return hd.home.key }
func (hd *hold) Owner() string    { return hd.home.c.wire.Owner(hd.claim.n) }
func (hd *hold) Lost(cause error) { hd.home.lose(hd, cause) }

func newHome(c *Client, key string) *home {
	return &home{c: c, key: key}
}

func (h *home) channel() string { return protocol.LockChannel(h.key) }

func (h *home) inherits() string { return h.key }

// newClaim returns an empty claim.
func (h *home) newClaim() *claim {
	if h.first.n == 0 {
		return &h.first
	}
	return new(claim)
}

// hear has no use for what is said on the channel: that something was is a reason to ask.
func (h *home) hear(string) {}

// join puts w at the end of the queue. One who does not wait is put there if nobody is before it, and waits for the answer
// to an earlier request of this process.
func (h *home) join(w *waiter) entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ownedBy(w.lease.owner) { // granted a moment ago, to another call of this one's owner
		w.place.granted = true
		h.attach(h.hold, w.lease)
		return entered
	}
	first := h.hold == nil && h.queue.length == 0
	if w.once && !first {
		return turnedAway // nobody is to hand it anything
	}
	h.queue.push(w)
	if first && h.busy == 0 {
		w.place.leading = true
		return toAsk
	}
	return toWait
}

// last returns whether this process has the key, and what Redis said last.
func (h *home) last(*waiter) (held bool, said word) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hold != nil, h.said.look()
}

// remind has the head of the queue ask.
func (h *home) remind() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.promote()
}

// reenter makes l one more lease of the hold, if outer still has it.
func (hd *hold) reenter(outer, l *Lease) bool {
	h := hd.home
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.shut || h.hold != hd || outer.unlocked.Load() || outer.ended() != nil {
		return false
	}
	h.attach(hd, l)
	return true
}

// succeed gives the hold to l in place of outer, if nobody else has it, and reports whether it did.
func (hd *hold) succeed(outer, l *Lease) bool {
	h := hd.home
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.shut || h.hold != hd || outer.unlocked.Load() || outer.ended() != nil || len(hd.leases) != 1 || hd.leases[0] != outer {
		return false
	}
	outer.unlocked.Store(true)
	hd.leases = hd.leases[:0]
	h.attach(hd, l)
	return true
}

// reenterBy makes l one more lease of the present hold, if its owner has that.
func (h *home) reenterBy(l *Lease) bool {
	if l.owner == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ownedBy(l.owner) {
		return false
	}
	h.attach(h.hold, l)
	return true
}

// expire has the hold not renewed any more unless somebody else gets it, or has entered it: l, its only lease, is of no use.
func (hd *hold) expire(l *Lease) {
	h := hd.home
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hold == hd && len(hd.leases) == 1 && hd.leases[0] == l {
		hd.limit = 1 // the next one has another
		h.c.watchdog.Limit(&hd.guard, now())
	}
}

// ownedBy reports whether o has the present hold.
func (h *home) ownedBy(o *Owner) bool {
	hd := h.hold
	return o != nil && !h.shut && hd != nil && hd.lost == nil && !hd.vague && hd.worked() && hd.leases[0].owner == o
}

// leave takes w out of the queue. If it was given the lease after all, that is unlocked.
func (h *home) leave(w *waiter) {
	h.mu.Lock()
	switch {
	case w.place.granted:
		h.mu.Unlock()
		l := w.lease
		h.c.spawn(func() { _ = l.hold.unlock(l) })
		return
	case !w.place.queued:
		h.mu.Unlock()
		return
	}
	var rest func()
	leading := w.place.leading
	h.queue.remove(w)
	switch {
	case h.busy > 0 || h.hold != nil: // who ends that looks after the queue
	case h.queue.length == 0:
		rest = h.abandon()
	case leading:
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
	hd := h.hold
	h.mu.Unlock()
	if hd != nil {
		h.tell(hd, ErrClosed)
	}
}

// held returns the present hold, or nil.
func (h *home) held() *hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hold
}

// tell ends the leases of a hold.
func (h *home) tell(hd *hold, cause error) {
	h.mu.Lock()
	leases := slices.Clone(hd.leases)
	h.mu.Unlock()
	for _, l := range leases {
		l.end(cause)
	}
}

func (h *home) head() *waiter { return h.queue.first }

// promote makes it the head's turn to ask, unless there is no need. A head whose turn it is already
// is reminded.
func (h *home) promote() {
	w := h.head()
	switch {
	case w == nil || h.busy > 0 || h.hold != nil:
	case w.place.leading:
		w.poke()
	default:
		w.place.leading = true
		w.tell(news{kind: turn})
	}
}

// keep ends l and leaves the key locked.
func (hd *hold) keep(l *Lease) {
	l.end(ErrReleased)
	h := hd.home
	h.mu.Lock()
	defer h.mu.Unlock()
	hd.rest()
}

// rest notes that nobody works under hd any more, if that is so.
func (hd *hold) rest() {
	if h := hd.home; h.hold == hd && !hd.idle && !hd.worked() {
		hd.idle = true
		h.c.held(-1)
	}
}

// worked reports whether anybody works under hd.
func (hd *hold) worked() bool {
	return slices.ContainsFunc(hd.leases, func(l *Lease) bool { return l.ended() == nil })
}

// drop counts one hold less, unless that is done already.
func (hd *hold) drop() {
	h := hd.home
	h.mu.Lock()
	idle := hd.idle
	h.mu.Unlock()
	if !idle {
		h.c.held(-1)
	}
}

// unlock ends l. The last lease of a hold passes it on or frees it.
func (hd *hold) unlock(l *Lease) error {
	g, err := hd.end(l)
	if g == nil {
		return err
	}
	hd.home.free(g)
	return g.outcome(l)
}

// end ends l. If that was the last lease and nobody here can have the hold, it returns what is to be given
// back to Redis; else how it ended.
func (hd *hold) end(l *Lease) (*giving, error) {
	h := hd.home
	if l.unlocked.Swap(true) {
		return nil, ErrReleased
	}
	l.end(ErrReleased) // before anybody else can get it

	h.mu.Lock()
	if last := len(hd.leases) - 1; last >= 0 && hd.leases[last] == l { // as a rule, since who entered last leaves first
		hd.leases[last] = nil
		hd.leases = hd.leases[:last]
	} else {
		hd.leases = slices.DeleteFunc(hd.leases, func(x *Lease) bool { return x == l })
	}
	if len(hd.leases) > 0 {
		if !hd.idle && hd.leases[0].ended() != nil {
			hd.rest()
		}
		lost := hd.lost
		h.mu.Unlock()
		return nil, lost
	}
	if hd.lost != nil {
		defer h.mu.Unlock()
		if hd.claim.doubt || hd.claim.settled != nil || !errors.Is(hd.lost, watchdog.ErrRefused) {
			// Redis may still have it for us, or may get it again. It is not needed any more.
			h.c.withdraw(h.key, hd.claim)
		}
		return nil, hd.lost
	}
	next := h.head()
	if h.suits(hd, next) && !errors.Is(l.ended(), ErrLost) {
		hd.passed++
		h.c.counts.local.Add(1)
		next.lease.came = fromHere
		if hd.idle {
			hd.idle = false
			h.c.held(1)
		}
		h.give(next)
		h.mu.Unlock()
		return nil, nil
	}
	h.hold = nil
	h.busy++
	h.c.watchdog.Stop(&hd.guard)
	if hd.claim.settled == nil {
		h.c.traces(trace.Unlocks, h.key, hd.claim.n)
	}
	g := newGiving(h, hd.claim, hd.handed)
	g.held, g.waited = !hd.idle, true
	if next != nil && h.c.granting() && h.c.attends(h.key) {
		g.again, g.terms = h.claimFor(next.terms), next.terms
		g.again.standing = true
	}
	g.plain = g.again == nil && !hd.wanted && !hd.claim.standing
	h.mu.Unlock()
	return g, nil
}

// lose ends the leases of a hold that Redis has for somebody else now, or may have soon.
func (h *home) lose(hd *hold, cause error) {
	h.mu.Lock()
	if h.hold != hd {
		h.mu.Unlock()
		return // it is being released
	}
	h.hold = nil
	h.busy++ // the next one asks when the present one knows
	hd.lost = lost(cause)
	if errors.Is(cause, watchdog.ErrRefused) {
		h.c.traces(trace.Lost, h.key, hd.claim.n)
	} else {
		h.c.traces(trace.RunsOut, h.key, hd.claim.n)
	}
	late := *hd.claim
	h.mu.Unlock()

	h.told(hd, lost(cause))
	if errors.Is(cause, watchdog.ErrRefused) {
		// Whoever deleted the key told nobody in line.
		h.c.spawn(func() { _ = h.c.releaseOnce(h.key, &late) })
	}
}

// told ends the leases of a hold that is lost, and then lets the queue go on.
func (h *home) told(hd *hold, cause error) {
	h.tell(hd, cause)
	h.mu.Lock()
	first := hd.lost != nil && !hd.told
	if first {
		hd.told = true
		h.busy--
		h.promote()
	}
	h.mu.Unlock()
	if first {
		h.c.depart(hd.claim.n, &hd.guard, cause, func() {
			if hd.claim.ttl > hd.terms.ttl { // Redis may have it for longer than its last holder wanted
				h.c.withdraw(h.key, hd.claim)
			}
		})
		hd.drop()
		h.c.leave(h)
	}
}

// take turns the claim into a hold and has it guarded. Redis granted it no earlier than at from, for
// ttl at first.
func (h *home) take(cl *claim, t terms, from time.Time, ttl time.Duration) *hold {
	cl.ours = false
	hd := &hold{home: h, claim: cl, terms: t, since: monotonic.Now(), wanted: cl.wanted}
	hd.leases = hd.one[:0]
	hd.guard = watchdog.Lease{Holding: hd, TTL: t.ttl, Renew: t.renew}
	h.claim = nil
	h.hold = hd
	h.said.changes()
	if cl.recheck != nil {
		cl.recheck.Stop()
	}
	h.c.stay(h)
	h.c.held(1)
	if !t.quiet {
		h.c.hearFor(h.key)
	}
	h.c.watchdog.Start(&hd.guard, from, ttl)
	return hd
}

// give hands the hold to w, the head of the queue.
func (h *home) give(w *waiter) {
	h.queue.remove(w)
	w.place.granted = true
	h.hold.vague = w.follows && w.terms.fenced
	if w.terms.fenced {
		w.lease.token = h.hold.claim.tokens.take()
	}
	h.attach(h.hold, w.lease)
	if w.limit != h.hold.limit || w.limit > 0 {
		h.hold.limit = w.limit
		var at time.Time
		if w.limit > 0 {
			at = w.lease.began.Add(w.limit).Std()
		}
		h.c.watchdog.Limit(&h.hold.guard, at)
	}
	owner := w.lease.owner
	w.tell(news{kind: given}) // from here on w may be somebody else's
	if owner == nil {
		return
	}
	for v := h.queue.first; v != nil; { // who is of one owner enters together
		next := v.place.after
		if v.lease.owner == owner {
			h.queue.remove(v)
			v.place.granted = true
			h.attach(h.hold, v.lease)
			v.tell(news{kind: given})
		}
		v = next
	}
}

// attach makes l a lease of hd: the first, or one that enters again.
func (h *home) attach(hd *hold, l *Lease) {
	if len(hd.leases) > 0 {
		l.token, l.came = hd.leases[0].token, fromItself
	}
	l.begin(hd, &hd.guard)
	hd.leases = append(hd.leases, l)
}

// While nobody else is known to wait, a hold may go round in a process for this long before Redis
// is asked whether that is still so.
const goRound = 10 * time.Millisecond

// suits reports whether w can have the hold as it is, in its turn.
func (h *home) suits(hd *hold, w *waiter) bool {
	if w == nil || !h.c.suits(&hd.guard, hd.terms, w.terms, hd.claim.tokens) {
		return false
	}
	if h.c.opts.Cohort == 1 || hd.wanted || !h.c.heard() {
		return hd.passed+1 < h.c.opts.Cohort
	}
	return monotonic.Since(hd.since) < goRound
}

// suits reports whether what is held on some terms can be passed on to one who wants it on others: on the same, that is,
// and with enough trust left. A lease of fixed length cannot be passed on, since the next holder is promised all of it.
func (c *Client) suits(guard *watchdog.Lease, held, wanted terms, left tokens) bool {
	return wanted == held && held.renew && (!wanted.fenced || left.left > 0) && c.granting() &&
		!guard.Extended() && // what one holder asked for is not for the next
		time.Until(guard.Until()) >= min(held.ttl, claimLease)/3
}
