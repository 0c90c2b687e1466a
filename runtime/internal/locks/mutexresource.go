package locks

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// A resource is this process's side of one mutex. Its goroutines queue here, first come, first served, and to Redis they are one owner at
// a time: the head of the queue waits with the ticket of the resource, which the next head inherits, with its place in the wait queue of
// Redis.
//
// Redis grants to the resource. It does not matter which waiter asked: the resource serves the head of its queue, and
// releases the key if there is none any more. A release can ask for the key once more, for the next head.
//
// This file has the rules of tickets, mutexgrant.go those of grants and releases, linger.go has the grants that stay with the process
// for a moment after an unlock, and starts.go the turns of Redisson's waiters.
type resource struct {
	exclusiveCore

	ticket *ticket // the ticket of the queue; nil while there is a grant, or no need; guarded by mu

	first ticket // in place, since there always is one
}

func newResource(c *clientLine, key string) *resource {
	r := new(resource)
	r.c, r.key, r.kind = c, key, r
	return r
}

func (r *resource) name(*ticket) string { return kindMutex }

func (r *resource) withdrawer() engine.Withdrawer { return r.c.withdrawals.Of(kindMutex, r.key) }

func (r *resource) channel(*waiter) string { return protocol.LockChannel(r.key) }

// join adds w to the end of the queue, unless it can have the grant at once.
func (r *resource) join(w *waiter) entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entersAgain(w) {
		return entered
	}
	if g := r.grant; g != nil && g.state == engine.GrantLingering {
		if g.canResume(w.Terms, monotonic.Now()) {
			g.resume(w.For.lease)
			r.give(g, w)
			return toWait // for the event that is there already
		}
		g.endLinger() // the queue is empty, and the key is about to be free
	}
	return r.Join(w, r)
}

// park frees the lease of w, unless the owner of its call has to be known.
func (r *resource) park(w *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.Place.Queued() && w.For.lease != nil && w.For.lease.rare().owner == nil {
		w.For.lease = nil
	}
}

// ticketFor returns the ticket of the queue for a waiter with terms t. It makes the ticket if there
// is none.
func (r *resource) ticketFor(t engine.Terms) *ticket {
	if r.ticket == nil {
		if r.ticket = &r.first; r.first.Number != 0 {
			r.ticket = new(ticket)
		}
		r.ticket.enroll(&r.lineCore, t)
		r.ticket.inLine = uint8(r.wants(t))
		if _, known := r.c.starts.Last(r.key); known {
			r.ticket.java = 1
		}
	}
	r.ticket.ttl = max(r.ticket.ttl, t.TTL)
	return r.ticket
}

func (r *resource) ticketOf(w *waiter) *ticket {
	if !w.Place.Queued() {
		return nil
	}
	return r.ticketFor(w.Terms)
}

func (r *resource) ended(tk *ticket) {
	if r.ticket == tk {
		r.ticket = nil
	}
}

// abandoned gives up the ticket of a queue that is empty. If the resource is busy, the goroutine that ends that does so.
func (r *resource) abandoned(*waiter) {
	if r.Queue.Empty() && r.Busy == 0 && r.ticket != nil {
		r.drop(r.ticket)
	}
}

// acquire chooses the script, and the batcher that sends op.
func (r *resource) acquire(op *acquireOp) (none protocol.Command) {
	tk, w := op.ticket, op.w
	op.line, op.drawn, op.to = protocol.NotQueued, r.wants(w.Terms), r.c.acquires
	switch {
	case tk.Standing:
		op.line = protocol.StillQueued
	case !w.Once() && (tk.Refused || w.Linger > 0 || r.c.contended.Lately(r.key, tk.Made.Std())) && r.c.attends(r.key) && (w.Attends || !r.c.net.Sharded()):
		// Where keys linger, one round trip less counts: another process may only have to be asked for the key.
		// With sharded channels another waiter may stop listening: then a hand-over to this process would go unheard.
		op.line = protocol.Queued
		tk.Standing = true
	}
	r.c.tracesAsking(trace.Asks, r.key, tk.Number, op.line)
	switch {
	case op.plain():
		op.to = r.c.takes
	case w.Recheck && tk.Rests():
		op.to = r.c.reviews
	}
	return none
}

