package lockrt

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// A fairHome is this process's side of one fair lock. It has no queue: who is next is for Redis to say, which knows each
// waiter by a claim of its own. When Redis hands the lock over to one of them it says too who of this process stands
// right behind that one; these have it next, in this order, without a word to Redis.
type fairHome struct {
	c     *Client
	key   string
	lock  protocol.Fair
	users int // calls, holds and requests that refer to this home; guarded by c.mu

	mu     sync.Mutex            // guards the rest; never held while waiting for anything
	claims map[uint64]*fairClaim // of those who wait, by their numbers
	spare  []*fairClaim          // that nobody waits with any more, for a moment
	sweeps *time.Timer           // has those leave; nil before the first
	hold   *fairHold             // what the process has in Redis, or nil
	shut   bool                  // the client is closed: nobody enters again
	noted  bool                  // somebody stood in the queue
}

// A fairHold is a claim that was granted. It goes from waiter to waiter, as long as Redis has said who follows.
type fairHold struct {
	home  *fairHome
	claim *fairClaim // that Redis has it for
	terms terms
	guard watchdog.Lease

	// Guarded by fairHome.mu.
	leases []*Lease // of the present holder: one, and one more for each reentry
	limit  bool     // the present holder has WithMaxHold
	tokens tokens   // what is left of them
	early  bool     // whoever had the one before does not know yet that it is lost
	taken  bool     // Redis has it for somebody else, and the watchdog is about to say so
	gone   bool     // it is being given back, or was lost
	lost   error    // why the watchdog gave it up, or nil
}

func (*fairHold) Kind() string        { return kindFair }
func (hd *fairHold) Key() string      { return hd.home.key }
func (hd *fairHold) Owner() string    { return hd.claim.owner }
func (hd *fairHold) Lost(cause error) { hd.home.lose(hd, cause) }

// enterFair returns this process's side of the fair lock key for a call, until exit.
func (c *Client) enterFair(key string) (*fairHome, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != open {
		return nil, ErrClosed
	}
	h := c.fairs[key]
	if h == nil {
		h = &fairHome{c: c, key: key, lock: c.wire.Fair(key), claims: map[uint64]*fairClaim{}}
		c.fairs[key] = h
	}
	h.users++
	c.running++
	return h, nil
}

func (h *fairHome) exit() {
	h.quit()
	h.c.finished()
}

// stay counts one more user of a home that has one.
func (h *fairHome) stay() {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	h.users++
}

// quit takes back stay. A home that nobody uses is forgotten.
func (h *fairHome) quit() {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	h.users--
	if h.users == 0 {
		delete(h.c.fairs, h.key)
	}
}

// held returns the present hold, or nil.
func (h *fairHome) held() *fairHold {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hold
}

// entered returns how many leases the present hold has.
func (h *fairHome) entered() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hold == nil {
		return 0
	}
	return len(h.hold.leases)
}

// served returns how many of those in the queue had the present hold, or have it.
func (h *fairHome) served() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hold == nil {
		return 0
	}
	return len(h.hold.claim.after)
}

// reenter makes l one more lease of the hold, if outer still has it.
func (hd *fairHold) reenter(outer, l *Lease) bool {
	h := hd.home
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.kind != kindFair || h.shut || h.hold != hd || outer.unlocked.Load() || outer.ended() != nil {
		return false
	}
	hd.attach(l)
	return true
}

// reenterBy makes l one more lease of the present hold, if its owner has that.
func (h *fairHome) reenterBy(l *Lease) bool {
	if l.owner == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ownedBy(l.owner) {
		return false
	}
	h.hold.attach(l)
	return true
}

// ownedBy reports whether o has the present hold.
func (h *fairHome) ownedBy(o *Owner) bool {
	hd := h.hold
	return o != nil && !h.shut && hd != nil && len(hd.leases) > 0 && hd.leases[0].owner == o && hd.leases[0].ended() == nil
}

// attach makes l a lease of hd: the first, or one that enters again.
func (hd *fairHold) attach(l *Lease) {
	if len(hd.leases) > 0 {
		l.token, l.came = hd.leases[0].token, fromItself
	}
	l.begin(hd, &hd.guard)
	hd.leases = append(hd.leases, l)
}

