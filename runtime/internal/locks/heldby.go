package locks

import (
	"errors"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/fleet"
	"github.com/lockgen/lockgen/runtime/observe"
)

// A heldError is the error of a context that ended while another holder had the lock. It matches only what that matches.
type heldError struct{ err error }

func (e *heldError) Error() string { return e.err.Error() + "; somebody else had it" }

func (e *heldError) Unwrap() error { return e.err }

// byOthers reports whether a call failed with err because another holder had the lock.
func byOthers(err error) bool {
	var held *heldError
	return errors.Is(err, failure.ErrNotAcquired) || errors.As(err, &held)
}

// holderOf returns the holder of a lock that a call did not get because of err, or nil if it is unknown. b is what the
// call has learned of others.
func holderOf(c *clientCore, kind, key string, b *fleet.Blockage, err error) *observe.Holder {
	if c.made() == nil || !byOthers(err) || !fleet.HasHolder(observe.Kind(kind)) {
		return nil
	}
	if h := c.above.OwnHolder(kind, key); h != nil {
		return h
	}
	if h := b.Holder(observe.Kind(kind), key); h != nil {
		return h
	}
	return c.fleet.LastHolder(observe.Kind(kind), key)
}
