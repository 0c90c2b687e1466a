// Package shop takes payments for orders and packs them from stock.
//
// The code is written as such services usually are: read a record, work on it, write it back. That
// is right for one caller at a time and wrong for several. There are several: the payment page
// delivers every payment at least once, to any replica.
//
// The code has no lock. The annotations of the methods, on [Service], declare what must not happen
// at the same time, and lockgen writes [LockedService] from them.
package shop

import (
	"context"
	"errors"
)

type (
	// OrderID names an order.
	OrderID string
	// SKU names an article in stock.
	SKU string
)

// An Order is a record in the [Store].
type Order struct {
	ID      OrderID `json:"id"`
	Item    SKU     `json:"item"`
	Cents   int64   `json:"cents"`
	Receipt string  `json:"receipt,omitempty"` // of the payment
	Packed  bool    `json:"packed,omitempty"`
	Shipped bool    `json:"shipped,omitempty"`
}

// A Payment is a message from the payment page.
type Payment struct {
	Order OrderID
	Cents int64
}

// The errors of an order.
var (
	ErrPaid    = errors.New("is paid already")
	ErrUnpaid  = errors.New("is not paid")
	ErrPacked  = errors.New("is packed already")
	ErrSoldOut = errors.New("is sold out")
	ErrShipped = errors.New("is shipped already")
)

// Service is the interface of every replica.
//
//lockgen:service wait=20s watchdog=2s require=all
type Service interface {
	// Pay charges the customer and keeps the receipt. It fails with ErrPaid the second time.
	//
	//lockgen:lock key=order:{p.Order}
	Pay(ctx context.Context, p Payment) (receipt string, err error)

	// Pack takes the item of a paid order from stock. It fails with ErrPacked the second
	// time, and with ErrSoldOut when nothing is left.
	//
	//lockgen:lock key=order:{o.ID}
	//lockgen:lock key=stock:{o.Item}
	Pack(ctx context.Context, o *Order) error

	// CloseDay writes the report of a day, once. While one replica writes it, the others go on with
	// something else.
	//
	//lockgen:lock key=day:{day} wait=0 busy=skip
	CloseDay(ctx context.Context, day string) error

	// Find reads an order.
	//
	//lockgen:nolock
	Find(ctx context.Context, id OrderID) (*Order, error)
}
