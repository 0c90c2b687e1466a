package lockrt

import "context"

// An EntityFairMutex is the [FairMutex] of one entity; see [EntityMutex].
type EntityFairMutex[K any] struct {
	exclusive[K, *FairMutex]
}

// Inspect is [FairMutex.Inspect].
func (m EntityFairMutex[K]) Inspect(ctx context.Context) (Standing, error) {
	return of(&m.entity, func(lock *FairMutex) (Standing, error) { return lock.Inspect(ctx) })
}
