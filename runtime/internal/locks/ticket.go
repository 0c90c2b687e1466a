package locks

import (
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// handOverLease is the lease of a process that another one hands a lock to: long enough to learn of
// it and to renew it, short enough that a dead process does not delay the others for long.
const handOverLease = protocol.HandOverLease

// A ticket is one owner for requests for a lock, until it is granted or given up. An owner is never used for another ticket, so a late
// request or release that names it cannot harm a later one. The lock of the resource guards it.
type ticket struct {
	engine.SuccessorCore // its states, marks and number, which is 0 before enroll

	r      *lineCore     // its resource
	ttl    time.Duration // the longest lease that it asked for
	extra  *ticketExtra  // nil for most tickets to a mutex
	asking uint16        // requests under way
	use    ticketUse
	inLine uint8 // of a mutex: fencing tokens that its place asks for
	java   uint8 // of a mutex: for how many tickets, with this one, Redisson's waiters are believed to want it
	looks  bool  // there was a reason to ask while the resource was busy
	asked  bool  // its waiter has asked
	placed bool  // Redis may hand the lock over to it even if it refuses its release for good
}

// A ticketUse says which waiter waits with a ticket.
type ticketUse uint8

const (
	ticketOfHead ticketUse = iota // the head of the queue, whichever call that is
	ticketOwn                     // one, which asks when it is the head of the queue
	ticketApart                   // one, which asks outside of the queue, and waits for no other call
)

// A ticketExtra is what few tickets to a mutex have, and all others: a process may hold very many locks. The zero value is that of a
// ticket without one.
type ticketExtra struct {
	w       *waiter        // the waiter with the ticket, unless it is that of the head; nil when it has gone
	grant   *grant         // of a fair mutex: the grant of another ticket, which its waiter was given; or nil
	of      any            // the ticket of the kind, of which this is a part, or nil
	recheck engine.Recheck // when the turn of another waiter is over
	tokens  engine.Tokens  // the tokens left of its grant or hand-over

	// Of a mutex:
	pending *releaseOp    // its release, which waits for the answer to a request
	linger  *lingering    // how long its grant stays with the process after an Unlock; nil if no holder asked for that
	start   time.Duration // the start of Redisson's waiters when the lock was left to them last, unless they got it; 0 if it was not left to them
}

// rare returns the extra of the ticket as it is.
func (tk *ticket) rare() ticketExtra {
	if tk.extra == nil {
		return ticketExtra{}
	}
	return *tk.extra
}

// more returns the extra of the ticket, to change it.
func (tk *ticket) more() *ticketExtra {
	if tk.extra == nil {
		tk.extra = new(ticketExtra)
	}
	return tk.extra
}

// gets gives the ticket its fencing tokens.
func (tk *ticket) gets(drawn engine.Tokens) {
	if tk.extra != nil || drawn != (engine.Tokens{}) {
		tk.more().tokens = drawn
	}
}

// waiter returns the waiter that waits with the ticket, or nil.
func (tk *ticket) waiter() *waiter {
	switch {
	case tk.State >= engine.TicketGranted:
		return nil
	case tk.use == ticketOfHead:
		return tk.r.Queue.First
	}
	return tk.extra.w
}

// granted returns the grant that the ticket has, or nil.
func (tk *ticket) granted() *grant {
	if tk.State != engine.TicketGranted {
		return nil
	}
	for _, g := range tk.r.kind.grants() {
		if g.ticket == tk {
			return g
		}
	}
	return tk.rare().grant
}

// enroll gives a ticket its number, on the terms t.
func (tk *ticket) enroll(r *lineCore, t engine.Terms) {
	n := r.c.ticketNumbers.Add(1)
	tk.r, tk.ttl, tk.Number, tk.Made = r, t.TTL, n, monotonic.Now()
	r.c.subscribers.Connect(n, tk)
}

// end records that no waiter waits with tk any more.
func (tk *ticket) end() {
	if tk.extra != nil {
		tk.extra.recheck.Stop()
	}
	tk.r.kind.ended(tk)
}

// An acquireOp is a request for a lock.
type acquireOp struct {
	w      *waiter // the waiter that asks
	ticket *ticket
	terms  engine.Terms
	cmd    protocol.Command // unless a batcher sends it

	// Of a mutex:
	to    *transport.Batcher // sends it
	line  protocol.Queueing
	drawn int // number of fencing tokens that it asks for
}

var acquireOps = sync.Pool{New: func() any { return new(acquireOp) }}

// ask sends one request for w.
func (r *lineCore) ask(w *waiter) {
	switch op := r.prepare(w); {
	case op == nil:
	case op.to != nil:
		op.to.Submit(op, w.Patient)
	default:
		r.c.spawn(op.run)
	}
}

// prepare returns a request for w, or nil if w got what it wants a moment ago.
func (r *lineCore) prepare(w *waiter) *acquireOp {
	r.mu.Lock()
	defer r.mu.Unlock()
	tk := r.kind.ticketOf(w)
	if tk == nil || w.Place == engine.PlaceGranted {
		return nil
	}
	if tk.Number == 0 {
		tk.enroll(r, w.Terms)
	}
	tk.To(engine.TicketAsking)
	tk.asking++
	tk.asked, tk.looks = true, false
	if tk.use != ticketApart {
		r.Busy++
		r.Answers.Asks()
	}
	w.Asks.Add(1)
	op := acquireOps.Get().(*acquireOp)
	*op = acquireOp{w: w, ticket: tk, terms: w.Terms}
	op.cmd = r.kind.acquire(op)
	if tk.use != ticketOfHead {
		tk.Standing = tk.Standing || !w.Once()
	}
	r.stay()
	return op
}

// run sends the request, more than once if the answer is late.
func (op *acquireOp) run() {
	tk := op.ticket
	sent := time.Now() // before the request: the trust counts from here
	reply, again := tk.r.c.net.RunGrantInTime(op.cmd, isGranted)
	verdict, err := tk.r.kind.read(tk, reply)
	op.settle(sent, verdict, again, err)
}

// settle handles the answer to op, of which again says that it was sent more than once: another one of these requests may have taken
// effect, or may do so later.
func (op *acquireOp) settle(sent time.Time, reply protocol.Verdict, again bool, err error) {
	r := op.ticket.r
	r.settle(op, sent, reply, again, err)
	*op = acquireOp{}
	acquireOps.Put(op)
	r.quit()
}

// settle handles the answer to a request. A request that was sent again may still arrive.
func (r *lineCore) settle(op *acquireOp, sent time.Time, reply protocol.Verdict, again bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := op.w // until it is used again: a caller that gives up may recycle it only when no request knows it
	defer func() {
		if known != nil {
			known.Asks.Add(-1)
		}
	}()
	tk := op.ticket
	tk.asking--
	if tk.use != ticketApart {
		r.Busy--
		r.Answers.Says(err == nil && !reply.Granted(), err)
	}
	answer := answerOf(sent, op.terms.TTL, reply.Granted(), err)
	tk.Doubt(answer.Fate)
	tk.OutcomeUnknown = tk.OutcomeUnknown || again
	if r.kind.overtaken(op, reply, err) {
		return
	}
	w := tk.waiter()
	judged, cause := tk.Judge(answer, w == nil || w.Terms == op.terms, r.c.refusal()) // else the head asks for its own terms, with this ticket
	var ev engine.Event
	if judged == engine.JudgedRefused {
		tk.UnclaimedGrant, tk.Forced = tk.UnclaimedGrant && tk.HandedAt() != 0, false
		wait := time.Duration(reply.Wait) * time.Millisecond
		ev = r.kind.refused(op, sent, reply, engine.Event{Kind: engine.Refused, TTL: wait, Foreign: true, InLine: true})
	}
	if judged != engine.JudgedGranted || w == nil {
		tk.rest(judged)
	}
	if w == nil {
		if w = r.kind.unwanted(tk); w == nil {
			return
		}
	}
	switch {
	case judged == engine.JudgedGranted:
		known.Asks.Add(-1) // before w gets what it wants
		known = nil
		tk.gets(engine.NewTokens(reply.Token, max(op.drawn, 1)))
		r.promote(trace.Granted, tk, w, sent, op.terms.TTL)
		r.Prompt(r.kind)
		return
	case tk.use == ticketOfHead && w != op.w: // which has left: it is the turn of w
		r.Prompt(r.kind)
		return
	case err != nil && tk.asked && tk.Seen().Local.After(monotonic.Of(sent)): // the answer to a later request has come
		return
	case judged == engine.JudgedAgain, (err != nil || cause == engine.ErrLate) && !tk.asked: // or the waiter before it asked
		ev = engine.Event{Kind: engine.Turn}
	case judged == engine.JudgedFailed:
		ev = engine.Event{Kind: engine.Failed, Err: cause}
	}
	if ev.Kind == engine.Turn && !r.c.granting() {
		ev = engine.Event{Kind: engine.Failed, Err: failure.ErrClosed} // the waiter is about to leave
	}
	w.Notify(ev)
}

// rest has the ticket ask no more, if no other request is under way.
func (tk *ticket) rest(judged engine.Judgment) {
	if tk.asking == 0 {
		tk.Rest()
	}
	if judged == engine.JudgedRefused {
		tk.traces(trace.Refused)
	} else {
		tk.traces(trace.Unknown)
	}
}

// drop gives up a ticket that no waiter needs. It does not block.
func (r *lineCore) drop(tk *ticket) {
	tk.traces(trace.GivesUp)
	tk.end()
	switch {
	case tk.UnclaimedGrant || tk.Standing && tk.use == ticketOfHead:
		tk.To(engine.TicketReleasing)
		r.Busy++
		r.stay()
		op := r.releaseOf(tk, nil)
		r.c.spawn(func() { r.kind.sendRelease(op, true) })
		return
	case tk.OutcomeUnknown:
		r.withdraw(tk, tk.ttl)
	case tk.Standing:
		r.withdraw(tk, 0)
	default:
		tk.To(engine.TicketDone)
	}
	if tk.Number > 0 {
		r.c.subscribers.Disconnect(tk.Number)
	}
}

// withdraw makes sure that Redis does not keep the lock, or a place in the wait queue, for a ticket without a waiter. A
// request for it may still take effect for as long as watch says. withdraw does not block.
func (r *lineCore) withdraw(tk *ticket, watch time.Duration) {
	tk.To(engine.TicketWithdrawing)
	r.c.withdrawals.Add(r.kind.withdrawer(), &engine.Withdrawal{
		Number: tk.Number, Tokens: int(tk.inLine), Field: r.kind.owner(tk), Watch: watch, Aside: tk.OutcomeUnknown,
	})
}

// isGranted recognizes the first value of a reply that grants.
func isGranted(first int64) bool { return first == protocol.Granted }
