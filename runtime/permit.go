package lockrt

import (
	"context"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/locks"
)

// A PermitSemaphore grants permits that are leases: the Client renews a permit while its holder lives; after a crash
// the permit becomes free; a loss ends its context. Goroutines of one process are served in the order of their calls; processes
// race. Redisson's RPermitExpirableSemaphore, which does not renew permits. Permits expire by the clock of the server, but
// Java programs use their own: a Java clock that is ahead by two thirds of the watchdog time reclaims held permits.
type PermitSemaphore locks.PermitSemaphore

// PermitSemaphore returns the semaphore named key. The first Acquire creates it with that many permits; with 0 only SetPermits,
// TrySetPermits and Resize do. Redisson's getPermitExpirableSemaphore.
func (c *Client) PermitSemaphore(key string, permits int, opts ...LockOption) *PermitSemaphore {
	return (*PermitSemaphore)((*locks.Client)(c).PermitSemaphore(key, permits, optionsOf(opts)...))
}

// Key returns the name of the semaphore, its key in Redis.
func (s *PermitSemaphore) Key() string { return (*locks.PermitSemaphore)(s).Key() }

// Acquire waits for one permit. Redisson's acquire, tryAcquire(waitTime, ...).
func (s *PermitSemaphore) Acquire(ctx context.Context, opts ...LockOption) (*Permit, error) {
	permit, err := (*locks.PermitSemaphore)(s).Acquire(ctx, optionsOf(opts)...)
	return (*Permit)(permit), err
}

// TryAcquire tries once; waiting calls go first. Redisson's tryAcquire.
func (s *PermitSemaphore) TryAcquire(ctx context.Context, opts ...LockOption) (*Permit, error) {
	permit, err := (*locks.PermitSemaphore)(s).TryAcquire(ctx, optionsOf(opts)...)
	return (*Permit)(permit), err
}

// AcquireN waits for n permits at once, at least 1 and at most 10,000, even if there are fewer in all. They are renewed, lost and released together.
// Redisson's acquire(permits).
func (s *PermitSemaphore) AcquireN(ctx context.Context, n int, opts ...LockOption) (*Permit, error) {
	permit, err := (*locks.PermitSemaphore)(s).AcquireN(ctx, n, optionsOf(opts)...)
	return (*Permit)(permit), err
}

// TryAcquireN is TryAcquire of n permits. Redisson's tryAcquire(permits).
func (s *PermitSemaphore) TryAcquireN(ctx context.Context, n int, opts ...LockOption) (*Permit, error) {
	permit, err := (*locks.PermitSemaphore)(s).TryAcquireN(ctx, n, optionsOf(opts)...)
	return (*Permit)(permit), err
}

// Do is [Mutex.Do] with one permit.
func (s *PermitSemaphore) Do(ctx context.Context, fn func(ctx context.Context, permit *Permit) error, opts ...LockOption) error {
	if fn == nil {
		return core.NoFunction("do", s.Key())
	}
	permit, err := s.Acquire(ctx, opts...)
	if err != nil {
		return err
	}
	return permit.do(ctx, func(ctx context.Context) error { return fn(ctx, permit) })
}

// Release releases permits by their ids, of any process: all, or none with [ErrLost] if one is gone. A [Permit] of this
// Client keeps its other ids, and is lost without any: before the request is sent if these are all of its ids, else when Redis has
// released them, or has not answered in time. One of another process is lost; its other ids stay until
// they expire. The context is that of [Lease.Unlock]. Redisson's release.
func (s *PermitSemaphore) Release(ctx context.Context, ids ...string) error {
	return (*locks.PermitSemaphore)(s).Release(ctx, ids...)
}

// UpdateLease makes the permit with that id end d from now, at least 100ms, sooner or later, or never with [UntilDone], and
// reports whether there is one. Its [Permit] here is trusted for no longer from the call on; a fixed one with only this id is
// trusted for longer after the confirmation. Redisson's updateLeaseTime.
func (s *PermitSemaphore) UpdateLease(ctx context.Context, id string, d time.Duration) (bool, error) {
	return (*locks.PermitSemaphore)(s).UpdateLease(ctx, id, d)
}

// TTL asks Redis how long the permit with that id lasts, at most as long as the semaphore, negative for ever, or [ErrLost]. A fixed [Permit] of this Client with only this
// id is trusted for that time from then on. Redisson's getLeaseTime.
func (s *PermitSemaphore) TTL(ctx context.Context, id string) (time.Duration, error) {
	return (*locks.PermitSemaphore)(s).TTL(ctx, id)
}

