// Package cache has implementations of the service that call another one.
package cache

import (
	"context"

	"github.com/lockgen/lockgen/cmd/lockgen/vet/testdata/unwrapped"
)

// Caching passes its calls on, below the wrapper.
type Caching struct{ next unwrapped.Orders }

func (c Caching) Pay(ctx context.Context, id string) error { // want Pay:"locked by LockedService"
	func() { _ = c.next.Pay(ctx, id) }()
	pay := c.next.Pay
	go c.next.Pay(ctx, id)              // want `Pay is called without the lock`
	go func() { c.next.Pay(ctx, id) }() // want `Pay is called without the lock`
	return pay(ctx, id)
}

func (c Caching) Get(ctx context.Context, id string) error {
	if id == "" {
		return c.next.Pay(ctx, id) // want `Pay is called without the lock order:{id}: call it through LockedService`
	}
	return c.next.Get(ctx, id)
}

func New(o unwrapped.Orders) unwrapped.Service { return unwrapped.NewLockedService(Caching{o}) }

// Counting is wrapped by another package.
type Counting struct{ *unwrapped.Orders }

func (c *Counting) Pay(ctx context.Context, id string) error { return c.Orders.Pay(ctx, id) }

// Handler does not implement the service, and has a method of the same name.
type Handler struct{ next unwrapped.Orders }

func (h Handler) Pay(ctx context.Context, id string) error {
	return h.next.Pay(ctx, id) // want `Pay is called without the lock`
}

func Pay(ctx context.Context, o unwrapped.Orders) error {
	return o.Pay(ctx, "") // want `Pay is called without the lock`
}

var pay = unwrapped.Orders.Pay // want `Pay is taken as a value without the lock`
