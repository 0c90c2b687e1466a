package shop

import (
	"context"
	"fmt"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// Ship hands a packed order to the carrier, once. It requires the proof that the caller holds the
// lock of this order: without a proof, or with that of something else, the call does not compile.
func (s *Shop) Ship(ctx context.Context, held lockrt.Held[OrderID]) error {
	o, err := s.store.Order(ctx, held.ID())
	if err != nil {
		return err
	}
	switch {
	case !o.Packed:
		return fmt.Errorf("order %s is not packed", o.ID)
	case o.Shipped:
		return fmt.Errorf("order %s %w", o.ID, ErrShipped)
	}
	if err := think(ctx, s.work); err != nil {
		return err
	}
	// A shipped parcel cannot be called back: check once more, which costs no round trip.
	if err := held.Err(); err != nil {
		return fmt.Errorf("order %s: not shipped: %w", o.ID, err)
	}
	o.Shipped = true
	return s.store.SaveOrder(ctx, o)
}
