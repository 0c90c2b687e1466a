package runtime

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/scripts"
)

// A fairHome is this process's side of one fair lock. It has no queue: who is next is for Redis to say, which knows each
// waiter by a claim of its own. When Redis hands the lock over to one of them it says too who of this process stands
// right behind that one; these have it next, in this order, without a word to Redis.
type fairHome struct {
	c     *Client
	key   string
	names fairNames
	users int // calls, holds and requests that refer to this home; guarded by c.mu

	mu     sync.Mutex            // guards the rest; never held while waiting for anything
	claims map[uint64]*fairClaim // of those who wait, by their numbers
	hold   *fairHold             // what the process has in Redis, or nil
	shut   bool                  // the client is closed: nobody enters again

	leaving int          // claims that were given up, and are not out of the queue yet
	behind  []*fairClaim // that ask when fewer are leaving
}

// A fairClaim is the contest of one waiter, and what it asks Redis with: an owner that is used for this and for nothing
// else, so that whatever late request names it cannot harm a later one.
//
//	           granted, or handed over       the last one unlocks, nobody follows
//	asking ──────────────────────────► hold ────────────────────────────────────► released
//	 │   ▲                             │  ▲
//	 │   │                             └──┘ unlocked: the one behind has it
//	 │   └── refused: in Redisson's queue; told, or by time
//	 └── given up: out of the queue
type fairClaim struct {
	h     *fairHome
	w     *waiter
	wait  time.Duration // by which its place is reckoned
	ttl   time.Duration // of the lease that it asks for
	n     uint64
	owner string    // as Redisson names a thread: <uuid>:<n>
	made  time.Time // before the first request that names it

	// Guarded by fairHome.mu.
	asked   bool         // at least once
	asking  bool         // a request is under way
	left    bool         // the waiter has gone, or was given what another of its owner has
	ours    bool         // Redis granted it, but nobody was given it
	queued  bool         // it may be in the queue
	doubt   bool         // a reply was lost
	seized  bool         // it was taken by force, said before the answer came
	again   bool         // it was refused, some time ago
	seen    sighting     // of the last answer
	granted time.Time    // when another process handed it over, by the server's clock
	hold    *fairHold    // what it was granted, or had after the one who was, or nil
	behind  []uint64     // those who have what it is handed after it
	after   []*fairClaim // those of them who had it
	over    func()       // to be done when the request under way is answered, or nil

	late *time.Timer // has it ask when the one before it may have died; nil until it is the next one
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

const (
	// A claim that is told at once when it is its turn, by those of this library, listens to Redisson's channel
	// too when it has waited for so long: others may give the key back, or take it by force.
	listenAfter = time.Second

	// A free lock that is another's turn is asked for no more often than this.
	leastFairPause = 50 * time.Millisecond

	// While so many are leaving nobody comes: those who give up at once, again and again, would ask for more than
	// Redis can answer.
	mostLeaving = 16
)

// clock returns the time as Redisson's fair lock reckons with it: of this machine, in milliseconds since 1970.
func clock() string { return strconv.FormatInt(time.Now().UnixMilli(), 10) }

// enterFair returns this process's side of the fair lock key for a call, until exit.
func (c *Client) enterFair(key string) (*fairHome, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != open {
		return nil, ErrClosed
	}
	h := c.fairs[key]
	if h == nil {
		h = &fairHome{c: c, key: key, names: fairNamesOf(key), claims: map[uint64]*fairClaim{}}
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

// keys are those of all scripts of the lock.
func (h *fairHome) keys() []string { return h.names.keys(h.key) }

// claim returns the claim of a waiter.
func (h *fairHome) claim(w *waiter, cfg lockConfig) *fairClaim {
	cl := &fairClaim{h: h, w: w, wait: h.c.opts.FairWait, ttl: cfg.ttl}
	if cfg.wait > 0 {
		cl.wait = max(cfg.wait, time.Millisecond)
	}
	return cl
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
		l.token = hd.leases[0].token
	}
	l.begin(hd, &hd.guard)
	hd.leases = append(hd.leases, l)
}

// channel is where Redisson tells this waiter, and nobody else, that it is its turn.
func (cl *fairClaim) inherits() string { return cl.h.key }

func (cl *fairClaim) channel() string {
	cl.h.mu.Lock()
	defer cl.h.mu.Unlock()
	return cl.h.names.channel + ":" + cl.owner
}

// hear has no use for what is said on the channel: that something was is a reason to ask.
func (cl *fairClaim) hear(string) {}

// join has every waiter ask, at once or soon, except one that does not wait for what this process has.
func (cl *fairClaim) join(w *waiter) bool {
	h := cl.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ownedBy(w.lease.owner) { // granted a moment ago, to another call of this one's owner
		w.place.granted = true
		h.hold.attach(w.lease)
		w.news <- news{kind: given}
		return false
	}
	if w.once && h.hold != nil {
		return false
	}
	cl.n, cl.made = h.c.claims.Add(1), time.Now()
	cl.owner = h.c.owner(cl.n)
	h.claims[cl.n] = cl
	h.c.connect(cl.n, h.key, cl)
	if !w.once && h.leaving >= mostLeaving {
		h.behind = append(h.behind, cl)
		return false
	}
	return true
}

// ask sends one request.
func (cl *fairClaim) ask(w *waiter) {
	h := cl.h
	h.mu.Lock()
	if cl.hold != nil || cl.left {
		h.mu.Unlock()
		return // it was given what it wants a moment ago
	}
	cl.asked, cl.asking = true, true
	line, note, drawn, t := "0", "", "0", w.terms
	if t.fenced {
		drawn = "1"
	}
	if !w.once {
		cl.queued = true
		line = "1"
	}
	if !w.once && !t.quiet { // else it is not given the lock without asking
		note = millis(cl.wait) + " " + millis(min(claimLease, t.ttl)) + " " + drawn + " " + h.c.keepTokens
	}
	h.mu.Unlock()

	w.asks.Add(1)
	h.stay()
	h.c.spawn(func() {
		defer h.quit()
		sent := time.Now() // before the request: trust is counted from here
		reply, err := h.c.acquireFirst(scripts.FairAcquire, h.keys(),
			[]string{millis(t.ttl), cl.owner, line, millis(cl.wait), clock(), h.c.publish, note, drawn, h.c.keepTokens}, isGranted).AsIntSlice()
		if err == nil && len(reply) != 5 {
			err = fmt.Errorf("%d values in the reply of five", len(reply))
		}
		rest := cl.settle(w, sent, reply, err)
		w.asks.Add(-1)
		if rest != nil {
			rest()
		}
	})
}

// settle deals with the answer to a request. It returns what is left to do.
func (cl *fairClaim) settle(w *waiter, sent time.Time, reply []int64, err error) (rest func()) {
	h := cl.h
	h.mu.Lock()
	defer h.mu.Unlock()
	cl.asking = false
	cl.doubt = cl.doubt || unknown(err)
	cl.ours = cl.ours || unconfirmed(err)
	yes := err == nil && reply[0] == granted
	var at time.Time
	if err == nil && !yes {
		at = serverTime(reply[3], reply[4])
	}
	switch {
	case cl.hold != nil && cl.hold.claim != cl:
		if yes || unconfirmed(err) {
			return cl.ousted()
		}
	case cl.hold != nil: // it was handed over while we asked
		hd, over := cl.hold, cl.over
		cl.over = nil
		if err == nil && !yes && at.After(cl.granted) {
			return func() {
				h.c.watchdog.Lose(&hd.guard, watchdog.ErrRefused)
				if over != nil {
					over()
				}
			}
		}
		return over
	case cl.left:
		cl.ours = cl.ours || yes
		return cl.drop()
	case err != nil:
		w.news <- news{kind: failed, err: err}
	case !yes:
		if cl.ours = cl.ours && cl.granted.After(at); !cl.ours { // else it is an older answer
			cl.behind = nil // it stands somewhere else now, or they do
		}
		cl.seen, cl.seized = sighting{sent, at}, false
		pause, free := time.Duration(reply[0])*time.Millisecond, reply[2] == 1
		if free {
			pause = max(pause, leastFairPause)
		}
		if !cl.again && (pause < 0 || pause > listenAfter) || free && (reply[0] < 0 || pause > listenAfter) {
			pause = listenAfter
		}
		w.news <- news{kind: refusedFor, ttl: pause, foreign: reply[1] == 1 || cl.again, inLine: true}
		cl.again = true
	case !h.c.granting():
		cl.ours = true
		w.news <- news{kind: failed, err: ErrClosed} // it is on its way out
	case !time.Now().Before(sent.Add(w.terms.ttl - watchdog.Margin(w.terms.ttl))):
		cl.ours = true
		w.news <- news{kind: failed, err: errLate}
	case cl.seized:
		cl.seized, cl.ours = false, true // what Redis said is over; it is asked again
		w.news <- news{kind: turn}
	default:
		return cl.take(w, sent, w.terms.ttl, newTokens(reply[1], 1))
	}
	return nil
}

// handed deals with the message that the lock was handed over to this claim. What trust is counted from is explained at
// home.handed.
func (cl *fairClaim) handed(_ uint64, o handOver) {
	received, at, token := time.Now(), o.at, o.token
	h := cl.h
	h.mu.Lock()
	w := cl.w
	if cl.hold != nil && cl.hold.claim != cl {
		rest := cl.ousted()
		h.mu.Unlock()
		h.c.spawn(rest)
		return
	}
	if cl.hold != nil || cl.left {
		h.mu.Unlock()
		return // known already, or given up
	}
	if !at.After(cl.seen.server) {
		w.poke() // Redis has said no since
		h.mu.Unlock()
		return
	}
	cl.ours, cl.granted, cl.behind = true, at, o.behind
	from := cl.made
	if !cl.seen.local.IsZero() {
		from = cl.seen.earliest(at)
	}
	if from.After(received) {
		from = received // the server's clock was set forward
	}
	first := min(claimLease, w.terms.ttl)
	var rest func()
	switch {
	case !h.c.granting(): // it leaves, and gives it back
	case h.c.vague(), !w.terms.renew, w.terms.fenced && token == 0, h.c.opts.Replicas > 0, !time.Now().Before(from.Add(first - watchdog.Margin(first))):
		w.poke() // to ask for what it needs
	default:
		h.c.counts.remote.Add(1)
		rest = cl.take(w, from, first, newTokens(token, 1+len(o.behind)))
	}
	h.mu.Unlock()
	if rest != nil {
		h.c.spawn(rest)
	}
}

// ousted deals with a lock that Redis has for cl, which has, or had, what another one was granted: that one has it no more,
// and cl does not need it. It returns what is left to do without holding h.mu.
func (cl *fairClaim) ousted() (rest func()) {
	h, hd := cl.h, cl.hold
	hd.taken = true
	h.stay()
	return func() {
		defer h.quit()
		h.c.watchdog.Lose(&hd.guard, watchdog.ErrRefused)
		_ = h.release(cl) // what failed goes on in the background
	}
}

// take turns the claim into a hold, has it guarded and gives it to w. Redis granted it no earlier than at from, for ttl
// at first. It returns what is left to do without holding h.mu, or nil.
func (cl *fairClaim) take(w *waiter, from time.Time, ttl time.Duration, drawn tokens) (rest func()) {
	h, t := cl.h, w.terms
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
	drops := hd.give(cl)
	if old == nil {
		w.news <- news{kind: given} // from here on another call may use w
	}
	if old == nil && len(drops) == 0 {
		return nil
	}
	if old != nil {
		w.asks.Add(1) // w is told later
	}
	return func() {
		if old != nil { // Redis would not have granted it, if the other one had it still
			h.c.watchdog.Lose(&old.guard, watchdog.ErrRefused)
			h.tell(old, lost(watchdog.ErrRefused))
			h.mu.Lock()
			hd.early = false
			h.mu.Unlock()
			w.news <- news{kind: given}
			w.asks.Add(-1)
		}
		for _, drop := range drops {
			drop()
		}
	}
}

// give makes the lease of who waits with cl the first one of hd. It returns what is left to do without holding h.mu, and
// then the waiter can be told.
func (hd *fairHold) give(cl *fairClaim) (drops []func()) {
	h, w := hd.home, cl.w
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
	return h.admit(hd, w.lease.owner)
}

// next returns the claim that follows, if it can have hd as it is, or nil.
func (hd *fairHold) next() *fairClaim {
	h, first := hd.home, hd.claim
	if h.hold != hd || hd.early || hd.taken {
		return nil
	}
	for i, n := range first.behind {
		if cl := h.claims[n]; cl != nil && !cl.left {
			first.behind = first.behind[i:]
			if len(first.after)+1 < h.c.opts.Cohort && cl.wait == first.wait && h.c.suits(&hd.guard, hd.terms, cl.w.terms, hd.tokens) {
				return cl
			}
			return nil
		}
	}
	return nil
}

// pass gives hd to the claim that follows. It returns what is left to do without holding h.mu.
func (hd *fairHold) pass(cl *fairClaim) (drops []func()) {
	first, w := hd.claim, cl.w
	first.behind, first.after = first.behind[1:], append(first.after, cl)
	hd.home.c.counts.local.Add(1)
	drops = hd.give(cl)
	w.news <- news{kind: given}
	return drops
}

// finish ends what cl had, and those after it. A request of theirs that is under way, or was not answered, could put one
// of those in the queue again: they leave it by themselves. It returns what is left to do without holding h.mu.
func (cl *fairClaim) finish() (drops []func()) {
	for _, x := range cl.after {
		if x.asking || x.doubt {
			x.hold = nil
			if drop := x.giveUp(); drop != nil {
				drops = append(drops, drop)
			}
		}
	}
	return drops
}

// dismiss takes those out of the queue who had what cl was granted, which cl itself may have still. To Redis, which hands the
// lock to the head of the queue, they wait. It returns what is left to do without holding h.mu.
func (cl *fairClaim) dismiss() (rest func()) {
	h, n := cl.h, len(cl.after)
	if n == 0 {
		return func() {}
	}
	last := cl.after[n-1]
	last.after = cl.after[: n-1 : n-1]
	h.stay()
	return func() {
		defer h.quit()
		_ = h.release(last) // what failed goes on in the background
		last.hangUp()
	}
}

// hangUp ends what Redis tells of cl and of those after it.
func (cl *fairClaim) hangUp() {
	cl.h.c.disconnect(cl.n)
	for _, x := range cl.after {
		cl.h.c.disconnect(x.n)
	}
}

// admit lets those in who are of the owner that was given hd, and would wait for themselves.
func (h *fairHome) admit(hd *fairHold, owner *Owner) (drops []func()) {
	if owner == nil {
		return nil
	}
	for _, cl := range h.claims {
		w := cl.w
		if w.lease.owner != owner || cl.left {
			continue
		}
		hd.attach(w.lease)
		w.place.granted = true
		if drop := cl.giveUp(); drop != nil {
			drops = append(drops, drop)
		}
		w.news <- news{kind: given}
	}
	return drops
}

// leave gives the claim up. If the waiter was given the lease after all, that is unlocked.
func (cl *fairClaim) leave(w *waiter) {
	h := cl.h
	h.mu.Lock()
	if cl.hold != nil || w.place.granted {
		h.mu.Unlock()
		l := w.lease
		h.c.spawn(func() { _ = l.hold.unlock(l) })
		return
	}
	rest := cl.giveUp()
	h.mu.Unlock()
	if rest != nil {
		h.c.spawn(rest)
	}
}

// giveUp notes that nobody wants the claim any more. It returns what is left to do, or nil.
func (cl *fairClaim) giveUp() (rest func()) {
	cl.left = true
	cl.calm()
	cl.h.leaving++
	if cl.asking {
		return nil // the answer sees to the rest
	}
	return cl.drop()
}

// drop takes a claim that was given up out of the queue.
func (cl *fairClaim) drop() (rest func()) {
	h := cl.h
	delete(h.claims, cl.n)
	if !cl.ours && !cl.queued && !cl.doubt {
		h.c.disconnect(cl.n)
		h.gone()
		return nil
	}
	h.stay()
	return func() {
		defer h.quit()
		if err := h.release(cl); err != nil && !errors.Is(err, ErrLost) {
			h.c.opts.Logger.Warn("lockgen: who gave up a fair lock is still in its queue; that is tried on", "key", h.key, "error", err)
		}
		h.c.disconnect(cl.n)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.gone()
	}
}

// gone notes that one who was leaving is out, and lets those in who waited for that.
func (h *fairHome) gone() {
	h.leaving--
	for len(h.behind) > 0 && h.leaving < mostLeaving {
		cl := h.behind[0]
		h.behind = h.behind[1:]
		if !cl.left {
			cl.w.news <- news{kind: turn}
		}
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
		if cl.doubt || cl.asking || !errors.Is(hd.lost, watchdog.ErrRefused) {
			// Redis may still have it for us, or may get it again. It is not needed any more.
			h.stay()
			cl.whenAnswered(func() {
				h.c.spawn(func() {
					defer h.quit()
					h.withdraw(cl)
				})
			})
		}
		return hd.lost
	}
	if next := hd.next(); next != nil && !errors.Is(l.ended(), ErrLost) {
		drops := hd.pass(next)
		h.mu.Unlock()
		h.c.spawnAll(drops)
		return nil
	}
	hd.gone = true
	if h.hold == hd {
		h.hold = nil
	}
	h.c.watchdog.Stop(&hd.guard)
	done := make(chan error, 1)
	cl.whenAnswered(func() {
		h.c.spawn(func() {
			err := h.release(cl)
			cl.hangUp()
			h.c.held(-1)
			done <- err
			h.quit()
		})
	})
	drops := cl.finish()
	h.mu.Unlock()
	h.c.spawnAll(drops)

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

// whenAnswered calls f when no request for the claim is under way, which would take the lock, or a place, for nobody.
func (cl *fairClaim) whenAnswered(f func()) {
	if cl.asking {
		cl.over = f
		return
	}
	f()
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
	drops := append(hd.claim.finish(), hd.claim.dismiss())
	h.mu.Unlock()

	h.tell(hd, lost(cause))
	h.c.spawnAll(drops)
	h.c.disconnect(hd.claim.n)
	h.c.held(-1)
	h.quit()
	if errors.Is(cause, watchdog.ErrRefused) {
		// Whoever deleted the key told nobody in the queue, and may have deleted that, too.
		h.c.spawn(func() {
			_, _ = h.releaseOnce(hd.claim)
			h.mu.Lock()
			defer h.mu.Unlock()
			for _, cl := range h.claims {
				if cl.hold == nil && !cl.left {
					cl.w.poke()
				}
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
	var dismiss func()
	if hd != nil {
		dismiss = hd.claim.dismiss()
	}
	h.mu.Unlock()
	if hd != nil {
		h.c.spawn(dismiss)
		h.tell(hd, ErrClosed)
	}
}

// release gives a claim back, or takes it out of the queue. It tries until Redis has answered, at most for
// Options.OpTimeout; after that it goes on in the background.
func (h *fairHome) release(cl *fairClaim) error {
	h.mu.Lock()
	doubt, standing := cl.doubt, cl.queued && cl.hold == nil || len(cl.after) > 0
	h.mu.Unlock()
	return h.c.giveBack(doubt, standing, func() (bool, error) { return h.releaseOnce(cl) }, func() {
		h.stay()
		h.c.spawn(func() {
			defer h.quit()
			h.withdraw(cl)
		})
	})
}

// releaseOnce reports whether the lock was the claim's.
func (h *fairHome) releaseOnce(cl *fairClaim) (bool, error) {
	args := []string{cl.owner, millis(cl.wait), clock(), h.c.publish}
	h.mu.Lock()
	for _, x := range cl.after {
		args = append(args, strconv.FormatUint(x.n, 10))
	}
	h.mu.Unlock()
	done, err := h.c.run(scripts.FairRelease, h.keys(), args).AsInt64()
	if done == passedOnToNobody {
		h.c.spawn(func() {
			if h.c.pause(claimLease) {
				_, _ = h.releaseOnce(cl) // which passes the lock on to the next one, if it is free still
			}
		})
	}
	return done != notOurs, err
}

// withdraw makes sure that Redis does not keep the lock, or a place in the queue, for a claim that nobody wants any more.
func (h *fairHome) withdraw(cl *fairClaim) {
	h.c.withdrawBy(h.key, cl.ttl, func() error {
		_, err := h.releaseOnce(cl)
		return err
	})
}

// resubscribed has the waiter ask: what was said while nobody listened is not known, and the server may be another one,
// with another clock.
func (cl *fairClaim) resubscribed(n uint64) {
	cl.h.mu.Lock()
	cl.seen = sighting{}
	if cl.hold == nil {
		cl.behind = nil
	}
	cl.h.mu.Unlock()
	cl.look(n)
}

// look has the waiter ask.
func (cl *fairClaim) look(uint64) {
	cl.h.mu.Lock()
	defer cl.h.mu.Unlock()
	if cl.hold == nil && !cl.left {
		cl.w.poke()
	}
}

// soon has the waiter ask in d: it is the next one, and the one before it may have died.
func (cl *fairClaim) soon(n uint64, d time.Duration) {
	cl.h.mu.Lock()
	defer cl.h.mu.Unlock()
	switch {
	case cl.hold != nil || cl.left:
	case cl.late != nil:
		cl.late.Reset(d + time.Millisecond)
	default:
		cl.late = time.AfterFunc(d+time.Millisecond, func() { cl.look(n) })
	}
}

// calm notes that the claim waits no more.
func (cl *fairClaim) calm() {
	if cl.late != nil {
		cl.late.Stop()
	}
}

// wanted has nothing to do: every release looks at the queue.
func (cl *fairClaim) wanted(uint64) {}

// taken deals with the message that what cl has was taken by force.
func (cl *fairClaim) taken(uint64) {
	cl.h.mu.Lock()
	defer cl.h.mu.Unlock()
	if hd := cl.hold; hd != nil {
		hd.taken = true
		cl.h.c.spawn(func() { cl.h.c.watchdog.Lose(&hd.guard, watchdog.ErrRefused) })
		return
	}
	cl.seized = true
}
