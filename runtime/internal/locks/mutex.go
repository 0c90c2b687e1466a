package locks

import (
	"context"
	"slices"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/policy"
	"github.com/lockgen/lockgen/runtime/internal/resource"
	"github.com/lockgen/lockgen/runtime/observe"
)

// A Mutex is a key with one holder at a time: lockrt.Mutex.
type Mutex struct {
	c    *Client
	key  string
	opts []leases.Option
}

func (c *Client) Mutex(key string, opts ...leases.Option) *Mutex {
	return &Mutex{c: c.Made(), key: key, opts: opts}
}

var _ Locker = (*Mutex)(nil)

// Client returns the client of m, or nil.
func (m *Mutex) Client() *Client { return core.OrZero(m).c }

// Options returns the options that each call of m has.
func (m *Mutex) Options() []leases.Option { return core.OrZero(m).opts }

func (m *Mutex) Key() string { return core.OrZero(m).key }

func (m *Mutex) Lock(ctx context.Context, opts ...leases.Option) (*leases.Lease, error) {
	return m.lock(ctx, "lock", opts)
}

func (m *Mutex) TryLock(ctx context.Context, opts ...leases.Option) (*leases.Lease, error) {
	return m.lock(ctx, "try lock", append(slices.Clip(opts), leases.Once))
}

func (m *Mutex) ForceUnlock(ctx context.Context) (bool, error) { return core.OrZero(m).force(ctx) }

// force takes the key from its holder, or from owners alone if there are any.
func (m *Mutex) force(ctx context.Context, owners ...string) (bool, error) {
	const op = "force unlock"
	return resource.Inside(core.OrZero(m.c).mutexes, op, m.key, func(r *policy.Mutex) (bool, error) {
		return r.Force(ctx, op, m.c.base.Wire.ForceUnlock(m.key, owners...), r.Held())
	})
}

func (m *Mutex) Inspect(ctx context.Context) (observe.Standing, error) {
	m = core.OrZero(m)
	return resource.Inside(core.OrZero(m.c).mutexes, "inspect", m.key, func(r *policy.Mutex) (observe.Standing, error) {
		return r.Inspect(ctx, m.c.base.Wire.Inspect(m.key))
	})
}

// lock is the common part of Lock, TryLock and campaigns.
func (m *Mutex) lock(ctx context.Context, op string, opts []leases.Option) (*leases.Lease, error) {
	m, ctx = core.OrZero(m), core.Present(ctx)
	if outer, ok := leases.OfContext(ctx); ok && len(opts) == 0 && len(m.opts) == 0 {
		if l := m.reenter(ctx, outer); l != nil {
			return l, nil
		}
	}
	var a leases.Attempt
	a.Client, a.Op, a.Kind, a.Key = m.c.Core(), op, core.KindMutex, m.key // a literal would be on the stack twice
	a.Begin(ctx, m.opts, opts)
	lease, err := m.take(ctx, &a.Config, a.Err, a.Waits)
	return a.Granted(lease, err)
}

// reenter enters again if ctx is the context of a lease of this very key, nothing has ended and there is no hook: the short way to what
// Approach does for every context under a lease. Otherwise it returns nil.
func (m *Mutex) reenter(ctx context.Context, outer *leases.Lease) *leases.Lease {
	at := monotonic.Now()
	if outer.Core().Kind() != core.KindMutex || outer.Core().Client() != m.c.Core() || outer.Core().Key() != m.key || m.c.base.Observed {
		return nil
	}
	if !outer.Core().Guard().TrustedAt(at) || outer.Core().Parent.Err() != nil {
		return nil
	}
	l := new(leases.Lease)
	l.Core().OwnedBy(outer.Core().Rare().Owner)
	l.Core().Prepare(core.KindMutex, ctx)
	l.Core().Began = at
	if !outer.Core().Grant.Reenter(outer, l) {
		return nil
	}
	m.c.base.Counts.Called(core.KindMutex, nil)
	return l
}

// HeldBy reports whether a call of owner enters a lease of this process.
func (m *Mutex) HeldBy(owner *leases.Owner) bool {
	r, known := m.c.mutexes.Find(m.key)
	return known && r.HeldBy(owner)
}

// Acquire is Lock without hooks, and without counts of the call.
func (m *Mutex) Acquire(ctx context.Context, opts []leases.Option) (*leases.Lease, error) {
	cfg, err := leases.Configure(m.c.Core(), m.opts, opts)
	return m.take(ctx, &cfg, err, nil)
}

// take waits for the key with the options of cfg; with an err it fails.
func (m *Mutex) take(ctx context.Context, cfg *leases.Config, err error, waiting func()) (*leases.Lease, error) {
	if ctx.Err() != nil {
		return nil, core.Ended(ctx)
	}
	if err != nil {
		return nil, err
	}
	r, l, err := m.Approach(ctx, leases.New(m.c.Core(), core.KindMutex, ctx), cfg)
	if r == nil {
		return l, err
	}
	w := resource.NewWaiter(ctx, l, cfg)
	w.Patient = cfg.Wait == leases.UntilDone && ctx.Done() == nil
	defer r.Exit()
	return m.c.base.Contend(ctx, r, w, cfg, waiting)
}

// Approach returns what a call contends for with its lease l, which is prepared: a resource that the caller leaves. If there is no resource,
// the lease that it returns has entered again, or there is an error. The call enters again under a lease of its key in ctx, its context or
// one above that.
func (m *Mutex) Approach(ctx context.Context, l *leases.Lease, cfg *leases.Config) (*policy.Mutex, *leases.Lease, error) {
	if err := m.c.Core().CheckKey(m.key); err != nil {
		return nil, nil, err
	}
	l.Core().Label = cfg.Label
	if outer := leases.Enterable(ctx, m.c.Core(), m.key); outer != nil && outer.Core().Grant.Reenter(outer, l) {
		l, err := l.Entered(ctx, cfg)
		return nil, l, err
	}
	if cfg.Linger > 0 && l.Core().Rare().Owner == nil {
		if r, ok := m.c.mutexes.Find(m.key); ok && r.TakeLingering(l, cfg) {
			return nil, l, nil
		}
	}
	r, err := m.c.mutexes.Enter(m.key, false)
	if err != nil {
		return nil, nil, err
	}
	if r.ReenterBy(l) {
		r.Exit()
		l, err = l.Entered(ctx, cfg)
		return nil, l, err
	}
	return r, l, nil
}
