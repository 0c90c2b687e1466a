package main

import (
	"context"
	"fmt"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// Locks are the locks of this program, one method for each kind of thing.
//
//lockgen:locks
type Locks interface {
	// Order locks one order.
	//
	//lockgen:lock key=order:{id}
	Order(id OrderID) lockrt.EntityMutex[OrderID]
}

// ship can only be called by a holder of an order's lock.
func ship(ctx context.Context, held lockrt.Held[OrderID]) error {
	if err := held.Err(); err != nil { // not lost meanwhile? costs no round trip
		return err
	}
	fmt.Printf("order %s: shipped\n", held.ID())
	return ctx.Err()
}

func shipByHand(ctx context.Context, client *lockrt.Client, id OrderID) error {
	return NewLocks(client).Order(id).Do(ctx, ship)
}
