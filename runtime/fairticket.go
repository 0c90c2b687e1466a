package lockrt

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
	lineTicket

	r    *fairResource
	wait time.Duration // by which its place is reckoned

	// Guarded by fairResource.mu.
	behind  []uint64      // the tickets that get the grant after it
	after   []*fairTicket // those of them who had it
	entered []*fairTicket // tickets of its owner, which did not wait for their turn; they are being withdrawn
	since   time.Time     // when it became spare
}

const (
	// A ticket that hears at once when it is its turn, by those of this library, listens to Redisson's channel too when
	// it has waited for so long: others may release the key, or take it by force.
	listenAfter = time.Second

	// A free lock that is another's turn is asked for no more often than this.
	leastFairPause = 50 * time.Millisecond
)

func fairTicketFrom(tk *lineTicket) *fairTicket {
	return tk.of.(*fairTicket) //nolint:forcetypeassert // each ticket to a fair mutex is one
}

// acquire returns the request for a ticket. A process that would not hear of a grant gets the lock only when it asks.
func (r *fairResource) acquire(of *lineTicket) protocol.Command {
	tk, t, w := fairTicketFrom(of), of.terms, of.w
	req := protocol.FairRequest{Owner: tk.owner, Queue: protocol.NotQueued, Lease: t.TTL, Wait: tk.wait, Hears: !w.Once() && !t.Polling}
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
			r.c.stood.Note(r.key)
		}
	}
	return r.lock.Acquire(req, time.Now())
}

func (r *fairResource) read(_ *lineTicket, reply transport.Reply) (protocol.Verdict, error) {
	return readNumbers(reply, protocol.ReadFairAcquire)
}

// overtaken deals with the answer for a ticket that has left, or has a grant.
func (r *fairResource) overtaken(of *lineTicket, reply protocol.Verdict, err error) bool {
	tk, g := fairTicketFrom(of), of.grant
	if err == nil && reply.Unplaced {
		for _, other := range r.tickets { // the queue is gone, and with it the places of all, perhaps
			if other != tk && other.Standing {
				other.w.Poke()
			}
		}
	}
	switch {
	case tk.Left(): // it was withdrawn meanwhile, perhaps before this came to pass
		tk.UnclaimedGrant = tk.UnclaimedGrant || err == nil && reply.Granted() || transport.Unconfirmed(err)
		tk.retire()
	case g == nil:
		return false
	case g.ticket != of:
		if err == nil && reply.Granted() || transport.Unconfirmed(err) {
			tk.ousted()
		}
	case err == nil && !reply.Granted() && tk.HandedAt() != 0 && reply.At.UnixMicro() > tk.HandedAt():
		g.taken() // it was handed over while we asked
	}
	return true
}

// unwanted has another waiter take over a ticket that was granted.
func (r *fairResource) unwanted(of *lineTicket) *waiter {
	if tk := fairTicketFrom(of); tk.UnclaimedGrant && !r.inherit(tk) {
		r.unspare(tk)
	}
	return of.w
}

func (r *fairResource) refused(of *lineTicket, sent time.Time, reply protocol.Verdict, ev engine.Event) engine.Event {
	tk := fairTicketFrom(of)
	first := tk.Refusals() == 0
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

// handed deals with the message that the lock was handed over to this ticket.
func (tk *fairTicket) handed(m protocol.Message) {
	received := now()
	r := tk.r
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case tk.Left():
		tk.retire() // at once, whatever else is under way for it
		return
	case tk.grant != nil && tk.grant.ticket != &tk.lineTicket:
		tk.ousted()
		return
	case tk.grant != nil:
		return // known already
	case tk.w == nil && !r.inherit(tk):
		tk.UnclaimedGrant = true
		r.unspare(tk)
		return
	}
	w := tk.w
	if tk.RefusedSince(m.Granted) {
		w.Poke()
		return
	}
	tk.behind = m.Behind
	from := tk.HandedOver(m.Granted, received)
	first := min(handOverLease, tk.terms.TTL)
	switch {
	case !r.c.granting(): // it leaves, and releases it
	case !r.c.suffices(tk.terms, from, first, m.Token):
		w.Poke() // to ask for what it needs
	default:
		r.c.counts.remote.Add(1)
		w.For.lease.came = fromThere
		tk.promote(from, first, engine.NewTokens(m.Token, 1+len(m.Behind)))
	}
}

// ousted deals with a lock that Redis has for tk, which has, or had, what another one was granted: that one has it no more,
// and tk does not need it.
func (tk *fairTicket) ousted() {
	r, g := tk.r, tk.grant
	fairTicketFrom(g.ticket).behind = nil
	r.stay()
	r.c.spawn(func() {
		r.c.watchdog.Lose(&g.guard, watchdog.ErrRefused)
		tk.release(nil) // a failed release continues in the background
	})
}

// retire has Redis forget the ticket, when a release that is under way has said what became of it.
func (tk *fairTicket) retire() {
	r := tk.r
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
		wd.Watch = tk.terms.TTL
	}
	r.c.withdrawals.Add(r.withdrawer(), wd)
}

// resubscribed has the waiter ask: what was said while nobody listened is not known, and the server may be another one,
// with another clock.
func (tk *fairTicket) resubscribed(n uint64) {
	tk.r.mu.Lock()
	tk.Sees(engine.Sighting{})
	if tk.grant == nil {
		tk.behind = nil
	}
	tk.r.mu.Unlock()
	tk.look(n)
}

// soon allows for the server, which counts in whole milliseconds.
func (tk *fairTicket) soon(n uint64, d time.Duration) { tk.lineTicket.soon(n, d+time.Millisecond) }

// taken has nobody follow in a grant that was taken by force.
func (tk *fairTicket) taken(uint64) {
	tk.r.mu.Lock()
	defer tk.r.mu.Unlock()
	if tk.grant != nil {
		fairTicketFrom(tk.grant.ticket).behind = nil
	}
	tk.revoke()
}
