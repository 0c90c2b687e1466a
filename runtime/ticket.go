package lockrt

import (
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// handOverLease is the lease of a process that another one hands a lock to: long enough to learn of
// it and to renew it, short enough that a dead process does not delay the others for long.
const handOverLease = protocol.HandOverLease

// A ticket is one owner for requests of a resource for its key, until it is granted or given up. An owner is never used
// for another ticket, so a late request or release that names it cannot harm a later one.
type ticket struct {
	engine.SuccessorCore

	ttl    time.Duration // the longest lease that it asked for
	extra  *ticketExtra  // nil for most tickets
	inLine int32         // fencing tokens that its place asks for
	look   bool          // there was a reason to ask while a request was under way
	java   uint8         // for how many tickets, with this one, Redisson's waiters are believed to want it
}

// ticketFor returns the ticket of the queue for a waiter with terms t. It makes the ticket if there
// is none.
func (r *resource) ticketFor(t engine.Terms) *ticket {
	if r.ticket == nil {
		n := r.c.ticketNumbers.Add(1)
		r.ticket = r.newTicket()
		r.ticket.Number, r.ticket.Made, r.ticket.inLine = n, monotonic.Now(), int32(r.wants(t))
		if _, known := r.c.starts.Last(r.key); known {
			r.ticket.java = 1
		}
		r.c.subscribers.Connect(n, r)
	}
	r.ticket.ttl = max(r.ticket.ttl, t.TTL)
	return r.ticket
}

// An acquireOp is a request for the key of a resource.
type acquireOp struct {
	r      *resource
	w      *waiter // the waiter that asks
	ticket *ticket
	terms  engine.Terms
	line   protocol.Queueing
	drawn  int // number of fencing tokens that it asks for
}

// plain reports whether it asks only for the lock.
func (op *acquireOp) plain() bool { return op.line == protocol.NotQueued && op.drawn == 0 }

var acquireOps = sync.Pool{New: func() any { return new(acquireOp) }}

// ask sends one request for the head of the queue, w.
func (r *resource) ask(w *waiter) {
	if op, to := r.prepare(w); op != nil {
		to.Submit(op, w.Patient)
	}
}

// prepare returns a request for the head of the queue, w, and the batcher that sends it.
func (r *resource) prepare(w *waiter) (op *acquireOp, to *transport.Batcher) {
	r.mu.Lock()
	if !w.Place.Queued() {
		r.mu.Unlock()
		return nil, nil // it got what it wants a moment ago
	}
	r.Busy++
	w.Asks.Add(1)
	tk := r.ticketFor(w.Terms)
	tk.To(engine.TicketAsking)
	tk.look = false
	r.Answers.Asks()
	op = acquireOps.Get().(*acquireOp)
	*op = acquireOp{r: r, w: w, ticket: tk, terms: w.Terms, line: protocol.NotQueued, drawn: r.wants(w.Terms)}
	switch {
	case tk.Standing:
		op.line = protocol.StillQueued
	case !w.Once() && (tk.Refusals() > 0 || w.Linger > 0 || r.c.contended.Lately(r.key, tk.Made.Std())) && r.c.attends(r.key) && (w.Attends || !r.c.net.Sharded()):
		// Where keys linger, one round trip less counts: another process may only have to be asked for the key.
		// With sharded channels another waiter may stop listening: then a hand-over to this process would go unheard.
		op.line = protocol.Queued
		tk.Standing = true
	}
	r.c.tracesAsking(trace.Asks, r.key, tk.Number, op.line)
	to = r.c.acquires
	switch {
	case op.plain():
		to = r.c.takes
	case tk.Rests():
		to = r.c.reviews
	}
	r.mu.Unlock()

	r.stay()
	return op, to
}

func (op *acquireOp) Key() string { return op.r.key }

func (op *acquireOp) Append(keys, args []string, again bool) (allKeys, allArgs []string) {
	r, line := op.r, op.line
	if again && line == protocol.Queued {
		line = protocol.StillQueued // since the request before
	}
	if again {
		r.c.tracesAsking(trace.SentAgain, r.key, op.ticket.Number, line)
	} else {
		r.c.traces(trace.Sent, r.key, op.ticket.Number)
	}
	if op.plain() {
		return r.c.wire.Take(keys, args, r.key, op.ticket.Number, op.terms.TTL)
	}
	return r.c.wire.Acquire(keys, args, r.key, op.ticket.onWire(), line, op.drawn, op.terms.TTL)
}

// onWire returns tk in the form of the scripts.
func (tk *ticket) onWire() protocol.Ticket {
	return protocol.Ticket{Number: tk.Number, Tokens: int(tk.inLine)}
}

func (op *acquireOp) Answered(sent time.Time, reply protocol.Answer, again bool, err error) {
	r := op.r
	if err == nil && op.w.Follows {
		r.c.quorums.answered(now().Sub(sent))
	}
	r.settle(op, sent, protocol.ReadAcquire(reply), again, err)
	*op = acquireOp{}
	acquireOps.Put(op)
	r.quit()
}

// settle handles the answer to a request. A request that was sent again may still arrive.
func (r *resource) settle(op *acquireOp, sent time.Time, reply protocol.Verdict, again bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, tk, t := op.w, op.ticket, op.terms
	r.Busy--
	r.Answers.Says(err == nil && !reply.Granted(), err)
	if settled := tk.rare().settled; settled != nil {
		w.Asks.Add(-1)
		r.c.tracesAnswer(trace.Settled, r.key, tk.Number, err)
		// It was handed over during the request; its release waits for this.
		settled <- again || transport.Unknown(err)
		if g := r.grant; g != nil && g.ticket.Number == tk.Number && err == nil && !reply.Granted() && reply.At.UnixMicro() > tk.HandedAt() {
			if time.Duration(reply.At.UnixMicro()-tk.HandedAt())*time.Microsecond <= monotonic.Since(tk.Made) {
				g.taken()
			} else { // the server's clock was set meanwhile, so the refusal may be older
				r.c.spawn(func() { r.c.watchdog.Look(&g.guard) })
			}
		}
		r.Prompt(r)
		return
	}
	next := r.Queue.First
	wanted := next != nil && next.Terms == t // else the next waiter asks for its own terms, with this ticket
	judged, err := tk.Judge(answerOf(sent, t.TTL, reply.Granted(), err), wanted, r.c.refusal())
	tk.OutcomeUnknown = tk.OutcomeUnknown || again
	switch judged {
	case engine.JudgedGranted:
		w.Asks.Add(-1) // before it gets what it wants, so that it can be used again
		tk.gets(engine.NewTokens(reply.Token, op.drawn))
		r.promote(trace.Granted, tk, t, sent, t.TTL)
		r.assign(next)
		return
	case engine.JudgedRefused:
		tk.Refuse(sent, reply.At)
		r.c.starts.Refused(r.key, reply.Foreign, sent)
		if reply.Foreign {
			tk.java = javasTickets
			if tk.extra != nil {
				tk.extra.start = 0
			}
		}
		r.c.contended.Note(r.key, sent)
	}
	tk.Rest()
	if judged == engine.JudgedRefused {
		r.c.traces(trace.Refused, r.key, tk.Number)
	} else {
		r.c.traces(trace.Unknown, r.key, tk.Number)
	}
	defer w.Asks.Add(-1) // not sooner: a caller that gives up may recycle w only when no request knows it
	switch {
	case !w.Place.Queued() && next == nil:
		r.abandon()
	case !w.Place.Queued():
		r.Prompt(r)
	case err != nil:
		w.Notify(engine.Event{Kind: engine.Failed, Err: err})
	case (tk.UnclaimedGrant || tk.look) && r.c.granting():
		w.Notify(engine.Event{Kind: engine.Turn})
	case tk.UnclaimedGrant:
		w.Notify(engine.Event{Kind: engine.Failed, Err: ErrClosed}) // the waiter is about to leave
	default:
		w.Notify(engine.Event{Kind: engine.Refused, TTL: time.Duration(reply.Wait) * time.Millisecond, Foreign: reply.Foreign, InLine: tk.Standing})
	}
}

// handed handles the message that another process handed the lock over to the ticket of the queue.
func (r *resource) handed(m protocol.Message) {
	received := now()
	r.mu.Lock()
	defer r.mu.Unlock()
	tk := r.ticket
	if tk == nil || tk.Number != m.Number {
		return // known already, or given up
	}
	if tk.RefusedSince(m.Granted) {
		r.askFor(tk)
		return
	}
	from, w := tk.HandedOver(m.Granted, received), r.Queue.First
	first := handOverLease
	if w != nil {
		first = min(first, w.Terms.TTL) // a renewal makes it that short
	}
	switch {
	case w == nil && r.Busy == 0:
		r.abandon()
	case w == nil || !r.c.granting(): // the goroutine that is busy, or leaves, releases it
	case !r.c.suffices(w.Terms, from, first, m.Token):
		r.askFor(tk) // to ask for the terms that it needs
	default:
		if tk.State == engine.TicketAsking {
			tk.more().settled = make(chan bool, 1)
		} else {
			tk.Standing = false // the hand-over took it out of the wait queue, and no request puts it back
		}
		tk.OthersWait = tk.OthersWait || m.Others
		r.c.contended.Note(r.key, received)
		tk.gets(engine.NewTokens(m.Token, int(tk.inLine)))
		r.promote(trace.Handed, tk, w.Terms, from, first).handed = true
		r.c.counts.remote.Add(1)
		r.leaseOf(w).came = fromThere
		r.assign(w)
	}
}

// look makes the head ask, if it is for the ticket n.
func (r *resource) look(n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ticket != nil && r.ticket.Number == n {
		r.askFor(r.ticket)
	}
}

// resubscribed makes the head ask, if it is for the ticket n: messages during the gap are lost, and
// the server may be another one, with another clock.
func (r *resource) resubscribed(n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ticket != nil && r.ticket.Number == n {
		r.ticket.Sees(engine.Sighting{})
		r.askFor(r.ticket)
	}
}

// askFor makes the head ask for tk: now, or again when the answer that is under way has come, since
// that may be older than the reason to ask.
func (r *resource) askFor(tk *ticket) {
	tk.look = r.Busy > 0
	r.Prompt(r)
}

// soon makes the head ask in d.
func (r *resource) soon(n uint64, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	tk := r.ticket
	if tk == nil || tk.Number != n {
		return
	}
	x := tk.more()
	if d <= longestStart { // otherwise the waiter before it was granted the lock
		x.start = d
	}
	x.recheck.In(d, n, r.look)
}

// Redisson's waiters get the message of a release at the same time as those of this library, but their way to the next
// request is longer. Each time that they are too slow for their start, the next one is twice as long.
const (
	firstStart   = 5 * time.Millisecond
	longestStart = 50 * time.Millisecond
)

// Redisson's waiters have their start once in two hand-overs between processes of this library. Where they use it, few
// goroutines of a process hold the lock in a row, so that Redisson's waiters have a fifth of all turns, or more. A process
// does not see each of their turns: it believes for a few tickets more that they want the lock.
const (
	cohortBesideJava = 16
	javasTickets     = 64
)

// follows makes tk believe what the ticket before it did, for one ticket less.
func (tk *ticket) follows(before *ticket) { tk.java = max(before.java, 1) - 1 }

// startAfter returns for how long Redisson's waiters have the lock to themselves after the release of tk, or 0 if it is
// not their turn.
func (tk *ticket) startAfter(handed bool) time.Duration { return startAfter(tk.rare().start, handed) }

// startAfter returns the start after one for which Redisson's waiters were too slow, or after 0; turn says that it is their
// turn. They have every other turn, and one after each start for which they were too slow, until they had the longest.
func startAfter(start time.Duration, turn bool) time.Duration {
	switch {
	case 0 < start && start < longestStart:
		return min(2*start, longestStart)
	case turn:
		return firstStart
	}
	return 0
}

// leaves records what op leaves to Redisson's waiters, if the key is free for calls that ask.
func (r *resource) leaves(op *releaseOp, done protocol.Released) {
	switch {
	case done.Outcome != protocol.Freed || op.again != nil:
	case done.Listeners == 0:
		r.c.starts.Forget(r.key)
	default:
		r.leavesToJava(op, done.Listeners)
	}
}

// leavesToJava records the start of Redisson's waiters after op, when so many clients listened on their channel. Unless it was
// their turn after a hand-over, every other such release is theirs, and fewer are if they use none.
func (r *resource) leavesToJava(op *releaseOp, listeners int64) {
	starts := &r.c.starts
	_, own := r.c.net.Heard(r.channel(nil)) // a subscription stays for a moment after the wait
	last, _ := starts.Last(r.key)
	switch start := op.start; {
	case listeners <= own:
		starts.Forget(r.key)
	case start > 0:
		starts.Begin(r.key, start, op.heard+uint64(own))
	default:
		starts.Begin(r.key, startAfter(last, starts.Due(r.key)), op.heard+uint64(own))
	}
}

// startFor returns for how long the request of w has to wait, since Redisson's waiters have the key to themselves. It does
// not wait if a call that tries once needs the answer: that call would learn nothing about what is now.
func (r *resource) startFor(w *waiter) time.Duration {
	starts := &r.c.starts
	if w.Once() || starts.Left(r.key) == 0 || r.awaited() {
		return 0
	}
	messages, _ := r.c.net.Heard(r.channel(nil))
	starts.Heard(r.key, messages)
	return starts.Left(r.key)
}

// awaited reports whether a call waits for the next answer: one that tries once, or one whose wait is over.
func (r *resource) awaited() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Awaited()
}

