package locks

import (
	"context"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/counting"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/fleet"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/runtime/observe"
)

// A Permit is one or more permits, granted to one call: lockrt.Permit.
type Permit struct {
	core *leases.Core // the Core of own

	own  leases.Lease // the lease that stands for the permit in contexts, and in a MultiLock
	hold *counting.Permit
	c    *Client
}

// A permitHolding is a permit as the counter and the watchdog see it.
type permitHolding struct {
	*counting.Permit

	of *Permit
}

func (p permitHolding) Begin(began monotonic.Time) watchdog.Holding {
	p.of.core.Began = began
	return permitHolding{p.of.hold, p.of}
}

func (p permitHolding) End(cause error) { p.of.core.End(cause) }
func (p permitHolding) Ended() error    { return p.of.core.Ended() }

func (p permitHolding) Began() monotonic.Time { return p.of.core.Began }

func (p permitHolding) Bearer() *leases.Core { return p.of.core }

func (p permitHolding) Show() (s fleet.Shown) {
	ct, known := ClientOf(&p.of.own).permits.Find(p.Key())
	if n := p.Size(); known && n > 0 {
		ct.Mu.Lock()
		defer ct.Mu.Unlock()
		s = fleet.Shown{Name: p.of.core.Label.Name(), Since: p.of.core.Began, Holds: n, Queued: ct.Queue.Length(), Ctx: p.of.core.Parent}
	}
	return s
}

// newPermit prepares a permit under parent, for a waiter.
func newPermit(c *Client, label *engine.Label, parent context.Context) *Permit {
	p := &Permit{c: c}
	p.hold = counting.NewPermit(permitHolding{of: p})
	p.core = p.own.Core()
	p.own.Core().Grant = p
	p.core.Prepare(core.KindPermit, parent)
	p.core.Label = label
	return p
}

// Client returns the client that has p, which is the grant of its own lease.
func (p *Permit) Client() *core.Client { return p.c.Core() }

// Guarded returns the guard of p, or nil before p is granted.
func (p *Permit) Guarded() *watchdog.Lease { return p.hold.Guard() }

// Reenter is never called: no context is under the lease of a permit, so that each call takes one of its own.
func (p *Permit) Reenter(*leases.Lease, *leases.Lease) bool { return false }

// Unlock releases p.
func (p *Permit) Unlock(*leases.Lease) error { return p.hold.Release() }

// granted returns the Core of p, or nil without a grant.
func (p *Permit) granted() *leases.Core {
	if p == nil || p.hold == nil || !p.hold.Granted() {
		return nil
	}
	return p.core
}

func (p *Permit) Key() string {
	if p.granted() == nil {
		return ""
	}
	return p.hold.Key()
}

func (p *Permit) Context() context.Context {
	if p.granted() == nil {
		return leases.NoLease
	}
	return p.own.Context()
}

func (p *Permit) Err() error { return p.granted().Err() }

func (p *Permit) Until() time.Time { return p.granted().Until() }

func (p *Permit) Extend(ctx context.Context, d time.Duration) error {
	return p.granted().Extend(ctx, d)
}

// Current returns p for code that did not lock.
func (p *Permit) Current() leases.CurrentLease { return p.own.Current() }

func (p *Permit) PermitID() string {
	if ids := p.PermitIDs(); len(ids) > 0 {
		return ids[0]
	}
	return ""
}

func (p *Permit) PermitIDs() []string {
	if p.granted() == nil {
		return nil
	}
	return protocol.PermitIDs(p.hold.Owner())
}

// Release is as [leases.Lease.Unlock]. The client goes on trying for a minute.
func (p *Permit) Release(context.Context) error {
	if p.granted() == nil {
		return &observe.Error{Op: "release", Err: core.ErrNoPermit}
	}
	err := p.hold.Release()
	p.core.Report()
	if err != nil {
		return &observe.Error{Op: "release", Key: p.core.Key(), Name: p.core.Label.Name(), Err: failure.OfRelease(core.CauseOf(p.core.Key(), err))}
	}
	return nil
}

// Do calls fn under the context of p and releases it, also if fn panics.
func (p *Permit) Do(ctx context.Context, fn func(ctx context.Context) error) (err error) {
	defer func() { err = failure.AfterWork(ctx, err, p.Release(ctx)) }()
	if p.c.base.Settings.ProfileLabels {
		under, end := leases.Profiled(p.Context(), p.core.ProfileLabel())
		defer end()
		return fn(under)
	}
	return fn(p.Context())
}
