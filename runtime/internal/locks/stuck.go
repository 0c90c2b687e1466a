package locks

import (
	"context"
	"time"

	"github.com/lockgen/lockgen/runtime/observe"
)

// mayWaitForEver makes w a suspect after Options.DeadlockAfter, once for each wait: if nothing bounds that, or if it is under a
// lease for which others may wait.
func (c *clientLine) mayWaitForEver(ctx context.Context, w *waiter, wait time.Duration) {
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
func (c *clientLine) suspect(ctx context.Context, q contest, w *waiter, wait time.Duration) {
	if innermost(ctx) != nil {
		c.fleet.LookForDeadlocks()
	}
	if !bound(ctx, wait) {
		kind, key := q.subject(w)
		c.fleet.Stuck(ctx, observe.Kind(kind), key, w.Call.Label.Name())
	}
}
