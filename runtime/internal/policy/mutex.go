package policy

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/resource"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// A Mutex is this process's side of one mutex. Its goroutines queue here, first come, first served, and to Redis they are one owner at
// a time: the head of the queue waits with the ticket of the resource, which the next head inherits, with its place in the wait queue of
// Redis.
//
// Redis grants to the resource. It does not matter which waiter asked: the resource serves the head of its queue, and
// releases the key if there is none any more. A release can ask for the key once more, for the next head.
//
// This file has the rules of tickets, mutexgrant.go those of grants and releases, and starts.go the turns of Redisson's waiters. In
// package resource, linger.go has the grants that stay with the process for a moment after an unlock.
type Mutex struct {
	resource.Exclusive

	Ticket *resource.Ticket // the ticket of the queue; nil while there is a grant, or no need; guarded by Mu

	first resource.Ticket // the first ticket, in place, since there always is one
}

// NewMutex returns the resource of the mutex of key.
func NewMutex(c *resource.Client, key string) *Mutex {
	r := new(Mutex)
	r.Client, r.Key, r.Kind = c, key, r
	return r
}

func (r *Mutex) Name(*resource.Ticket) string { return core.KindMutex }

func (r *Mutex) Withdrawer() engine.Withdrawer { return r.Client.Withdrawals.Of(core.KindMutex, r.Key) }

func (r *Mutex) Channel(*resource.Waiter) string { return protocol.LockChannel(r.Key) }

// Join adds w to the end of the queue, unless it can have the grant at once.
func (r *Mutex) Join(w *resource.Waiter) resource.Entry {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if r.EntersAgain(w) {
		return resource.Entered
	}
	if g := r.Grant; g != nil && g.State == engine.GrantLingering {
		if at := monotonic.Now(); g.CanResume(w.Terms, at) {
			g.Resume(w.For.Lease)
			r.Give(g, w, at)
			return resource.ToWait // for the event that is there already
		}
		g.EndLinger() // the queue is empty, and the key is about to be free
	}
	return r.Line.Join(w, r)
}

// Subject does not read the lease of a waiter: a parked call has none, and gets one under the lock of r.
func (r *Mutex) Subject(*resource.Waiter) (kind, key string) { return core.KindMutex, r.Key }

// Park frees the lease of w, unless the owner of its call, or how long it may hold the key, has to be known.
func (r *Mutex) Park(w *resource.Waiter) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if w.Place.Queued() && w.For.Lease != nil && w.For.Lease.Core().Rare().Owner == nil && w.For.Lease.Core().Rare().MaxHold == 0 {
		w.For.Lease = nil
	}
}

// TicketFor returns the ticket of the queue for a waiter with terms t. It makes the ticket if there is none.
func (r *Mutex) TicketFor(t engine.Terms) *resource.Ticket {
	if r.Ticket == nil {
		if r.Ticket = &r.first; r.first.Number != 0 {
			r.Ticket = new(resource.Ticket)
		}
		r.Ticket.Enroll(&r.LineCore, t)
		r.Ticket.PlaceTokens = uint8(r.wants(t))
		if _, known := r.Client.Starts.Last(r.Key); known {
			r.Ticket.Java = 1
		}
	}
	r.Ticket.TTL = max(r.Ticket.TTL, t.TTL)
	return r.Ticket
}

func (r *Mutex) TicketOf(w *resource.Waiter) *resource.Ticket {
	if !w.Place.Queued() {
		return nil
	}
	return r.TicketFor(w.Terms)
}

func (r *Mutex) Ended(tk *resource.Ticket) {
	if r.Ticket == tk {
		r.Ticket = nil
	}
}

// Abandoned gives up the ticket of a queue that is empty. If the resource is busy, the goroutine that ends that does so.
func (r *Mutex) Abandoned(*resource.Waiter) {
	if r.Queue.Empty() && r.Busy == 0 && r.Ticket != nil {
		r.Drop(r.Ticket)
	}
}

// Acquire chooses the script, and the batcher that sends op.
func (r *Mutex) Acquire(op *resource.AcquireOp) (none protocol.Command) {
	tk, w := op.Ticket, op.Waiter
	op.Line, op.Drawn, op.To = protocol.NotQueued, r.wants(w.Terms), r.Client.Acquires
	switch {
	case tk.Standing:
		op.Line = protocol.StillQueued
	case !w.Once() && (tk.Refused || w.Linger > 0 || r.Client.Contended.Lately(r.Key, tk.Since.Std())) && r.Client.Attends(r.Key) && (w.Attends || !r.Client.Net.Sharded() || r.Queue.Deputy() != nil):
		// Where keys linger, one round trip less counts: another process may only have to be asked for the key.
		// With sharded channels another waiter may stop listening: then a hand-over to this process would go unheard.
		op.Line = protocol.Queued
		tk.Standing = true
	}
	r.Client.TracesAsking(trace.Asks, r.Key, tk.Number, op.Line)
	switch {
	case op.Plain():
		op.To = r.Client.Takes
	case w.Recheck && tk.Rests():
		op.To = r.Client.Reviews
	}
	return none
}

