package lockrt

import (
	"context"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/locks"
)

// A Lease is one grant of a key to one call. It ends once: by Unlock, loss or Close.
type Lease leases.Lease

// Key returns the key; for a MultiLock all keys, separated by a comma and a space.
func (l *Lease) Key() string { return (*leases.Lease)(l).Key() }

// Client returns the Client that granted the lease, or its first part.
func (l *Lease) Client() *Client { return (*Client)(locks.ClientOf((*leases.Lease)(l))) }

// Token returns the fencing token of a key locked [WithFencing], else 0: larger than that of every earlier lease of the key, and equal
// across reentry. Send it with each write, and let the resource refuse a token smaller than the largest it has seen. Redisson's getToken.
func (l *Lease) Token() int64 { return (*leases.Lease)(l).Token() }

// Context returns a child of the context given to Lock that ends with the lease; [context.Cause] then matches
// [ErrLost], [ErrReleased] or [ErrClosed]. Do the guarded work under it. Locking the same key under it enters again.
// When the parent ends, the lease stays until Unlock: its holder may be cleaning up.
func (l *Lease) Context() context.Context { return (*leases.Lease)(l).Context() }

// Err returns nil while the lease is trusted, then an error that matches [ErrLost], [ErrReleased] or [ErrClosed]; for a loss it is an
// [Error] with the key. It reads the clock and does not contact Redis.
func (l *Lease) Err() error { return (*leases.Lease)(l).Err() }

// Until returns when the trust in the lease ends, unless it is renewed.
func (l *Lease) Until() time.Time { return (*leases.Lease)(l).Until() }

// Parts returns the leases of a [MultiLock] in the order of keys; else nil.
func (l *Lease) Parts() []*Lease {
	parts := (*leases.Lease)(l).Parts()
	if parts == nil {
		return nil
	}
	all := make([]*Lease, len(parts))
	for i, part := range parts {
		all[i] = (*Lease)(part)
	}
	return all
}

// TTL asks Redis for the time to live of the key, which is negative if another program has made the key persist. It fails with [ErrReleased] after
// Unlock, and with [ErrLost] if Redis does not have the key for the lease any more, which ends the lease. Redisson's remainTimeToLive.
func (l *Lease) TTL(ctx context.Context) (time.Duration, error) { return (*leases.Lease)(l).TTL(ctx) }

// Extend makes the grant live for at least d from now, and never shortens it: a fixed lease ends later, and a renewed
// lease outlives a crash by d. It fails with [ErrBadOption] for less than 100ms, with the error that ended the lease,
// and with [ErrLost] if Redis does not have the key for it any more, which ends the lease. After another error the
// lease stays as it was. One round trip. Redisson's expire and updateLeaseTime.
func (l *Lease) Extend(ctx context.Context, d time.Duration) error {
	return (*leases.Lease)(l).Extend(ctx, d)
}

// Unlock releases the lease; the last lease of a reentrant set frees the key. Its context is for values alone and may
// be nil: the call ends within [Options.OpTimeout]. It fails with [ErrReleased] the second time, and with [ErrLost] if
// the lease was lost; if Redis still has the key for it, Unlock frees it all the same. One round trip, or none if
// another goroutine of the Client gets the key next, or the key lingers. Redisson's unlock.
func (l *Lease) Unlock(ctx context.Context) error { return (*leases.Lease)(l).Unlock(ctx) }

// do calls fn under a lease of lock, and unlocks, also if fn panics.
func do(ctx context.Context, lock Locker, fn func(ctx context.Context, lease *Lease) error, opts []LockOption) error {
	if fn == nil {
		return core.NoFunction("do", lock.Key())
	}
	lease, err := lock.Lock(ctx, opts...)
	if err != nil {
		return err
	}
	return lease.do(ctx, func(ctx context.Context) error { return fn(ctx, lease) })
}

// do calls fn under l, and unlocks, also if fn panics.
func (l *Lease) do(ctx context.Context, fn func(ctx context.Context) error) error {
	return (*leases.Lease)(l).Do(ctx, fn)
}