// take turns the claim into a hold, has it guarded and gives it to w. Redis granted it no earlier than at from, for ttl
// at first. It returns what is left to do without holding h.mu, or nil.
func (cl *fairClaim) take(from time.Time, ttl time.Duration, drawn tokens) (rest func()) {
	h, w, t := cl.h, cl.call.w, cl.terms
	cl.ours = false
	hd := &fairHold{home: h, claim: cl, terms: t, tokens: drawn}
	hd.guard = watchdog.Lease{Holding: hd, TTL: t.ttl, Renew: t.renew}
	old := h.hold
	h.hold, hd.early = hd, old != nil
	h.stay()
	h.c.held(1)
	if !t.quiet {
		h.c.hearFor(h.key)
	}
	h.c.watchdog.Start(&hd.guard, from, ttl)
	hd.give(cl)
	if old == nil {
		w.tell(news{kind: given}) // from here on another call may use w
	}
	if old == nil {
		return nil
	}
	w.asks.Add(1)   // w is told later
	return func() { // Redis would not have granted it, if the other one had it still
		h.c.watchdog.Lose(&old.guard, watchdog.ErrRefused)
		h.tell(old, lost(watchdog.ErrRefused))
		h.mu.Lock()
		hd.early = false
		h.mu.Unlock()
		w.tell(news{kind: given})
		w.asks.Add(-1)
	}
}

// give makes the lease of who waits with cl the first one of hd. Then the waiter can be told.
func (hd *fairHold) give(cl *fairClaim) {
	h, w := hd.home, cl.call.w
	cl.calm()
	delete(h.claims, cl.n)
	cl.hold, w.place.granted = hd, true
	if w.terms.fenced {
		w.lease.token = hd.tokens.take()
	}
	hd.attach(w.lease)
	if hd.limit || w.limit > 0 {
		var at time.Time
		if w.limit > 0 {
			at = w.lease.began.Add(w.limit).Std()
		}
		hd.limit = w.limit > 0
		h.c.watchdog.Limit(&hd.guard, at)
	}
	h.admit(hd, w.lease.owner)
}

// next returns the claim that follows, if it can have hd as it is, or nil.
func (hd *fairHold) next() *fairClaim {
	h, first := hd.home, hd.claim
	if h.hold != hd || hd.early || hd.taken {
		return nil
	}
	for i, n := range first.behind {
		if cl := h.claims[n]; cl != nil {
			first.behind = first.behind[i:]
			if len(first.after)+1 < h.c.opts.Cohort && cl.wait == first.wait && h.c.suits(&hd.guard, hd.terms, cl.terms, hd.tokens) {
				return cl
			}
			return nil
		}
	}
	return nil
}

// pass gives hd to the claim that follows.
func (hd *fairHold) pass(cl *fairClaim) {
	first, w := hd.claim, cl.call.w
	first.behind, first.after = first.behind[1:], append(first.after, cl)
	hd.home.c.counts.local.Add(1)
	w.lease.came = fromHere
	hd.give(cl)
	w.tell(news{kind: given})
}

// finish ends what cl had, and those after it. A request of one of them that is under way, or was not answered, could put it
// in the queue again, or give it the lock: it is withdrawn.
func (cl *fairClaim) finish() {
	cl.left = true
	for _, x := range cl.after {
		x.left = true
		if x.asking > 0 || x.doubt {
			x.hold = nil
			x.retire()
		}
	}
}

// dismiss takes those out of the queue who had what cl was granted, which cl itself may have still. To Redis, which hands the
// lock to the head of the queue, they wait.
func (cl *fairClaim) dismiss() {
	for _, x := range cl.after {
		x.retire()
	}
	cl.after = nil
}

// hangUp ends what Redis tells of cl and of those after it.
func (cl *fairClaim) hangUp() {
	cl.h.c.disconnect(cl.n)
	for _, x := range cl.after {
		cl.h.c.disconnect(x.n)
	}
}

// admit lets those in who are of the owner that was given hd, and would wait for themselves. Their places are given up, and
// the release says so too: it may come first, find one of them at the head of the queue, and give the key to nobody.
func (h *fairHome) admit(hd *fairHold, owner *Owner) {
	if owner == nil {
		return
	}
	for _, cl := range h.claims {
		w := cl.call.w
		if w.lease.owner != owner {
			continue
		}
		hd.attach(w.lease)
		w.place.granted = true
		cl.calm()
		delete(h.claims, cl.n)
		cl.call = nil
		cl.retire()
		hd.claim.entered = append(hd.claim.entered, cl)
		w.tell(news{kind: given})
	}
}

