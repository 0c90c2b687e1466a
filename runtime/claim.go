package lockrt

import (
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// claimLease is what a process gets that is handed a lock by another one: long enough to hear of it
// and to renew it, short enough that nobody waits long for one that has died.
const claimLease = protocol.HandOverLease

// A claim is one owner that a home asks for its key with, until it is granted or given up. An owner is
// never used for another claim, so whatever late request or release names it cannot harm a later one.
type claim struct {
	n        uint64         // of its owner
	inLine   int            // fencing tokens that it is to be handed over with
	tokens   tokens         // what is left of those that it was granted, or handed over, with
	made     monotonic.Time // before the first request that names it
	ttl      time.Duration  // the longest that it asked for
	granted  int64          // when another process handed it over, in microseconds by the server's clock
	received time.Time      // when that was heard
	seen     *sighting      // of the last answer; nil before
	recheck  *time.Timer    // looks again; made when first needed
	settled  chan bool      // if it was handed over meanwhile: told when that is answered, true for an unknown outcome
	refused  bool           // somebody else had it
	standing bool           // it may be in line
	ours     bool           // Redis granted it, but nobody was given it
	doubt    bool           // Redis may hold the key for it without our knowing: a reply was lost
	asking   bool           // a request for it is under way
	look     bool           // there was a reason to ask while a request was under way
	wanted   bool           // another process waits for it, said before the answer came
	taken    bool           // it was taken by force, said before the answer came
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
		h.claim = h.newClaim()
		h.claim.n, h.claim.made, h.claim.inLine = n, monotonic.Now(), h.wants(t)
		h.c.connect(n, h.key, h)
	}
	h.claim.ttl = max(h.claim.ttl, t.ttl)
	return h.claim
}

// An asking is a request for the key of a home.
type asking struct {
	h     *home
	w     *waiter // who asks
	cl    *claim
	terms terms
	line  protocol.Queueing
	drawn int // how many fencing tokens it asks for
}

// plain reports whether it wants the lock and nothing else.
func (a *asking) plain() bool { return a.line == protocol.NotQueued && a.drawn == 0 }

var askings = sync.Pool{New: func() any { return new(asking) }}

// ask sends one request for the head of the queue, w.
func (h *home) ask(w *waiter) {
	if a, to := h.prepare(w); a != nil {
		to.Submit(a, w.patient)
	}
}

// prepare returns a request for the head of the queue, w, and who sends it.
func (h *home) prepare(w *waiter) (a *asking, to *transport.Batcher) {
	h.mu.Lock()
	if !w.place.queued {
		h.mu.Unlock()
		return nil, nil // it was given what it wants a moment ago
	}
	h.busy++
	w.asks.Add(1)
	cl := h.claimFor(w.terms)
	cl.asking, cl.look = true, false
	h.said.asks()
	a = askings.Get().(*asking)
	*a = asking{h: h, w: w, cl: cl, terms: w.terms, line: protocol.NotQueued, drawn: h.wants(w.terms)}
	switch {
	case cl.standing:
		a.line = protocol.StillQueued
	case !w.once && (cl.refused || h.c.contended.lately(h.key, cl.made.Std())) && h.c.attends(h.key) && (w.attends || !h.c.net.Sharded()):
		// With sharded channels another one may listen, and leave: then nobody hears that we are handed the key.
		a.line = protocol.Queued
		cl.standing = true
	}
	h.c.tracesAsking(h.key, cl.n, a.line)
	to = h.c.acquires
	if a.plain() {
		to = h.c.takes
	}
	h.mu.Unlock()

	h.c.stay(h)
	return a, to
}

func (a *asking) Key() string { return a.h.key }

func (a *asking) Append(keys, args []string) (allKeys, allArgs []string) {
	h := a.h
	h.c.traces(trace.Sent, h.key, a.cl.n)
	if a.plain() {
		return h.c.wire.Take(keys, args, h.key, a.cl.n, a.terms.ttl)
	}
	return h.c.wire.Acquire(keys, args, h.key, a.cl.ticket(), a.line, a.drawn, a.terms.ttl)
}

// ticket returns what Redis is told of cl.
func (cl *claim) ticket() protocol.Ticket { return protocol.Ticket{Number: cl.n, Tokens: cl.inLine} }

