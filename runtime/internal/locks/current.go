package locks

import (
	"context"
	"errors"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/force"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/observe"
)

// A CurrentLease is the lease of a context, for code that did not lock: lockrt.CurrentLease.
type CurrentLease struct{ t *Lease }

// LeaseFrom returns the innermost lease of ctx, also that of a permit, and also after its end. Calls that enter again use leaseFrom.
func LeaseFrom(ctx context.Context) (lease CurrentLease, ok bool) {
	t := innermost(ctx)
	return CurrentLease{t}, t != nil
}

// innermost returns the innermost lease of ctx, which may be that of a permit, or nil.
func innermost(ctx context.Context) *Lease {
	if ctx == nil {
		return nil
	}
	l, _ := ctx.Value(innermostKey{}).(*Lease)
	return l
}

// Current returns l for code that did not lock.
func (l *Lease) Current() CurrentLease { return CurrentLease{l} }

// Current returns p for code that did not lock.
func (p *Permit) Current() CurrentLease { return CurrentLease{&p.own} }

// Context is the context of the lease.
func (l CurrentLease) Context() context.Context { return l.t.Context() }

func (l CurrentLease) Key() string { return l.t.Key() }

func (l CurrentLease) Err() error {
	if l.t == nil {
		return &observe.Error{Op: "lease", Err: errNoLease}
	}
	return l.t.Err()
}

func (l CurrentLease) Until() time.Time { return l.t.Until() }

func (l CurrentLease) Token() int64 { return l.t.Token() }

func (l CurrentLease) Extend(ctx context.Context, d time.Duration) error { return l.t.Extend(ctx, d) }

func init() {
	force.Take = func(ctx, under context.Context) (key string, ended <-chan struct{}, taken bool, err error) {
		t := innermost(under)
		if t == nil {
			return "", nil, false, errNoLease
		}
		taken, err = t.takeAway(ctx)
		return t.key, t.Context().Done(), taken, err
	}
}

// takeAway takes the key of t from it, like a forced unlock, and reports whether Redis had it.
func (t *leaseCore) takeAway(ctx context.Context) (taken bool, err error) {
	switch c := t.client; t.kind() {
	case kindFair:
		return c.FairMutex(t.key).ForceUnlock(ctx)
	case kindWrite:
		return c.RWMutex(t.key).ForceUnlock(ctx)
	case kindRead:
		return c.RWMutex(t.key).ForceRUnlock(ctx)
	case kindPermit:
		err = c.PermitSemaphore(t.key, 0).Release(ctx, protocol.PermitIDs(t.guard.Owner())...)
		if errors.Is(err, failure.ErrLost) {
			return false, nil
		}
		return err == nil, err
	case kindMulti, kindRedLock:
		for _, part := range t.rare().composite.all() {
			had, err := part.takeAway(ctx)
			if err != nil {
				return taken, err
			}
			taken = taken || had
		}
		return taken, nil
	default:
		return c.Mutex(t.key).ForceUnlock(ctx)
	}
}
