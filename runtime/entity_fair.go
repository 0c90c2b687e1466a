package lockrt

import "context"

// An EntityFairMutex is the [FairMutex] of one entity, typed by the entity's key, as an [EntityMutex] is its Mutex.
type EntityFairMutex[K any] struct {
	exclusive[K, *FairMutex]
}

// ForFair returns the fair mutex of the entity id, whose key is key, or could not be built because of err. What opts say
// counts more than spec.
func ForFair[K any](c *Client, spec *Spec, id K, key string, err error, opts ...LockOption) EntityFairMutex[K] {
	return EntityFairMutex[K]{exclusive[K, *FairMutex]{entity[K, *FairMutex]{c.FairMutex(key, append(spec.options(), opts...)...), spec, id, err}}}
}

// Inspect is [FairMutex.Inspect].
func (m EntityFairMutex[K]) Inspect(ctx context.Context) (Standing, error) {
	return of(m.entity, func() (Standing, error) { return m.is.Inspect(ctx) })
}
