package shop

import (
	"context"
	"time"
)

// think stands for work that takes time. It stops when ctx ends, and returns the cause: the context
// of a lock ends when the lock is lost, and another replica may then be at work already.
func think(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
