package leases

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/fleet"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/runtime/observe"
)

// Leases and permits share these methods of Core, which lease.go has. A nil Core is that of no grant.

// Key returns the key, or "" without a grant.
func (t *Core) Key() string {
	if t == nil || t.Grant == nil {
		return ""
	}
	return t.Grant.Key()
}

// Client returns the client that has the grant, or nil before there is one.
func (t *Core) Client() *core.Client {
	if t.Grant == nil {
		return nil
	}
	return t.Grant.Client()
}

// Guard returns what the watchdog guards for the grant; nil before there is one, or if it has parts.
func (t *Core) Guard() *watchdog.Lease {
	if t.Grant == nil {
		return nil
	}
	return t.Grant.Guarded()
}

// NoLease is the context without a grant.
var NoLease = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(core.ErrNoLease)
	return ctx
}()

// Err implements Err of leases and permits.
func (t *Core) Err() error {
	if t == nil {
		return &observe.Error{Op: core.OpHold, Err: core.ErrNoLease}
	}
	cause := t.Ended()
	switch {
	case cause != nil:
	case t.Rare().Parts != nil:
		cause = t.Rare().Parts.Check()
	case t.Guard() != nil: // otherwise it has not begun
		if overdue := t.Client().Watchdog.Check(t.Guard()); overdue != nil {
			cause = failure.Lost(overdue)
		}
	}
	if cause != nil {
		t.End(cause) // in case the caller that ends it has not done so yet
	}
	return t.Ended()
}

// TrustedAt reports whether t, which has begun, has not ended and is trusted at the time at. Of a lease with parts it does not know.
func (t *Core) TrustedAt(at monotonic.Time) bool {
	guard := t.Grant.Guarded()
	return guard != nil && guard.TrustedAt(at) && t.cause.Load() == nil
}

// Until implements Until of leases and permits.
func (t *Core) Until() time.Time {
	switch {
	case t == nil:
		return time.Time{}
	case t.Rare().Parts != nil:
		return t.Rare().Parts.Until()
	case t.Guard() == nil:
		return time.Time{}
	}
	return t.Guard().Until()
}

// Extend implements Extend of leases and permits.
func (t *Core) Extend(ctx context.Context, d time.Duration) error {
	if t == nil {
		return &observe.Error{Op: "extend", Err: core.ErrNoLease}
	}
	if d < MinLease {
		return core.FailedAt("extend", t.Key(), fmt.Errorf("%w: %v is shorter than %v", failure.ErrBadOption, d, MinLease))
	}
	if err := t.Err(); err != nil {
		return core.FailedAt("extend", t.Key(), err)
	}
	if t.Rare().Parts != nil {
		return t.Rare().Parts.Extend(core.Present(ctx), d)
	}
	return core.FailedAt("extend", t.Key(), t.prolong(ctx, d))
}

// prolong is Extend for a Core without parts.
func (t *Core) prolong(ctx context.Context, d time.Duration) error {
	c, guard := t.Client(), t.Guard()
	c.Watchdog.Extends(guard) // before the end of t is read: a grant passes on only after t has ended, and not if it is extended
	if t.released() {
		return failure.ErrReleased
	}
	return transport.Within(core.Present(ctx), c.Net, func() error {
		for {
			sent := core.Now()
			ttl := max(d, guard.Ends().Sub(sent))
			if c.Traced != nil {
				c.TracesRenewal(trace.Prolongs, guard, 0)
			}
			switch err := c.Renew([]*watchdog.Lease{guard}, []time.Duration{ttl})[0]; {
			case err == nil:
				c.Watchdog.Extend(guard, sent, ttl)
				return t.Err() // it may have ended before the answer came
			case !errors.Is(err, watchdog.ErrRefused):
				return core.Refused(err)
			}
			if over, err := t.refused(sent); over {
				return err
			}
		}
	})
}

// ttl returns the time to live of the key of t, a Core without parts.
func (t *Core) ttl() (time.Duration, error) {
	for {
		sent := core.Now()
		ttl, ours, err := t.Client().Net.TTL(t.Key(), t.Guard().Owner())
		switch {
		case err != nil:
			return 0, err
		case t.released(): // perhaps another lease has the key by now, or lingers
			return 0, failure.ErrReleased
		case ours:
			return ttl, nil
		}
		if over, err := t.refused(sent); over {
			return 0, err
		}
	}
}

// refused ends t, since Redis has answered that it does not have the key for t, and returns the error of the request, which was sent at the time sent. over
// is false if the answer is older than what is known of t: the caller asks again.
func (t *Core) refused(sent time.Time) (over bool, err error) {
	switch {
	case t.released(): // it was unlocked before the request arrived
		return true, failure.ErrReleased
	case t.Client().Watchdog.Refused(t.Guard(), sent):
		return true, failure.Lost(watchdog.ErrRefused)
	}
	return false, nil
}

// released reports whether t was unlocked, or a whole that it is a part of.
func (t *Core) released() bool {
	for whole := t.Rare().Within.Load(); whole != nil; whole = whole.core.Rare().Within.Load() {
		if whole.core.Rare().Parts.Unlocked() {
			return true
		}
	}
	return errors.Is(t.Ended(), failure.ErrReleased)
}

// OwnerName returns the owner of t for the log: as in Redis, or "" for a lock of several parts.
func (t *Core) OwnerName() string {
	if t.Guard() == nil {
		return ""
	}
	return fleet.OwnerOf(t.Guard())
}

// Unreported reports to the logger and to the hook err, which the loop over a sequence under l cannot return: the loop had no lock, lost it, or could
// not give it back. The sequence is the result of a call of the method name.
func (l *Lease) Unreported(call context.Context, name, template string, err error) {
	c := l.core.Client()
	c.Settings.Logger.WarnContext(call, "lockgen: a loop over the result of a method had no lock, lost it, or could not give it back", "kind", l.core.Kind(), "key", l.core.Key(), "name", name, "owner", l.core.OwnerName(), "error", err)
	c.Unreported(call, name, template, err)
}
