package lockrt

import (
	"context"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/locks"
)

// A CurrentLease is the lease of a context, for code that did not lock: it cannot unlock. Only Extend contacts Redis.
type CurrentLease locks.CurrentLease

// LeaseFrom returns the innermost lease of ctx, also after its end. Code below a Do or a generated wrapper can check it
// before it does something irreversible, or something that takes longer than a fixed lease.
func LeaseFrom(ctx context.Context) (lease CurrentLease, ok bool) {
	current, ok := locks.LeaseFrom(ctx)
	return CurrentLease(current), ok
}

// Key is [Lease.Key].
func (l CurrentLease) Key() string { return locks.CurrentLease(l).Key() }

// Err is [Lease.Err]. Redisson's isHeldByCurrentThread.
func (l CurrentLease) Err() error { return locks.CurrentLease(l).Err() }

// Until is [Lease.Until].
func (l CurrentLease) Until() time.Time { return locks.CurrentLease(l).Until() }

// Token is [Lease.Token]. Under several keys see [TokenOf].
func (l CurrentLease) Token() int64 { return locks.CurrentLease(l).Token() }

// Extend is [Lease.Extend]: one round trip.
func (l CurrentLease) Extend(ctx context.Context, d time.Duration) error {
	return locks.CurrentLease(l).Extend(ctx, d)
}

// TokenOf returns the innermost fencing token of key in ctx.
func TokenOf(ctx context.Context, key string) (token int64, ok bool) { return locks.TokenOf(ctx, key) }

// TokenFrom returns the innermost fencing token in ctx.
func TokenFrom(ctx context.Context) (token int64, ok bool) { return locks.TokenFrom(ctx) }
