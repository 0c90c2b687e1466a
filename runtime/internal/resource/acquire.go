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
	answer := AnswerOf(sent, op.Terms.TTL, reply.Granted(), err)
	r.record(tk, answer, again)
	if r.Kind.Overtaken(op, reply, err) {
		return
	}
	w := tk.Waiter()
	judged, cause := tk.Judge(answer, w == nil || w.Terms == op.Terms, r.Client.Refusal()) // else the head asks for its own terms, with this ticket
	var refused engine.Event
	if judged == engine.JudgedRefused {
		tk.UnclaimedGrant, tk.Forced = tk.UnclaimedGrant && tk.HandedAt() != 0, false
		wait := protocol.Milliseconds(reply.Wait)
		refused = r.Kind.Refused(op, sent, reply, engine.Event{Kind: engine.Refused, TTL: wait, Foreign: true, InLine: !op.Terms.Polling})
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
	case tk.Use == ticketOfHead && w != op.Waiter: // which has left: it is the turn of w
		r.Prompt(r.Kind)
	case refused.Kind == engine.Refused: // else the answer is older than the reason to ask again
		r.Queue.Refuse(w, refused)
	case err != nil && tk.Asked && tk.Seen().Local.After(monotonic.Of(sent)): // the answer to a later request has come
	default:
		w.Notify(r.unsettled(tk, judged, cause))
	}
}

// record notes in tk and in r that an answer to a request for tk has come. The caller holds r.Mu.
func (r *LineCore) record(tk *Ticket, a engine.Answer, again bool) {
	tk.Asking--
	if tk.Use != TicketApart {
		r.Busy--
		r.Answers.Says(a.Err == nil && !a.Granted, a.Err)
	}
	tk.Doubt(a.Fate)
	tk.OutcomeUnknown = tk.OutcomeUnknown || again
}

// unsettled returns what the waiter of tk hears after an answer that neither grants nor refuses, or is too old: to ask, or that its call has failed
// because of cause. A waiter that has not asked yet goes on: a request of the waiter before it has failed.
func (r *LineCore) unsettled(tk *Ticket, judged engine.Judgment, cause error) engine.Event {
	switch {
	case judged == engine.JudgedFailed && tk.Asked:
		return engine.Event{Kind: engine.Failed, Err: cause}
	case !r.Client.Granting(): // the waiter is about to leave
		return engine.Event{Kind: engine.Failed, Err: failure.ErrClosed}
	}
	return engine.Event{Kind: engine.Turn}
}

// isGranted recognizes the first value of a reply that grants.
func isGranted(first int64) bool { return first == protocol.Granted }
