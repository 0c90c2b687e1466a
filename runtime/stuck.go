package lockrt

import (
	"context"
	"slices"
	"time"
)

// A suspicion concerns a call that may wait for ever: it has waited for long, and nothing bounds its wait, or it waits
// under a lease for which others may wait.
type suspicion struct {
	due     <-chan time.Time // nil before the call begins to wait, and after it fired
	alarm   *time.Timer
	bounded bool // something bounds the wait
}

// begin schedules the suspicion after [Options.DeadlockAfter], unless something bounds the wait and it is under no
// lease.
func (s *suspicion) begin(ctx context.Context, c *Client, cfg *lockConfig) {
	if s.alarm != nil || c.opts.DeadlockAfter <= 0 {
		return
	}
	_, s.bounded = ctx.Deadline()
	s.bounded = s.bounded || cfg.wait != UntilDone
	if s.bounded && leaseCoreFrom(ctx) == nil {
		return
	}
	s.alarm = time.NewTimer(c.opts.DeadlockAfter)
	s.due = s.alarm.C
}

// end cancels it.
func (s *suspicion) end() {
	if s.alarm != nil {
		s.alarm.Stop()
	}
}

// come looks for a deadlock, if w may be in one, and logs a wait without a bound.
func (s *suspicion) come(ctx context.Context, c *Client, q contest, w *waiter) {
	s.due = nil
	if leaseCoreFrom(ctx) != nil {
		c.deadlocks.look()
	}
	if !s.bounded {
		s.tell(ctx, c, q, w)
	}
}

// tell logs, once, what the call waits for, and whether this very process has it.
func (s *suspicion) tell(ctx context.Context, c *Client, q contest, w *waiter) {
	kind, key := subject(q, w)
	args := []any{"kind", kind, "key", key, "name", w.call.name, "waited", c.opts.DeadlockAfter}
	held := c.look(key, 0).Held
	held = slices.DeleteFunc(held, func(h HeldLock) bool { return (h.Kind == KindPermit) != (kind == kindPermit) })
	if len(held) == 0 {
		c.opts.Logger.WarnContext(ctx, "lockgen: a call still waits for a lock, and neither a deadline nor WithWait bounds it", args...)
		return
	}
	args = append(args, "owner", held[0].Owner, "held_since", held[0].Since, "held_by", held[0].Name)
	if kind == kindPermit {
		c.opts.Logger.WarnContext(ctx, "lockgen: a call still waits for a permit, and this process holds some itself: if it is made below a holder, it may "+
			"wait for ever", args...)
		return
	}
	c.opts.Logger.WarnContext(ctx, "lockgen: a call still waits for a lock that this process holds itself: if it is made below the holder, it was given "+
		"an outer context and waits for ever; give it the context of the lease", args...)
}

// subject returns the lock that w waits for in q.
func subject(q contest, w *waiter) (kind, key string) {
	switch q := q.(type) {
	case *counter:
		return q.kind, q.key
	case *quorumAcquire:
		return kindRedLock, q.m.key
	}
	if w.lease != nil {
		return w.lease.kind, w.lease.key
	}
	return "", ""
}
