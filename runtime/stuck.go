package lockrt

import (
	"context"
	"slices"
	"time"
)

// mayWaitForEver makes w a suspect after [Options.DeadlockAfter], once for each wait: if nothing bounds that, or if it is under a
// lease for which others may wait.
func (c *Client) mayWaitForEver(ctx context.Context, w *waiter, wait time.Duration) {
	if after := c.opts.DeadlockAfter; after > 0 && (!bound(ctx, wait) || leaseCoreFrom(ctx) != nil) {
		c.suspects.Begin(w, after)
	}
}

// bound reports whether something bounds a call.
func bound(ctx context.Context, wait time.Duration) bool {
	_, ends := ctx.Deadline()
	return ends || wait != UntilDone
}

// suspect looks for a deadlock, if w may be in one, and logs a wait without a bound.
func (c *Client) suspect(ctx context.Context, q contest, w *waiter, wait time.Duration) {
	if leaseCoreFrom(ctx) != nil {
		c.deadlocks.look()
	}
	if !bound(ctx, wait) {
		c.tellSuspect(ctx, q, w)
	}
}

// tellSuspect logs, once, what the call waits for, and whether this very process has it.
func (c *Client) tellSuspect(ctx context.Context, q contest, w *waiter) {
	kind, key := subject(q, w)
	args := []any{"kind", kind, "key", key, "name", w.Call.Name, "waited", c.opts.DeadlockAfter}
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
	case *resource: // a parked call has no lease, and gets one under the lock of q
		return kindMutex, q.key
	case *quorumAcquire:
		return kindRedLock, q.m.key
	}
	if w.For.lease != nil {
		return w.For.lease.kind(), w.For.lease.key
	}
	return "", ""
}
