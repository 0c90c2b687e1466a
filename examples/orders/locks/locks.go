// Package locks declares the locks of the shop for callers that take them by hand, typed by what
// they lock.
package locks

import (
	"github.com/lockgen/lockgen/examples/orders/shop"
	lockrt "github.com/lockgen/lockgen/runtime"
)

// Locks are the locks of the shop. They have the keys that [shop.Service] locks, so that its
// methods and the holder of one of these keep each other out.
//
//lockgen:locks wait=20s watchdog=2s
type Locks interface {
	// Order locks one order.
	//
	//lockgen:lock key=order:{id}
	Order(id shop.OrderID) lockrt.EntityMutex[shop.OrderID]

	// Stock locks one article in stock.
	//
	//lockgen:lock key=stock:{item}
	Stock(item shop.SKU) lockrt.EntityMutex[shop.SKU]
}
