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

// A grantState is how far a grant has come. docs/architecture.md has the transitions.
type grantState uint8

const (
	grantHeld      grantState = iota // somebody has it, or its key stays locked for its least time
	grantLingering                   // nobody has it, and the next caller of this process can have it as it is
	grantReleasing                   // nobody has it any more, and it is released
	grantLost                        // Redis has it for somebody else, or may soon
	grantNotified                    // likewise, and its leases have ended
)

var grantStates = [...]string{"held", "lingering", "releasing", "lost", "notified"}

func (s grantState) String() string { return grantStates[s] }

// to moves the grant to another state.
func (g *grantCore) to(next grantState) {
	trace.Moves("grant", g.state, next)
	g.state = next
}
