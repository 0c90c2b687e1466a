package lockrt

import (
	"context"
	"fmt"
	"slices"
)

// An EntityMulti is the [Mutex] of each of several entities, locked together as by a [MultiLock]: all or none, in one
// order, so that two calls never wait for each other. Generated code returns it from locks.Orders(ids...).
type EntityMulti[K any] struct {
	lock Locker // nil if there is an error
	spec *Spec
	opts []LockOption
	ids  []K
	keys []string
	err  error // why there are no keys
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

// ForMulti returns the mutexes of the entities ids, each of which has the key of its place in keys. Those could not be
// built if there is an err. What opts say counts more than spec.
func ForMulti[K any](c *Client, spec *Spec, ids []K, keys []string, err error, opts ...LockOption) EntityMulti[K] {
	m := EntityMulti[K]{spec: spec, ids: slices.Clone(ids), keys: keys, err: err}
	switch {
	case err != nil:
	case len(keys) != len(ids):
		m.err = &KeyError{Name: spec.Name, Reason: fmt.Sprintf("is not one for each: %d for %d", len(keys), len(ids))}
	case len(keys) == 0:
		m.err = &KeyError{Name: spec.Name, Reason: "is missing: there is nothing to lock"}
	default:
		m.opts = append(spec.options(), opts...)
		once := slices.Compact(slices.Sorted(slices.Values(keys)))
		m.lock, m.err = together(len(once), func(i int) (Locker, error) { return c.Mutex(once[i]), nil })
	}
	return m
}

// Keys returns the keys in Redis, in the order in which the entities were named, or why there are none: a [KeyError].
func (m EntityMulti[K]) Keys() ([]string, error) {
	if m.err != nil {
		return nil, m.err
	}
	return slices.Clone(m.keys), nil
}

// Lock is [MultiLock.Lock], with the wait, lease and watchdog that the annotation says unless opts say otherwise.
func (m EntityMulti[K]) Lock(ctx context.Context, opts ...LockOption) (HeldMulti[K], error) {
	if m.err != nil {
		return HeldMulti[K]{}, m.err
	}
	lease, err := m.lock.Lock(ctx, append(slices.Clip(m.opts), opts...)...)
	if err != nil {
		return HeldMulti[K]{}, m.spec.explain(err)
	}
	parts := map[string]*Lease{lease.Key(): lease}
	for _, part := range lease.Parts() {
		parts[part.Key()] = part
	}
	held := HeldMulti[K]{lease, m.ids, make([]*Lease, len(m.ids))}
	for i, key := range m.keys {
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
