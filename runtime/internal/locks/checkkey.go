package locks

import (
	"context"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/observe"
)

// checkKey returns why key cannot be a lock's name, or nil.
func (c *clientCore) checkKey(key string) error {
	if c.made() == nil {
		return &observe.KeyError{Reason: "cannot be used: there is no client", Err: failure.ErrBadOption}
	}
	reason := protocol.CheckKey(key)
	if reason == "" && c.net.Clustered() {
		reason = protocol.CheckClusterKey(key)
	}
	if reason != "" {
		return &observe.KeyError{Reason: reason}
	}
	return nil
}

// checkCounted is checkKey for a kind with counts.
func (c *clientCore) checkCounted(kind, key string) error {
	err := c.checkKey(key)
	if err == nil && kind == kindLatch && c.net.Clustered() {
		if reason := protocol.CheckClusterLatch(key); reason != "" {
			err = &observe.KeyError{Reason: reason}
		}
	}
	return err
}

// ready returns why a call whose options gave err cannot begin, or nil.
func (c *clientCore) ready(ctx context.Context, kind, key string, err error) error {
	if err == nil {
		err = c.checkCounted(kind, key)
	}
	if err == nil && ctx.Err() != nil {
		err = ended(ctx)
	}
	return err
}
