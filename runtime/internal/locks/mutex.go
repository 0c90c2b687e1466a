package locks

import (
	"context"
	"slices"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// A Mutex is a key with one holder at a time: lockrt.Mutex.
type Mutex struct {
	c    *Client
	key  string
	opts []LockOption
}

func (m *Mutex) Key() string { return orZero(m).key }

func (m *Mutex) Lock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.lock(ctx, "lock", opts)
}

func (m *Mutex) TryLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.lock(ctx, "try lock", append(slices.Clip(opts), Once))
}

func (m *Mutex) ForceUnlock(ctx context.Context) (bool, error) { return orZero(m).force(ctx) }

// force takes the key from its holder, or from owners alone if there are any.
func (m *Mutex) force(ctx context.Context, owners ...string) (bool, error) {
	const op = "force unlock"
	return inside(orZero(m.c).resources, op, m.key, func(r *resource) (bool, error) {
		return r.force(ctx, op, m.c.wire.ForceUnlock(m.key, owners...), r.held())
	})
}

// lock is the common part of all ways to lock.
func (m *Mutex) lock(ctx context.Context, op string, opts []LockOption) (*Lease, error) {
	m, ctx = orZero(m), present(ctx)
	if x, ok := ctx.(*leaseContext); ok && len(opts) == 0 && len(m.opts) == 0 {
		if l := m.again(x); l != nil {
			return l, nil
		}
	}
	a := attempt{c: m.c.core(), op: op, kind: kindMutex, key: m.key}
	a.begin(ctx, m.opts, opts)
	lease, err := m.take(ctx, a.cfg, a.err, a.waits)
	return a.granted(lease, err)
}

// again enters again if ctx is the context of a lease of this very key, nothing has ended and there is no hook: the
// short way to what approach does for every context under a lease. Else it returns nil.
func (m *Mutex) again(ctx *leaseContext) *Lease {
	outer, at := (*Lease)(ctx), monotonic.Now()
	if outer.kind() != kindMutex || outer.client != m.c.core() || outer.key != m.key || m.c.observed {
		return nil
	}
	if !outer.guard.TrustedAt(at) || outer.parent.Err() != nil {
		return nil
	}
	l := new(Lease)
	l.ownedBy(outer.rare().owner)
	l.prepare(m.c.core(), kindMutex, m.key, ctx)
	l.began = at
	if !outer.grant.reenter(outer, l) {
		return nil
	}
	m.c.counts.called(kindMutex, nil)
	return l
}

// acquire is a call without hooks.
func (m *Mutex) acquire(ctx context.Context, opts []LockOption) (*Lease, error) {
	cfg, err := configure(m.c.core(), m.opts, opts)
	return m.take(ctx, cfg, err, nil)
}

// take waits for the key with the options of cfg; with an err it fails.
func (m *Mutex) take(ctx context.Context, cfg lockConfig, err error, waiting func()) (*Lease, error) {
	if ctx.Err() != nil {
		return nil, ended(ctx)
	}
	if err != nil {
		return nil, err
	}
	r, l, err := m.approach(ctx, cfg)
	if r == nil {
		return l, err
	}
	w := newWaiter(ctx, l, cfg)
	w.Patient = m.c.net.Prompt() && cfg.wait == UntilDone && ctx.Done() == nil
	defer r.exit()
	return m.c.contend(ctx, r, w, cfg, waiting)
}

// approach returns what a call under ctx contends for: a lease that has no grant yet, at a resource that the caller
// leaves. Without a resource there is no need, since the lease entered again, or there is an error.
func (m *Mutex) approach(ctx context.Context, cfg lockConfig) (*resource, *Lease, error) {
	if err := m.c.core().checkKey(m.key); err != nil {
		return nil, nil, err
	}
	l := newLease(m.c.core(), kindMutex, m.key, ctx)
	l.label = cfg.label
	if outer := leaseFrom(ctx, m.c.core(), m.key); outer != nil && outer.grant.reenter(outer, l) {
		l, err := l.entered(ctx, cfg)
		return nil, l, err
	}
	if cfg.linger > 0 && l.rare().owner == nil {
		if r, ok := m.c.resources.known(m.key); ok && r.takeLingering(l, &cfg) {
			return nil, l, nil
		}
	}
	r, err := m.c.resources.enter(m.key, false)
	if err != nil {
		return nil, nil, err
	}
	if r.reenterBy(l) {
		r.exit()
		l, err = l.entered(ctx, cfg)
		return nil, l, err
	}
	return r, l, nil
}
