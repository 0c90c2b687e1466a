package lockrt

import (
	"github.com/lockgen/lockgen/runtime/internal/trace"
)

// A ticketState is how far a ticket of a mutex, of a read-write lock or of a fair mutex has come. docs/architecture.md has the
// transitions.
type ticketState uint8

const (
	ticketIdle        ticketState = iota // no request is under way, and it is not in the wait queue
	ticketAsking                         // a request for it is under way
	ticketQueued                         // no request is under way, and it may be in the wait queue
	ticketGranted                        // a grant has what it asked for
	ticketReleasing                      // its grant, or its place in the wait queue, is being released
	ticketRevived                        // likewise, and meanwhile Redis may have done something for it again
	ticketWithdrawing                    // Redis may have something for it, which is withdrawn
	ticketDone                           // Redis has nothing for it any more, as far as is known
)

var ticketStates = [...]string{"idle", "asking", "queued", "granted", "releasing", "revived", "withdrawing", "done"}

func (s ticketState) String() string { return ticketStates[s] }

// A ticketCore is what tickets of all kinds of locks have in common. It is guarded by the lock of what the ticket asks for.
type ticketCore struct {
	n        uint64 // of its owner
	refusals int32  // how often somebody else had what it asked for
	state    ticketState

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

// A grantState is how far a grant has come. docs/architecture.md has the transitions.
type grantState uint8

const (
	grantHeld      grantState = iota // somebody has it, or it is kept for a moment
	grantReleasing                   // nobody has it any more, and it is released
	grantLost                        // Redis has it for somebody else, or may soon
	grantNotified                    // likewise, and its leases have ended
)

var grantStates = [...]string{"held", "releasing", "lost", "notified"}

func (s grantState) String() string { return grantStates[s] }

// to moves the grant to another state.
func (g *grantCore) to(next grantState) {
	trace.Moves("grant", g.state, next)
	g.state = next
}
