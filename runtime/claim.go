package runtime

import (
	"strconv"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/scripts"
)

// claimLease is what a process gets that is handed a lock by another one: long enough to hear of it
// and to renew it, short enough that nobody waits long for one that has died.
const claimLease = 2 * time.Second

// A claim is one owner that a home asks for its key with, until it is granted or given up. An owner is
// never used for another claim, so whatever late request or release names it cannot harm a later one.
type claim struct {
	n        uint64
	owner    string        // as Redisson names a thread: <uuid>:<n>
	place    string        // in line: the owner, and the tokens that it is to be handed over with
	tokens   tokens        // that it was granted, or handed over, with
	made     time.Time     // before the first request that names it
	ttl      time.Duration // the longest that it asked for
	seen     sighting      // of the last answer
	standing bool          // it may be in line
	ours     bool          // Redis granted it, but nobody was given it
	granted  time.Time     // when another process handed it over, by the server's clock
	doubt    bool          // Redis may hold the key for it without our knowing: a reply was lost
	asking   bool          // a request for it is under way
	look     bool          // there was a reason to ask while a request was under way
	wanted   bool          // another process waits for it, said before the answer came
	taken    bool          // it was taken by force, said before the answer came
	settled  chan bool     // if it was handed over meanwhile: told when that is answered, true for an unknown outcome
}

// A sighting relates the clock of the server to the local one: a request that was sent at local was
// run when the server had the time server.
type sighting struct{ local, server time.Time }

// earliest returns the earliest local time at which the server can have had the time at.
func (s sighting) earliest(at time.Time) time.Time { return s.local.Add(at.Sub(s.server)) }

// claimFor returns the claim of the queue, made if there is none, for a waiter with terms t.
func (h *home) claimFor(t terms) *claim {
	if h.claim == nil {
		n := h.c.claims.Add(1)
		owner := h.c.uuid + ":" + strconv.FormatUint(n, 10)
		h.claim = &claim{n: n, owner: owner, place: h.c.place(owner, t), made: time.Now()}
		h.c.connect(n, h)
	}
	h.claim.ttl = max(h.claim.ttl, t.ttl)
	return h.claim
}

// What the acquire script is told of the line.
const (
	notInLine   = "0"
	intoLine    = "1"
	stillInLine = "2"
)

// ask sends one request for the head of the queue, w.
func (h *home) ask(w *waiter) {
	h.mu.Lock()
	if w.place.element == nil {
		h.mu.Unlock()
		return // it was given what it wants a moment ago
	}
	h.busy++
	cl := h.claimFor(w.terms)
	cl.asking, cl.look = true, false
	drawn := h.wants(w.terms)
	line := notInLine
	switch {
	case cl.standing:
		line = stillInLine
	case !w.once && h.c.heard():
		line = intoLine
		cl.standing = true
	}
	h.mu.Unlock()

	h.c.stay(h)
	h.c.spawn(func() {
		defer h.c.leave(h)
		sent := time.Now() // before the request: trust is counted from here
		keys := []string{h.key, waitingList(h.key)}
		args := []string{millis(w.terms.ttl), cl.place, line}
		if drawn > 0 {
			keys = append(keys, tokenCounter(h.key))
			args = append(args, strconv.Itoa(drawn), millis(h.c.opts.keepTokens()))
		}
		reply, err := h.c.run(scripts.Acquire, keys, args).AsIntSlice()
		if rest := h.settle(w, cl, sent, drawn, reply, err); rest != nil {
			rest()
		}
	})
}

// granted is the reply of the acquire script that means yes.
const granted = -2

