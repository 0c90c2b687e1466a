package shop

import (
	"context"
	"fmt"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// Ship hands a packed order to the carrier, once. It asks for the proof that the caller holds
// the lock of this order: without one, or with that of something else, the call does not
// compile.
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
	// Nobody can call the parcel back: ask once more, it costs no round trip.
	if err := held.Err(); err != nil {
		return fmt.Errorf("order %s: not shipped: %w", o.ID, err)
	}
	o.Shipped = true
	return s.store.SaveOrder(ctx, o)
}
