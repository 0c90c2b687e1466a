package resource

import (
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// HandOverLease is the lease of a process that another one hands a lock to: long enough to learn of
// it and to renew it, short enough that a dead process does not delay the others for long.
const HandOverLease = protocol.HandOverLease

// A Ticket is one owner for requests for a lock, until it is granted or given up. An owner is never used for another ticket, so a late
// request or release that names it cannot harm a later one. The lock of the resource guards it.
type Ticket struct {
	engine.SuccessorCore // its states, marks and number, which is 0 before Enroll

	Resource *LineCore     // its resource
	TTL      time.Duration // the longest lease that it asked for
	Extra    *TicketExtra  // nil for most tickets to a mutex
	Asking   uint16        // requests under way
	Use      TicketUse
	InLine   uint8 // of a mutex: fencing tokens that its place asks for
	Java     uint8 // of a mutex: for how many tickets, with this one, Redisson's waiters are believed to want it
	Looks    bool  // there was a reason to ask while the resource was busy
	Asked    bool  // its waiter has asked
	Placed   bool  // Redis may hand the lock over to it even if it refuses its release for good
}

// A TicketUse says which waiter waits with a ticket.
type TicketUse uint8

const (
	ticketOfHead TicketUse = iota // the head of the queue, whichever waiter that is
	TicketOwn                     // one waiter, which asks when it is the head of the queue
	TicketApart                   // one waiter, which asks outside of the queue, and waits for no other call
)

// A TicketExtra is what few tickets to a mutex have, and all other tickets: a process may hold very many locks. The zero value is that of a
// ticket without one.
type TicketExtra struct {
	Waiter  *Waiter        // the waiter with the ticket, unless it is that of the head; nil when it has gone
	Grant   *Grant         // of a fair mutex: the grant of another ticket, which its waiter was given; or nil
	Of      any            // the ticket of the kind, of which this is a part, or nil
	Recheck engine.Recheck // when the turn of another waiter is over
	Tokens  engine.Tokens  // the tokens left of its grant or hand-over

	// Of a mutex:
	Pending *ReleaseOp    // its release, which waits for the answer to a request
	linger  *lingering    // how long its grant stays with the process after an Unlock; nil if no holder asked for that
	Start   time.Duration // the start of Redisson's waiters when the lock was left to them last, unless they got it; 0 if it was not left to them
}

// Rare returns the extra of the ticket as it is.
func (tk *Ticket) Rare() TicketExtra {
	if tk.Extra == nil {
		return TicketExtra{}
	}
	return *tk.Extra
}

// More returns the extra of the ticket, to change it.
func (tk *Ticket) More() *TicketExtra {
	if tk.Extra == nil {
		tk.Extra = new(TicketExtra)
	}
	return tk.Extra
}

// SetTokens gives the ticket its fencing tokens.
func (tk *Ticket) SetTokens(drawn engine.Tokens) {
	if tk.Extra != nil || drawn != (engine.Tokens{}) {
		tk.More().Tokens = drawn
	}
}

// Waiter returns the waiter that waits with the ticket, or nil.
func (tk *Ticket) Waiter() *Waiter {
	switch {
	case tk.State >= engine.TicketGranted:
		return nil
	case tk.Use == ticketOfHead:
		return tk.Resource.Queue.First
	}
	return tk.Extra.Waiter
}

// Granted returns the grant that the ticket has, or nil.
func (tk *Ticket) Granted() *Grant {
	if tk.State != engine.TicketGranted {
		return nil
	}
	for _, g := range tk.Resource.Kind.Grants() {
		if g.Ticket == tk {
			return g
		}
	}
	return tk.Rare().Grant
}

// Enroll gives a ticket its number, on the terms t.
func (tk *Ticket) Enroll(r *LineCore, t engine.Terms) {
	n := r.Client.ticketNumbers.Add(1)
	tk.Resource, tk.TTL, tk.Number, tk.Since = r, t.TTL, n, monotonic.Now()
	r.Client.Subscribers.Connect(tk)
}

// End records that no waiter waits with tk any more.
func (tk *Ticket) End() {
	if tk.Extra != nil {
		tk.Extra.Recheck.Stop()
	}
	tk.Resource.Kind.Ended(tk)
}

// onWire returns tk in the form of the scripts.
func (tk *Ticket) onWire() protocol.Ticket {
	return protocol.Ticket{Number: tk.Number, Tokens: int(tk.InLine)}
}

// rest has the ticket ask no more, if no other request is under way.
func (tk *Ticket) rest(judged engine.Judgment) {
	if tk.Asking == 0 {
		tk.Rest()
	}
	if judged == engine.JudgedRefused {
		tk.Traces(trace.Refused)
	} else {
		tk.Traces(trace.Unknown)
	}
}

// An AcquireOp is a request for a lock.
type AcquireOp struct {
	Waiter *Waiter // the waiter that asks
	Ticket *Ticket
	Terms  engine.Terms
	cmd    protocol.Command // unless a batcher sends it
	Room   *Grant           // for its grant, in one piece of memory with others; nil for none

	// Of a mutex:
	To    *transport.Batcher // sends it
	Line  protocol.Queueing
	Drawn int // number of fencing tokens that it asks for
}

var acquireOps = sync.Pool{New: func() any { return new(AcquireOp) }}

// Ask sends one request for w.
func (r *LineCore) Ask(w *Waiter) {
	switch op := r.Prepare(w); {
	case op == nil:
	case op.To != nil:
		op.To.Submit(op, w.Patient)
	default:
		r.Client.Spawn(op.run)
	}
}

// Prepare returns a request for w, or nil if w got what it wants a moment ago.
func (r *LineCore) Prepare(w *Waiter) *AcquireOp {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	tk := r.Kind.TicketOf(w)
	if tk == nil || w.Place == engine.PlaceGranted {
		return nil
	}
	if tk.Number == 0 {
		tk.Enroll(r, w.Terms)
	}
	tk.To(engine.TicketAsking)
	tk.Asking++
	tk.Asked, tk.Looks = true, false
	if tk.Use != TicketApart {
		r.Busy++
		r.Answers.Asks()
	}
	w.Asks.Add(1)
	op := acquireOps.Get().(*AcquireOp)
	*op = AcquireOp{Waiter: w, Ticket: tk, Terms: w.Terms}
	op.cmd = r.Kind.Acquire(op)
	if tk.Use != ticketOfHead {
		tk.Standing = tk.Standing || !w.Once()
	}
	r.Stay()
	return op
}

// run sends the request, more than once if the answer is late.
func (op *AcquireOp) run() {
	tk := op.Ticket
	sent := time.Now() // before the request: the trust counts from here
	reply, again := tk.Resource.Client.Net.RunGrantInTime(op.cmd, isGranted)
	verdict, err := tk.Resource.Kind.Read(tk, reply)
	op.Settle(sent, verdict, again, err)
}

// Plain reports whether op asks only for the lock.
func (op *AcquireOp) Plain() bool { return op.Line == protocol.NotQueued && op.Drawn == 0 }

func (op *AcquireOp) Key() string { return op.Ticket.Resource.Key }

func (op *AcquireOp) Append(to *protocol.Texts, again bool) {
	r, tk, line := op.Ticket.Resource, op.Ticket, op.Line
	if again && line == protocol.Queued {
		line = protocol.StillQueued // since the request before
	}
	if again {
		r.Client.TracesAsking(trace.SentAgain, r.Key, tk.Number, line)
	} else {
		tk.Traces(trace.Sent)
	}
	if op.Plain() {
		r.Client.Wire.Take(to, r.Key, tk.Number, op.Terms.TTL)
	} else {
		r.Client.Wire.Acquire(to, r.Key, tk.onWire(), line, op.Drawn, op.Terms.TTL)
	}
}

func (op *AcquireOp) Answered(sent time.Time, reply protocol.Answer, again bool, err error) {
	if err == nil && op.Waiter.Follows {
		op.Ticket.Resource.Client.Pace.Answered(core.Now().Sub(sent))
	}
	op.Settle(sent, protocol.ReadAcquire(reply), again, err)
}

// room returns where the grant is to be that w gets. A grant that lingers may stay with the process for longer than the others of the piece.
func (op *AcquireOp) room(w *Waiter) *Grant {
	if op.Room == nil || w.Linger > 0 {
		return new(Grant)
	}
	return op.Room
}

// Settle handles the answer to op. again says that op was sent more than once: another one of these requests may have taken effect, or may
// do so later.
func (op *AcquireOp) Settle(sent time.Time, reply protocol.Verdict, again bool, err error) {
	r := op.Ticket.Resource
	r.Settle(op, sent, reply, again, err)
	*op = AcquireOp{}
	acquireOps.Put(op)
	r.Quit()
}

// Settle handles the answer to a request. A request that was sent again may still arrive.
func (r *LineCore) Settle(op *AcquireOp, sent time.Time, reply protocol.Verdict, again bool, err error) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	known := op.Waiter // until it is used again: a caller that gives up may recycle it only when no request knows it
	defer func() {
		if known != nil {
			known.Asks.Add(-1)
		}
	}()
	tk := op.Ticket
	tk.Asking--
	if tk.Use != TicketApart {
		r.Busy--
		r.Answers.Says(err == nil && !reply.Granted(), err)
	}
	answer := AnswerOf(sent, op.Terms.TTL, reply.Granted(), err)
	tk.Doubt(answer.Fate)
	tk.OutcomeUnknown = tk.OutcomeUnknown || again
	if r.Kind.Overtaken(op, reply, err) {
		return
	}
	w := tk.Waiter()
	judged, cause := tk.Judge(answer, w == nil || w.Terms == op.Terms, r.Client.Refusal()) // else the head asks for its own terms, with this ticket
	var ev engine.Event
	if judged == engine.JudgedRefused {
		tk.UnclaimedGrant, tk.Forced = tk.UnclaimedGrant && tk.HandedAt() != 0, false
		wait := time.Duration(reply.Wait) * time.Millisecond
		ev = r.Kind.Refused(op, sent, reply, engine.Event{Kind: engine.Refused, TTL: wait, Foreign: true, InLine: true})
	}
	if judged != engine.JudgedGranted || w == nil {
		tk.rest(judged)
	}
	if w == nil {
		if w = r.Kind.Unwanted(tk); w == nil {
			return
		}
	}
	switch {
	case judged == engine.JudgedGranted:
		known.Asks.Add(-1) // before w gets what it wants
		known = nil
		tk.SetTokens(engine.NewTokens(reply.Token, max(op.Drawn, 1)))
		r.promote(op.room(w), trace.Granted, tk, w, sent, op.Terms.TTL)
		r.Prompt(r.Kind)
		return
	case tk.Use == ticketOfHead && w != op.Waiter: // which has left: it is the turn of w
		r.Prompt(r.Kind)
		return
	case err != nil && tk.Asked && tk.Seen().Local.After(monotonic.Of(sent)): // the answer to a later request has come
		return
	case judged == engine.JudgedAgain, (err != nil || cause == engine.ErrLate) && !tk.Asked: // or the waiter before it asked
		ev = engine.Event{Kind: engine.Turn}
	case judged == engine.JudgedFailed:
		ev = engine.Event{Kind: engine.Failed, Err: cause}
	}
	if ev.Kind == engine.Turn && !r.Client.Granting() {
		ev = engine.Event{Kind: engine.Failed, Err: failure.ErrClosed} // the waiter is about to leave
	}
	w.Notify(ev)
}

