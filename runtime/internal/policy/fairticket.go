package policy

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/resource"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// A FairTicket is the ticket of one waiter for a fair mutex, and of the next one if that gives up: it keeps its place.
//
//	           granted, or handed over       the last one unlocks, nobody follows
//	asking ──────────────────────────► hold ────────────────────────────────────► left
//	 │   ▲                             │  ▲                                         ▲
//	 │   │                             └──┘ unlocked: the one behind has it         │ withdrawn
//	 │   └── refused: in Redisson's queue; called, or by time                       │
//	 │   ▲                                                                          │
//	 ▼   │ another call comes                                                       │
//	spare ─────────────────────────── nobody comes ─────────────────────────────────┘
type FairTicket struct {
	resource.Ticket

	Own   resource.TicketExtra
	Wait  time.Duration // by which its place is reckoned
	Terms engine.Terms

	// Guarded by Mu of the resource:
	Behind  []uint64      // the tickets that get the grant after it
	after   []*FairTicket // those of them that had it
	entered []*FairTicket // tickets of its owner, which did not wait for their turn; they are being withdrawn
	since   time.Time     // when it became spare
}

const (
	// listenAfter is how long a waiter waits before it listens to Redisson's channel, too, if a message of this library reaches it when
	// it is its turn: other programs may release the key, or take it by force.
	listenAfter = time.Second

	// notedAgain is how often it is noted that there are waiters for a key: only the keys that were noted last are looked after when a server has
	// lost its last writes.
	notedAgain = time.Second / 2

	// leastFairPause is the shortest pause between requests for a free lock, when it is the turn of another waiter.
	leastFairPause = 50 * time.Millisecond
)

// FairTicketFrom returns the ticket to a fair mutex that tk is a part of.
func FairTicketFrom(tk *resource.Ticket) *FairTicket {
	return tk.Extra.Of.(*FairTicket) //nolint:forcetypeassert // each ticket to a fair mutex is one
}

// waits has w wait with tk. asked says whether w has asked before, with another ticket.
func (r *Fair) waits(tk *FairTicket, w *resource.Waiter, asked bool) {
	w.For.Ticket, tk.Own.Waiter, tk.Asked = &tk.Ticket, w, asked
	r.Tickets[tk.Number] = tk
}

// Acquire returns the request for a ticket. A process that would not hear of a grant gets the lock only when it asks.
func (r *Fair) Acquire(op *resource.AcquireOp) protocol.Command {
	tk, t, w := FairTicketFrom(op.Ticket), op.Terms, op.Waiter
	req := protocol.FairRequest{Owner: r.Owner(op.Ticket), Queue: protocol.NotQueued, Lease: t.TTL, Wait: tk.Wait, Next: r.Client.Settings.FairWait,
		Hears: !w.Once() && !t.Polling}
	if t.Fenced {
		req.Tokens = 1
	}
	if !w.Once() {
		req.Queue = protocol.Queued
		if tk.Standing {
			req.Queue = protocol.StillQueued
		}
		if now := monotonic.Now(); r.noted.IsZero() || now.Sub(r.noted) >= notedAgain {
			r.noted = now
			r.Client.Withdrawals.Waited(r.Key)
		}
	}
	return r.Lock.Acquire(req, time.Now())
}

func (r *Fair) Read(_ *resource.Ticket, reply transport.Reply) (protocol.Verdict, error) {
	return readNumbers(reply, protocol.ReadFairAcquire)
}

// Overtaken handles the answer for a ticket that has left, or has a grant.
func (r *Fair) Overtaken(op *resource.AcquireOp, reply protocol.Verdict, err error) bool {
	tk, g := op.Ticket, op.Ticket.Extra.Grant
	if err == nil && reply.Unplaced {
		for _, other := range r.Tickets { // the queue is gone, and with it the places of all, perhaps
			if &other.Ticket != tk && other.Standing {
				other.Own.Waiter.Poke()
			}
		}
	}
	switch {
	case tk.Left(): // it was withdrawn meanwhile, perhaps before this came to pass
		tk.UnclaimedGrant = tk.UnclaimedGrant || err == nil && reply.Granted() || transport.Unconfirmed(err)
		r.Retire(tk)
	case tk.State < engine.TicketGranted:
		return false
	case g != nil:
		if err == nil && reply.Granted() || transport.Unconfirmed(err) {
			r.ousted(tk)
		}
	case err == nil && !reply.Granted() && tk.HandedAt() != 0:
		if own := tk.Granted(); own != nil { // otherwise another one has been granted the lock since, and this one is about to be lost
			own.RefusedAt(reply.At)
		}
	}
	return true
}

