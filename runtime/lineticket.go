package lockrt

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// A lineTicket is one owner for the requests of one waiter. An owner is never used for another ticket, so a late request
// that names it cannot harm a later one.
type lineTicket struct {
	r     *lineCore
	w     *waiter                                         // the waiter with the ticket; nil when it has gone
	of    any                                             // the ticket of the kind, of which this is a part
	apart bool                                            // it asks outside of the queue, and waits for no other call
	read  func(transport.Reply) (protocol.Verdict, error) // reads the reply to its requests

	// Guarded by lineCore.mu.
	engine.TicketCore            // the ticket whose Number is 0 before it asks
	owner             string     // its name in Redis
	grant             *grantCore // its grant, or nil
	ttl               time.Duration

	recheck engine.Recheck // when the turn of another waiter is over
}

// ask sends one request for w.
func (r *lineCore) ask(w *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	tk := w.For.ticket
	if w.Place.State == engine.PlaceGranted {
		return // it got what it wants a moment ago
	}
	if tk.Number == 0 {
		tk.Number = r.c.ticketNumbers.Add(1)
		tk.owner = r.kind.owner(tk)
		tk.ttl = w.Terms.TTL
		r.c.subscribers.Connect(tk.Number, tk)
	}
	tk.To(engine.TicketAsking)
	if !tk.apart {
		r.Busy++
		r.Answers.Asks()
	}
	var cmd protocol.Command
	cmd, tk.read = r.kind.acquire(tk)
	tk.Standing = tk.Standing || !w.Once()
	r.request(w, cmd, tk)
}

func (tk *lineTicket) answered(sent time.Time, reply transport.Reply, again bool) {
	verdict, err := tk.read(reply)
	tk.r.settle(tk, sent, verdict, again, err)
}

// settle handles the answer to the request for tk. A request that was sent again may still arrive.
func (r *lineCore) settle(tk *lineTicket, sent time.Time, reply protocol.Verdict, again bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer tk.Rest()
	if !tk.apart {
		r.Busy--
		r.Answers.Says(err == nil && !reply.Granted(), err)
	}
	judged, err := tk.Judge(answerOf(sent, tk.ttl, reply.Granted(), err), true, r.c.refusal())
	tk.OutcomeUnknown = tk.OutcomeUnknown || again
	if judged == engine.JudgedRefused {
		tk.UnclaimedGrant, tk.Forced = false, false
	}
	w := tk.w
	switch {
	case w == nil:
		tk.Rest()
		r.drop(tk)
		r.Prompt(r.kind)
	case judged == engine.JudgedFailed:
		w.Notify(engine.Event{Kind: engine.Failed, Err: err})
	case judged == engine.JudgedAgain:
		w.Notify(engine.Event{Kind: engine.Turn})
	case judged == engine.JudgedRefused:
		pause := r.kind.refused(tk, time.Duration(reply.Wait)*time.Millisecond)
		w.Notify(engine.Event{Kind: engine.Refused, TTL: pause, Foreign: true, InLine: true})
	default:
		tk.To(engine.TicketGranted)
		tk.Standing, tk.UnclaimedGrant = false, false
		tk.end()
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
		r.stay()
		tk.release(nil)
		return
	}
	if tk.Number > 0 {
		r.c.subscribers.Disconnect(tk.Number)
	}
	switch {
	case tk.OutcomeUnknown:
		r.withdraw(tk, tk.ttl)
	case tk.Standing:
		r.withdraw(tk, 0)
	default:
		tk.To(engine.TicketDone)
	}
}

// release releases the ticket, and its grant unless that is nil. It does not block.
func (tk *lineTicket) release(of *grantCore) *releaseOp {
	op := releaseOf(tk, &tk.r.referenced, &tk.TicketCore, of)
	tk.sendRelease(op)
	return op
}

func (tk *lineTicket) sendRelease(op *releaseOp) {
	r := tk.r
	op.run(func() (protocol.Outcome, error) { return r.c.runRelease(r.kind.release(tk.owner), tk.OutcomeUnknown) })
}

