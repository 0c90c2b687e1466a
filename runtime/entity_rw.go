package lockrt

import (
	"context"

	"github.com/lockgen/lockgen/runtime/internal/bridge"
	"github.com/lockgen/lockgen/runtime/internal/leases"
)

// An EntityRWMutex is the [RWMutex] of one entity. Its writer has the proof of an [EntityMutex]; its readers have another one.
type EntityRWMutex[K any] struct {
	exclusive[K, *RWMutex]
}

// RLock is [RWMutex.RLock], with the options of the annotation and then opts.
func (m EntityRWMutex[K]) RLock(ctx context.Context, opts ...LockOption) (EntityLease[HeldShared[K]], error) {
	lease, err := of(&m.entity, func(lock *RWMutex) (*Lease, error) { return lock.RLock(ctx, m.reading(opts)...) })
	return m.shared(lease), err
}

// TryRLock is [RWMutex.TryRLock].
func (m EntityRWMutex[K]) TryRLock(ctx context.Context, opts ...LockOption) (EntityLease[HeldShared[K]], error) {
	lease, err := of(&m.entity, func(lock *RWMutex) (*Lease, error) { return lock.TryRLock(ctx, m.reading(opts)...) })
	return m.shared(lease), err
}

// RDo is [RWMutex.RDo] with the proof for fn.
func (m EntityRWMutex[K]) RDo(ctx context.Context, fn func(ctx context.Context, held HeldShared[K]) error, opts ...LockOption) error {
	if err := m.function(fn == nil); err != nil {
		return err
	}
	lease, err := m.RLock(ctx, opts...)
	if err != nil {
		return err
	}
	return lease.do(ctx, func(ctx context.Context) error { return fn(ctx, lease.Held()) })
}

// ForceRUnlock is [RWMutex.ForceRUnlock].
func (m EntityRWMutex[K]) ForceRUnlock(ctx context.Context) (bool, error) {
	return of(&m.entity, func(lock *RWMutex) (bool, error) { return lock.ForceRUnlock(ctx) })
}

// Inspect is [RWMutex.Inspect].
func (m EntityRWMutex[K]) Inspect(ctx context.Context) (RWStanding, error) {
	return of(&m.entity, func(lock *RWMutex) (RWStanding, error) { return lock.Inspect(ctx) })
}

// reading returns opts for a reader, which has no fencing token though writers have.
func (m EntityRWMutex[K]) reading(opts []LockOption) []LockOption {
	if !bridge.Of(&m.Entity).Fence {
		return opts
	}
	return append([]LockOption{leases.WithoutFencing()}, opts...)
}

// shared adds the proof to the lease of a reader.
func (m EntityRWMutex[K]) shared(lease *Lease) EntityLease[HeldShared[K]] {
	if lease == nil {
		return EntityLease[HeldShared[K]]{}
	}
	return EntityLease[HeldShared[K]]{lease, HeldShared[K]{proofOf(lease), bridge.Of(&m.Entity).ID}}
}
