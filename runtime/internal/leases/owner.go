package leases

import (
	"context"
	"sync/atomic"

	"github.com/lockgen/lockgen/runtime/internal/core"
)

// An Owner makes a tree of calls one holder: lockrt.Owner.
type Owner struct{ _ byte } // not empty, so that each has an address of its own

func NewOwner() *Owner { return new(Owner) }

func WithOwner(ctx context.Context, o *Owner) context.Context {
	return context.WithValue(core.Present(ctx), ownerKey{}, o)
}

func OwnerFrom(ctx context.Context) (o *Owner, ok bool) {
	o = ownerFrom(core.Present(ctx))
	return o, o != nil
}

type ownerKey struct{}

func ownerFrom(ctx context.Context) *Owner {
	o, _ := ctx.Value(ownerKey{}).(*Owner)
	return o
}

// A StrangerContext hides the owner of its caller, see WithOwner: each campaign, and each run of a schedule, is an
// owner of its own. Under the lease, the caller's owner counts again.
type StrangerContext struct {
	context.Context

	Over atomic.Bool
}

func (x *StrangerContext) Value(key any) any {
	if _, owner := key.(ownerKey); owner && !x.Over.Load() {
		return nil
	}
	return x.Context.Value(key)
}
