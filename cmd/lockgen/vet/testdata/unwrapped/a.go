// Package unwrapped has a service and its implementation.
package unwrapped

import (
	"context"
	"sync/atomic"
)

//lockgen:service
type Service interface { // want Service:"guarded by LockedService"
	//lockgen:lock key=order:{id}
	Pay(ctx context.Context, id string) error
	//lockgen:nolock
	Get(ctx context.Context, id string) error
}

// Plain has no directives.
type Plain interface {
	Pay(ctx context.Context, id string) error
}

type Orders struct{}

func (Orders) Pay(ctx context.Context, id string) error { return nil } // want Pay:"locked by LockedService"
func (Orders) Get(ctx context.Context, id string) error { return nil }

// Half does not implement Service.
type Half struct{}

func (Half) Pay(ctx context.Context, id string) error { return nil }

// Logging has the methods of the service that it is given, which may be the wrapper.
type Logging struct{ Service }

// Facade has the methods of the wrapper.
type Facade struct{ *LockedService }

// Timed passes its calls on, to the wrapper.
type Timed struct{ next *LockedService }

func (t Timed) Pay(ctx context.Context, id string) error { return t.next.Pay(ctx, id) }
func (t Timed) Get(ctx context.Context, id string) error { return t.next.Get(ctx, id) }

// base has what others embed.
type base struct{ next Service }

func (b base) Get(ctx context.Context, id string) error { return b.next.Get(ctx, id) }

// Based passes its calls on to what a struct in it has.
type Based struct{ base }

func (b Based) Pay(ctx context.Context, id string) error { return b.next.Pay(ctx, id) }

// Round passes its calls on to what a struct has that is embedded in it by a pointer, and that embeds it.
type Round struct{ *ring }

type ring struct {
	*Round
	base
}

func (r Round) Pay(ctx context.Context, id string) error { return r.next.Pay(ctx, id) }
func (r Round) Get(ctx context.Context, id string) error { return r.next.Get(ctx, id) }

// Own has a method of its own beside a promoted one, which passes its calls on.
type Own struct {
	Timed
	done map[string]func(*LockedService)
}

func (Own) Get(ctx context.Context, id string) error { return nil }

// Pool passes its calls on to one of several.
type Pool []Service

func (p Pool) Pay(ctx context.Context, id string) error { return p[0].Pay(ctx, id) }
func (p Pool) Get(ctx context.Context, id string) error { return p[0].Get(ctx, id) }

// Late passes its calls on to what is set later.
type Late struct {
	made atomic.Pointer[LockedService]
	make func() (Service, error)
}

func (l *Late) Pay(ctx context.Context, id string) error { return l.made.Load().Pay(ctx, id) }
func (l *Late) Get(ctx context.Context, id string) error { return l.made.Load().Get(ctx, id) }

// Kept has values of other types.
type Kept struct {
	others []Plain
	taken  func(Service) error
	orders map[string]*Orders
}

func (k Kept) Pay(ctx context.Context, id string) error { return nil } // want Pay:"locked by LockedService"
func (k Kept) Get(ctx context.Context, id string) error { return nil }

func here(o Orders) error { return o.Pay(nil, "") }