// Read is not called: batchers send the requests, and read the replies.
func (*Mutex) Read(*resource.Ticket, transport.Reply) (none protocol.Verdict, err error) {
	return none, nil
}

func (r *Mutex) Overtaken(op *resource.AcquireOp, reply protocol.Verdict, err error) bool {
	if op.Ticket.State < engine.TicketGranted {
		return false
	}
	r.settled(op.Ticket, reply, err)
	return true
}

// settled handles the answer for a ticket that was handed over during the request. A release that waits for the answer is sent.
func (r *Mutex) settled(tk *resource.Ticket, reply protocol.Verdict, err error) {
	r.Client.TracesAnswer(trace.Settled, r.Key, tk.Number, err)
	if release := tk.Rare().Pending; release != nil {
		tk.Extra.Pending = nil
		tk.Traces(trace.Unlocks)
		r.Client.Spawn(func() { r.SendRelease(release, false) })
	}
	if tk.State == engine.TicketDone && err == nil && reply.Granted() {
		tk.UnclaimedGrant = true // since it was lost: its last holder has it released
	}
	if g := r.Grant; g != nil && g.Ticket == tk && err == nil && !reply.Granted() {
		g.RefusedAt(reply.At)
	}
	r.Prompt(r)
}

func (r *Mutex) Refused(op *resource.AcquireOp, sent time.Time, reply protocol.Verdict, ev engine.Event) engine.Event {
	tk := op.Ticket
	tk.Refuse(sent, reply.At)
	r.refusedByJava(tk, reply.Foreign, sent)
	r.Client.Contended.Note(r.Key, sent)
	if tk.UnclaimedGrant || tk.Looks {
		return engine.Event{Kind: engine.Turn}
	}
	ev.Foreign, ev.InLine = reply.Foreign, tk.Standing
	return ev
}

func (r *Mutex) Learns(tk *resource.Ticket, m protocol.Message) (tokens int) {
	tk.OthersWait = tk.OthersWait || m.Others
	r.Client.Contended.Note(r.Key, core.Now())
	return int(tk.PlaceTokens)
}

// Resume continues with the ticket that was to follow after the release op.
func (r *Mutex) Resume(op *resource.ReleaseOp, done resource.Released, err error) {
	again, t, w := op.Again, op.Terms, r.Queue.First
	wanted := w != nil && w.Terms == t && r.Client.Settings.Replicas == 0 && (!t.Fenced || done.Token > 0)
	judged, _ := again.Judge(resource.AnswerOf(done.Sent, t.TTL, done.Outcome == protocol.Kept, err), wanted, r.Client.Refusal()) // after an error that release may still take effect
	if judged == engine.JudgedGranted {
		again.SetTokens(engine.NewTokens(done.Token, int(again.PlaceTokens)))
		g := r.Promote(trace.Granted, again, w, done.Sent, t.TTL)
		g.Handed = true
		g.GoesOn(op.Of)
		return
	}
	unclear := err != nil || again.UnclaimedGrant || done.Outcome == protocol.NotOurs
	if unclear {
		again.Traces(trace.Unknown)
	} else {
		again.Traces(trace.Refused)
	}
	switch {
	case w == nil:
		r.Drop(again)
	case unclear || again.Looks || w.Place.Leading():
		r.Prompt(r)
	default:
		again.Sees(engine.SightingOf(done.Sent, done.At))
		w.Place = engine.PlaceLeading
		r.Queue.Refuse(w, engine.Event{Kind: engine.Refused, TTL: resource.HandOverLease, InLine: true})
	}
}

// mostTokens bounds a block. Drawing many more than needed would push the counter ahead of the clock.
const mostTokens = 64

// wants returns how many tokens to draw with terms t: for all waiters of this process, if the key can be passed on to them.
func (r *Mutex) wants(t engine.Terms) int {
	switch {
	case !t.Fenced:
		return 0
	case !t.Renew:
		return 1
	case r.Queue.First != nil && r.Queue.First.Linger > 0:
		return mostTokens // one for each call that has the lingering key
	}
	return max(1, r.Queue.LengthTo(mostTokens))
}
