package lockrt

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// A lineTicket is one owner for the requests of one waiter. An owner is never used for another ticket, so a late request
// that names it cannot harm a later one.
type lineTicket struct {
	r  *lineCore
	w  *waiter       // the waiter with the ticket; nil when it has gone
	of anyLineTicket // the ticket of the kind, of which this is a part

	// Guarded by the lock of the resource.
	engine.SuccessorCore        // the ticket whose Number is 0 before it asks
	owner                string // its name in Redis
	terms                engine.Terms
	grant                *lineGrant     // its grant, or that of another ticket which it was given; or nil
	recheck              engine.Recheck // when the turn of another waiter is over
	asking               int32          // requests under way
	asked                bool           // its waiter has asked
	apart                bool           // it asks outside of the queue, and waits for no other call
	placed               bool           // Redis may hand the lock over to it even if it refuses its release for good
}

// An anyLineTicket is a ticket of one of the kinds.
type anyLineTicket interface {
	subscriber
	releaser
	// retire has Redis forget a ticket without a waiter. The caller holds the lock of the resource.
	retire()
}

// ask sends one request for w.
func (r *lineCore) ask(w *waiter) {
	r.on.mu.Lock()
	defer r.on.mu.Unlock()
	tk := w.For.ticket
	if w.Place.State == engine.PlaceGranted || tk == nil || tk.w != w || !tk.waits() {
		return // it got what it wants a moment ago
	}
	if tk.Number == 0 {
		tk.enroll(w)
	}
	tk.To(engine.TicketAsking)
	tk.asking++
	tk.asked = true
	if !tk.apart {
		r.Busy++
		r.Answers.Asks()
	}
	cmd := r.kind.acquire(tk)
	tk.Standing = tk.Standing || !w.Once()
	r.on.request(w, cmd, tk)
}

// enroll gives a ticket its number and its name, on the terms of w.
func (tk *lineTicket) enroll(w *waiter) {
	c := tk.r.on.c
	tk.Number, tk.Made, tk.terms = c.ticketNumbers.Add(1), monotonic.Now(), w.Terms
	tk.owner = tk.r.kind.owner(tk)
	c.subscribers.Connect(tk.Number, tk.of)
}

func (tk *lineTicket) answered(sent time.Time, reply transport.Reply, again bool) {
	verdict, err := tk.r.kind.read(tk, reply)
	tk.r.settle(tk, sent, verdict, again, err)
}

// settle handles the answer to the request for tk. A request that was sent again may still arrive.
func (r *lineCore) settle(tk *lineTicket, sent time.Time, reply protocol.Verdict, again bool, err error) {
	r.on.mu.Lock()
	defer r.on.mu.Unlock()
	if tk.asking--; tk.asking == 0 {
		defer tk.Rest()
	}
	if !tk.apart {
		r.Busy--
		r.Answers.Says(err == nil && !reply.Granted(), err)
	}
	answer := answerOf(sent, tk.terms.TTL, reply.Granted(), err)
	tk.Doubt(answer.Fate)
	tk.OutcomeUnknown = tk.OutcomeUnknown || again
	if r.kind.overtaken(tk, reply, err) {
		return
	}
	judged, cause := tk.Judge(answer, true, r.on.c.refusal())
	var refusal engine.Event
	if judged == engine.JudgedRefused {
		tk.UnclaimedGrant, tk.Forced = tk.UnclaimedGrant && tk.HandedAt() != 0, false
		wait := time.Duration(reply.Wait) * time.Millisecond
		refusal = r.kind.refused(tk, sent, reply, engine.Event{Kind: engine.Refused, TTL: wait, Foreign: true, InLine: true})
	}
	w := tk.w
	if w == nil {
		if w = r.kind.unwanted(tk); w == nil {
			return
		}
	}
	switch {
	case err != nil && tk.asked && tk.Seen().Local.After(monotonic.Of(sent)): // the answer to a later request has come
	case judged == engine.JudgedAgain, (err != nil || cause == engine.ErrLate) && !tk.asked: // or the waiter before it asked
		w.Notify(engine.Event{Kind: engine.Turn})
	case judged == engine.JudgedFailed:
		w.Notify(engine.Event{Kind: engine.Failed, Err: cause})
	case judged == engine.JudgedRefused:
		w.Notify(refusal)
	default:
		if w.Terms.Fenced {
			w.For.lease.token = reply.Token
		}
		if !tk.apart {
			r.Queue.Remove(w)
		}
		r.kind.granted(tk, sent)
		r.Prompt(r.kind)
	}
}

// waits reports whether a waiter waits with the ticket.
func (tk *lineTicket) waits() bool { return tk.w != nil && tk.grant == nil && !tk.Left() }

// end records that no waiter waits with tk any more.
func (tk *lineTicket) end() {
	tk.recheck.Stop()
	tk.r.kind.ended(tk)
}

// drop gives up a ticket whose waiter has gone.
func (r *lineCore) drop(tk *lineTicket) {
	tk.end()
	if tk.UnclaimedGrant {
		tk.To(engine.TicketReleasing)
		r.Busy++
		r.on.stay()
		tk.release(nil)
		return
	}
	if tk.Number > 0 {
		r.on.c.subscribers.Disconnect(tk.Number)
	}
	switch {
	case tk.OutcomeUnknown:
		r.withdraw(tk, tk.terms.TTL)
	case tk.Standing:
		r.withdraw(tk, 0)
	default:
		tk.To(engine.TicketDone)
	}
}

