package caller

import (
	"context"

	"github.com/lockgen/lockgen/cmd/lockgen/vet/testdata/unwrapped"
	"github.com/lockgen/lockgen/cmd/lockgen/vet/testdata/unwrapped/other"
)

func call(ctx context.Context, s unwrapped.Service) {
	var o unwrapped.Orders
	o.Pay(ctx, "") // want `Pay is called without the lock order:{id}: call it through LockedService`
	o.Get(ctx, "")
	unwrapped.Half{}.Pay(ctx, "")
	unwrapped.NewLockedService(o).Pay(ctx, "")
	s.Pay(ctx, "")
	unwrapped.Logging{Service: s}.Pay(ctx, "")
	new(other.Impl).Pay(ctx, "") // want `Pay is called without the lock`
	other.Wrapped{}.Pay(ctx, "") // want `Pay is called without the lock`
	unwrapped.Facade{LockedService: unwrapped.NewLockedService(o)}.Pay(ctx, "")
	unwrapped.Timed{}.Pay(ctx, "")
	unwrapped.Based{}.Pay(ctx, "")
	unwrapped.Round{}.Pay(ctx, "")
	unwrapped.Own{}.Pay(ctx, "")
	unwrapped.Pool{s}.Pay(ctx, "")
	new(unwrapped.Late).Pay(ctx, "")
	unwrapped.Kept{}.Pay(ctx, "") // want `Pay is called without the lock`
	other.Handed{}.Pay(ctx, "")
	(&other.Counting{Next: s}).Pay(ctx, "")
	other.New().Pay(ctx, "")
	other.Client{}.Pay(ctx, "")
	f := o.Pay // want `Pay is taken as a value without the lock order:{id}: take it from LockedService`
	f(ctx, "")
	g := unwrapped.Orders.Pay // want `Pay is taken as a value without the lock`
	g(o, ctx, "")
	h := unwrapped.NewLockedService(o).Pay
	h(ctx, "")
	(o.Pay)(ctx, "") // want `Pay is called without the lock`
}
