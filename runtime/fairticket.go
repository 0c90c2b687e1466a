package lockrt

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// A fairTicket is what Redis is asked with: an owner that is used for this and for nothing else, so that whatever late
// request names it cannot harm a later one.
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
	engine.SuccessorCore

	r     *fairResource
	terms engine.Terms
	wait  time.Duration // by which its place is reckoned
	owner string        // as Redisson names a thread: <uuid>:<n>

	// Guarded by fairResource.mu.
	call    *fairCall      // that waits with it, or did last; nil if it gave up, and the ticket is spare or has left
	asking  int            // requests under way
	grant   *fairGrant     // its grant, or that of the ticket before it, or nil
	behind  []uint64       // the tickets that get the grant after it
	after   []*fairTicket  // those of them who had it
	entered []*fairTicket  // tickets of its owner, which did not wait for their turn; they are being withdrawn
	since   time.Time      // when it became spare
	recheck engine.Recheck // when the one before it may have died
}

const (
	// A ticket that hears at once when it is its turn, by those of this library, listens to Redisson's channel too when
	// it has waited for so long: others may release the key, or take it by force.
	listenAfter = time.Second

	// A free lock that is another's turn is asked for no more often than this.
	leastFairPause = 50 * time.Millisecond
)

// readFair reads the reply to a request.
func readFair(reply transport.Reply) (v protocol.FairVerdict, err error) {
	numbers, err := reply.Ints()
	if err != nil {
		return v, err
	}
	return protocol.ReadFairAcquire(numbers)
}

// before reports whether another ticket of this process waits for longer.
func (r *fairResource) before(tk *fairTicket) bool {
	for n, other := range r.tickets {
		if n < tk.Number && other.Standing {
			return true
		}
	}
	return false
}

// settle deals with the answer to a request, of which again says that it was sent more than once and may still arrive. It
// returns what is left to do.
func (tk *fairTicket) settle(sent time.Time, reply protocol.FairVerdict, again bool, err error) (rest func()) {
	r := tk.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if tk.asking--; tk.asking == 0 {
		defer tk.Rest()
	}
	tk.Doubt(fateOf(err))
	tk.OutcomeUnknown = tk.OutcomeUnknown || again
	yes := err == nil && reply.Granted()
	if err == nil && reply.Unplaced {
		for _, other := range r.tickets { // the queue is gone, and with it the places of all, perhaps
			if other != tk && other.Standing {
				other.call.w.Poke()
			}
		}
	}
	at := reply.At
	switch {
	case tk.Left(): // it was withdrawn meanwhile, perhaps before this came to pass
		tk.retire()
		return nil
	case tk.grant != nil && tk.grant.ticket != tk:
		if yes || transport.Unconfirmed(err) {
			return tk.ousted()
		}
		return nil
	case tk.grant != nil: // it was handed over while we asked
		if g := tk.grant; err == nil && !yes && tk.HandedAt() != 0 && at.UnixMicro() > tk.HandedAt() {
			return func() { r.c.watchdog.Lose(&g.guard, watchdog.ErrRefused) }
		}
		return nil
	}
	ttl := tk.terms.TTL
	judged, cause := tk.Judge(answerOf(sent, ttl, reply.Granted(), err), true, r.c.refusal())
	if tk.call == nil && tk.UnclaimedGrant && !r.inherit(tk) {
		r.unspare(tk)
		return nil
	}
	tell := func(ev engine.Event) {
		if tk.call != nil {
			tk.call.w.Notify(ev)
		}
	}
	switch {
	case err != nil && tk.Seen().Local.After(monotonic.Of(sent)): // another one has notified
	case err != nil && tk.call != nil && !tk.call.asked:
		tell(engine.Event{Kind: engine.Turn}) // another one asked
	case judged == engine.JudgedFailed:
		tell(engine.Event{Kind: engine.Failed, Err: cause})
	case judged == engine.JudgedAgain:
		tell(engine.Event{Kind: engine.Turn})
	case judged == engine.JudgedRefused:
		first := tk.Refusals() == 0
		if tk.Refuse(sent, at); !tk.UnclaimedGrant { // else it is an older answer
			tk.behind = nil // it stands somewhere else now, or they do
		}
		tk.Forced = false
		pause, free := time.Duration(reply.Wait)*time.Millisecond, reply.Free
		if free {
			pause = max(pause, leastFairPause)
		}
		if first && (pause < 0 || pause > listenAfter) || free && (reply.Wait < 0 || pause > listenAfter) {
			pause = listenAfter
		}
		tell(engine.Event{Kind: engine.Refused, TTL: pause, Foreign: reply.Foreign || !first, InLine: true, Behind: r.before(tk)})
	default:
		return tk.promote(sent, ttl, engine.NewTokens(reply.Token, 1))
	}
	return nil
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
	case tk.grant != nil && tk.grant.ticket != tk:
		r.c.spawn(tk.ousted())
		return
	case tk.grant != nil:
		return // known already
	case tk.call == nil && !r.inherit(tk):
		tk.UnclaimedGrant = true
		r.unspare(tk)
		return
	}
	w := tk.call.w
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
		if rest := tk.promote(from, first, engine.NewTokens(m.Token, 1+len(m.Behind))); rest != nil {
			r.c.spawn(rest)
		}
	}
}

// ousted deals with a lock that Redis has for tk, which has, or had, what another one was granted: that one has it no more,
// and tk does not need it. It returns what is left to do without holding r.mu.
func (tk *fairTicket) ousted() (rest func()) {
	r, g := tk.r, tk.grant
	g.supersede()
	r.stay()
	return func() {
		r.c.watchdog.Lose(&g.guard, watchdog.ErrRefused)
		tk.release(nil) // a failed release continues in the background
	}
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
	r.c.withdrawals.Add(withdrawer{r.c, kindFair, r.key}, wd)
}

// lockKey returns the key that messages to the ticket are about.
func (tk *fairTicket) lockKey() string { return tk.r.key }

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

// waits reports whether somebody waits with the ticket.
func (tk *fairTicket) waits() bool { return tk.call != nil && tk.grant == nil && !tk.Left() }

// look has the waiter ask.
func (tk *fairTicket) look(uint64) {
	tk.r.mu.Lock()
	defer tk.r.mu.Unlock()
	if tk.waits() {
		tk.call.w.Poke()
	}
}

// soon has the waiter ask in d: it is the next one, and the one before it may have died.
func (tk *fairTicket) soon(n uint64, d time.Duration) {
	tk.r.mu.Lock()
	defer tk.r.mu.Unlock()
	if tk.waits() {
		tk.recheck.In(d+time.Millisecond, n, tk.look)
	}
}

// wanted has nothing to do: every release looks at the queue.
func (tk *fairTicket) wanted(uint64) {}

// taken deals with the message that what tk has was taken by force.
func (tk *fairTicket) taken(uint64) {
	tk.r.mu.Lock()
	defer tk.r.mu.Unlock()
	if g := tk.grant; g != nil {
		g.supersede()
		g.taken()
		return
	}
	tk.Forced = true
}
