package runtime

import "context"

// An EntityFairMutex is the [FairMutex] of one entity, typed by the entity's key, as an [EntityMutex] is its Mutex.
type EntityFairMutex[K any] struct {
	mutex *FairMutex
	spec  *Spec
	id    K
	err   error // why there is no key
}

// ForFair returns the fair mutex of the entity id, whose key is key, or could not be built because of err. What opts say
// counts more than spec.
func ForFair[K any](c *Client, spec *Spec, id K, key string, err error, opts ...LockOption) EntityFairMutex[K] {
	return EntityFairMutex[K]{mutex: c.FairMutex(key, append(spec.options(), opts...)...), spec: spec, id: id, err: err}
}

// Key returns the key in Redis, or why there is none: a [KeyError].
func (m EntityFairMutex[K]) Key() (string, error) {
	if m.err != nil {
		return "", m.err
	}
	return m.mutex.Key(), nil
}

// Lock is [FairMutex.Lock], with the wait, lease and watchdog that the annotation says unless opts say otherwise.
func (m EntityFairMutex[K]) Lock(ctx context.Context, opts ...LockOption) (Held[K], error) {
	return m.held(func() (*Lease, error) { return m.mutex.Lock(ctx, opts...) })
}

// TryLock is [FairMutex.TryLock].
func (m EntityFairMutex[K]) TryLock(ctx context.Context, opts ...LockOption) (Held[K], error) {
	return m.held(func() (*Lease, error) { return m.mutex.TryLock(ctx, opts...) })
}

// Do is [FairMutex.Do], with the proof for fn.
func (m EntityFairMutex[K]) Do(ctx context.Context, fn func(ctx context.Context, held Held[K]) error, opts ...LockOption) error {
	held, err := m.Lock(ctx, opts...)
	if err != nil {
		return err
	}
	return held.do(ctx, func(ctx context.Context) error { return fn(ctx, held) })
}

// ForceUnlock is [FairMutex.ForceUnlock].
func (m EntityFairMutex[K]) ForceUnlock(ctx context.Context) (bool, error) {
	if m.err != nil {
		return false, m.err
	}
	return m.mutex.ForceUnlock(ctx)
}

// Inspect is [FairMutex.Inspect].
func (m EntityFairMutex[K]) Inspect(ctx context.Context) (Standing, error) {
	if m.err != nil {
		return Standing{}, m.err
	}
	return m.mutex.Inspect(ctx)
}

func (m EntityFairMutex[K]) held(lock func() (*Lease, error)) (Held[K], error) {
	if m.err != nil {
		return Held[K]{}, m.err
	}
	lease, err := lock()
	if err != nil {
		return Held[K]{}, m.spec.explain(err)
	}
	return Held[K]{lease, m.id}, nil
}
