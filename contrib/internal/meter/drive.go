package meter

import (
	"context"
	"fmt"
	"time"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// Cycle calls hooks as a client does for a lease without a wait.
func Cycle(ctx context.Context, hooks *lockrt.Hooks, id uint64, name, key string) {
	e := lockrt.AcquireEvent{ID: id, Kind: lockrt.KindMutex, Name: name, Key: key, Waited: time.Millisecond,
		Outcome: lockrt.OutcomeAcquired, Grant: lockrt.GrantServer}
	hooks.AcquireEnd(ctx, e)
	ctx = hooks.Acquired(ctx, e)
	hooks.Ended(ctx, lockrt.EndEvent{ID: id, Kind: lockrt.KindMutex, Name: name, Key: key, Held: time.Second, Reason: lockrt.EndReleased})
}

// Million calls hooks for a million keys of ten names: one call for each key, some of which fail.
func Million(ctx context.Context, hooks *lockrt.Hooks) {
	outcomes := []lockrt.Outcome{lockrt.OutcomeAcquired, lockrt.OutcomeBusy, lockrt.OutcomeCancelled, lockrt.OutcomeLost, lockrt.OutcomeError}
	names := make([]string, 10)
	for i := range names {
		names[i] = fmt.Sprintf("orders.Service.Method%d", i)
	}
	for i := range 1_000_000 {
		hooks.AcquireEnd(ctx, lockrt.AcquireEvent{Kind: lockrt.KindMutex, Name: names[i%10], Key: fmt.Sprint("order:", i), Outcome: outcomes[i/10%5]})
	}
}
