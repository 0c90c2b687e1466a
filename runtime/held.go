package lockrt

import (
	"context"
	"fmt"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/leases"
)

// An EntityLease is a [Lease] and, as H, the proof that it is held.
type EntityLease[H any] struct {
	*Lease

	held H
}

// Held returns the proof.
func (l EntityLease[H]) Held() H { return l.held }

// An EntityPermit is a [Permit] and the proof that it is held.
type EntityPermit[K any] struct {
	*Permit

	held HeldPermit[K]
}

// Held returns the proof.
func (p EntityPermit[K]) Held() HeldPermit[K] { return p.held }

// Held proves that the lock of one entity is held. Only a holder of that order's lock can call a function that takes a Held[OrderID], and
// the function can neither unlock nor extend it. The zero value proves nothing.
type Held[K any] struct {
	proof

	id K
}

// ID returns the key of the entity.
func (h Held[K]) ID() K { return h.id }

// Token is [Lease.Token].
func (h Held[K]) Token() int64 { return h.of.Token() }

// HeldShared proves that the lock of one entity is held for reading.
type HeldShared[K any] struct {
	proof

	id K
}

// ID returns the key of the entity.
func (h HeldShared[K]) ID() K { return h.id }

// HeldPermit proves that one of the permits of an entity is held.
type HeldPermit[K any] struct {
	proof

	id K
}

// ID returns the key of the entity. That of the permit is [Permit.PermitID].
func (h HeldPermit[K]) ID() K { return h.id }

// HeldMulti proves that the locks of several entities are held, all of them.
type HeldMulti[K any] struct {
	proof

	each []Held[K]
}

// Each returns the proofs in the order of the entities.
func (h HeldMulti[K]) Each() []Held[K] { return append([]Held[K](nil), h.each...) }

// A proof is the common part of all proofs.
type proof struct{ of CurrentLease }

// proofOf returns the proof that l is held.
func proofOf(l *Lease) proof { return proof{CurrentLease((*leases.Lease)(l).Current())} }

// errNoProof is the error of the zero values.
var errNoProof = fmt.Errorf("lockgen: %w: a zero proof proves no lock", ErrReleased)

// Key returns the key in Redis; for several entities all keys.
func (p proof) Key() string { return p.of.Key() }

// Err is [Lease.Err]. For the zero value it matches [ErrReleased].
func (p proof) Err() error {
	if p.of == (CurrentLease{}) {
		return errNoProof
	}
	return p.of.Err()
}

// Context is [Lease.Context]. For the zero value it has ended.
func (p proof) Context() context.Context { return leases.CurrentLease(p.of).Context() }

// Until is [Lease.Until].
func (p proof) Until() time.Time { return p.of.Until() }
