package engine

import (
	"errors"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// A TicketCore is the common part of the tickets of all kinds of locks. The lock of the ticket's resource guards it.
type TicketCore struct {
	Number uint64 // of its owner
	State  TicketState

	Refused        bool // another owner had what it asked for, at least once
	Standing       bool // a request has asked for a place in the wait queue, which it may have still
	UnclaimedGrant bool // Redis granted it, but nobody was given it
	OutcomeUnknown bool // Redis may have granted it without our knowing: a reply was lost
	Forced         bool // it was taken by force, said before the answer came
	OthersWait     bool // another one waits for what it has, or is about to have
}

// OwnerNumber returns the number of the ticket's owner, or 0 before there is one.
func (tk *TicketCore) OwnerNumber() uint64 { return tk.Number }

// To moves the ticket to another state.
func (tk *TicketCore) To(next TicketState) {
	if tk.State == next {
		return
	}
	trace.Moves("ticket", tk.State, next)
	tk.State = next
}

// Rest moves a ticket that asks to the state that it has when no request is under way.
func (tk *TicketCore) Rest() {
	switch {
	case tk.State != TicketAsking:
	case tk.Standing:
		tk.To(TicketQueued)
	default:
		tk.To(TicketIdle)
	}
}

// Left reports whether the ticket is not needed any more: what Redis has of it is released or withdrawn.
func (tk *TicketCore) Left() bool { return tk.State > TicketGranted }

// A Recheck looks at a ticket again, after a time.
type Recheck struct{ timer *time.Timer }

// In has look called in d, instead of at the time that was set before.
func (x *Recheck) In(d time.Duration, look func()) {
	if x.timer != nil {
		x.timer.Reset(d)
		return
	}
	x.timer = time.AfterFunc(d, look)
}

// Stop cancels In.
func (x *Recheck) Stop() {
	if x.timer != nil {
		x.timer.Stop()
	}
}

// A Judgment is what a ticket makes of the answer to a request.
type Judgment uint8

const (
	JudgedFailed  Judgment = iota // there is no answer, or none in time: the error says why
	JudgedRefused                 // somebody else has what it asked for
	JudgedAgain                   // Redis has it for the ticket, which has to ask again
	JudgedGranted                 // the ticket becomes a grant
)

// An Answer is the reply, or the error, of a request for a ticket.
type Answer struct {
	Sent    time.Time
	TTL     time.Duration // the lease that it asked for
	Granted bool
	Err     error // or nil; then Fate has what Redis may have done all the same
	Fate    Fate
}

// A Fate is what Redis may have done for a request that returned an error.
type Fate uint8

const (
	FateUnknown     Fate = 1 << iota // it may have granted what was asked for
	FateUnconfirmed                  // it has granted it, and too few replicas have confirmed that they know
	FateDenied                       // it has done nothing, or not all of it, for want of a permission
	FateClosed                       // it has done nothing: the connection is closed for good
	FateRefused                      // it has done nothing, and says so: it cannot now, such as while keys move
)

// Doubt marks the ticket if Redis may have granted it although an error came back.
func (tk *TicketCore) Doubt(f Fate) {
	tk.OutcomeUnknown = tk.OutcomeUnknown || f&FateUnknown != 0
}

// ErrLate is the outcome of a request whose grant is over when the answer arrives.
var ErrLate = errors.New("the answer came when the lease it granted was over")

// Judge marks the ticket with the answer to a request. Its grant is unclaimed until the ticket becomes one, which it does not
// if it is not wanted, nor if the process grants nothing any more because of closed. The error says why a judgment is
// JudgedFailed.
func (tk *TicketCore) Judge(a Answer, wanted bool, closed error) (Judgment, error) {
	tk.Doubt(a.Fate)
	tk.UnclaimedGrant = tk.UnclaimedGrant || a.Granted && a.Err == nil || a.Fate&FateUnconfirmed != 0
	switch {
	case a.Err != nil:
		return JudgedFailed, a.Err
	case !a.Granted:
		return JudgedRefused, nil
	case !wanted:
		return JudgedAgain, nil
	case closed != nil:
		return JudgedFailed, closed // the waiter is about to leave
	case time.Until(a.Sent.Add(a.TTL-watchdog.Margin(a.TTL))) <= 0:
		return JudgedFailed, ErrLate
	case tk.Forced:
		tk.Forced = false
		return JudgedAgain, nil // Redis lost it since
	}
	return JudgedGranted, nil
}

// A SuccessorCore is a TicketCore to which another process may hand the lock over. No process hands a read-write lock over: its
// tickets ask.
type SuccessorCore struct {
	TicketCore

	Since monotonic.Time // when it was made, before the first request that names it; once it is granted, when that was
	past  *past          // nil before the first refusal, and the first hand-over
}

// A past is what became of a ticket that was not granted at once: a process may hold very many keys, most of which nobody else wanted.
type past struct {
	seen   Sighting // of the last answer
	handed *handed  // nil before the first hand-over
}

// A handed is the last hand-over of the lock to a ticket by another process.
type handed struct {
	at       int64          // in microseconds by the server's clock
	received monotonic.Time // when the message arrived
	made     monotonic.Time // when the ticket was made
}

// was returns the past of the ticket as it is.
func (tk *SuccessorCore) was() past {
	if tk.past == nil {
		return past{}
	}
	return *tk.past
}

// more returns the past of the ticket, to change it.
func (tk *SuccessorCore) more() *past {
	if tk.past == nil {
		tk.past = new(past)
	}
	return tk.past
}

// Seen relates the clock of the server to the local one, as the last answer does.
func (tk *SuccessorCore) Seen() Sighting { return tk.was().seen }

// Sees relates the clocks from now on as s does, or not at all if s is zero.
func (tk *SuccessorCore) Sees(s Sighting) {
	if tk.past != nil || s.known() {
		tk.more().seen = s
	}
}

// Rests reports whether the ticket has a place in the wait queue, and its last answer is old. A request to recheck only makes sure of the place
// then: one script has the requests of many such tickets.
func (tk *SuccessorCore) Rests() bool {
	seen := tk.Seen()
	return tk.Standing && seen.known() && monotonic.Since(seen.Local) >= longAlarm-earlyAlarm
}

// HandedAt returns when another process handed the lock over to the ticket, in microseconds by the server's clock, or 0.
func (tk *SuccessorCore) HandedAt() int64 { return tk.wasHanded().at }

// RefusedSinceHandOver reports whether the server refused the ticket at the time at since another process handed the lock over to it.
// Then sure is false if the clock of the server was set meanwhile, so that the refusal may be the older one.
func (tk *SuccessorCore) RefusedSinceHandOver(at time.Time) (so, sure bool) {
	last := tk.wasHanded()
	since := time.Duration(at.UnixMicro()-last.at) * time.Microsecond
	return since > 0, last.at != 0 && since <= monotonic.Since(last.made)
}

// wasHanded returns the last hand-over to the ticket, or none.
func (tk *SuccessorCore) wasHanded() handed {
	if last := tk.was().handed; last != nil {
		return *last
	}
	return handed{}
}

// A Sighting relates the clock of the server to the local one: a request that was sent at local was
// run when the server had the time server. The zero sighting is none.
type Sighting struct {
	Local  monotonic.Time
	server int64 // in microseconds, as Redis has it
}

// SightingOf relates the time server of the server to the local time sent, at which the request was sent that the server answered.
func SightingOf(sent, server time.Time) Sighting {
	return Sighting{monotonic.Of(sent), server.UnixMicro()}
}

// known reports whether there was an answer.
func (s Sighting) known() bool { return !s.Local.IsZero() }

// before reports whether the server had the time at after the sighting.
func (s Sighting) before(at time.Time) bool { return at.UnixMicro() > s.server }

// earliest returns the earliest local time at which the server can have had the time at.
func (s Sighting) earliest(at time.Time) time.Time {
	return s.Local.Std().Add(at.Sub(time.UnixMicro(s.server)))
}

// Refuse marks the ticket with a refusal, at the time at of the server, of a request that was sent at sent.
func (tk *SuccessorCore) Refuse(sent, at time.Time) {
	tk.Refused, tk.more().seen = true, SightingOf(sent, at)
	tk.UnclaimedGrant = tk.UnclaimedGrant && tk.olderThanGrant(sent, at)
}

// olderThanGrant reports whether the answer to a request may be older than the hand-over of the key to the ticket. By
// the clock of the server alone that could be so for ever, once the clock was set back.
func (tk *SuccessorCore) olderThanGrant(sent, at time.Time) bool {
	last := tk.wasHanded()
	return last.at > at.UnixMicro() && monotonic.Of(sent).Before(last.received)
}

// RefusedSince reports whether Redis has refused the ticket since its clock had the time at.
func (tk *SuccessorCore) RefusedSince(at time.Time) bool {
	seen := tk.Seen()
	return seen.known() && !seen.before(at)
}

// HandedOver marks the ticket with the message, which arrived at received, that another process handed the lock over to it
// when the server had the time at. It returns the earliest local time of that.
//
// No request of this process granted it, so there is no "before it was sent" to count the trust
// from. But the hand-over did not happen before the server had that time, and an earlier answer
// tells the earliest local time for that.
func (tk *SuccessorCore) HandedOver(at, received time.Time) (from time.Time) {
	was := tk.more()
	tk.UnclaimedGrant, was.handed = true, &handed{at.UnixMicro(), monotonic.Of(received), tk.Since}
	from = tk.Since.Std()
	if was.seen.known() {
		from = was.seen.earliest(at)
	}
	if from.After(received) {
		from = received // the server's clock was set forward
	}
	return from
}
