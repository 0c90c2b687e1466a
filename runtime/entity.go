package lockrt

import (
	"context"
	"fmt"

	"github.com/lockgen/lockgen/runtime/internal/bridge"
	"github.com/lockgen/lockgen/runtime/internal/core"
)

// An EntityMutex is the [Mutex] of one entity, typed by its key: the lock of another kind of entity is another type. locks.Order(id) makes
// it.
type EntityMutex[K any] struct {
	exclusive[K, *Mutex]
}

// Inspect is [Mutex.Inspect].
func (m EntityMutex[K]) Inspect(ctx context.Context) (Standing, error) {
	return of(&m.entity, func(lock *Mutex) (Standing, error) { return lock.Inspect(ctx) })
}

// An entity is the common part of the primitives of entities.
type entity[K any, P interface{ Key() string }] struct {
	bridge.Entity[K, P]
}

// errNoEntity is the error of the zero value, which locks nothing.
var errNoEntity = fmt.Errorf("lockgen: %w: there is no entity", ErrBadOption)

// parts returns the parts of e, or why there is nothing to lock.
func (e *entity[K, P]) parts() (*bridge.Parts[K, P], error) {
	p := bridge.Of(&e.Entity)
	if p.Err == nil && any(p.Lock) == any(*new(P)) {
		return p, errNoEntity
	}
	return p, p.Err
}

// Key returns the key in Redis, or a [KeyError].
func (e entity[K, P]) Key() (string, error) {
	p, err := e.parts()
	if err != nil {
		return "", err
	}
	return p.Lock.Key(), nil
}

// function returns why there is no function to call under the lock of e, or nil.
func (e *entity[K, P]) function(missing bool) error {
	if !missing {
		return nil
	}
	_, err := of(e, func(lock P) (struct{}, error) { return struct{}{}, core.NoFunction("do", lock.Key()) })
	return err
}

// of returns the result of a question to the lock of e, unless it has no key.
func of[K, T any, P interface{ Key() string }](e *entity[K, P], ask func(lock P) (T, error)) (got T, err error) {
	p, err := e.parts()
	if err != nil {
		return got, err
	}
	if got, err = ask(p.Lock); err != nil {
		err = explain(p.Name, err)
	}
	return got, err
}

// An exclusive is the common part of the locks of entities.
type exclusive[K any, L interface {
	Locker
	ForceUnlock(ctx context.Context) (bool, error)
}] struct {
	entity[K, L]
}

// Lock waits for the lock, with the options of the annotation and then opts.
func (m exclusive[K, L]) Lock(ctx context.Context, opts ...LockOption) (EntityLease[Held[K]], error) {
	lease, err := of(&m.entity, func(lock L) (*Lease, error) { return lock.Lock(ctx, opts...) })
	return m.held(lease), err
}

// TryLock tries once.
func (m exclusive[K, L]) TryLock(ctx context.Context, opts ...LockOption) (EntityLease[Held[K]], error) {
	lease, err := of(&m.entity, func(lock L) (*Lease, error) { return lock.TryLock(ctx, opts...) })
	return m.held(lease), err
}

// Do is [Mutex.Do] with the proof for fn.
func (m exclusive[K, L]) Do(ctx context.Context, fn func(ctx context.Context, held Held[K]) error, opts ...LockOption) error {
	if err := m.function(fn == nil); err != nil {
		return err
	}
	lease, err := m.Lock(ctx, opts...)
	if err != nil {
		return err
	}
	return lease.do(ctx, func(ctx context.Context) error { return fn(ctx, lease.Held()) })
}

// ForceUnlock is that of the lock; of an RWMutex, that of the writer.
func (m exclusive[K, L]) ForceUnlock(ctx context.Context) (bool, error) {
	return of(&m.entity, func(lock L) (bool, error) { return lock.ForceUnlock(ctx) })
}

// held adds the proof to a lease.
func (m exclusive[K, L]) held(lease *Lease) EntityLease[Held[K]] {
	if lease == nil {
		return EntityLease[Held[K]]{}
	}
	return EntityLease[Held[K]]{lease, Held[K]{proofOf(lease), bridge.Of(&m.Entity).ID}}
}
