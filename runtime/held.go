package lockrt

import (
	"context"
	"fmt"
	"time"
)

// An EntityLease is what Lock of an [EntityMutex] and its like returns: a [Lease], which its holder unlocks, and the proof
// that it is held, which the holder shows to others. H is the type of the proof. The zero value is the lease of nothing: its
// Err matches [ErrBadOption], and its proof proves nothing.
type EntityLease[H any] struct {
	*Lease

	held H
}

// Held returns the proof that the lock is held: a [Held], [HeldShared] or [HeldMulti].
func (l EntityLease[H]) Held() H { return l.held }

// An EntityPermit is what Acquire of an [EntitySemaphore] returns: a [Permit], which its holder releases, and the proof
// that it is held, which the holder shows to others. The zero value is as that of an [EntityLease].
type EntityPermit[K any] struct {
	*Permit

	held HeldPermit[K]
}

// Held returns the proof that the permit is held.
func (p EntityPermit[K]) Held() HeldPermit[K] { return p.held }

// Held is the proof that the lock of one entity is held. A function that takes a
// Held[OrderID] can only be called by a holder of an order's lock, and can neither unlock it nor make it last for
// longer. The zero value proves nothing. It contacts nobody, and is safe for concurrent use.
type Held[K any] struct {
	proof

	id K
}

// ID returns the key of the entity that is held.
func (h Held[K]) ID() K { return h.id }

// Token is [Lease.Token]: the fencing token, or 0 if there is none.
func (h Held[K]) Token() int64 {
	if h.t == nil {
		return 0
	}
	return h.t.lease.Token()
}

// HeldShared is the proof that the lock of one entity is held for reading. A function that changes the entity
// takes a [Held] and cannot be called with it. Readers have no fencing token. The zero value proves nothing.
type HeldShared[K any] struct {
	proof

	id K
}

// ID returns the key of the entity that is held.
func (h HeldShared[K]) ID() K { return h.id }

// HeldPermit is the proof that a permit of one entity is held; others may hold permits of it, too. The zero value proves nothing.
type HeldPermit[K any] struct {
	proof

	id K
}

// ID returns the key of the entity. The id of the permit is [Permit.PermitID].
func (h HeldPermit[K]) ID() K { return h.id }

// HeldMulti is the proof that the locks of several entities are held. It ends as soon as one of them is lost. The zero
// value proves nothing.
type HeldMulti[K any] struct {
	proof

	each []Held[K]
}

// Each returns the proof for each entity, in the order in which they were named; one that is named twice has two
// that are the same. They end with the whole.
func (h HeldMulti[K]) Each() []Held[K] { return append([]Held[K](nil), h.each...) }

// A proof is what all proofs have in common.
type proof struct{ t *leaseCore }

// errNoProof is what the zero values say.
var errNoProof = fmt.Errorf("lockgen: %w: it is the proof of no lock", ErrReleased)

// Key returns the key in Redis, of several all of them.
func (p proof) Key() string { return p.t.Key() }

// Err is [Lease.Err]: nil while the lock is held, then why it is not. Of the zero value it matches [ErrReleased].
func (p proof) Err() error {
	if p.t == nil {
		return errNoProof
	}
	return p.t.Err()
}

// Context is [Lease.Context]: it ends with the lease. Of the zero value it has ended.
func (p proof) Context() context.Context { return p.t.Context() }

// Until is [Lease.Until]: when the trust in the lease ends unless it is renewed before. Of the zero value it is the zero time.
func (p proof) Until() time.Time { return p.t.Until() }
