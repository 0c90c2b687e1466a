package lockrt

import (
	"context"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/locks"
)

// A Semaphore counts permits, not holders: any process may release permits of any other, and a crashed process keeps
// its permits. Use a [PermitSemaphore] unless you want that. Goroutines of one process are served in the order of their
// calls; processes race. Redisson's RSemaphore.
type Semaphore locks.Semaphore

// Semaphore returns the semaphore named key. The first Acquire creates it with that many permits; with 0 only TrySetPermits, Release
// and Resize do. Redisson's getSemaphore.
func (c *Client) Semaphore(key string, permits int, opts ...LockOption) *Semaphore {
	return (*Semaphore)((*locks.Client)(c).Semaphore(key, permits, optionsOf(opts)...))
}

// Key returns the name of the semaphore, its key in Redis.
func (s *Semaphore) Key() string { return (*locks.Semaphore)(s).Key() }

// Acquire waits for n permits at once, even if there are fewer in all. 0 does nothing, a negative n is [ErrBadOption].
// Redisson's acquire and tryAcquire(permits, waitTime).
func (s *Semaphore) Acquire(ctx context.Context, n int, opts ...LockOption) error {
	return (*locks.Semaphore)(s).Acquire(ctx, n, optionsOf(opts)...)
}

// TryAcquire tries once; waiting calls go first. Redisson's tryAcquire.
func (s *Semaphore) TryAcquire(ctx context.Context, n int, opts ...LockOption) error {
	return (*locks.Semaphore)(s).TryAcquire(ctx, n, optionsOf(opts)...)
}

// Do acquires n permits, calls fn with ctx and releases them, also if fn panics. Its error joins that of fn and a failure to release.
func (s *Semaphore) Do(ctx context.Context, n int, fn func(ctx context.Context) error, opts ...LockOption) (err error) {
	return (*locks.Semaphore)(s).Do(ctx, n, fn, optionsOf(opts)...)
}

// Release releases n permits of any holder; 0 does nothing. Its context is that of [Lease.Unlock]. The Client tries for a minute:
// after an error, another call could release twice. If the semaphore does not exist, Release changes nothing; only with 0
// permits in [Client.Semaphore] it creates one with n permits, as in Redisson. Redisson's release.
func (s *Semaphore) Release(ctx context.Context, n int) error {
	return (*locks.Semaphore)(s).Release(ctx, n)
}

// ReleaseIfExists is Release that creates nothing, and reports whether the semaphore exists. Redisson's releaseIfExists.
func (s *Semaphore) ReleaseIfExists(ctx context.Context, n int) (bool, error) {
	return (*locks.Semaphore)(s).ReleaseIfExists(ctx, n)
}

// Resize adds delta permits for good and reports whether the semaphore existed; a new semaphore has delta permits. The number may become
// negative. Redisson's addPermits, which also takes away a time to live.
func (s *Semaphore) Resize(ctx context.Context, delta int) (bool, error) {
	return (*locks.Semaphore)(s).Resize(ctx, delta)
}

// TrySetPermits creates the semaphore with n permits for ttl, at least 100ms, or 0 for ever, and reports false if it exists.
// Redisson's trySetPermits.
func (s *Semaphore) TrySetPermits(ctx context.Context, n int, ttl time.Duration) (bool, error) {
	return (*locks.Semaphore)(s).TrySetPermits(ctx, n, ttl)
}

// Drain takes all free permits and returns how many. Redisson's drainPermits, which also raises a negative number to 0 and takes away a
// time to live. If the call ends without an answer, the Client gives back what it has taken or takes later, unless another
// Drain has begun since.
func (s *Semaphore) Drain(ctx context.Context) (int, error) { return (*locks.Semaphore)(s).Drain(ctx) }

// Available asks Redis how many permits are free: if the semaphore does not exist, as many as Acquire would create. The number is
// negative after Resize took more than there were. Redisson's availablePermits.
func (s *Semaphore) Available(ctx context.Context) (int, error) {
	return (*locks.Semaphore)(s).Available(ctx)
}
