package lockrt

import (
	"context"
	"slices"

	"github.com/lockgen/lockgen/runtime/internal/bridge"
	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/leases"
)

// An EntityMulti is the [MultiLock] of several entities: locks.Orders(ids...).
type EntityMulti[K any] struct {
	several[K]
}

// several hides the parts of several entities from the exported fields of an [EntityMulti].
type several[K any] struct{ bridge.Entity[[]K, Locker] }

// Keys returns the keys in Redis, in the order of the entities, or a [KeyError].
func (m EntityMulti[K]) Keys() ([]string, error) {
	p, err := m.parts()
	if err != nil {
		return nil, err
	}
	return slices.Clone(p.Keys), nil
}

func (m *EntityMulti[K]) parts() (*bridge.Parts[[]K, Locker], error) {
	p := bridge.Of(&m.Entity)
	if p.Err == nil && p.Lock == nil {
		return p, errNoEntity
	}
	return p, p.Err
}

// Lock is [MultiLock.Lock], with the options of the annotation and then opts.
func (m EntityMulti[K]) Lock(ctx context.Context, opts ...LockOption) (EntityLease[HeldMulti[K]], error) {
	p, err := m.parts()
	if err != nil {
		return EntityLease[HeldMulti[K]]{}, err
	}
	lease, err := p.Lock.Lock(ctx, opts...)
	if err != nil {
		return EntityLease[HeldMulti[K]]{}, explain(p.Name, err)
	}
	parts := map[string]*Lease{lease.Key(): lease}
	for _, part := range lease.Parts() {
		parts[part.Key()] = part
	}
	each := make([]Held[K], len(p.ID))
	for i, key := range p.Keys {
		each[i] = Held[K]{proofOf(parts[key]), p.ID[i]}
	}
	return EntityLease[HeldMulti[K]]{lease, HeldMulti[K]{proofOf(lease), each}}, nil
}

// TryLock is [MultiLock.TryLock].
func (m EntityMulti[K]) TryLock(ctx context.Context, opts ...LockOption) (EntityLease[HeldMulti[K]], error) {
	return m.Lock(ctx, append(slices.Clip(opts), leases.Once)...)
}

// Do is [MultiLock.Do] with the proof for fn.
func (m EntityMulti[K]) Do(ctx context.Context, fn func(ctx context.Context, held HeldMulti[K]) error, opts ...LockOption) error {
	if fn == nil {
		p, err := m.parts()
		if err != nil {
			return err
		}
		return explain(p.Name, core.NoFunction("do", p.Lock.Key()))
	}
	lease, err := m.Lock(ctx, opts...)
	if err != nil {
		return err
	}
	return lease.do(ctx, func(ctx context.Context) error { return fn(ctx, lease.Held()) })
}
