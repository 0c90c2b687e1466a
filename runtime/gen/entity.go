package gen

import (
	"fmt"
	"slices"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/internal/bridge"
)

// For returns the mutex of the entity id, whose key is key, or could not be built because of err.
// opts override spec.
func For[K any](c *lockrt.Client, spec *Spec, id K, key string, err error, opts ...lockrt.LockOption) lockrt.EntityMutex[K] {
	var m lockrt.EntityMutex[K]
	bridge.Bind(&m.Entity, entity(spec, c.Mutex(key, append(spec.options(), opts...)...), id, err))
	return m
}

// ForFair returns the fair mutex of the entity id, whose key is key, or could not be built because of err. opts
// override spec.
func ForFair[K any](c *lockrt.Client, spec *Spec, id K, key string, err error, opts ...lockrt.LockOption) lockrt.EntityFairMutex[K] {
	var m lockrt.EntityFairMutex[K]
	bridge.Bind(&m.Entity, entity(spec, c.FairMutex(key, append(spec.options(), opts...)...), id, err))
	return m
}

// ForRW returns the read-write lock of the entity id, whose key is key, or could not be built because of err. opts
// override spec. A spec with Fence is for writers.
func ForRW[K any](c *lockrt.Client, spec *Spec, id K, key string, err error, opts ...lockrt.LockOption) lockrt.EntityRWMutex[K] {
	var m lockrt.EntityRWMutex[K]
	bridge.Bind(&m.Entity, entity(spec, c.RWMutex(key, append(spec.options(), opts...)...), id, err))
	return m
}

// ForPermits returns the semaphore of the entity id, whose key is key, or could not be built because of err. The first
// Acquire creates it with that many permits. opts override spec.
func ForPermits[K any](c *lockrt.Client, spec *Spec, permits int, id K, key string, err error, opts ...lockrt.LockOption) lockrt.EntitySemaphore[K] {
	var s lockrt.EntitySemaphore[K]
	bridge.Bind(&s.Entity, entity(spec, c.PermitSemaphore(key, permits, append(spec.options(), opts...)...), id, err))
	return s
}

// ForMulti returns the mutexes of the entities ids, each of which has the key of its place in keys. With an err, the
// keys could not be built. opts override spec.
func ForMulti[K any](c *lockrt.Client, spec *Spec, ids []K, keys []string, err error, opts ...lockrt.LockOption) lockrt.EntityMulti[K] {
	var lock lockrt.Locker
	switch {
	case err != nil:
	case len(keys) != len(ids):
		err = &lockrt.KeyError{Name: spec.Name, Reason: fmt.Sprintf("is not one for each: %d for %d", len(keys), len(ids))}
	case len(keys) == 0:
		err = &lockrt.KeyError{Name: spec.Name, Reason: "is missing: there is nothing to lock"}
	default:
		all := append(spec.options(), opts...)
		once := slices.Compact(slices.Sorted(slices.Values(keys)))
		lock, err = together(len(once), func(i int) (lockrt.Locker, error) { return c.Mutex(once[i], all...), nil })
	}
	p := entity(spec, lock, slices.Clone(ids), err)
	p.Keys = keys
	var m lockrt.EntityMulti[K]
	bridge.Bind(&m.Entity, p)
	return m
}

func entity[K, P any](spec *Spec, lock P, id K, err error) bridge.Parts[K, P] {
	return bridge.Parts[K, P]{Lock: lock, Name: spec.Name, ID: id, Fence: spec.Fence, Err: err}
}
