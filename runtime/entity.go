package runtime

import "context"

// An EntityMutex is the [Mutex] of one entity, typed by the entity's key: generated code returns
// it from locks.Order(id). It cannot be mistaken for the lock of another kind of entity.
type EntityMutex[K any] struct {
	mutex *Mutex
	spec  *Spec
	id    K
	err   error // why there is no key
}

// Held is the proof that the lock of one entity is held. A function that takes a
// Held[OrderID] can only be called by a holder of an order's lock. Its methods are those of
// [Lease]; the zero value proves nothing, and its Err says so.
type Held[K any] struct {
	*Lease
	id K
}

// ID returns the key of the entity that is held.
func (h Held[K]) ID() K { return h.id }

// Err is [Lease.Err]; of the zero Held it is [ErrReleased].
func (h Held[K]) Err() error {
	if h.Lease == nil {
		return ErrReleased
	}
	return h.Lease.Err()
}

// For returns the mutex of the entity id, whose key is key, or could not be built because of err.
// What opts say counts more than spec.
func For[K any](c *Client, spec *Spec, id K, key string, err error, opts ...LockOption) EntityMutex[K] {
	return EntityMutex[K]{mutex: c.Mutex(key, append(spec.options(), opts...)...), spec: spec, id: id, err: err}
}

// Key returns the key in Redis, or why there is none: a [KeyError].
func (m EntityMutex[K]) Key() (string, error) {
	if m.err != nil {
		return "", m.err
	}
	return m.mutex.Key(), nil
}

// Lock is [Mutex.Lock], with the wait, lease and watchdog that the annotation says unless opts say
// otherwise.
func (m EntityMutex[K]) Lock(ctx context.Context, opts ...LockOption) (Held[K], error) {
	return m.held(func() (*Lease, error) { return m.mutex.Lock(ctx, opts...) })
}

// TryLock is [Mutex.TryLock].
func (m EntityMutex[K]) TryLock(ctx context.Context, opts ...LockOption) (Held[K], error) {
	return m.held(func() (*Lease, error) { return m.mutex.TryLock(ctx, opts...) })
}

// Do is [Mutex.Do], with the proof for fn.
func (m EntityMutex[K]) Do(ctx context.Context, fn func(ctx context.Context, held Held[K]) error, opts ...LockOption) error {
	held, err := m.Lock(ctx, opts...)
	if err != nil {
		return err
	}
	return held.do(ctx, func(ctx context.Context) error { return fn(ctx, held) })
}

// ForceUnlock is [Mutex.ForceUnlock].
func (m EntityMutex[K]) ForceUnlock(ctx context.Context) (bool, error) {
	if m.err != nil {
		return false, m.err
	}
	return m.mutex.ForceUnlock(ctx)
}

// Inspect is [Mutex.Inspect].
func (m EntityMutex[K]) Inspect(ctx context.Context) (Standing, error) {
	if m.err != nil {
		return Standing{}, m.err
	}
	return m.mutex.Inspect(ctx)
}

func (m EntityMutex[K]) held(lock func() (*Lease, error)) (Held[K], error) {
	if m.err != nil {
		return Held[K]{}, m.err
	}
	lease, err := lock()
	if err != nil {
		return Held[K]{}, m.spec.explain(err)
	}
	return Held[K]{lease, m.id}, nil
}
