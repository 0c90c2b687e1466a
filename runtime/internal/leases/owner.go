package leases

import (
	"context"
	"sync/atomic"

	"github.com/lockgen/lockgen/runtime/internal/core"
)

// An Owner makes a tree of calls one holder: lockrt.Owner.
type Owner struct{ _ byte } // not empty, so that each has an address of its own

// NewOwner returns an owner that no other call has.
func NewOwner() *Owner { return new(Owner) }

// WithOwner returns ctx with the owner o, which calls under it have.
func WithOwner(ctx context.Context, o *Owner) context.Context {
	return context.WithValue(core.Present(ctx), ownerKey{}, o)
}

// OwnerFrom returns the owner of ctx, if ctx has one.
func OwnerFrom(ctx context.Context) (o *Owner, ok bool) {
	o = ownerFrom(core.Present(ctx))
	return o, o != nil
}

// ownerKey is the context key of the owner.
type ownerKey struct{}

// ownerFrom returns the owner of ctx, or nil.
func ownerFrom(ctx context.Context) *Owner {
	o, _ := ctx.Value(ownerKey{}).(*Owner)
	return o
}

// An OwnerlessContext hides the owner of its caller, see WithOwner: each campaign, and each run of a schedule, is an owner of its own.
// Under the lease, the owner of the caller counts again.
type OwnerlessContext struct {
	context.Context

	Over atomic.Bool // the lease is granted
}

func (x *OwnerlessContext) Value(key any) any {
	if _, owner := key.(ownerKey); owner && !x.Over.Load() {
		return nil
	}
	return x.Context.Value(key)
}