// wanted records that another process waits for the grant n.
func (r *resource) wanted(n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.grant != nil && r.grant.ticket.Number == n:
		r.grant.ticket.OthersWait = true
		r.c.contended.Note(r.key, now())
		r.endLinger()
	case r.ticket != nil && r.ticket.Number == n:
		r.ticket.OthersWait = true
	}
}

// taken handles the message that the grant n was taken by force.
func (r *resource) taken(n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.grant != nil && r.grant.ticket.Number == n:
		r.grant.taken()
	case r.ticket != nil && r.ticket.Number == n:
		r.ticket.Forced = true
	}
}

// abandon gives up the ticket, which no waiter wants any more. It does not block.
func (r *resource) abandon() {
	tk := r.ticket
	r.ticket = nil
	if tk != nil {
		r.c.traces(trace.GivesUp, r.key, tk.Number)
	}
	switch {
	case tk == nil:
		return
	case tk.UnclaimedGrant || tk.Standing:
		tk.To(engine.TicketReleasing)
		r.Busy++
		r.stay()
		op := newReleaseOp(r, tk, nil)
		r.c.spawn(func() { r.free(op) })
		return
	case tk.OutcomeUnknown:
		r.withdraw(tk)
	default:
		tk.To(engine.TicketDone)
	}
	r.c.subscribers.Disconnect(tk.Number)
}

