// Package unwrapped has a service and its implementation.
package unwrapped

import "context"

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

func here(o Orders) error { return o.Pay(nil, "") }
