package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// hooks report what happens to locks.
func hooks(t *teller) lockrt.Hooks {
	return lockrt.Hooks{
		Waiting: func(_ context.Context, e lockrt.AcquireEvent) {
			t.tell(event{Kind: waits, Text: "for " + e.Key})
		},
		AcquireEnd: func(_ context.Context, e lockrt.AcquireEvent) {
			switch {
			case errors.Is(e.Err, lockrt.ErrNotAcquired):
				t.tell(event{Kind: skips, Text: e.Key + ", somebody else holds it"})
			case errors.Is(e.Err, lockrt.ErrUnavailable):
				t.tell(event{Kind: skips, Text: e.Key + ", Redis does not answer"})
			case e.Err == nil:
				t.tell(event{Kind: holds, Text: e.Key + afterWaiting(e.Waited)})
			}
		},
		Renewed: func(_ context.Context, e lockrt.RenewEvent) {
			if e.Err == nil {
				t.tell(event{Kind: renews, Text: e.Key})
			}
		},
		Ended: func(_ context.Context, e lockrt.EndEvent) {
			switch {
			case errors.Is(e.Cause, lockrt.ErrLost):
				t.tell(event{Kind: loses, Text: fmt.Sprintf("%s: %v", e.Key, e.Cause)})
			case errors.Is(e.Cause, lockrt.ErrReleased):
				t.tell(event{Kind: frees, Text: e.Key})
			}
		},
	}
}

// afterWaiting describes a wait time, and is empty for a short one.
func afterWaiting(d time.Duration) string {
	if d = d.Round(time.Millisecond); d < 10*time.Millisecond {
		return ""
	}
	return fmt.Sprintf(", after %v", d)
}