// Unwanted has another waiter take over a ticket that was granted.
func (r *Fair) Unwanted(of *resource.Ticket) *resource.Waiter {
	if tk := FairTicketFrom(of); tk.UnclaimedGrant && !r.inherit(tk) {
		r.unspare(tk)
	}
	return of.Extra.Waiter
}

func (r *Fair) Refused(op *resource.AcquireOp, sent time.Time, reply protocol.Verdict, ev engine.Event) engine.Event {
	tk := FairTicketFrom(op.Ticket)
	first := !tk.Refused
	if tk.Refuse(sent, reply.At); !tk.UnclaimedGrant { // else it is an older answer
		tk.Behind = nil // it stands somewhere else now, or they do
	}
	if reply.Free {
		ev.TTL = max(ev.TTL, leastFairPause)
	}
	if first && (ev.TTL < 0 || ev.TTL > listenAfter) || reply.Free && (reply.Wait < 0 || ev.TTL > listenAfter) {
		ev.TTL = listenAfter
	}
	ev.Foreign = reply.Foreign || !first
	for n, other := range r.Tickets { // another one waits for longer
		ev.NotFirst = ev.NotFirst || n < tk.Number && other.Standing
	}
	return ev
}

// Learns records which tickets follow.
func (r *Fair) Learns(tk *resource.Ticket, m protocol.Message) (tokens int) {
	FairTicketFrom(tk).Behind = m.Behind
	return 1 + len(m.Behind)
}

func (r *Fair) HandedAgain(tk *resource.Ticket) {
	switch {
	case tk.Left():
		r.Retire(tk) // at once, whatever else is under way for it
	case tk.Extra.Grant != nil:
		r.ousted(tk)
	}
}

// ousted is called when Redis has granted the lock to tk, whose waiter has, or had, the grant of another ticket. Redis does not have
// that grant any more, so it is lost, and the lock of tk is released.
func (r *Fair) ousted(tk *resource.Ticket) {
	g := tk.Extra.Grant
	FairTicketFrom(g.Ticket).Behind = nil
	r.Stay()
	r.Client.Spawn(func() {
		r.Client.Watchdog.Lose(&g.Guard, watchdog.ErrRefused)
		r.SendRelease(r.ReleaseOf(tk, nil), true) // a failed release continues in the background
	})
}

// Retire has Redis forget the ticket, when a release that is under way has said what became of it.
func (r *Fair) Retire(of *resource.Ticket) {
	tk := FairTicketFrom(of)
	switch {
	case tk.State == engine.TicketReleasing, tk.State == engine.TicketRevived:
		tk.To(engine.TicketRevived)
		return
	case tk.Asking == 0 && !tk.OutcomeUnknown && !tk.UnclaimedGrant && !tk.Standing:
		if tk.State != engine.TicketWithdrawing {
			tk.To(engine.TicketDone)
		}
		r.Client.Subscribers.Disconnect(tk.Number)
		return
	}
	tk.To(engine.TicketWithdrawing)
	wd := &engine.Withdrawal{Number: tk.Number, Wait: tk.Wait, Aside: tk.Asking > 0 || tk.OutcomeUnknown, Over: func() { r.Client.Subscribers.Disconnect(tk.Number) }}
	if tk.OutcomeUnknown {
		wd.Watch = tk.TTL
	}
	r.Client.Withdrawals.Add(r.Withdrawer(), wd)
}

// Displaced forgets who follows tk, or follows in the grant that tk has.
func (r *Fair) Displaced(tk *resource.Ticket) {
	if g := tk.Granted(); g != nil {
		tk = g.Ticket
	}
	FairTicketFrom(tk).Behind = nil
}

// Soon allows for the server, which counts in whole milliseconds.
func (r *Fair) Soon(_ *resource.Ticket, d time.Duration) time.Duration { return d + time.Millisecond }