// read is not called: batchers send the requests, and read the replies.
func (*resource) read(*ticket, transport.Reply) (none protocol.Verdict, err error) { return none, nil }

func (r *resource) overtaken(op *acquireOp, reply protocol.Verdict, err error) bool {
	if op.ticket.State < engine.TicketGranted {
		return false
	}
	r.settled(op.ticket, reply, err)
	return true
}

// settled handles the answer for a ticket that was handed over during the request. A release that waits for the answer is sent.
func (r *resource) settled(tk *ticket, reply protocol.Verdict, err error) {
	r.c.tracesAnswer(trace.Settled, r.key, tk.Number, err)
	if release := tk.rare().pending; release != nil {
		tk.extra.pending = nil
		tk.traces(trace.Unlocks)
		r.c.spawn(func() { r.sendRelease(release, false) })
	}
	if tk.State == engine.TicketDone && err == nil && reply.Granted() {
		tk.UnclaimedGrant = true // since it was lost: its last holder has it released
	}
	if g := r.grant; g != nil && g.ticket == tk && err == nil && !reply.Granted() && reply.At.UnixMicro() > tk.HandedAt() {
		if time.Duration(reply.At.UnixMicro()-tk.HandedAt())*time.Microsecond <= monotonic.Since(tk.Made) {
			g.taken()
		} else { // the server's clock was set meanwhile, so the refusal may be older
			r.c.spawn(func() { r.c.watchdog.Look(&g.guard) })
		}
	}
	r.Prompt(r)
}

func (r *resource) refused(op *acquireOp, sent time.Time, reply protocol.Verdict, ev engine.Event) engine.Event {
	tk := op.ticket
	tk.Refuse(sent, reply.At)
	r.refusedByJava(tk, reply.Foreign, sent)
	r.c.contended.Note(r.key, sent)
	if tk.UnclaimedGrant || tk.looks {
		return engine.Event{Kind: engine.Turn}
	}
	ev.Foreign, ev.InLine = reply.Foreign, tk.Standing
	return ev
}

func (r *resource) learns(tk *ticket, m protocol.Message) (tokens int) {
	tk.OthersWait = tk.OthersWait || m.Others
	r.c.contended.Note(r.key, now())
	return int(tk.inLine)
}

// resume continues with again after the release of the ticket before it.
func (r *resource) resume(again *ticket, t engine.Terms, done released, err error) {
	w := r.Queue.First
	wanted := w != nil && w.Terms == t && r.c.opts.Replicas == 0 && (!t.Fenced || done.Token > 0)
	judged, _ := again.Judge(answerOf(done.sent, t.TTL, done.Outcome == protocol.Kept, err), wanted, r.c.refusal()) // after an error that release may still take effect
	if judged == engine.JudgedGranted {
		again.gets(engine.NewTokens(done.Token, int(again.inLine)))
		r.promote(trace.Granted, again, w, done.sent, t.TTL).handed = true
		return
	}
	unclear := err != nil || again.UnclaimedGrant || done.Outcome == protocol.NotOurs
	if unclear {
		again.traces(trace.Unknown)
	} else {
		again.traces(trace.Refused)
	}
	switch {
	case w == nil:
		r.drop(again)
	case unclear || again.looks || w.Place.Leading():
		r.Prompt(r)
	default:
		again.Sees(engine.SightingOf(done.sent, done.At))
		w.Place = engine.PlaceLeading
		w.Notify(engine.Event{Kind: engine.Refused, TTL: handOverLease, InLine: true})
	}
}

// mostTokens bounds a block. Drawing many more than needed would push the counter ahead of the
// clock.
const mostTokens = 64

// wants returns how many tokens to draw with terms t: for all waiters of this process, if the key
// can be passed on to them.
func (r *resource) wants(t engine.Terms) int {
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
