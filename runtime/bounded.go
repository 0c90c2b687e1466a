package lockrt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

// answer is bounded for a call about a key that does nothing else, and returns the error of that call.
func answer[T any](ctx context.Context, c *Client, op, key string, send func() (T, error)) (T, error) {
	var got T
	err := c.checkKey(key)
	if err == nil {
		got, err = bounded(ctx, c, send)
	}
	if err != nil {
		var none T
		return none, &Error{Op: op, Key: key, Err: refused(err)}
	}
	return got, nil
}

// within is bounded for a send that returns nothing else.
func within(ctx context.Context, c *Client, send func() error) error {
	_, err := bounded(ctx, c, func() (struct{}, error) { return struct{}{}, send() })
	return err
}

// bounded runs send in another goroutine; the caller returns when ctx ends or Options.OpTimeout is over. If ctx is done
// already, bounded sends nothing.
func bounded[T any](ctx context.Context, c *Client, send func() (T, error)) (T, error) {
	type reply struct {
		value T
		err   error
	}
	var none T
	if ctx = present(ctx); ctx.Err() != nil {
		return none, ended(ctx)
	}
	got := make(chan reply, 1)
	c.spawn(func() {
		value, err := send()
		got <- reply{value, err}
	})
	timer := time.NewTimer(c.opts.OpTimeout)
	defer timer.Stop()
	select {
	case r := <-got:
		if errors.Is(r.err, rueidis.ErrClosing) && !c.granting() {
			return none, ErrClosed
		}
		return r.value, r.err
	case <-ctx.Done():
		return none, ended(ctx)
	case <-timer.C:
		return none, fmt.Errorf("%w: no answer within %v", ErrUnavailable, c.opts.OpTimeout)
	}
}
