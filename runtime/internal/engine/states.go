package engine

import (
	"github.com/lockgen/lockgen/runtime/internal/trace"
)

// A TicketState is how far a ticket of a mutex, of a read-write lock or of a fair mutex has come. docs/architecture.md has the
// transitions.
type TicketState uint8

const (
	TicketIdle        TicketState = iota // no request is under way, and it is not in the wait queue
	TicketAsking                         // a request for it is under way
	TicketQueued                         // no request is under way, and it may be in the wait queue
	TicketGranted                        // a grant has what it asked for
	TicketReleasing                      // its grant, or its place in the wait queue, is being released
	TicketRevived                        // likewise, and meanwhile Redis may have done something for it again
	TicketWithdrawing                    // Redis may have something for it, which is withdrawn
	TicketDone                           // Redis has nothing for it any more, as far as is known
)

var ticketStates = [...]string{"idle", "asking", "queued", "granted", "releasing", "revived", "withdrawing", "done"}

// String returns the name of the state in docs/architecture.md.
func (s TicketState) String() string { return ticketStates[s] }

// A GrantState is how far a grant has come. docs/architecture.md has the transitions.
type GrantState uint8

const (
	GrantHeld      GrantState = iota // somebody has it, or its key stays locked for its least time
	GrantLingering                   // nobody has it, and the next caller of this process can have it as it is
	GrantReleasing                   // nobody has it any more, and it is released
	GrantLost                        // Redis has it for somebody else, or may soon
	GrantNotified                    // likewise, and its leases have ended
)

var grantStates = [...]string{"held", "lingering", "releasing", "lost", "notified"}

// String returns the name of the state in docs/architecture.md.
func (s GrantState) String() string { return grantStates[s] }

// To moves the grant to another state.
func (s *GrantState) To(next GrantState) {
	trace.Moves("grant", *s, next)
	*s = next
}
