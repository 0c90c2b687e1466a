package locks

import (
	"context"
	"time"

	"github.com/lockgen/lockgen/runtime/observe"
)

// mayWaitForEver makes w a suspect after Options.DeadlockAfter, once for each wait: if nothing bounds that, or if it is under a
// lease for which others may wait.
func (c *Client) mayWaitForEver(ctx context.Context, w *waiter, wait time.Duration) {
	if after := c.opts.DeadlockAfter; after > 0 && (!bound(ctx, wait) || innermost(ctx) != nil) {
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
	if innermost(ctx) != nil {
		c.fleet.LookForDeadlocks()
	}
	if !bound(ctx, wait) {
		kind, key := subject(q, w)
		c.fleet.Stuck(ctx, observe.Kind(kind), key, w.Call.Label.Name())
	}
}

// subject returns the lock that w waits for in q.
func subject(q contest, w *waiter) (kind, key string) {
	switch q := q.(type) {
	case *counter:
		return q.Kind, q.key
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
