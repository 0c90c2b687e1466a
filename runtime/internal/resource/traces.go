package resource

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/trace"
)

// Traces reports what becomes of a ticket to a mutex, if a test wants to know.
func (tk *Ticket) Traces(a trace.Action) {
	if tk.Resource.Client.Traced == nil {
		return
	}
	if tk.Resource.Kind.Name(tk) == core.KindMutex {
		tk.Resource.Client.Traces(a, tk.Resource.Key, tk.Number)
	}
}

// tracesGrant reports that the key is granted to a ticket to a mutex, no earlier than at from, for ttl, perhaps with a fencing token.
func (tk *Ticket) tracesGrant(a trace.Action, from time.Time, ttl time.Duration) {
	c := tk.Resource.Client
	if c.Traced == nil {
		return
	}
	if r := tk.Resource; r.Kind.Name(tk) == core.KindMutex {
		at := time.Now()
		c.Traced(trace.Step{Action: a, Key: r.Key, Owner: r.Kind.Owner(tk), Trust: from.Add(ttl).Sub(at), Token: tk.Rare().Tokens.Next, At: at})
	}
}
