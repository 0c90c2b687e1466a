package lockrt

import (
	"context"

	"github.com/lockgen/lockgen/runtime/internal/leases"
)

// An Owner makes a tree of calls one holder, as a Java thread is: [WithOwner].
type Owner leases.Owner

// NewOwner returns an Owner that is equal to no other.
func NewOwner() *Owner { return (*Owner)(leases.NewOwner()) }

// WithOwner makes o the holder of all that is locked under the returned context: to lock a key that o holds, by the same Client, enters
// again, in any goroutine. Without an owner only the context of a lease enters it again.
func WithOwner(ctx context.Context, o *Owner) context.Context {
	return leases.WithOwner(ctx, (*leases.Owner)(o))
}

// OwnerFrom returns the Owner of ctx, and whether there is one.
func OwnerFrom(ctx context.Context) (o *Owner, ok bool) {
	owner, ok := leases.OwnerFrom(ctx)
	return (*Owner)(owner), ok
}
