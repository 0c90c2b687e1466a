package lockrt

import (
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// A fairCall is the contest of one waiter. What it asks Redis with is a claim: one of its own, or the place of one that gave
// up a moment ago.
type fairCall struct {
	h    *fairHome
	w    *waiter
	wait time.Duration // by which its place is reckoned

	// Guarded by fairHome.mu.
	cl    *fairClaim // nil before it joins
	asked bool       // at least once
}

// A fairClaim is what Redis is asked with: an owner that is used for this and for nothing else, so that whatever late
// request names it cannot harm a later one.
//
//	           granted, or handed over       the last one unlocks, nobody follows
//	asking ──────────────────────────► hold ────────────────────────────────────► left
//	 │   ▲                             │  ▲                                         ▲
//	 │   │                             └──┘ unlocked: the one behind has it         │ withdrawn
//	 │   └── refused: in Redisson's queue; told, or by time                         │
//	 │   ▲                                                                          │
//	 ▼   │ another call comes                                                       │
//	spare ─────────────────────────── nobody comes ─────────────────────────────────┘
type fairClaim struct {
	h     *fairHome
	terms terms
	wait  time.Duration // by which its place is reckoned
	n     uint64
	owner string    // as Redisson names a thread: <uuid>:<n>
	made  time.Time // before the first request that names it

	// Guarded by fairHome.mu.
	call    *fairCall    // that waits with it, or did last; nil if it gave up, and the claim is spare or has left
	asking  int          // requests under way
	left    bool         // it is not needed any more: what Redis has of it is withdrawn
	freeing bool         // by a release that is under way
	undone  bool         // meanwhile Redis may have done something for it
	ours    bool         // Redis granted it, but nobody was given it
	queued  bool         // it may be in the queue
	doubt   bool         // a reply was lost
	seized  bool         // it was taken by force, said before the answer came
	again   bool         // it was refused, some time ago
	seen    sighting     // of the last answer
	granted time.Time    // when another process handed it over, by the server's clock
	heard   time.Time    // when that was heard
	hold    *fairHold    // what it was granted, or had after the one who was, or nil
	behind  []uint64     // those who have what it is handed after it
	after   []*fairClaim // those of them who had it
	entered []*fairClaim // those who did not wait for their turn, being of one owner with one who had it; they are being withdrawn
	since   time.Time    // when it became spare

	late *time.Timer // has it ask when the one before it may have died; nil until it is the next one
}

const (
	// A claim that is told at once when it is its turn, by those of this library, listens to Redisson's channel
	// too when it has waited for so long: others may give the key back, or take it by force.
	listenAfter = time.Second

	// A free lock that is another's turn is asked for no more often than this.
	leastFairPause = 50 * time.Millisecond

	// The place of one that gave up is kept for so long for the next call. So those who give up at once, again and again,
	// come to the head of the queue.
	spareFor = 10 * time.Millisecond
)

// contest returns the contest of a waiter.
func (h *fairHome) contest(w *waiter, cfg lockConfig) *fairCall {
	e := &fairCall{h: h, w: w, wait: h.c.opts.FairWait}
	if cfg.wait > 0 {
		e.wait = max(cfg.wait, time.Millisecond)
	}
	return e
}

func (e *fairCall) inherits() string { return e.h.key }

// channel is where Redisson tells this waiter, and nobody else, that it is its turn.
func (e *fairCall) channel() string {
	e.h.mu.Lock()
	defer e.h.mu.Unlock()
	return e.h.lock.Channel(e.cl.owner)
}

// hear has no use for what is said on the channel: that something was is a reason to ask.
func (e *fairCall) hear(string) {}

// join has every waiter ask, except one that does not wait for what this process has, and one whose request another one
// sent, who gave up.
func (e *fairCall) join(w *waiter) entry {
	h := e.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ownedBy(w.lease.owner) { // granted a moment ago, to another call of this one's owner
		w.place.granted = true
		h.hold.attach(w.lease)
		return entered
	}
	if w.once && h.hold != nil {
		return turnedAway
	}
	cl := h.takeSpare(e)
	if cl == nil {
		cl = &fairClaim{h: h, terms: w.terms, wait: e.wait, n: h.c.claims.Add(1), made: time.Now()}
		cl.owner = h.c.wire.Owner(cl.n)
		h.c.connect(cl.n, h.key, cl)
	}
	e.cl, cl.call = cl, e
	h.claims[cl.n] = cl
	if cl.asking > 0 {
		return toWait
	}
	return toAsk
}

// last returns whether this process has the lock, which keeps out one who does not wait. Who waits asks for itself.
func (e *fairCall) last(*waiter) (held bool, said word) {
	e.h.mu.Lock()
	defer e.h.mu.Unlock()
	return e.h.hold != nil, word{}
}

// remind has the waiter ask, if it has not come to that yet.
func (e *fairCall) remind() {
	e.h.mu.Lock()
	defer e.h.mu.Unlock()
	if cl := e.cl; cl != nil && cl.call == e && cl.hold == nil && cl.asking == 0 {
		e.w.tell(news{kind: turn})
	}
}

// ask sends one request.
func (e *fairCall) ask(w *waiter) {
	h := e.h
	h.mu.Lock()
	cl := e.cl
	if cl == nil || cl.hold != nil || cl.call != e {
		h.mu.Unlock()
		return // it was given what it wants a moment ago
	}
	e.asked = true
	cl.asking++
	t := cl.terms
	// One who does not hear of it is not given the lock without asking.
	r := protocol.FairRequest{Owner: cl.owner, Queue: protocol.NotQueued, Lease: t.ttl, Wait: cl.wait, Hears: !w.once && !t.quiet}
	if t.fenced {
		r.Tokens = 1
	}
	if !w.once {
		r.Queue = protocol.Queued
		if cl.queued {
			r.Queue = protocol.StillQueued
		}
		cl.queued = true
		if !h.noted {
			h.noted = true
			h.c.stood.note(h.key)
		}
	}
	h.mu.Unlock()

	w.asks.Add(1)
	h.stay()
	h.c.spawn(func() {
		defer h.quit()
		if h.c.opts.Replicas == 0 { // else it may take longer
			late := time.AfterFunc(transport.AsidePatience, func() { cl.askBeside(r, 1) })
			defer late.Stop()
		}
		sent := time.Now() // before the request: trust is counted from here
		reply, err := readFair(h.c.net.RunGrant(h.lock.Acquire(r, sent), isGranted))
		rest := cl.settle(sent, false, reply, err)
		w.asks.Add(-1)
		if rest != nil {
			rest()
		}
	})
}

// askBeside sends the request of a claim once more if it still waits for the answer, over another connection, and then again.
// It does not block.
func (cl *fairClaim) askBeside(r protocol.FairRequest, sent int) {
	h := cl.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if !cl.waits() || cl.asking == 0 || sent == transport.MostBeside || !h.c.granting() {
		return
	}
	w := cl.call.w
	cl.asking++
	w.asks.Add(1)
	h.stay()
	h.c.spawn(func() {
		defer h.quit()
		late := time.AfterFunc(transport.AsidePatience, func() { cl.askBeside(r, sent+1) })
		defer late.Stop()
		at := time.Now()
		reply, err := readFair(h.c.net.RunBeside(h.lock.Acquire(r, at)))
		rest := cl.settle(at, true, reply, err)
		w.asks.Add(-1)
		if rest != nil {
			rest()
		}
	})
}

// readFair reads the reply to a request.
func readFair(reply transport.Reply) (v protocol.FairVerdict, err error) {
	numbers, err := reply.Ints()
	if err != nil {
		return v, err
	}
	return protocol.ReadFairAcquire(numbers)
}

// before reports whether another claim of this process waits for longer.
func (h *fairHome) before(cl *fairClaim) bool {
	for n, other := range h.claims {
		if n < cl.n && other.queued {
			return true
		}
	}
	return false
}

// settle deals with the answer to a request, which was sent beside another one or not. It returns what is left to do.
func (cl *fairClaim) settle(sent time.Time, beside bool, reply protocol.FairVerdict, err error) (rest func()) {
	h := cl.h
	h.mu.Lock()
	defer h.mu.Unlock()
	cl.asking--
	cl.doubt = cl.doubt || transport.Unknown(err) || transport.Begun(err)
	yes := err == nil && reply.Granted()
	if err == nil && reply.Unplaced {
		for _, other := range h.claims { // the queue is gone, and with it the places of all, perhaps
			if other != cl && other.queued {
				other.call.w.poke()
			}
		}
	}
	at := reply.At
	switch {
	case cl.left: // it was withdrawn meanwhile, perhaps before this came to pass
		cl.retire()
		return nil
	case cl.hold != nil && cl.hold.claim != cl:
		if yes || transport.Unconfirmed(err) {
			return cl.ousted()
		}
		return nil
	case cl.hold != nil: // it was handed over while we asked
		if hd := cl.hold; err == nil && !yes && !cl.granted.IsZero() && at.After(cl.granted) {
			return func() { h.c.watchdog.Lose(&hd.guard, watchdog.ErrRefused) }
		}
		return nil
	}
	cl.ours = cl.ours || yes || transport.Unconfirmed(err)
	if cl.call == nil && cl.ours && !h.inherit(cl) {
		h.unspare(cl)
		return nil
	}
	tell := func(n news) {
		if cl.call != nil {
			cl.call.w.tell(n)
		}
	}
	ttl := cl.terms.ttl
	switch {
	case err != nil && (beside && cl.asking > 0 || cl.seen.local.After(sent)): // another one tells, or has told
	case err != nil && cl.call != nil && !cl.call.asked:
		tell(news{kind: turn}) // another one asked
	case err != nil:
		tell(news{kind: failed, err: err})
	case !yes:
		if cl.ours = cl.ours && cl.granted.After(at) && sent.Before(cl.heard); !cl.ours { // else it is an older answer
			cl.behind = nil // it stands somewhere else now, or they do
		}
		cl.seen, cl.seized = sighting{sent, at}, false
		pause, free := time.Duration(reply.Wait)*time.Millisecond, reply.Free
		if free {
			pause = max(pause, leastFairPause)
		}
		if !cl.again && (pause < 0 || pause > listenAfter) || free && (reply.Wait < 0 || pause > listenAfter) {
			pause = listenAfter
		}
		tell(news{kind: refusedFor, ttl: pause, foreign: reply.Foreign || cl.again, inLine: true, behind: h.before(cl)})
		cl.again = true
	case !h.c.granting():
		tell(news{kind: failed, err: ErrClosed}) // it is on its way out
	case !time.Now().Before(sent.Add(ttl - watchdog.Margin(ttl))):
		tell(news{kind: failed, err: errLate})
	case cl.seized:
		cl.seized = false // what Redis said is over; it is asked again
		tell(news{kind: turn})
	default:
		return cl.take(sent, ttl, newTokens(reply.Token, 1))
	}
	return nil
}

// handed deals with the message that the lock was handed over to this claim. What trust is counted from is explained at
// home.handed.
func (cl *fairClaim) handed(_ uint64, o handOver) {
	received, at, token := time.Now(), o.at, o.token
	h := cl.h
	h.mu.Lock()
	if cl.left {
		cl.retire() // at once, whatever else is under way for it
		h.mu.Unlock()
		return
	}
	if cl.hold != nil && cl.hold.claim != cl {
		rest := cl.ousted()
		h.mu.Unlock()
		h.c.spawn(rest)
		return
	}
	if cl.hold != nil {
		h.mu.Unlock()
		return // known already
	}
	if cl.call == nil && !h.inherit(cl) {
		cl.ours = true
		h.unspare(cl)
		h.mu.Unlock()
		return
	}
	w := cl.call.w
	if !at.After(cl.seen.server) {
		w.poke() // Redis has said no since
		h.mu.Unlock()
		return
	}
	cl.ours, cl.granted, cl.heard, cl.behind = true, at, received, o.behind
	from := cl.made
	if !cl.seen.local.IsZero() {
		from = cl.seen.earliest(at)
	}
	if from.After(received) {
		from = received // the server's clock was set forward
	}
	first := min(claimLease, cl.terms.ttl)
	var rest func()
	switch {
	case !h.c.granting(): // it leaves, and gives it back
	case h.c.net.ClockUnknown(), !cl.terms.renew, cl.terms.fenced && token == 0, h.c.opts.Replicas > 0, !time.Now().Before(from.Add(first - watchdog.Margin(first))):
		w.poke() // to ask for what it needs
	default:
		h.c.counts.remote.Add(1)
		w.lease.came = fromThere
		rest = cl.take(from, first, newTokens(token, 1+len(o.behind)))
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

// leave gives the claim up. If the waiter was given the lease after all, that is unlocked.
func (e *fairCall) leave(w *waiter) {
	h := e.h
	h.mu.Lock()
	defer h.mu.Unlock()
	cl := e.cl
	switch {
	case w.place.granted:
		l := w.lease
		h.c.spawn(func() { _ = l.hold.unlock(l) })
	case cl != nil && cl.call == e:
		cl.abandon()
	}
}

// abandon notes that nobody waits with the claim any more. Its place is kept for a moment, for another one.
func (cl *fairClaim) abandon() {
	h, once := cl.h, cl.call.w.once
	delete(h.claims, cl.n)
	cl.call = nil
	cl.calm()
	if once || cl.ours || !cl.queued || cl.terms.quiet || !h.c.granting() {
		cl.retire()
		return
	}
	h.stay()
	cl.since = time.Now()
	h.spare = append(h.spare, cl)
	if h.sweeps == nil {
		h.sweeps = time.AfterFunc(spareFor, h.sweep)
	} else if len(h.spare) == 1 {
		h.sweeps.Reset(spareFor)
	}
}

// retire has Redis forget the claim, when a release that is under way has said what became of it.
func (cl *fairClaim) retire() {
	h := cl.h
	cl.left = true
	if cl.freeing {
		cl.undone = true
		return
	}
	if cl.asking == 0 && !cl.doubt && !cl.ours && !cl.queued {
		h.c.disconnect(cl.n)
		return
	}
	r := &remains{n: cl.n, wait: cl.wait, aside: cl.asking > 0 || cl.doubt, over: func() { h.c.disconnect(cl.n) }}
	if cl.doubt {
		r.watch = cl.terms.ttl
	}
	h.c.janitor.throw(fairSweeper{h.key}, r)
}

// sweep has those claims leave that nobody came for.
func (h *fairHome) sweep() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.empty(spareFor)
	if len(h.spare) > 0 {
		h.sweeps.Reset(spareFor)
	}
}

// empty has those claims leave that nobody came for since d ago.
func (h *fairHome) empty(d time.Duration) {
	h.spare = slices.DeleteFunc(h.spare, func(cl *fairClaim) bool {
		if time.Since(cl.since) < d {
			return false
		}
		cl.retire()
		h.quit()
		return true
	})
}

// unspare has a spare claim leave at once.
func (h *fairHome) unspare(cl *fairClaim) {
	if h.removeSpare(cl) {
		cl.retire()
	}
}

// removeSpare takes cl out of those that are spare, and reports whether it was one of them.
func (h *fairHome) removeSpare(cl *fairClaim) bool {
	i := slices.Index(h.spare, cl)
	if i < 0 {
		return false
	}
	h.spare = slices.Delete(h.spare, i, i+1)
	h.quit()
	return true
}

// takeSpare returns a claim on the terms of e that nobody waits with, the one that stands before the others, or nil.
func (h *fairHome) takeSpare(e *fairCall) *fairClaim {
	var best *fairClaim
	for _, cl := range h.spare {
		if !e.w.once && cl.terms == e.w.terms && cl.wait == e.wait && (best == nil || cl.n < best.n) {
			best = cl
		}
	}
	if best != nil {
		h.removeSpare(best)
	}
	return best
}

// inherit has the one who waits for longest take over a spare claim that was granted, and leave its own, and reports
// whether there is one.
func (h *fairHome) inherit(cl *fairClaim) bool {
	var heir *fairClaim
	for _, x := range h.claims {
		if x.queued && x.terms == cl.terms && x.wait == cl.wait && (heir == nil || x.n < heir.n) {
			heir = x
		}
	}
	if heir == nil || !h.removeSpare(cl) {
		return false
	}
	e := heir.call
	if heir.asking > 0 {
		e.w.tell(news{kind: turn}) // the answer to that request is not for it any more
	}
	heir.abandon()
	e.cl, cl.call = cl, e
	h.claims[cl.n] = cl
	return true
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

// waits reports whether somebody waits with the claim.
func (cl *fairClaim) waits() bool { return cl.call != nil && cl.hold == nil && !cl.left }

// look has the waiter ask.
func (cl *fairClaim) look(uint64) {
	cl.h.mu.Lock()
	defer cl.h.mu.Unlock()
	if cl.waits() {
		cl.call.w.poke()
	}
}

// soon has the waiter ask in d: it is the next one, and the one before it may have died.
func (cl *fairClaim) soon(n uint64, d time.Duration) {
	cl.h.mu.Lock()
	defer cl.h.mu.Unlock()
	switch {
	case !cl.waits():
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