func (a *asking) Answered(sent time.Time, reply protocol.Answer, err error) {
	h := a.h
	if err == nil && a.w.follows {
		h.c.reds.answered(now().Sub(sent))
	}
	if rest := h.settle(a, sent, protocol.ReadAcquire(reply), err); rest != nil {
		h.c.spawn(rest)
	}
	*a = asking{}
	askings.Put(a)
	h.c.leave(h)
}

// settle deals with the answer to a request. It returns what is left to do when nobody wants what was
// granted, or may have been.
func (h *home) settle(a *asking, sent time.Time, reply protocol.Verdict, err error) (rest func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w, cl, t := a.w, a.cl, a.terms
	h.busy--
	h.said.says(err == nil && !reply.Granted(), err)
	cl.asking = false
	if cl.settled != nil {
		w.asks.Add(-1)
		h.c.tracesAnswer(trace.Settled, h.key, cl.n, err)
		// It was handed over while we asked, and is not given back before this.
		cl.settled <- transport.Unknown(err)
		if hd := h.hold; hd != nil && hd.claim.n == cl.n && err == nil && !reply.Granted() && reply.At.UnixMicro() > cl.granted {
			if time.Duration(reply.At.UnixMicro()-cl.granted)*time.Microsecond <= monotonic.Since(cl.made) {
				h.c.spawn(func() { h.c.watchdog.Lose(&hd.guard, watchdog.ErrRefused) })
			} else { // the server's clock was set meanwhile, so it may have refused before
				h.c.spawn(func() { h.c.watchdog.Look(&hd.guard) })
			}
		}
		h.promote()
		return nil
	}
	cl.doubt = cl.doubt || transport.Unknown(err) || transport.Begun(err)
	cl.ours = cl.ours || transport.Unconfirmed(err)
	yes, refused := err == nil && reply.Granted(), false
	next := h.head()
	switch {
	case yes && (next == nil || next.terms != t || !h.c.granting()):
		// Redis has it for us. Whoever is next wants other terms, and asks for them with this claim.
		cl.ours = true
	case yes && time.Until(sent.Add(t.ttl-watchdog.Margin(t.ttl))) <= 0:
		cl.ours = true
		err = errLate
	case yes && cl.taken:
		cl.taken, cl.ours = false, true // what Redis said is over; it is asked again, or given up as if it was not
	case yes:
		w.asks.Add(-1) // before it is given what it wants, so that it can be used again
		cl.tokens = newTokens(reply.Token, a.drawn)
		h.c.tracesGrant(trace.Granted, h.key, cl.n, sent, t.ttl)
		h.take(cl, t, sent, t.ttl)
		h.give(next)
		return nil
	case err == nil:
		refused = true
		cl.seen, cl.refused = &sighting{sent, reply.At}, true
		h.c.contended.note(h.key, sent)
		cl.ours = cl.ours && cl.olderThanGrant(sent, reply.At)
	}
	if refused {
		h.c.traces(trace.Refused, h.key, cl.n)
	} else {
		h.c.traces(trace.Unknown, h.key, cl.n)
	}
	defer w.asks.Add(-1) // not sooner: who has given up lets another call use w when no request knows it
	switch {
	case !w.place.queued && next == nil:
		return h.abandon()
	case !w.place.queued:
		h.promote()
	case err != nil:
		w.tell(news{kind: failed, err: err})
	case (cl.ours || cl.look) && h.c.granting():
		w.tell(news{kind: turn})
	case cl.ours:
		w.tell(news{kind: failed, err: ErrClosed}) // it is on its way out
	default:
		w.tell(news{kind: refusedFor, ttl: time.Duration(reply.Wait) * time.Millisecond, foreign: reply.Foreign, inLine: cl.standing})
	}
	return nil
}

// olderThanGrant reports whether an answer to a request that was sent may be from before the claim was handed the key. By
// the clock of the server alone it could be for ever, once that was set back.
func (cl *claim) olderThanGrant(sent, at time.Time) bool {
	return cl.granted > at.UnixMicro() && sent.Before(cl.received)
}

