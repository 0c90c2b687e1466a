package lockrt

import (
	"context"

	"github.com/lockgen/lockgen/runtime/internal/locks"
)

// An RWMutex is held by one writer or by any number of readers, in this process and in all others, Java programs too. Redisson's
// RReadWriteLock.
//
// Readers of one process with the same watchdog time, all with or all without [WithBackoff], and without [WithLease] and [WithMaxHold], share
// one hold in Redis: joining it costs no round trip. A hold that a reader has extended by [Lease.Extend] gets no more readers. Processes wait in two queues, of readers and of writers, which take turns; new
// readers do not pass a waiting writer. So, as with [sync.RWMutex], a reader must not wait for another reader, unless
// the other reads under its context or owner. A dead waiting process delays the others by 100ms, a dead writer by 2s:
// see docs/details.md.
//
// A writer may write again and read, a reader may read again, under the context of the lease or as the same owner. A reader that asks to
// write fails with [ErrUpgrade]. To go on reading after writing, take both under an owner:
//
//	ctx = lockrt.WithOwner(ctx, lockrt.NewOwner())
//	w, err := m.Lock(ctx)
//	r, err := m.RLock(ctx)
//	err = w.Unlock(ctx) // r is still held, and other readers may come
type RWMutex locks.RWMutex

// RWMutex returns the read-write lock named key. Redisson's getReadWriteLock.
func (c *Client) RWMutex(key string, opts ...LockOption) *RWMutex {
	return (*RWMutex)((*locks.Client)(c).RWMutex(key, optionsOf(opts)...))
}

// Key returns the name of the lock, its key in Redis.
func (m *RWMutex) Key() string { return (*locks.RWMutex)(m).Key() }

// Lock waits for the key, for writing. Redisson's writeLock().lock.
func (m *RWMutex) Lock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	lease, err := (*locks.RWMutex)(m).Lock(ctx, optionsOf(opts)...)
	return (*Lease)(lease), err
}

// TryLock tries once, for writing. It is refused without a round trip if this process holds the key or waits, and in the turn of readers or
// a Java program. Redisson's writeLock().tryLock.
func (m *RWMutex) TryLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	lease, err := (*locks.RWMutex)(m).TryLock(ctx, optionsOf(opts)...)
	return (*Lease)(lease), err
}

// RLock waits for the key, for reading. Redisson's readLock().lock.
func (m *RWMutex) RLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	lease, err := (*locks.RWMutex)(m).RLock(ctx, optionsOf(opts)...)
	return (*Lease)(lease), err
}

// TryRLock tries once, for reading; it fails if there is a writer, or a waiter that wants to write. Redisson's
// readLock().tryLock.
func (m *RWMutex) TryRLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	lease, err := (*locks.RWMutex)(m).TryRLock(ctx, optionsOf(opts)...)
	return (*Lease)(lease), err
}

// Do is [Mutex.Do], for writing.
func (m *RWMutex) Do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error, opts ...LockOption) error {
	return do(ctx, m, fn, opts)
}

// RDo is [Mutex.Do], for reading.
func (m *RWMutex) RDo(ctx context.Context, fn func(ctx context.Context, lease *Lease) error, opts ...LockOption) error {
	return do(ctx, m.RLocker(), fn, opts)
}

// RLocker returns a [Locker] that locks for reading, with many holders.
func (m *RWMutex) RLocker() Locker { return rLocker{m} }

type rLocker struct{ m *RWMutex }

func (r rLocker) Lock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return r.m.RLock(ctx, opts...)
}

func (r rLocker) TryLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return r.m.TryRLock(ctx, opts...)
}

func (r rLocker) Key() string { return r.m.Key() }

// ForceUnlock takes the key from the writer, including its holds for reading, and reports whether there was one.
// Redisson's writeLock().forceUnlock.
func (m *RWMutex) ForceUnlock(ctx context.Context) (bool, error) {
	return (*locks.RWMutex)(m).ForceUnlock(ctx)
}

// ForceRUnlock takes the key from all readers except a writer that reads, and reports whether there were any.
// Redisson's readLock().forceUnlock.
func (m *RWMutex) ForceRUnlock(ctx context.Context) (bool, error) {
	return (*locks.RWMutex)(m).ForceRUnlock(ctx)
}

// Inspect asks Redis for the writer or the readers. Redisson's isLocked, of both.
func (m *RWMutex) Inspect(ctx context.Context) (RWStanding, error) {
	return (*locks.RWMutex)(m).Inspect(ctx)
}