// resume continues with again after the release of the ticket before it.
func (r *resource) resume(again *ticket, t engine.Terms, done released, err error) {
	w := r.Queue.First
	wanted := w != nil && w.Terms == t && r.c.opts.Replicas == 0 && (!t.Fenced || done.Token > 0)
	judged, _ := again.Judge(answerOf(done.sent, t.TTL, done.Outcome == protocol.Kept, err), wanted, r.c.refusal()) // after an error that release may still take effect
	if judged == engine.JudgedGranted {
		again.gets(engine.NewTokens(done.Token, int(again.inLine)))
		r.promote(trace.Granted, again, t, done.sent, t.TTL).handed = true
		r.assign(w)
		return
	}
	unclear := err != nil || again.UnclaimedGrant || done.Outcome == protocol.NotOurs
	if unclear {
		r.c.traces(trace.Unknown, r.key, again.Number)
	} else {
		r.c.traces(trace.Refused, r.key, again.Number)
	}
	switch {
	case w == nil:
		r.abandon()
	case unclear || again.look || w.Place.Leading():
		r.Prompt(r)
	default:
		again.Sees(engine.SightingOf(done.sent, done.At))
		w.Place.State = engine.PlaceLeading
		w.Notify(engine.Event{Kind: engine.Refused, TTL: handOverLease, InLine: true})
	}
}
