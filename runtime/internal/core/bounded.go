package core

import (
	"context"

	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/observe"
)

// Answer is Bounded for a call about key that sends nothing else. It checks the key, and adds the operation and the key to the error.
func Answer[T any](ctx context.Context, c *Client, op, key string, send func() (T, error)) (T, error) {
	var got T
	err := c.CheckKey(key)
	if err == nil {
		got, err = Bounded(ctx, c, send)
	}
	if err != nil {
		var none T
		return none, &observe.Error{Op: op, Key: key, Err: Refused(err)}
	}
	return got, nil
}

// Bounded runs send until ctx ends, for at most Options.OpTimeout.
func Bounded[T any](ctx context.Context, c *Client, send func() (T, error)) (T, error) {
	return transport.Bounded(Present(ctx), c.Net, send)
}