func (tk *lineTicket) giveUp(*releaseOp) { tk.r.withdraw(tk, tk.ttl) }

func (tk *lineTicket) proceed(*releaseOp, released, error) { tk.r.Continue(tk.r.kind) }

// withdraw makes sure that Redis does not keep the lock, or a place in the wait queue, for a ticket without a waiter. A
// request for it may still take effect for as long as watch says. withdraw does not block. The caller holds r.mu.
func (r *lineCore) withdraw(tk *lineTicket, watch time.Duration) {
	tk.To(engine.TicketWithdrawing)
	r.c.withdrawals.Add(r.kind.withdrawer(), &engine.Withdrawal{Number: tk.Number, Field: tk.owner, Watch: watch, Aside: tk.OutcomeUnknown})
}

// lockKey returns the key that messages to the ticket are about.
func (tk *lineTicket) lockKey() string { return tk.r.key }

// look makes the waiter ask: it is its turn.
func (tk *lineTicket) look(uint64) {
	tk.r.mu.Lock()
	defer tk.r.mu.Unlock()
	if tk.grant == nil && tk.w != nil {
		tk.w.Poke()
	}
}

// soon makes the waiter ask in d, in case the waiter whose turn it is does not come until then.
func (tk *lineTicket) soon(n uint64, d time.Duration) {
	tk.r.mu.Lock()
	defer tk.r.mu.Unlock()
	if tk.grant == nil && tk.w != nil {
		tk.recheck.In(d, n, tk.look)
	}
}

// resubscribed makes the waiter ask: messages during the gap are lost.
func (tk *lineTicket) resubscribed(n uint64) { tk.look(n) }

// wanted records that another call waits for the lock of tk.
func (tk *lineTicket) wanted(uint64) {
	tk.r.mu.Lock()
	defer tk.r.mu.Unlock()
	tk.OthersWait = true
}

// taken handles the message that the lock of tk was taken by force.
func (tk *lineTicket) taken(uint64) {
	tk.r.mu.Lock()
	defer tk.r.mu.Unlock()
	if tk.grant != nil {
		tk.grant.taken()
		return
	}
	tk.Forced = true
}

// A lineGrant is the common part of the grants of such kinds.
type lineGrant struct {
	grantCore

	ticket *lineTicket
}

func (g *lineGrant) Owner() string            { return g.ticket.owner }
func (g *lineGrant) core() *engine.TicketCore { return &g.ticket.TicketCore }

// reenter does nothing: a kind that has reentry handles it before a call joins the queue.
func (g *lineGrant) reenter(_, _ *Lease) bool { return false }

func (g *lineGrant) free() *releaseOp { return g.ticket.release(&g.grantCore) }

func (g *lineGrant) forget(refused bool) {
	if !refused || g.ticket.OutcomeUnknown {
		g.ticket.r.withdraw(g.ticket, g.ticket.ttl)
	}
}

func (g *lineGrant) notified() { g.ticket.r.Continue(g.ticket.r.kind) }

// begin starts g as the grant of tk, for its waiter alone. Redis granted it no earlier than at sent.
func (g *lineGrant) begin(as watchdog.Holding, tk *lineTicket, sent time.Time) {
	w := tk.w
	g.on, g.ticket = &tk.r.referenced, tk
	g.agree(w.Terms)
	if w.Limit > 0 {
		g.more().limit = w.Limit
	}
	tk.grant = &g.grantCore
	g.start(as, sent, w.Terms.TTL)
}

// give makes the lease of w one of g, and ends its wait. From then on another call may use w.
func (g *lineGrant) give(as anyGrant, w *waiter) {
	w.Place = engine.Place[wish]{State: engine.PlaceGranted}
	g.attach(as, w.For.lease)
	g.limitTo(w.Limit, w.For.lease)
	w.Notify(engine.Event{Kind: engine.Given})
}