// Available asks Redis how many permits are free: if the semaphore does not exist, as many as Acquire would create; negative if more are
// taken than there are in all. Redisson's availablePermits.
func (s *PermitSemaphore) Available(ctx context.Context) (int, error) {
	return (*locks.PermitSemaphore)(s).Available(ctx)
}

// Acquired asks Redis how many permits are taken. Redisson's acquiredPermits.
func (s *PermitSemaphore) Acquired(ctx context.Context) (int, error) {
	return (*locks.PermitSemaphore)(s).Acquired(ctx)
}

// Total asks Redis how many permits there are in all. Redisson's getPermits.
func (s *PermitSemaphore) Total(ctx context.Context) (int, error) {
	return (*locks.PermitSemaphore)(s).Total(ctx)
}

// TrySetPermits creates the semaphore with n permits for ttl, at least 100ms, or 0 for ever, and reports false if it exists. Permits that are still
// taken, since its key alone was deleted, are among the n: then 0 is for as long as they were to last.
// Taken permits end with it, also those that are renewed or extended: each [Permit] of this library is lost before.
// Redisson's trySetPermits.
func (s *PermitSemaphore) TrySetPermits(ctx context.Context, n int, ttl time.Duration) (bool, error) {
	return (*locks.PermitSemaphore)(s).TrySetPermits(ctx, n, ttl)
}

// SetPermits sets how many permits there are in all. If more are taken, none is free until enough are released. Redisson's setPermits.
func (s *PermitSemaphore) SetPermits(ctx context.Context, n int) error {
	return (*locks.PermitSemaphore)(s).SetPermits(ctx, n)
}

// Resize adds delta permits and reports whether the semaphore existed; a new semaphore has delta permits. Redisson's addPermits.
func (s *PermitSemaphore) Resize(ctx context.Context, delta int) (bool, error) {
	return (*locks.PermitSemaphore)(s).Resize(ctx, delta)
}

// Inspect asks Redis for the permits in all and taken, without expired ones, and adds those of this Client. Redisson's getPermits,
// acquiredPermits.
func (s *PermitSemaphore) Inspect(ctx context.Context) (PermitStanding, error) {
	return (*locks.PermitSemaphore)(s).Inspect(ctx)
}

// A Permit is one or more permits of a [PermitSemaphore], granted to one call. It ends once: by Release, by loss, or by closing the
// [Client].
type Permit locks.Permit

// Key returns the name of the semaphore.
func (p *Permit) Key() string { return (*locks.Permit)(p).Key() }

// Context is [Lease.Context]. Each Acquire under it takes a permit of its own.
func (p *Permit) Context() context.Context { return (*locks.Permit)(p).Context() }

// Err is [Lease.Err].
func (p *Permit) Err() error { return (*locks.Permit)(p).Err() }

// Until is [Lease.Until].
func (p *Permit) Until() time.Time { return (*locks.Permit)(p).Until() }

// Extend is [Lease.Extend].
func (p *Permit) Extend(ctx context.Context, d time.Duration) error {
	return (*locks.Permit)(p).Extend(ctx, d)
}

// PermitID returns the id of the first permit in Redis, 32 hexadecimal digits as in Redisson. After the end it returns the
// last one that the Permit had.
func (p *Permit) PermitID() string { return (*locks.Permit)(p).PermitID() }

// PermitIDs returns the ids of all permits that it still has, or had at its end.
func (p *Permit) PermitIDs() []string { return (*locks.Permit)(p).PermitIDs() }

// Release releases the permit. Its context and errors are those of [Lease.Unlock]; Release also releases the rest of a lost
// permit. The Client goes on trying for a minute. Redisson's release.
func (p *Permit) Release(ctx context.Context) error { return (*locks.Permit)(p).Release(ctx) }

// do calls fn under p, and releases it, also if fn panics.
func (p *Permit) do(ctx context.Context, fn func(ctx context.Context) error) error {
	return (*locks.Permit)(p).Do(ctx, fn)
}

// A permitLocker is a [Locker] for locks that consist of several.
type permitLocker struct{ *PermitSemaphore }

func (s permitLocker) Lock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	lease, err := locks.PermitLocker{PermitSemaphore: (*locks.PermitSemaphore)(s.PermitSemaphore)}.Lock(ctx, optionsOf(opts)...)
	return (*Lease)(lease), err
}

func (s permitLocker) TryLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	lease, err := locks.PermitLocker{PermitSemaphore: (*locks.PermitSemaphore)(s.PermitSemaphore)}.TryLock(ctx, optionsOf(opts)...)
	return (*Lease)(lease), err
}
