package leases

import (
	"context"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/observe"
)

// A CurrentLease is the lease of a context, for code that did not lock: lockrt.CurrentLease.
type CurrentLease struct{ t *Lease }

// LeaseFrom returns the innermost lease of ctx, also that of a permit, and also after its end. Calls that enter again use Enterable.
func LeaseFrom(ctx context.Context) (lease CurrentLease, ok bool) {
	t := Innermost(ctx)
	return CurrentLease{t}, t != nil
}

// Current returns l for code that did not lock.
func (l *Lease) Current() CurrentLease { return CurrentLease{l} }

// Context is the context of the lease.
func (l CurrentLease) Context() context.Context { return l.t.Context() }

func (l CurrentLease) Key() string { return l.t.Key() }

func (l CurrentLease) Err() error {
	if l.t == nil {
		return &observe.Error{Op: "lease", Err: core.ErrNoLease}
	}
	return l.t.Err()
}

func (l CurrentLease) Until() time.Time { return l.t.Until() }

func (l CurrentLease) Token() int64 { return l.t.Token() }

func (l CurrentLease) Extend(ctx context.Context, d time.Duration) error { return l.t.Extend(ctx, d) }
