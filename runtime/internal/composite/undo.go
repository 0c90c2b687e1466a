package composite

import (
	"context"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/locks"
	"github.com/lockgen/lockgen/runtime/internal/policy"
)

// undoPatience is how long a failing call waits until its grants are released.
const undoPatience = 100 * time.Millisecond

// undo releases the grants of a failing call. A release that takes longer than [undoPatience], or than the call may
// last, continues in the background.
func undo(ctx context.Context, parts []*leases.Lease) {
	if len(parts) == 0 {
		return
	}
	for _, l := range parts {
		if g, _, ok := policy.MutexGrant(l.Core().Grant); ok {
			g.LingersNot(l) // others want them, and may not ask for it
		}
	}
	done := make(chan struct{})
	parts[0].Core().Client.Spawn(func() {
		defer close(done)
		_ = locks.Release(parts) // a failed release is withdrawn, or the key expires
	})
	timer := time.NewTimer(undoPatience)
	defer timer.Stop()
	select {
	case <-done:
	case <-ctx.Done():
	case <-timer.C:
	}
}
