package locks

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// A fairTicket is the ticket of one waiter for a fair mutex, and of the next one if that gives up: it keeps its place.
//
//	           granted, or handed over       the last one unlocks, nobody follows
//	asking ──────────────────────────► hold ────────────────────────────────────► left
//	 │   ▲                             │  ▲                                         ▲
//	 │   │                             └──┘ unlocked: the one behind has it         │ withdrawn
//	 │   └── refused: in Redisson's queue; called, or by time                       │
//	 │   ▲                                                                          │
//	 ▼   │ another call comes                                                       │
//	spare ─────────────────────────── nobody comes ─────────────────────────────────┘
type fairTicket struct {
	ticket

	own   ticketExtra
	wait  time.Duration // by which its place is reckoned
	terms engine.Terms

	// Guarded by fairResource.mu.
	behind  []uint64      // the tickets that get the grant after it
	after   []*fairTicket // those of them who had it
	entered []*fairTicket // tickets of its owner, which did not wait for their turn; they are being withdrawn
	since   time.Time     // when it became spare
}

const (
	// A waiter that a message of this library reaches when it is its turn listens to Redisson's channel too, once it has waited for so
	// long: other programs may release the key, or take it by force.
	listenAfter = time.Second

	// A free lock that is another's turn is asked for no more often than this.
	leastFairPause = 50 * time.Millisecond
)

func fairTicketFrom(tk *ticket) *fairTicket {
	return tk.extra.of.(*fairTicket) //nolint:forcetypeassert // each ticket to a fair mutex is one
}

// acquire returns the request for a ticket. A process that would not hear of a grant gets the lock only when it asks.
func (r *fairResource) acquire(op *acquireOp) protocol.Command {
	tk, t, w := fairTicketFrom(op.ticket), op.terms, op.w
	req := protocol.FairRequest{Owner: r.owner(op.ticket), Queue: protocol.NotQueued, Lease: t.TTL, Wait: tk.wait, Hears: !w.Once() && !t.Polling}
	if t.Fenced {
		req.Tokens = 1
	}
	if !w.Once() {
		req.Queue = protocol.Queued
		if tk.Standing {
			req.Queue = protocol.StillQueued
		}
		if !r.noted {
			r.noted = true
			r.c.withdrawals.Waited(r.key)
		}
	}
	return r.lock.Acquire(req, time.Now())
}

func (r *fairResource) read(_ *ticket, reply transport.Reply) (protocol.Verdict, error) {
	return readNumbers(reply, protocol.ReadFairAcquire)
}

// overtaken deals with the answer for a ticket that has left, or has a grant.
func (r *fairResource) overtaken(op *acquireOp, reply protocol.Verdict, err error) bool {
	tk, g := op.ticket, op.ticket.extra.grant
	if err == nil && reply.Unplaced {
		for _, other := range r.tickets { // the queue is gone, and with it the places of all, perhaps
			if &other.ticket != tk && other.Standing {
				other.own.w.Poke()
			}
		}
	}
	switch {
	case tk.Left(): // it was withdrawn meanwhile, perhaps before this came to pass
		tk.UnclaimedGrant = tk.UnclaimedGrant || err == nil && reply.Granted() || transport.Unconfirmed(err)
		r.retire(tk)
	case tk.State < engine.TicketGranted:
		return false
	case g != nil:
		if err == nil && reply.Granted() || transport.Unconfirmed(err) {
			r.ousted(tk)
		}
	case err == nil && !reply.Granted() && tk.HandedAt() != 0 && reply.At.UnixMicro() > tk.HandedAt():
		if own := tk.granted(); own != nil { // otherwise another one has been granted the lock since, and this one is about to be lost
			own.taken() // it was handed over while we asked
		}
	}
	return true
}

// unwanted has another waiter take over a ticket that was granted.
func (r *fairResource) unwanted(of *ticket) *waiter {
	if tk := fairTicketFrom(of); tk.UnclaimedGrant && !r.inherit(tk) {
		r.unspare(tk)
	}
	return of.extra.w
}

func (r *fairResource) refused(op *acquireOp, sent time.Time, reply protocol.Verdict, ev engine.Event) engine.Event {
	tk := fairTicketFrom(op.ticket)
	first := !tk.Refused
	if tk.Refuse(sent, reply.At); !tk.UnclaimedGrant { // else it is an older answer
		tk.behind = nil // it stands somewhere else now, or they do
	}
	if reply.Free {
		ev.TTL = max(ev.TTL, leastFairPause)
	}
	if first && (ev.TTL < 0 || ev.TTL > listenAfter) || reply.Free && (reply.Wait < 0 || ev.TTL > listenAfter) {
		ev.TTL = listenAfter
	}
	ev.Foreign = reply.Foreign || !first
	for n, other := range r.tickets { // another one waits for longer
		ev.Behind = ev.Behind || n < tk.Number && other.Standing
	}
	return ev
}

// learns records which tickets follow.
func (r *fairResource) learns(tk *ticket, m protocol.Message) (tokens int) {
	fairTicketFrom(tk).behind = m.Behind
	return 1 + len(m.Behind)
}

func (r *fairResource) handedAgain(tk *ticket) {
	switch {
	case tk.Left():
		r.retire(tk) // at once, whatever else is under way for it
	case tk.extra.grant != nil:
		r.ousted(tk)
	}
}

// ousted is called when Redis has granted the lock to tk, whose waiter has, or had, the grant of another ticket. Redis does not have
// that grant any more, so it is lost, and the lock of tk is released.
func (r *fairResource) ousted(tk *ticket) {
	g := tk.extra.grant
	fairTicketFrom(g.ticket).behind = nil
	r.stay()
	r.c.spawn(func() {
		r.c.watchdog.Lose(&g.guard, watchdog.ErrRefused)
		r.sendRelease(r.releaseOf(tk, nil), true) // a failed release continues in the background
	})
}

// retire has Redis forget the ticket, when a release that is under way has said what became of it.
func (r *fairResource) retire(of *ticket) {
	tk := fairTicketFrom(of)
	switch {
	case tk.State == engine.TicketReleasing, tk.State == engine.TicketRevived:
		tk.To(engine.TicketRevived)
		return
	case tk.asking == 0 && !tk.OutcomeUnknown && !tk.UnclaimedGrant && !tk.Standing:
		if tk.State != engine.TicketWithdrawing {
			tk.To(engine.TicketDone)
		}
		r.c.subscribers.Disconnect(tk.Number)
		return
	}
	tk.To(engine.TicketWithdrawing)
	wd := &engine.Withdrawal{Number: tk.Number, Wait: tk.wait, Aside: tk.asking > 0 || tk.OutcomeUnknown, Over: func() { r.c.subscribers.Disconnect(tk.Number) }}
	if tk.OutcomeUnknown {
		wd.Watch = tk.ttl
	}
	r.c.withdrawals.Add(r.withdrawer(), wd)
}

// displaced forgets who follows tk, or follows in the grant that tk has.
func (r *fairResource) displaced(tk *ticket) {
	if g := tk.granted(); g != nil {
		tk = g.ticket
	}
	fairTicketFrom(tk).behind = nil
}

// soon allows for the server, which counts in whole milliseconds.
func (r *fairResource) soon(_ *ticket, d time.Duration) time.Duration { return d + time.Millisecond }
