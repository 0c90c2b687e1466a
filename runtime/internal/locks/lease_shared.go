package locks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/fleet"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/runtime/observe"
)

// Leases and permits share these methods of leaseCore, which lease.go has. A nil leaseCore is that of no grant.

// Key returns the key, or "" without a grant.
func (t *leaseCore) Key() string {
	if t == nil {
		return ""
	}
	return t.key
}

// noLease is the context without a grant.
var noLease = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errNoLease)
	return ctx
}()

// Err implements Err of leases and permits.
func (t *leaseCore) Err() error {
	if t == nil {
		return &observe.Error{Op: opHold, Err: errNoLease}
	}
	cause := t.ended()
	switch {
	case cause != nil:
	case t.rare().parts != nil:
		cause = t.rare().parts.check()
	case t.guard != nil: // otherwise it has not begun
		if overdue := t.client.watchdog.Check(t.guard); overdue != nil {
			cause = lost(overdue)
		}
	}
	if cause != nil {
		t.end(cause) // in case the caller that ends it has not done so yet
	}
	return t.ended()
}

// Until implements Until of leases and permits.
func (t *leaseCore) Until() time.Time {
	switch {
	case t == nil:
		return time.Time{}
	case t.rare().parts != nil:
		return t.rare().parts.until()
	case t.guard == nil:
		return time.Time{}
	}
	return t.guard.Until()
}

// Extend implements Extend of leases and permits.
func (t *leaseCore) Extend(ctx context.Context, d time.Duration) error {
	if t == nil {
		return &observe.Error{Op: "extend", Err: errNoLease}
	}
	if d < MinLease {
		return failedAt("extend", t.key, fmt.Errorf("%w: %v is shorter than %v", failure.ErrBadOption, d, MinLease))
	}
	if err := t.Err(); err != nil {
		return failedAt("extend", t.key, err)
	}
	if t.rare().parts != nil {
		return t.rare().parts.extend(present(ctx), d)
	}
	return failedAt("extend", t.key, t.prolong(ctx, d))
}

// prolong is Extend for a leaseCore without parts.
func (t *leaseCore) prolong(ctx context.Context, d time.Duration) error {
	return transport.Within(present(ctx), t.client.net, func() error {
		sent := now()
		ttl := max(d, t.guard.Ends().Sub(sent))
		if t.client.traced != nil {
			t.client.tracesRenewal(trace.Prolongs, t.guard, 0)
		}
		switch err := t.client.renew([]*watchdog.Lease{t.guard}, []time.Duration{ttl})[0]; {
		case errors.Is(err, watchdog.ErrRefused):
			t.client.watchdog.Lose(t.guard, watchdog.ErrRefused)
			return lost(watchdog.ErrRefused)
		case err != nil:
			return refused(err)
		}
		t.client.watchdog.Extend(t.guard, sent, ttl)
		return nil
	})
}

// ownerName returns the owner of t for the log: as in Redis, or "" for a lock of several parts.
func (t *leaseCore) ownerName() string {
	if t.guard == nil {
		return ""
	}
	return fleet.OwnerOf(t.guard)
}

// Warn logs that a sequence under l was not gone through.
func (l *Lease) Warn(name string, err error) {
	l.client.opts.Logger.Warn("lockgen: a sequence that was to be gone through under a lock", "kind", l.kind(), "key", l.key, "name", name, "owner", l.ownerName(), "error", err)
}
