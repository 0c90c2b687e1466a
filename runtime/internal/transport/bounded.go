package transport

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// Bounded runs send on another goroutine, and returns its result. The caller goes on when ctx ends, or after OpTimeout. If ctx is done
// already, Bounded sends nothing. It must not be nil.
func Bounded[T any](ctx context.Context, t *Transport, send func() (T, error)) (T, error) {
	type reply struct {
		value T
		err   error
	}
	var none T
	if ctx.Err() != nil {
		return none, failure.Ended(ctx)
	}
	got := make(chan reply, 1)
	t.cfg.User.Go(func() {
		value, err := send()
		got <- reply{value, err}
	})
	timer := time.NewTimer(t.cfg.OpTimeout)
	defer timer.Stop()
	select {
	case r := <-got:
		if errors.Is(r.err, rueidis.ErrClosing) && t.Closing() {
			return none, failure.ErrClosed
		}
		return r.value, r.err
	case <-ctx.Done():
		return none, failure.Ended(ctx)
	case <-timer.C:
		return none, fmt.Errorf("%w: no answer within %v", failure.ErrUnavailable, t.cfg.OpTimeout)
	}
}

// Within is [Bounded] for a send that returns only an error.
func Within(ctx context.Context, t *Transport, send func() error) error {
	_, err := Bounded(ctx, t, func() (struct{}, error) { return struct{}{}, send() })
	return err
}

// RunUntil is [Transport.RunInTime], and does not send the command again once left is closed: nobody waits for the answer any more. It returns the
// answer all the same, when that comes.
func (t *Transport) RunUntil(left <-chan struct{}, cmd protocol.Command) (reply Reply, again bool) {
	x := t.timely(cmd)
	x.until = left
	return x.run()
}

// Refused is [Refused], and says of a request that was not sent since the client is closed that it is.
func (t *Transport) Refused(err error) error {
	if errors.Is(err, rueidis.ErrClosing) && t.Closing() {
		return fmt.Errorf("%w: %w", failure.ErrClosed, err)
	}
	return Refused(err)
}

// Closing reports whether the client grants nothing any more.
func (t *Transport) Closing() bool { return closed(t.cfg.Closing) }
