package lockrt

import (
	"context"
	"slices"

	"github.com/lockgen/lockgen/runtime/internal/bridge"
)

// An EntityMulti is the [Mutex] of each of several entities, locked together as by a [MultiLock]: all or none, in one
// order, so that two calls never wait for each other. Generated code returns it from locks.Orders(ids...).
type EntityMulti[K any] struct {
	bridge.Entity[[]K, Locker]
}

// HeldMulti is the proof that the locks of several entities are held. Its methods are those of [Lease], which is lost
// as soon as one of them is; the zero value proves nothing, and its Err says so.
type HeldMulti[K any] struct {
	*Lease
	ids   []K
	parts []*Lease // of each of them
}

// Each returns the proof for each entity, in the order in which they were named; whoever is named twice has two
// that are the same. They end with the whole: unlock that, and none of them.
func (h HeldMulti[K]) Each() []Held[K] {
	var each []Held[K]
	for i, id := range h.ids {
		each = append(each, Held[K]{h.parts[i], id})
	}
	return each
}

// Err is [Lease.Err]; of the zero HeldMulti it is [ErrReleased].
func (h HeldMulti[K]) Err() error {
	if h.Lease == nil {
		return ErrReleased
	}
	return h.Lease.Err()
}

// Keys returns the keys in Redis, in the order in which the entities were named, or why there are none: a [KeyError].
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

// Lock is [MultiLock.Lock], with the wait, lease and watchdog that the annotation says unless opts say otherwise.
func (m EntityMulti[K]) Lock(ctx context.Context, opts ...LockOption) (HeldMulti[K], error) {
	p, err := m.parts()
	if err != nil {
		return HeldMulti[K]{}, err
	}
	lease, err := p.Lock.Lock(ctx, opts...)
	if err != nil {
		return HeldMulti[K]{}, explain(p.Name, err)
	}
	parts := map[string]*Lease{lease.Key(): lease}
	for _, part := range lease.Parts() {
		parts[part.Key()] = part
	}
	held := HeldMulti[K]{lease, p.ID, make([]*Lease, len(p.ID))}
	for i, key := range p.Keys {
		held.parts[i] = parts[key]
	}
	return held, nil
}

// TryLock is [MultiLock.TryLock].
func (m EntityMulti[K]) TryLock(ctx context.Context, opts ...LockOption) (HeldMulti[K], error) {
	return m.Lock(ctx, append(slices.Clip(opts), WithWait(0))...)
}

// Do is [MultiLock.Do], with the proof for fn.
func (m EntityMulti[K]) Do(ctx context.Context, fn func(ctx context.Context, held HeldMulti[K]) error, opts ...LockOption) error {
	held, err := m.Lock(ctx, opts...)
	if err != nil {
		return err
	}
	return held.do(ctx, func(ctx context.Context) error { return fn(ctx, held) })
}
