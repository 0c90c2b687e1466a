package leases

import (
	"errors"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/fleet"
	"github.com/lockgen/lockgen/runtime/observe"
)

// A HeldError is the error of a context that ended while another holder had the lock. It matches only what that matches.
type HeldError struct{ Err error }

func (e *HeldError) Error() string { return e.Err.Error() + "; somebody else had it" }

func (e *HeldError) Unwrap() error { return e.Err }

// ByOthers reports whether a call failed with err because another holder had the lock.
func ByOthers(err error) bool {
	var held *HeldError
	return errors.Is(err, failure.ErrNotAcquired) || errors.As(err, &held)
}

// HolderOf returns the holder of a lock that a call did not get because of err, or nil if it is unknown. b is what the
// call has learned of others.
func HolderOf(c *core.Client, kind, key string, b *fleet.Blockage, err error) *observe.Holder {
	if c.Made() == nil || !ByOthers(err) || !fleet.HasHolder(observe.Kind(kind)) {
		return nil
	}
	if h := c.Above.OwnHolder(kind, key); h != nil {
		return h
	}
	if h := b.Holder(observe.Kind(kind), key); h != nil {
		return h
	}
	return c.Fleet.LastHolder(observe.Kind(kind), key)
}