// release releases the ticket, and its grant unless that is nil. It does not block.
func (tk *lineTicket) release(of *grantCore) *releaseOp {
	op := releaseOf(tk.of, tk.r.on, &tk.TicketCore, of)
	op.placed = tk.placed
	tk.sendRelease(op)
	return op
}

func (tk *lineTicket) sendRelease(op *releaseOp) {
	op.run(func() (protocol.Outcome, error) { return tk.r.kind.release(tk) })
}

func (tk *lineTicket) giveUp(*releaseOp) { tk.of.retire() }

func (tk *lineTicket) retire() { tk.r.withdraw(tk, tk.terms.TTL) }

func (tk *lineTicket) proceed(*releaseOp, released, error) { tk.r.Continue(tk.r.kind) }

// withdraw makes sure that Redis does not keep the lock, or a place in the wait queue, for a ticket without a waiter. A
// request for it may still take effect for as long as watch says. withdraw does not block. The caller holds the lock of the resource.
func (r *lineCore) withdraw(tk *lineTicket, watch time.Duration) {
	tk.To(engine.TicketWithdrawing)
	r.on.c.withdrawals.Add(r.kind.withdrawer(), &engine.Withdrawal{Number: tk.Number, Field: tk.owner, Watch: watch, Aside: tk.OutcomeUnknown})
}

// lockKey returns the key that messages to the ticket are about.
func (tk *lineTicket) lockKey() string { return tk.r.on.key }

// look makes the waiter ask: it is its turn.
func (tk *lineTicket) look(uint64) {
	tk.r.on.mu.Lock()
	defer tk.r.on.mu.Unlock()
	if tk.waits() {
		tk.w.Poke()
	}
}

// soon makes the waiter ask in d, in case the waiter whose turn it is does not come until then.
func (tk *lineTicket) soon(n uint64, d time.Duration) {
	tk.r.on.mu.Lock()
	defer tk.r.on.mu.Unlock()
	if tk.waits() {
		tk.recheck.In(d, n, tk.look)
	}
}

// resubscribed makes the waiter ask: messages during the gap are lost.
func (tk *lineTicket) resubscribed(n uint64) { tk.look(n) }

// wanted records that another call waits for the lock of tk.
func (tk *lineTicket) wanted(uint64) {
	tk.r.on.mu.Lock()
	defer tk.r.on.mu.Unlock()
	tk.OthersWait = true
}

// taken handles the message that the lock of tk was taken by force.
func (tk *lineTicket) taken(uint64) {
	tk.r.on.mu.Lock()
	defer tk.r.on.mu.Unlock()
	tk.revoke()
}

// revoke ends the grant of a ticket whose lock was taken by force, or the one that it is about to get. The caller holds the lock of the
// resource.
func (tk *lineTicket) revoke() {
	if tk.grant != nil {
		tk.grant.taken()
		return
	}
	tk.Forced = true
}

// A lineGrant is the common part of the grants of such kinds.
type lineGrant struct {
	grantCore

	ticket *lineTicket // that Redis has it for
}

func (g *lineGrant) Owner() string            { return g.ticket.owner }
func (g *lineGrant) core() *engine.TicketCore { return &g.ticket.TicketCore }

// reenter does nothing: a kind that has reentry handles it before a call joins the queue.
func (g *lineGrant) reenter(_, _ *Lease) bool { return false }

func (g *lineGrant) free() *releaseOp { return g.ticket.release(&g.grantCore) }

func (g *lineGrant) forget(refused bool) {
	if tk := g.ticket; !refused || tk.OutcomeUnknown || tk.asking > 0 {
		tk.UnclaimedGrant = tk.UnclaimedGrant || !refused
		tk.of.retire()
	}
}

func (g *lineGrant) notified() { g.ticket.r.Continue(g.ticket.r.kind) }

// begin starts g as the grant of tk, for its waiter alone. Redis granted it no earlier than at from, for ttl at first.
func (g *lineGrant) begin(as watchdog.Holding, tk *lineTicket, from time.Time, ttl time.Duration) {
	tk.To(engine.TicketGranted)
	tk.UnclaimedGrant = false
	tk.end()
	g.on, g.ticket = tk.r.on, tk
	g.agree(tk.terms)
	if limit := tk.w.Limit; limit > 0 {
		g.more().limit = limit
	}
	tk.grant = g
	g.start(as, from, ttl)
}

// give makes the lease of w one of g, and ends its wait. From then on another call may use w.
func (g *lineGrant) give(as anyGrant, w *waiter) {
	g.serve(as, w)
	w.Notify(engine.Event{Kind: engine.Given})
}

// serve makes the lease of w one of g.
func (g *lineGrant) serve(as anyGrant, w *waiter) {
	w.Place = engine.Place[wish]{State: engine.PlaceGranted}
	g.attach(as, w.For.lease)
	g.limitTo(w.Limit, w.For.lease)
}
