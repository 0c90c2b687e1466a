package election

import (
	"context"
	"errors"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// Observe yields the leader at once and after each change, until ctx ends, or yield returns false, or after an error that stays. With an
// error it yields the last leader that it knows.
func (e *Election) Observe(ctx context.Context, yield func(Leader, error) bool) {
	changed := make(chan struct{}, 1)
	listener := e.c.Net.Listen(protocol.LeaderChannel(e.key), func(hub.Event) {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	defer listener.Close()
	var last Leader
	known, away, failures := false, false, 0
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		leader, left, err := e.look(ctx)
		var pause time.Duration
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			if (!known || away || leader != last) && !yield(leader, nil) {
				return
			}
			known, away, failures, last = true, false, 0, leader
			if left > 0 {
				pause = engine.NextLook(engine.LookAgain, left, listener.Live())
			} else {
				pause = engine.NextLook(engine.LookAgainBlind, -1, listener.Live())
			}
		case errors.Is(err, failure.ErrClosed) || !transport.Passing(err):
			yield(last, err)
			return
		default:
			if !away && !yield(last, err) {
				return
			}
			failures++
			away, pause = true, e.c.Backoff(failures)
		}
		until := monotonic.Now().Add(pause)
		for waiting := true; waiting; {
			timer.Reset(min(monotonic.Until(until), engine.PollUnheard))
			select {
			case <-changed:
				waiting = away // the subscription may return before the other connections
			case <-timer.C: // without messages it asks Redis
				waiting = listener.Live() && monotonic.Now().Before(until)
			case <-ctx.Done():
				return
			case <-e.c.Closing():
				yield(last, failure.ErrClosed)
				return
			}
		}
	}
}