// handed deals with the message that another process handed the lock over to the claim n.
//
// Nobody here sent the request that did it, so "before it was sent" does not exist to count trust
// from. But it was not done before the server had that time, and an earlier answer says when that
// can have been the earliest.
func (h *home) handed(n uint64, o handOver) {
	received, at := now(), o.at
	var rest func()
	h.mu.Lock()
	cl := h.claim
	if cl == nil || cl.n != n {
		h.mu.Unlock()
		return // known already, or given up
	}
	if cl.seen != nil && !at.After(cl.seen.server) {
		h.askFor(cl) // Redis has said no since
		h.mu.Unlock()
		return
	}
	cl.ours, cl.granted, cl.received = true, at.UnixMicro(), received
	from := cl.made.Std()
	if cl.seen != nil {
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
	case h.c.net.ClockUnknown(), !w.terms.renew, w.terms.fenced && o.token == 0, h.c.opts.Replicas > 0, time.Until(from.Add(first-watchdog.Margin(first))) <= 0:
		h.askFor(cl) // to ask for what it needs
	default:
		if cl.asking {
			cl.settled = make(chan bool, 1)
		}
		cl.wanted = cl.wanted || o.others
		cl.tokens = newTokens(o.token, cl.inLine)
		h.c.tracesGrant(trace.Handed, h.key, cl.n, from, first)
		h.take(cl, w.terms, from, first).handed = true
		h.c.counts.remote.Add(1)
		w.lease.came = fromThere
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
		h.askFor(h.claim)
	}
}

// resubscribed has the head ask, if it is for the claim n: what was said while nobody listened is not
// known, and the server may be another one, with another clock.
func (h *home) resubscribed(n uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.claim != nil && h.claim.n == n {
		h.claim.seen = nil
		h.askFor(h.claim)
	}
}

// askFor has the head ask for cl: now, or again when the answer that is under way has come, since
// that may be older than the reason to ask.
func (h *home) askFor(cl *claim) {
	cl.look = h.busy > 0
	h.promote()
}

// soon has the head ask in d.
func (h *home) soon(n uint64, d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch cl := h.claim; {
	case cl == nil || cl.n != n:
	case cl.recheck != nil:
		cl.recheck.Reset(d)
	default:
		cl.recheck = time.AfterFunc(d, func() { h.look(n) })
	}
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
	if cl != nil {
		h.c.traces(trace.GivesUp, h.key, cl.n)
	}
	switch {
	case cl == nil:
		return nil
	case cl.ours || cl.standing:
		h.busy++
		h.c.stay(h)
		return func() { h.free(newGiving(h, cl, cl.ours)) }
	case cl.doubt:
		h.c.withdraw(h.key, cl)
	}
	h.c.disconnect(cl.n)
	return rest
}

// goOn deals with what became of again when the claim before it was released.
func (h *home) goOn(again *claim, t terms, done released, err error) (rest func()) {
	again.doubt = again.doubt || transport.Unknown(err) || transport.Begun(err) // that release may still come to pass, and give it the lock
	w := h.head()
	switch {
	case done.Outcome == protocol.Kept && w != nil && w.terms == t && h.c.opts.Replicas == 0 && h.c.granting() && (!t.fenced || done.Token > 0) &&
		now().Before(done.sent.Add(t.ttl-watchdog.Margin(t.ttl))):
		again.tokens = newTokens(done.Token, again.inLine)
		h.c.tracesGrant(trace.Granted, h.key, again.n, done.sent, t.ttl)
		h.take(again, t, done.sent, t.ttl).handed = true
		h.give(w)
		return nil
	case done.Outcome == protocol.Kept:
		again.ours = true
	}
	if err != nil || again.ours || done.Outcome == protocol.NotOurs {
		h.c.traces(trace.Unknown, h.key, again.n)
	} else {
		h.c.traces(trace.Refused, h.key, again.n)
	}
	switch {
	case w == nil:
		return h.abandon()
	case err != nil || again.ours || again.look || done.Outcome == protocol.NotOurs || w.place.leading:
		h.promote()
	default:
		again.seen = &sighting{done.sent, done.At}
		w.place.leading = true
		w.tell(news{kind: refusedFor, ttl: claimLease, inLine: true})
	}
	return nil
}
