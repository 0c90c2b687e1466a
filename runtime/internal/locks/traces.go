package locks

import (
	"errors"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/quorum"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// A lock calls these functions where it takes a step of the protocol, with the locks held that make it one step.

// traces says what becomes of the owner n, if a test wants to know.
func (c *Client) traces(a trace.Action, key string, n uint64) {
	if c.traced != nil {
		c.traced(trace.Step{Action: a, Key: key, Owner: c.wire.Owner(n), At: time.Now()})
	}
}

// traces says what becomes of a ticket to a mutex, if a test wants to know.
func (tk *ticket) traces(a trace.Action) {
	if tk.r.c.traced == nil {
		return
	}
	if _, mutex := tk.r.kind.(*resource); mutex {
		tk.r.c.traces(a, tk.r.key, tk.Number)
	}
}

// tracesAsking says a of n, which asks.
func (c *Client) tracesAsking(a trace.Action, key string, n uint64, line protocol.Queueing) {
	if c.traced != nil {
		c.traced(trace.Step{Action: a, Key: key, Owner: c.wire.Owner(n), Line: int(line[0] - '0'), At: time.Now()})
	}
}

// tracesGrant says that the key is granted to a ticket to a mutex, no earlier than at from, for ttl, perhaps with a fencing token.
func (tk *ticket) tracesGrant(a trace.Action, from time.Time, ttl time.Duration) {
	c := tk.r.c
	if c.traced == nil {
		return
	}
	if r, mutex := tk.r.kind.(*resource); mutex {
		at := time.Now()
		c.traced(trace.Step{Action: a, Key: r.key, Owner: r.owner(tk), Trust: from.Add(ttl).Sub(at), Token: tk.rare().tokens.Next, At: at})
	}
}

// tracesRenewal says of a lease what its watchdog does. Its key may end at ends.
func (c *Client) tracesRenewal(a trace.Action, l *watchdog.Lease, ends monotonic.Time) {
	if _, _, mutex := mutexGrant(l.Holding); mutex {
		at := time.Now()
		c.traced(trace.Step{Action: a, Key: l.Key(), Owner: l.Owner(), Trust: ends.Std().Sub(at), At: at})
	}
}

// tracesAnswer says a when n is answered, or that it is not known how.
func (c *Client) tracesAnswer(a trace.Action, key string, n uint64, err error) {
	if err != nil {
		a = trace.Unknown
	}
	c.traces(a, key, n)
}

// tracer returns what reports the events of a call, if a test wants to know.
func (m *MultiLock) tracer() *trace.Caller {
	if m.c == nil {
		return nil
	}
	return trace.NewCaller(m.c.wholes, m.c.ID())
}

// tracesPart says whether a call of a MultiLock has got the member behind the first one that it asked for, by i: its lease, or nil.
func tracesPart(tr *trace.Caller, i int, l *Lease) {
	switch {
	case tr == nil:
	case l == nil:
		tr.Turned(i)
	case l.guard == nil: // it has parts itself
		tr.Gets(i, "", &l.leaseCore)
	default:
		tr.Gets(i, l.guard.Owner(), &l.leaseCore)
	}
}

// tracesEnd says that a lease has ended.
func (c *Client) tracesEnd(t *leaseCore, cause error) {
	c.wholes(trace.Whole{Action: trace.Over, Lease: t, Freed: errors.Is(cause, failure.ErrReleased)})
}

// traced returns what tests see of the lease of a part of a RedLock, or nil if none wants to.
func (l *Lease) traced() *trace.Part {
	if l == nil || l.client.wholes == nil {
		return nil
	}
	return &trace.Part{Owner: l.guard.Owner(), Token: l.token, Lease: &l.leaseCore}
}

// traced has the rounds of a call reported, if a test wants to know.
func (e *quorumAcquire) traced() {
	if e.m.parts[0].c.wholes == nil {
		return
	}
	e.rounds.Trace = func(r *quorum.Round[*Lease], a trace.Action, server int, part *Lease) {
		if a == trace.Wins {
			r.Caller.Wins(e.whole.token)
			return
		}
		r.Caller.Part(a, server, part.traced())
	}
}

// tracer returns what reports a round, if a test wants to know. It does not report rounds of a call that re-enters.
func (e *quorumAcquire) tracer() *trace.Caller {
	c := e.m.parts[0].c
	if c.wholes == nil || e.m.entered(e.whole) {
		return nil
	}
	tr := trace.NewCaller(c.wholes, c.ID())
	tr.Begins([]string{e.m.key})
	return tr
}
