package locks

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace"
)

// onWire returns tk in the form of the scripts.
func (tk *ticket) onWire() protocol.Ticket {
	return protocol.Ticket{Number: tk.Number, Tokens: int(tk.inLine)}
}

// plain reports whether op asks only for the lock.
func (op *acquireOp) plain() bool { return op.line == protocol.NotQueued && op.drawn == 0 }

func (op *acquireOp) Key() string { return op.ticket.r.key }

func (op *acquireOp) Append(keys, args []string, again bool) (allKeys, allArgs []string) {
	r, tk, line := op.ticket.r, op.ticket, op.line
	if again && line == protocol.Queued {
		line = protocol.StillQueued // since the request before
	}
	if again {
		r.c.tracesAsking(trace.SentAgain, r.key, tk.Number, line)
	} else {
		tk.traces(trace.Sent)
	}
	if op.plain() {
		return r.c.wire.Take(keys, args, r.key, tk.Number, op.terms.TTL)
	}
	return r.c.wire.Acquire(keys, args, r.key, tk.onWire(), line, op.drawn, op.terms.TTL)
}

func (op *acquireOp) Answered(sent time.Time, reply protocol.Answer, again bool, err error) {
	if err == nil && op.w.Follows {
		op.ticket.r.c.pace.answered(now().Sub(sent))
	}
	op.settle(sent, protocol.ReadAcquire(reply), again, err)
}

func (op *releaseOp) Key() string { return op.ticket.r.key }

func (op *releaseOp) Append(keys, args []string, _ bool) (allKeys, allArgs []string) {
	tk, on := op.ticket, op.ticket.r
	tk.traces(trace.GivesBack)
	if op.plain {
		return on.c.wire.Free(keys, args, on.key, tk.Number)
	}
	r := protocol.Release{Of: tk.onWire(), Start: op.start}
	if op.again != nil {
		r.Again, r.Lease = op.again.onWire(), op.terms.TTL
		op.again.traces(trace.Joins)
	}
	return on.c.wire.Release(keys, args, on.key, r)
}