// Drop gives up a ticket that no waiter needs. It does not block.
func (r *LineCore) Drop(tk *Ticket) {
	tk.Traces(trace.GivesUp)
	tk.End()
	switch {
	case tk.UnclaimedGrant || tk.Standing && tk.Use == ticketOfHead:
		tk.To(engine.TicketReleasing)
		r.Busy++
		r.Stay()
		op := r.ReleaseOf(tk, nil)
		r.Client.Spawn(func() { r.Kind.SendRelease(op, true) })
		return
	case tk.OutcomeUnknown:
		r.withdraw(tk, tk.TTL)
	case tk.Standing:
		r.withdraw(tk, 0)
	default:
		tk.To(engine.TicketDone)
	}
	if tk.Number > 0 {
		r.Client.Subscribers.Disconnect(tk.Number)
	}
}

// withdraw makes sure that Redis does not keep the lock, or a place in the wait queue, for a ticket without a waiter. A
// request for it may still take effect for as long as watch says. withdraw does not block.
func (r *LineCore) withdraw(tk *Ticket, watch time.Duration) {
	tk.To(engine.TicketWithdrawing)
	r.Client.Withdrawals.Add(r.Kind.Withdrawer(), &engine.Withdrawal{
		Number: tk.Number, Tokens: int(tk.InLine), Field: r.Kind.Owner(tk), Watch: watch, Aside: tk.OutcomeUnknown,
	})
}

// isGranted recognizes the first value of a reply that grants.
func isGranted(first int64) bool { return first == protocol.Granted }
