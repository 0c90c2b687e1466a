package lockrt

import "context"

// An Owner makes a whole tree of calls one holder, as a thread is in Java: see [WithOwner].
type Owner struct{ _ byte } // not empty, so that each has an address of its own

// NewOwner returns an Owner that is equal to no other.
func NewOwner() *Owner { return new(Owner) }

// WithOwner makes everything that is locked under the returned context the property of o: whoever locks
// a key that o has already, by the same [Client], enters again and does not wait. Goroutines that
// share such a context do not exclude each other; give each its own where they should. Without an owner
// only the context of a lease enters it again.
func WithOwner(ctx context.Context, o *Owner) context.Context {
	return context.WithValue(present(ctx), ownerKey{}, o)
}

// OwnerFrom returns the Owner set by [WithOwner], and whether there is one.
func OwnerFrom(ctx context.Context) (o *Owner, ok bool) {
	o = ownerFrom(present(ctx))
	return o, o != nil
}

type ownerKey struct{}

func ownerFrom(ctx context.Context) *Owner {
	o, _ := ctx.Value(ownerKey{}).(*Owner)
	return o
}
