package lockrt

import (
	"context"

	"github.com/lockgen/lockgen/runtime/internal/bridge"
)

// An EntitySemaphore is the [PermitSemaphore] of one entity, typed by the entity's key: that many may work
// on it at once. It cannot be mistaken for the semaphore of another kind of entity.
type EntitySemaphore[K any] struct {
	entity[K, *PermitSemaphore]
}

// HeldPermit is the proof that a permit of one entity is held. Its methods are those of [Permit]; the
// zero value proves nothing, and its Err says so.
type HeldPermit[K any] struct {
	*Permit
	id K
}

// ID returns the key of the entity that the permit is of. That of the permit is [Permit.ID].
func (h HeldPermit[K]) ID() K { return h.id }

// Err is [Permit.Err]; of the zero HeldPermit it is [ErrReleased].
func (h HeldPermit[K]) Err() error {
	if h.Permit == nil {
		return ErrReleased
	}
	return h.Permit.Err()
}

// Acquire is [PermitSemaphore.Acquire], with the wait, lease and watchdog that the annotation says unless
// opts say otherwise.
func (s EntitySemaphore[K]) Acquire(ctx context.Context, opts ...LockOption) (HeldPermit[K], error) {
	return s.held(func(lock *PermitSemaphore) (*Permit, error) { return lock.Acquire(ctx, opts...) })
}

// TryAcquire is [PermitSemaphore.TryAcquire].
func (s EntitySemaphore[K]) TryAcquire(ctx context.Context, opts ...LockOption) (HeldPermit[K], error) {
	return s.held(func(lock *PermitSemaphore) (*Permit, error) { return lock.TryAcquire(ctx, opts...) })
}

// Do is [PermitSemaphore.Do], with the proof for fn.
func (s EntitySemaphore[K]) Do(ctx context.Context, fn func(ctx context.Context, held HeldPermit[K]) error, opts ...LockOption) (err error) {
	held, err := s.Acquire(ctx, opts...)
	if err != nil {
		return err
	}
	defer func() { err = join(err, held.Release(ctx)) }()
	return fn(held.Context(), held)
}

// Available is [PermitSemaphore.Available].
func (s EntitySemaphore[K]) Available(ctx context.Context) (int, error) {
	return of(&s.entity, func(lock *PermitSemaphore) (int, error) { return lock.Available(ctx) })
}

func (s EntitySemaphore[K]) held(acquire func(lock *PermitSemaphore) (*Permit, error)) (HeldPermit[K], error) {
	permit, err := of(&s.entity, acquire)
	if err != nil {
		return HeldPermit[K]{}, err
	}
	return HeldPermit[K]{permit, bridge.Of(&s.Entity).ID}, nil
}
