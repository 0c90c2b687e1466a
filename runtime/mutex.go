package lockrt

import (
	"context"

	"github.com/lockgen/lockgen/runtime/internal/locks"
)

// A Mutex has one holder at a time, among this process and all others, Java programs with Redisson included. Redisson's
// RLock.
//
// Goroutines of one process are served in the order of their calls. While other processes wait, [Options.Cohort] goroutines at most have it in a
// row, and a row ends after 10ms, or ten response times of Redis if that is longer. Processes are served in the order in which they began to
// wait. Java programs race for the key every other time it is released, with a head start of 5ms, which doubles up to 50ms each time they are
// too slow.
type Mutex locks.Mutex

// Key returns the name of the mutex, its key in Redis.
func (m *Mutex) Key() string { return (*locks.Mutex)(m).Key() }

// Lock waits for the key. Redisson's lock and tryLock(waitTime, ...).
func (m *Mutex) Lock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	lease, err := (*locks.Mutex)(m).Lock(ctx, optionsOf(opts)...)
	return (*Lease)(lease), err
}

// TryLock tries once. It is refused without a round trip if this process holds the key, or waits for it and Redis has just refused it.
// Redisson's tryLock.
func (m *Mutex) TryLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	lease, err := (*locks.Mutex)(m).TryLock(ctx, optionsOf(opts)...)
	return (*Lease)(lease), err
}

// Do locks, calls fn with the lease's context and unlocks, also if fn panics. Its error joins that of fn, the loss of the lease, also if fn
// returned nil, and a failure to unlock. After a loss it matches [context.Canceled] or [context.DeadlineExceeded] only if ctx has ended,
// too.
func (m *Mutex) Do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error, opts ...LockOption) error {
	return do(ctx, m, fn, opts)
}

// ForceUnlock takes the key from its holder, whose lease is lost at once, and reports whether there was one. Redisson's forceUnlock.
func (m *Mutex) ForceUnlock(ctx context.Context) (bool, error) {
	return (*locks.Mutex)(m).ForceUnlock(ctx)
}

// Inspect asks Redis for the holder of the key and the number of waiters. Redisson's isLocked.
func (m *Mutex) Inspect(ctx context.Context) (Standing, error) { return (*locks.Mutex)(m).Inspect(ctx) }

// Mutex returns the mutex named key. Redisson's getLock.
func (c *Client) Mutex(key string, opts ...LockOption) *Mutex {
	return (*Mutex)((*locks.Client)(c).Mutex(key, optionsOf(opts)...))
}
