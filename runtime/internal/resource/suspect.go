package resource

import (
	"context"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/observe"
)

// mayWaitForEver makes w, which waits for others, a suspect when its call has taken for Options.DeadlockAfter, once for each wait: if nothing
// bounds that, or if it is under a lease for which others may wait.
func (c *Client) mayWaitForEver(ctx context.Context, w *Waiter, wait time.Duration) {
	if after := c.Settings.DeadlockAfter; after > 0 && (!bound(ctx, wait) || leases.Innermost(ctx) != nil) {
		c.suspects.Begin(w, after)
	}
}

// bound reports whether something bounds a call.
func bound(ctx context.Context, wait time.Duration) bool {
	_, ends := ctx.Deadline()
	return ends || wait != leases.UntilDone
}

// suspect looks for a deadlock, if w may be in one, and logs a wait without a bound.
func (c *Client) suspect(ctx context.Context, q Contest, w *Waiter, wait time.Duration) {
	if leases.Innermost(ctx) != nil {
		c.Fleet.LookForDeadlocks()
	}
	if !bound(ctx, wait) {
		kind, key := q.Subject(w)
		c.Fleet.Stuck(ctx, observe.Kind(kind), key, w.Call.Label.Name())
	}
}