// unlock ends l. The last lease of a hold gives it back.
func (hd *fairHold) unlock(l *Lease) error {
	h := hd.home
	if l.unlocked.Swap(true) {
		return ErrReleased
	}
	l.end(ErrReleased) // before anybody else can get it

	h.mu.Lock()
	hd.leases = slices.DeleteFunc(hd.leases, func(x *Lease) bool { return x == l })
	cl := hd.claim
	if len(hd.leases) > 0 {
		defer h.mu.Unlock()
		return hd.lost
	}
	if hd.lost != nil {
		defer h.mu.Unlock()
		if cl.doubt || cl.asking > 0 || !errors.Is(hd.lost, watchdog.ErrRefused) {
			cl.retire() // Redis may still have it for us, or may get it again. It is not needed any more.
		}
		return hd.lost
	}
	if next := hd.next(); next != nil && !errors.Is(l.ended(), ErrLost) {
		hd.pass(next)
		h.mu.Unlock()
		return nil
	}
	hd.gone = true
	if h.hold == hd {
		h.hold = nil
	}
	h.c.watchdog.Stop(&hd.guard)
	done := make(chan error, 1)
	cl.finish()
	cl.freeing = true
	h.c.spawn(func() { // behind a request that is under way, and again when that is answered: see settle
		err := h.release(cl)
		cl.hangUp()
		h.mu.Lock()
		cl.freeing = false
		if cl.undone {
			cl.retire()
		}
		h.mu.Unlock()
		h.c.held(-1)
		done <- err
		h.quit()
	})
	h.mu.Unlock()

	timer := time.NewTimer(h.c.opts.OpTimeout)
	defer timer.Stop()
	select {
	case err := <-done:
		if cause := l.ended(); err == nil && errors.Is(cause, ErrLost) {
			return cause // by the clock, before the watchdog could say so
		}
		return err
	case <-timer.C:
		return fmt.Errorf("no answer within %v; the key is given back as soon as Redis answers, or expires", h.c.opts.OpTimeout)
	}
}

// lose ends the leases of a hold that Redis has for somebody else now, or may have soon.
func (h *fairHome) lose(hd *fairHold, cause error) {
	h.mu.Lock()
	if hd.gone {
		h.mu.Unlock()
		return
	}
	hd.gone, hd.lost = true, lost(cause)
	if h.hold == hd {
		h.hold = nil
	}
	hd.claim.finish()
	hd.claim.dismiss()
	h.mu.Unlock()

	h.tell(hd, lost(cause))
	h.c.depart(hd.claim.n, &hd.guard, cause, func() {})
	h.c.held(-1)
	h.quit()
	if errors.Is(cause, watchdog.ErrRefused) {
		// Whoever deleted the key told nobody in the queue, and may have deleted that, too.
		h.c.spawn(func() {
			_, _ = h.releaseOnce(hd.claim)
			h.mu.Lock()
			defer h.mu.Unlock()
			for _, cl := range h.claims {
				cl.call.w.poke()
			}
		})
	}
}

// tell ends the leases of a hold.
func (h *fairHome) tell(hd *fairHold, cause error) {
	h.mu.Lock()
	leases := slices.Clone(hd.leases)
	h.mu.Unlock()
	for _, l := range leases {
		l.end(cause)
	}
}

// close ends the leases of this home because the client is closed. Redis is told nothing of what they have.
func (h *fairHome) close() {
	h.mu.Lock()
	h.shut = true
	hd := h.hold
	if hd != nil {
		hd.claim.dismiss()
	}
	h.empty(0)
	h.mu.Unlock()
	if hd != nil {
		h.tell(hd, ErrClosed)
	}
}

// release gives a claim back, or takes it out of the queue. It tries until Redis has answered, at most for
// Options.OpTimeout; after that it goes on in the background.
func (h *fairHome) release(cl *fairClaim) error {
	h.mu.Lock()
	doubt, standing := cl.doubt, len(cl.after) > 0
	h.mu.Unlock()
	return h.c.giveBack(doubt, standing, func() (bool, error) { return h.releaseOnce(cl) }, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		cl.doubt = true
		cl.retire()
		for _, x := range cl.after {
			x.retire()
		}
	})
}

// releaseOnce reports whether the lock was the claim's, as far as is known.
func (h *fairHome) releaseOnce(cl *fairClaim) (bool, error) {
	var after []protocol.Departure
	run := h.c.net.Run
	h.mu.Lock()
	for _, x := range slices.Concat(cl.after, cl.entered) {
		after = append(after, protocol.Departure{Number: x.n, Wait: x.wait})
	}
	if cl.asking > 0 || cl.doubt {
		run = h.c.net.RunAside
	}
	h.mu.Unlock()
	reply, again := h.c.net.RunInTime(run, h.lock.Release(cl.owner, cl.wait, time.Now(), after))
	done, err := reply.Int()
	outcome := protocol.Outcome(done)
	if outcome == protocol.FreedForNobody {
		h.c.spawn(func() {
			if h.c.pause(claimLease) {
				_, _ = h.releaseOnce(cl) // which passes the lock on to the next one, if it is free still
			}
		})
	}
	return outcome != protocol.NotOurs || again, err
}
