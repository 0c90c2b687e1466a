package core

import (
	"context"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/observe"
)

// CheckKey returns why key cannot be a lock's name, or nil.
func (c *Client) CheckKey(key string) error {
	if c.Made() == nil {
		return &observe.KeyError{Reason: "cannot be used: there is no client", Err: failure.ErrBadOption}
	}
	reason := protocol.CheckKey(key)
	if reason == "" && c.Net.Clustered() {
		reason = protocol.CheckClusterKey(key)
	}
	if reason != "" {
		return &observe.KeyError{Reason: reason}
	}
	return nil
}

// CheckCounted is CheckKey for a lock of any kind: a cluster has a further rule for the key of a latch.
func (c *Client) CheckCounted(kind, key string) error {
	err := c.CheckKey(key)
	if err == nil && kind == KindLatch && c.Net.Clustered() {
		if reason := protocol.CheckClusterLatch(key); reason != "" {
			err = &observe.KeyError{Reason: reason}
		}
	}
	return err
}

// Ready returns why a call whose options gave err cannot begin, or nil.
func (c *Client) Ready(ctx context.Context, kind, key string, err error) error {
	if err == nil {
		err = c.CheckCounted(kind, key)
	}
	if err == nil && ctx.Err() != nil {
		err = Ended(ctx)
	}
	return err
}
