package locks

import (
	"context"
	"errors"
	"slices"

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
func (c *Client) holderOf(kind, key string, b *fleet.Blockage, err error) *observe.Holder {
	if c.made() == nil || !byOthers(err) || !fleet.HasHolder(observe.Kind(kind)) {
		return nil
	}
	if h := c.ownHolder(kind, key); h != nil {
		return h
	}
	if h := b.Holder(observe.Kind(kind), key); h != nil {
		return h
	}
	return c.fleet.LastHolder(observe.Kind(kind), key)
}

// ownHolder returns the call of this Client that holds a lock, or nil. For a call that reads, that is one that writes.
func (c *Client) ownHolder(kind, key string) *observe.Holder {
	held := c.grantsOf(key)
	i := slices.IndexFunc(held, func(g *grant) bool {
		of := g.guard.Kind()
		return of == kind && of != kindRead || of == kindWrite && kind == kindRead || of == kindRead && kind == kindWrite
	})
	if i < 0 {
		return nil
	}
	g := held[i]
	s := g.Show()
	if s.Holds == 0 {
		return nil // for a moment between two holders
	}
	return &observe.Holder{Own: true, Process: c.Process(), Owner: g.guard.Owner(), Since: s.Since.Std(), Seen: now()}
}

// addHolder adds the holder that b, of the call as a whole, has learned of to the error of the member that it did not get.
func addHolder(b *fleet.Blockage, err error) {
	of := (*observe.Error)(nil)
	if !errors.As(err, &of) || of.Holder != nil && (of.Holder.Own || !of.Holder.Since.IsZero()) || !byOthers(of.Err) {
		return
	}
	if h := b.Holder("", of.Key); h != nil {
		of.Holder = h
	}
}

// endedAt returns the error of a call for several locks whose context has ended, when err was that of one of them.
func endedAt(ctx context.Context, whole string, err error) error {
	of := (*observe.Error)(nil)
	if !byOthers(err) || !errors.As(err, &of) {
		return &observe.Error{Op: "lock", Key: whole, Err: endedBy(ctx, err)}
	}
	if errors.Is(err, ctx.Err()) {
		return err
	}
	return &observe.Error{Op: "lock", Key: of.Key, Holder: of.Holder, Err: endedBy(ctx, err)}
}
