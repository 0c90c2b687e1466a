package composite

import (
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/quorum"
	"github.com/lockgen/lockgen/runtime/internal/trace"
)

// A lock calls these functions where it takes a step of the protocol, with the locks held that make it one step.

// tracer returns what reports the events of a call, if a test wants to know.
func (m *MultiLock) tracer() *trace.Caller {
	if m.c == nil {
		return nil
	}
	return trace.NewCaller(m.c.Base().Wholes, m.c.ID())
}

// tracesPart says whether a call of a MultiLock has got the member behind the first one that it asked for, by i: its lease, or nil.
func tracesPart(tr *trace.Caller, i int, l *leases.Lease) {
	switch {
	case tr == nil:
	case l == nil:
		tr.Turned(i)
	case l.Core().Guard() == nil: // it has parts itself
		tr.Gets(i, "", l.Core())
	default:
		tr.Gets(i, l.Core().Guard().Owner(), l.Core())
	}
}

// traced has the rounds of a call reported, if a test wants to know.
func (e *quorumAcquire) traced() {
	if e.m.parts[0].Client().Base().Wholes == nil {
		return
	}
	e.rounds.Trace = func(r *quorum.Round[*leases.Lease], a trace.Action, server int, part *leases.Lease) {
		if a == trace.Wins {
			r.Caller.Wins(e.whole.Core().Token())
			return
		}
		r.Caller.Part(a, server, part.Traced())
	}
}

// tracer returns what reports a round, if a test wants to know. It does not report rounds of a call that re-enters.
func (e *quorumAcquire) tracer() *trace.Caller {
	c := e.m.parts[0].Client()
	if c.Base().Wholes == nil || e.m.entered(e.whole) {
		return nil
	}
	tr := trace.NewCaller(c.Base().Wholes, c.ID())
	tr.Begins([]string{e.m.key})
	return tr
}
