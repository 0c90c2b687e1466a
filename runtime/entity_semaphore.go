package lockrt

import (
	"context"

	"github.com/lockgen/lockgen/runtime/internal/bridge"
	"github.com/lockgen/lockgen/runtime/internal/locks"
)

// An EntitySemaphore is the [PermitSemaphore] of one entity, typed by its key.
type EntitySemaphore[K any] struct {
	entity[K, *PermitSemaphore]
}

// Acquire takes one permit, with the options of the annotation and then opts.
func (s EntitySemaphore[K]) Acquire(ctx context.Context, opts ...LockOption) (EntityPermit[K], error) {
	return s.held(func(lock *PermitSemaphore) (*Permit, error) { return lock.Acquire(ctx, opts...) })
}

// TryAcquire is [PermitSemaphore.TryAcquire].
func (s EntitySemaphore[K]) TryAcquire(ctx context.Context, opts ...LockOption) (EntityPermit[K], error) {
	return s.held(func(lock *PermitSemaphore) (*Permit, error) { return lock.TryAcquire(ctx, opts...) })
}

// Do is [PermitSemaphore.Do] with the proof for fn.
func (s EntitySemaphore[K]) Do(ctx context.Context, fn func(ctx context.Context, held HeldPermit[K]) error, opts ...LockOption) error {
	if err := s.function(fn == nil); err != nil {
		return err
	}
	permit, err := s.Acquire(ctx, opts...)
	if err != nil {
		return err
	}
	return permit.do(ctx, func(ctx context.Context) error { return fn(ctx, permit.Held()) })
}

// Available is [PermitSemaphore.Available].
func (s EntitySemaphore[K]) Available(ctx context.Context) (int, error) {
	return of(&s.entity, func(lock *PermitSemaphore) (int, error) { return lock.Available(ctx) })
}

func (s EntitySemaphore[K]) held(acquire func(lock *PermitSemaphore) (*Permit, error)) (EntityPermit[K], error) {
	permit, err := of(&s.entity, acquire)
	if err != nil {
		return EntityPermit[K]{}, err
	}
	return EntityPermit[K]{permit, HeldPermit[K]{proof{CurrentLease((*locks.Permit)(permit).Current())}, bridge.Of(&s.Entity).ID}}, nil
}
