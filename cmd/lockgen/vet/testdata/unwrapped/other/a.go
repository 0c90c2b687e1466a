// Package other implements the service, and says so.
package other

import (
	"context"

	"github.com/lockgen/lockgen/cmd/lockgen/vet/testdata/unwrapped"
)

var _ unwrapped.Service = (*Impl)(nil)

type Impl struct{}

func (*Impl) Pay(ctx context.Context, id string) error { return nil } // want Pay:"locked by LockedService"
func (*Impl) Get(ctx context.Context, id string) error { return nil }

// Wrapped says so by being wrapped.
type Wrapped struct{}

func (Wrapped) Pay(ctx context.Context, id string) error { return nil } // want Pay:"locked by LockedService"
func (Wrapped) Get(ctx context.Context, id string) error { return nil }

func New() unwrapped.Service { return unwrapped.NewLockedService(Wrapped{}) }

// Client happens to have the same methods.
type Client struct{}

func (Client) Pay(ctx context.Context, id string) error { return nil }
func (Client) Get(ctx context.Context, id string) error { return nil }

// Handed is given to a function that does not wrap it.
type Handed struct{}

func (Handed) Pay(ctx context.Context, id string) error { return nil }
func (Handed) Get(ctx context.Context, id string) error { return nil }

func serve(unwrapped.Service) {}

func init() { serve(Handed{}) }

var _ unwrapped.Service = (*Counting)(nil)

// Counting passes its calls on, to the wrapper perhaps.
type Counting struct {
	Next unwrapped.Service
	Paid int
}

func (c *Counting) Pay(ctx context.Context, id string) error { c.Paid++; return c.Next.Pay(ctx, id) }
func (c *Counting) Get(ctx context.Context, id string) error { return c.Next.Get(ctx, id) }
