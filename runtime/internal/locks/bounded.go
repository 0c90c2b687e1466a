package locks

import (
	"context"

	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/observe"
)

// answer is bounded for a call about a key that does nothing else, and returns the error of that call.
func answer[T any](ctx context.Context, c *clientCore, op, key string, send func() (T, error)) (T, error) {
	var got T
	err := c.checkKey(key)
	if err == nil {
		got, err = bounded(ctx, c, send)
	}
	if err != nil {
		var none T
		return none, &observe.Error{Op: op, Key: key, Err: refused(err)}
	}
	return got, nil
}

// bounded runs send until ctx ends, for at most Options.OpTimeout.
func bounded[T any](ctx context.Context, c *clientCore, send func() (T, error)) (T, error) {
	return transport.Bounded(present(ctx), c.net, send)
}
