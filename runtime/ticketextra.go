package lockrt

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
)

// A ticketExtra is what few tickets have: a process may hold very many locks. The zero value is that of a ticket without one.
type ticketExtra struct {
	settled chan bool     // if it was handed over during a request: gets a value with the answer to that, true for an unknown outcome
	tokens  engine.Tokens // the tokens left of its grant or hand-over
	linger  *lingering    // how long its grant stays with the process after an Unlock; nil if no holder asked for that
	recheck engine.Recheck
	start   time.Duration // the start of Redisson's waiters when the lock was left to them last, unless they got it; 0 if it was not left to them
}

// rare returns the extra of the ticket as it is.
func (tk *ticket) rare() ticketExtra {
	if tk.extra == nil {
		return ticketExtra{}
	}
	return *tk.extra
}

// more returns the extra of the ticket, to change it.
func (tk *ticket) more() *ticketExtra {
	if tk.extra == nil {
		tk.extra = new(ticketExtra)
	}
	return tk.extra
}

// gets gives the ticket its fencing tokens.
func (tk *ticket) gets(drawn engine.Tokens) {
	if drawn != tk.rare().tokens {
		tk.more().tokens = drawn
	}
}