// settle deals with the answer to the request that w sent with cl, for so many tokens. It returns what
// is left to do when nobody wants what was granted, or may have been.
func (h *home) settle(w *waiter, cl *claim, sent time.Time, drawn int, reply []int64, err error) (rest func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.busy--
	cl.asking = false
	if cl.settled != nil {
		// It was handed over while we asked, and is not given back before this.
		cl.settled <- unknown(err)
		if hd := h.hold; hd != nil && hd.claim.n == cl.n && err == nil && reply[0] != granted && serverTime(reply[2:]).After(cl.granted) {
			h.c.spawn(func() { h.c.watchdog.Lose(&hd.guard, watchdog.ErrRefused) })
		}
		h.promote()
		return nil
	}
	cl.doubt = cl.doubt || unknown(err)
	yes := err == nil && reply[0] == granted
	next := h.head()
	switch {
	case yes && (next == nil || next.terms != w.terms || !h.c.granting()):
		// Redis has it for us. Whoever is next wants other terms, and asks for them with this claim.
		cl.ours = true
	case yes && !time.Now().Before(sent.Add(w.terms.ttl-watchdog.Margin(w.terms.ttl))):
		cl.ours = true
		err = errLate
	case yes && cl.taken:
		cl.taken, cl.ours = false, true // what Redis said is over; it is asked again, or given up as if it was not
	case yes:
		cl.tokens = newTokens(reply[1], drawn)
		h.take(cl, w.terms, sent, w.terms.ttl)
		h.give(next)
		return nil
	case err == nil:
		cl.seen = sighting{sent, serverTime(reply[2:])}
		cl.ours = cl.ours && cl.granted.After(cl.seen.server) // an older answer
	}
	switch {
	case w.place.element == nil && next == nil:
		return h.abandon()
	case w.place.element == nil:
		h.promote()
	case err != nil:
		w.news <- news{kind: failed, err: err}
	case (cl.ours || cl.look) && h.c.granting():
		w.news <- news{kind: turn}
	case cl.ours:
		w.news <- news{kind: failed, err: ErrClosed} // it is on its way out
	default:
		w.news <- news{kind: refusedFor, ttl: time.Duration(reply[0]) * time.Millisecond, foreign: reply[1] == 1, inLine: cl.standing}
	}
	return nil
}

func serverTime(reply []int64) time.Time { return time.Unix(reply[0], reply[1]*1000) }

// handed deals with the message that another process handed the lock over to the claim n, when the
// server had the time at. others says whether more processes stand in line, token is
// the first of the fencing tokens that came with it, or 0.
//
// Nobody here sent the request that did it, so "before it was sent" does not exist to count trust
// from. But it was not done before the server had that time, and an earlier answer says when that
// can have been the earliest.
func (h *home) handed(n uint64, at time.Time, others bool, token int64) {
	received := time.Now()
	var rest func()
	h.mu.Lock()
	cl := h.claim
	if cl == nil || cl.n != n {
		h.mu.Unlock()
		return // known already, or given up
	}
	if !at.After(cl.seen.server) {
		h.remind(cl) // Redis has said no since
		h.mu.Unlock()
		return
	}
	cl.ours, cl.granted = true, at
	from := cl.made
	if !cl.seen.local.IsZero() {
		from = cl.seen.earliest(at)
	}
	if from.After(received) {
		from = received // the server's clock was set forward
	}
	w := h.head()
	first := claimLease
	if w != nil {
		first = min(first, w.terms.ttl) // a renewal makes it that short
	}
	switch {
	case w == nil && h.busy == 0:
		rest = h.abandon()
	case w == nil || !h.c.granting(): // who is busy, or leaves, gives it back
	case !w.terms.renew, w.terms.fenced && token == 0, !time.Now().Before(from.Add(first - watchdog.Margin(first))):
		h.remind(cl) // to ask for what it needs
	default:
		if cl.asking {
			cl.settled = make(chan bool, 1)
		}
		cl.wanted = cl.wanted || others
		cl.tokens = newTokens(token, h.c.tokensInLine())
		h.take(cl, w.terms, from, first).handed = true
		h.c.counts.remote.Add(1)
		h.give(w)
	}
	h.mu.Unlock()
	if rest != nil {
		h.c.spawn(rest)
	}
}

