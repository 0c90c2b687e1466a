package lockrt

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// A ticketCore is what tickets of all kinds of locks have in common. It is guarded by the lock of what the ticket asks for.
type ticketCore struct {
	n     uint64 // of its owner
	state ticketState

	standing       bool // a request has asked for a place in the wait queue, which it may have still
	unclaimedGrant bool // Redis granted it, but nobody was given it
	outcomeUnknown bool // Redis may have granted it without our knowing: a reply was lost
	forced         bool // it was taken by force, said before the answer came
	othersWait     bool // another one waits for what it has, or is about to have
}

// to moves the ticket to another state.
func (tk *ticketCore) to(next ticketState) {
	if tk.state == next {
		return
	}
	trace.Moves("ticket", tk.state, next)
	tk.state = next
}

// rest moves a ticket that asks to the state that it has when no request is under way.
func (tk *ticketCore) rest() {
	switch {
	case tk.state != ticketAsking:
	case tk.standing:
		tk.to(ticketQueued)
	default:
		tk.to(ticketIdle)
	}
}

// left reports whether the ticket is not needed any more: what Redis has of it is released or withdrawn.
func (tk *ticketCore) left() bool { return tk.state > ticketGranted }

// A recheck looks at a ticket again, after a time.
type recheck struct{ timer *time.Timer }

// in has look called for the ticket n in d, instead of at the time that was set before.
func (x *recheck) in(d time.Duration, n uint64, look func(n uint64)) {
	if x.timer != nil {
		x.timer.Reset(d)
		return
	}
	x.timer = time.AfterFunc(d, func() { look(n) })
}

func (x *recheck) stop() {
	if x.timer != nil {
		x.timer.Stop()
	}
}

// A judgment is what a ticket makes of the answer to a request.
type judgment uint8

const (
	judgedFailed  judgment = iota // there is no answer, or none in time: the error says why
	judgedRefused                 // somebody else has what it asked for
	judgedAgain                   // Redis has it for the ticket, which has to ask again
	judgedGranted                 // the ticket becomes a grant
)

// doubt marks the ticket if Redis may have granted it although err came back.
func (tk *ticketCore) doubt(err error) {
	tk.outcomeUnknown = tk.outcomeUnknown || transport.Unknown(err) || transport.Begun(err)
}

// judge marks the ticket with the answer to a request that was sent at sent for a lease of ttl, or with err. Its grant is
// unclaimed until the ticket becomes one, which it does not if it is not wanted.
func (tk *ticketCore) judge(c *Client, sent time.Time, ttl time.Duration, granted, wanted bool, err error) (judgment, error) {
	tk.doubt(err)
	tk.unclaimedGrant = tk.unclaimedGrant || granted && err == nil || transport.Unconfirmed(err)
	switch {
	case err != nil:
		return judgedFailed, err
	case !granted:
		return judgedRefused, nil
	case !wanted:
		return judgedAgain, nil
	case !c.granting():
		return judgedFailed, ErrClosed // the waiter is about to leave
	case time.Until(sent.Add(ttl-watchdog.Margin(ttl))) <= 0:
		return judgedFailed, errLate
	case tk.forced:
		tk.forced = false
		return judgedAgain, nil // Redis lost it since
	}
	return judgedGranted, nil
}

// A successorCore is what tickets to a mutex and to a fair mutex have in common: another process may hand the lock over to
// them.
type successorCore struct {
	ticketCore

	refusals int32          // how often somebody else had what it asked for
	made     monotonic.Time // before the first request that names it
	seen     sighting       // of the last answer
	granted  int64          // when another process handed it over, in microseconds by the server's clock; 0 before
	received monotonic.Time // when the message of that arrived
}

// A sighting relates the clock of the server to the local one: a request that was sent at local was
// run when the server had the time server. The zero sighting is none.
type sighting struct {
	local  monotonic.Time
	server int64 // in microseconds, as Redis has it
}

func sightingOf(sent, server time.Time) sighting {
	return sighting{monotonic.Of(sent), server.UnixMicro()}
}

// known reports whether there was an answer.
func (s sighting) known() bool { return !s.local.IsZero() }

// before reports whether the server had the time at after the sighting.
func (s sighting) before(at time.Time) bool { return at.UnixMicro() > s.server }

// earliest returns the earliest local time at which the server can have had the time at.
func (s sighting) earliest(at time.Time) time.Time {
	return s.local.Std().Add(at.Sub(time.UnixMicro(s.server)))
}

// refuse marks the ticket with a refusal, at the time at of the server, of a request that was sent at sent.
func (tk *successorCore) refuse(sent, at time.Time) {
	tk.seen = sightingOf(sent, at)
	tk.refusals++
	tk.unclaimedGrant = tk.unclaimedGrant && tk.olderThanGrant(sent, at)
}

// olderThanGrant reports whether the answer to a request may be older than the hand-over of the key to the ticket. By
// the clock of the server alone that could be so for ever, once the clock was set back.
func (tk *successorCore) olderThanGrant(sent, at time.Time) bool {
	return tk.granted > at.UnixMicro() && monotonic.Of(sent).Before(tk.received)
}

// refusedSince reports whether Redis has refused the ticket since its clock had the time at.
func (tk *successorCore) refusedSince(at time.Time) bool {
	return tk.seen.known() && !tk.seen.before(at)
}

// handedOver marks the ticket with the message, which arrived at received, that another process handed the lock over to it
// when the server had the time at. It returns the earliest local time of that.
//
// No request of this process granted it, so there is no "before it was sent" to count the trust
// from. But the hand-over did not happen before the server had that time, and an earlier answer
// tells the earliest local time for that.
func (tk *successorCore) handedOver(at, received time.Time) (from time.Time) {
	tk.unclaimedGrant, tk.granted, tk.received = true, at.UnixMicro(), monotonic.Of(received)
	from = tk.made.Std()
	if tk.seen.known() {
		from = tk.seen.earliest(at)
	}
	if from.After(received) {
		from = received // the server's clock was set forward
	}
	return from
}

// suffices reports whether a hand-over for ttl, no earlier than at from, grants what t demands. If not, the ticket asks.
func (c *Client) suffices(t terms, from time.Time, ttl time.Duration, token int64) bool {
	return t.renew && (!t.fenced || token != 0) && c.opts.Replicas == 0 && !c.net.ClockUnknown() &&
		time.Until(from.Add(ttl-watchdog.Margin(ttl))) > 0
}
