package resource

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace"
)

// HandOverLease is the lease of a process that another one hands a lock to: long enough to learn of
// it and to renew it, short enough that a dead process does not delay the others for long.
const HandOverLease = protocol.HandOverLease

// A Ticket is one owner for requests for a lock, until it is granted or given up. An owner is never used for another ticket, so a late
// request or release that names it cannot harm a later one. The lock of the resource guards it.
type Ticket struct {
	engine.SuccessorCore // its states, marks and number, which is 0 before Enroll

	Resource    *LineCore     // its resource
	TTL         time.Duration // the longest lease that it asked for
	Extra       *TicketExtra  // nil for most tickets to a mutex
	Asking      uint16        // requests under way
	Use         TicketUse
	PlaceTokens uint8 // of a mutex: fencing tokens that its place in the wait queue asks for
	Java        uint8 // of a mutex: for how many tickets, with this one, Redisson's waiters are believed to want it
	Looks       bool  // there was a reason to ask while the resource was busy
	Asked       bool  // its waiter has asked
	Placed      bool  // Redis may hand the lock over to it even if it refuses its release for good
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
	return protocol.Ticket{Number: tk.Number, Tokens: int(tk.PlaceTokens)}
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
		Number: tk.Number, Tokens: int(tk.PlaceTokens), Field: r.Kind.Owner(tk), Watch: watch, Aside: tk.OutcomeUnknown,
	})
}