// look has the head ask, if it is for the claim n.
func (h *home) look(n uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.claim != nil && h.claim.n == n {
		h.remind(h.claim)
	}
}

// resubscribed has the head ask, if it is for the claim n: what was said while nobody listened is not
// known, and the server may be another one, with another clock.
func (h *home) resubscribed(n uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.claim != nil && h.claim.n == n {
		h.claim.seen = sighting{}
		h.remind(h.claim)
	}
}

// remind has the head ask for cl: now, or again when the answer that is under way has come, since
// that may be older than the reason to ask.
func (h *home) remind(cl *claim) {
	cl.look = h.busy > 0
	h.promote()
}

// soon has the head ask in d.
func (h *home) soon(n uint64, d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.claim == nil || h.claim.n != n {
		return
	}
	if h.recheck != nil {
		h.recheck.Stop()
	}
	h.recheck = time.AfterFunc(d, func() { h.look(n) })
}

// wanted notes that another process waits for the hold n.
func (h *home) wanted(n uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.hold != nil && h.hold.claim.n == n:
		h.hold.wanted = true
	case h.claim != nil && h.claim.n == n:
		h.claim.wanted = true
	}
}

// taken deals with the message that the hold n was taken by force.
func (h *home) taken(n uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.hold != nil && h.hold.claim.n == n:
		guard := &h.hold.guard
		h.c.spawn(func() { h.c.watchdog.Lose(guard, watchdog.ErrRefused) })
	case h.claim != nil && h.claim.n == n:
		h.claim.taken = true
	}
}

// abandon gives up the claim, for nobody wants it any more. It returns what is left to do without
// holding h.mu, or nil.
func (h *home) abandon() (rest func()) {
	cl := h.claim
	h.claim = nil
	switch {
	case cl == nil:
		return nil
	case cl.ours || cl.standing:
		h.busy++
		h.c.stay(h)
		return func() { _ = h.free(*cl, cl.ours, nil, terms{}) }
	case cl.doubt:
		rest = func() { h.c.spawn(func() { h.c.withdraw(h.key, *cl) }) }
	}
	h.c.disconnect(cl.n)
	return rest
}

// free gives a claim back, or takes it out of the line, and then lets the queue go on, with again as
// its claim if that is not nil. The home is busy until then, and left by the caller's stay.
func (h *home) free(cl claim, handed bool, again *claim, t terms) error {
	defer h.c.leave(h)
	if cl.settled != nil {
		cl.doubt = <-cl.settled || cl.doubt // or that request could take the lock again, for nobody
	}
	done, err := h.c.release(h.key, cl, handed, again, t.ttl)
	h.c.disconnect(cl.n)
	var rest func()
	h.mu.Lock()
	h.busy--
	if again == nil || h.claim != again {
		h.promote() // handed over already, if it was in line
	} else {
		rest = h.goOn(again, t, done, err)
	}
	h.mu.Unlock()
	if rest != nil {
		h.c.spawn(rest)
	}
	return err
}

// goOn deals with what became of again when the claim before it was released.
func (h *home) goOn(again *claim, t terms, done released, err error) (rest func()) {
	again.doubt = again.doubt || unknown(err) // that release may still come to pass, and give it the lock
	w := h.head()
	switch {
	case done.what == kept && w != nil && w.terms == t && h.c.granting() && (!t.fenced || done.token > 0) &&
		time.Now().Before(done.sent.Add(t.ttl-watchdog.Margin(t.ttl))):
		again.tokens = newTokens(done.token, h.c.tokensInLine())
		h.take(again, t, done.sent, t.ttl).handed = true
		h.give(w)
		return nil
	case done.what == kept:
		again.ours = true
	}
	switch {
	case w == nil:
		return h.abandon()
	case err != nil || again.ours || again.look || done.what == notOurs || w.place.leading:
		h.promote()
	default:
		again.seen = sighting{done.sent, done.at}
		w.place.leading = true
		w.news <- news{kind: refusedFor, ttl: claimLease, inLine: true}
	}
	return nil
}
