package locks

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/trace"
)

// traces says what becomes of a ticket to a mutex, if a test wants to know.
func (tk *ticket) traces(a trace.Action) {
	if tk.r.c.traced == nil {
		return
	}
	if tk.r.kind.name(tk) == kindMutex {
		tk.r.c.traces(a, tk.r.key, tk.Number)
	}
}

// tracesGrant says that the key is granted to a ticket to a mutex, no earlier than at from, for ttl, perhaps with a fencing token.
func (tk *ticket) tracesGrant(a trace.Action, from time.Time, ttl time.Duration) {
	c := tk.r.c
	if c.traced == nil {
		return
	}
	if r := tk.r; r.kind.name(tk) == kindMutex {
		at := time.Now()
		c.traced(trace.Step{Action: a, Key: r.key, Owner: r.kind.owner(tk), Trust: from.Add(ttl).Sub(at), Token: tk.rare().tokens.Next, At: at})
	}
}
