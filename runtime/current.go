package lockrt

import (
	"context"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/leases"
)

// A CurrentLease is the lease of a context, for code that did not lock: it cannot unlock. Only Extend contacts Redis.
type CurrentLease leases.CurrentLease

// LeaseFrom returns the innermost lease of ctx, also after its end. Code below a Do or a generated wrapper can check it
// before it does something irreversible, or something that takes longer than a fixed lease.
func LeaseFrom(ctx context.Context) (lease CurrentLease, ok bool) {
	current, ok := leases.LeaseFrom(ctx)
	return CurrentLease(current), ok
}

// Key is [Lease.Key].
func (l CurrentLease) Key() string { return leases.CurrentLease(l).Key() }

// Err is [Lease.Err]. Redisson's isHeldByCurrentThread.
func (l CurrentLease) Err() error { return leases.CurrentLease(l).Err() }

// Until is [Lease.Until].
func (l CurrentLease) Until() time.Time { return leases.CurrentLease(l).Until() }

// Token is [Lease.Token]. Under several keys see [TokenOf].
func (l CurrentLease) Token() int64 { return leases.CurrentLease(l).Token() }

// Extend is [Lease.Extend]: one round trip.
func (l CurrentLease) Extend(ctx context.Context, d time.Duration) error {
	return leases.CurrentLease(l).Extend(ctx, d)
}

// TokenOf returns the innermost fencing token of key in ctx.
func TokenOf(ctx context.Context, key string) (token int64, ok bool) { return leases.TokenOf(ctx, key) }

// TokenFrom returns the innermost fencing token in ctx.
func TokenFrom(ctx context.Context) (token int64, ok bool) { return leases.TokenFrom(ctx) }
