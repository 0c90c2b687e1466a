package lockrt

import (
	"context"
	"slices"
	"time"
)

// A suspicion is that a call waits for ever: nothing bounds its wait, and it has lasted for long.
type suspicion struct {
	due   <-chan time.Time // nil before the call begins to wait, and after the log line
	alarm *time.Timer
}

// begin has the suspicion be due after [Options.DeadlockAfter], unless something bounds the wait.
func (s *suspicion) begin(ctx context.Context, c *Client, cfg *lockConfig) {
	if s.alarm != nil || cfg.wait != UntilDone || c.opts.DeadlockAfter <= 0 {
		return
	}
	if _, bounded := ctx.Deadline(); bounded {
		return
	}
	s.alarm = time.NewTimer(c.opts.DeadlockAfter)
	s.due = s.alarm.C
}

// end takes it back.
func (s *suspicion) end() {
	if s.alarm != nil {
		s.alarm.Stop()
	}
}

// tell writes to the log, once, what is waited for, and whether this very process has it.
func (s *suspicion) tell(ctx context.Context, c *Client, q contest, w *waiter) {
	s.due = nil
	kind, key := subject(q, w)
	args := []any{"kind", kind, "key", key, "waited", c.opts.DeadlockAfter}
	if w.call.name != "" {
		args = append(args, "name", w.call.name)
	}
	held := c.look(key, 0).Held
	held = slices.DeleteFunc(held, func(h HeldLock) bool { return (h.Kind == KindPermit) != (kind == kindPermit) })
	if len(held) == 0 {
		c.opts.Logger.WarnContext(ctx, "lockgen: a call still waits for a lock, and neither a deadline nor WithWait bounds it", args...)
		return
	}
	args = append(args, "held_since", held[0].Since)
	if held[0].Name != "" {
		args = append(args, "held_by", held[0].Name)
	}
	message := "lockgen: a call still waits for a lock that this process holds itself: if it is made below the holder, it was given " +
		"an outer context and waits for ever; give it the context of the lease"
	if kind == kindPermit {
		message = "lockgen: a call still waits for a permit, and this process holds some itself: if it is made below a holder, it may wait for ever"
	}
	c.opts.Logger.WarnContext(ctx, message, args...)
}

// subject returns what w waits for in q.
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
