package locks

import (
	"context"
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/observe"
)

// A FairMutex is a key that Redis grants in the order of the requests: lockrt.FairMutex.
type FairMutex struct {
	c    *Client
	key  string
	opts []LockOption
}

func (c *Client) FairMutex(key string, opts ...LockOption) *FairMutex {
	return &FairMutex{c: c.made(), key: key, opts: opts}
}

var _ Locker = (*FairMutex)(nil)

func (m *FairMutex) Key() string { return orZero(m).key }

func (m *FairMutex) Lock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.lock(ctx, "lock", opts)
}

func (m *FairMutex) TryLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.lock(ctx, "try lock", append(slices.Clip(opts), Once))
}

func (m *FairMutex) ForceUnlock(ctx context.Context) (bool, error) { return orZero(m).force(ctx) }

// force takes the key from its holder, or from owners alone if there are any.
func (m *FairMutex) force(ctx context.Context, owners ...string) (bool, error) {
	const op = "force unlock"
	return inside(orZero(m.c).fairs, op, m.key, func(r *fairResource) (bool, error) {
		return r.force(ctx, op, r.lock.ForceUnlock(time.Now(), owners...), r.held())
	})
}

func (m *FairMutex) Inspect(ctx context.Context) (observe.Standing, error) {
	m = orZero(m)
	return inside(orZero(m.c).fairs, "inspect", m.key, func(r *fairResource) (observe.Standing, error) {
		s, err := r.inspect(ctx, r.lock.Inspect())
		if s.Ours {
			s.Waiting = max(0, s.Waiting-r.served())
		}
		return s, err
	})
}

// lock is the common part of all ways to lock.
func (m *FairMutex) lock(ctx context.Context, op string, opts []LockOption) (*Lease, error) {
	m, ctx = orZero(m), present(ctx)
	a := attempt{c: m.c.core(), op: op, kind: kindFair, key: m.key}
	a.begin(ctx, m.opts, opts)
	lease, err := m.take(ctx, a.cfg, a.err, a.waits)
	return a.granted(lease, err)
}

// take waits for the key with the options of cfg; with an err it fails.
func (m *FairMutex) take(ctx context.Context, cfg lockConfig, err error, waiting func()) (*Lease, error) {
	if err = m.c.core().ready(ctx, kindFair, m.key, err); err != nil {
		return nil, err
	}
	l := newLease(m.c.core(), kindFair, m.key, ctx)
	l.label = cfg.label
	for outer := leaseFrom(ctx, m.c.core(), m.key); outer != nil; outer = leaseFrom(outer.parent, m.c.core(), m.key) {
		if outer.kind() == kindFair && outer.grant.reenter(outer, l) {
			return l.entered(ctx, cfg)
		}
	}
	r, err := m.c.fairs.enter(m.key, false)
	if err != nil {
		return nil, err
	}
	defer r.exit()
	if r.reenterBy(l) {
		return l.entered(ctx, cfg)
	}
	return m.c.contend(ctx, r, newWaiter(ctx, l, cfg), cfg, waiting)
}
