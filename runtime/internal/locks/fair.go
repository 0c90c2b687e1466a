package locks

import (
	"context"
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/policy"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/resource"
	"github.com/lockgen/lockgen/runtime/observe"
)

// A FairMutex is a key that Redis grants in the order of the requests: lockrt.FairMutex.
type FairMutex struct {
	c    *Client
	key  string
	opts []leases.Option
}

func (c *Client) FairMutex(key string, opts ...leases.Option) *FairMutex {
	return &FairMutex{c: c.Made(), key: key, opts: opts}
}

var _ Locker = (*FairMutex)(nil)

// Client returns the client of m, or nil.
func (m *FairMutex) Client() *Client { return core.OrZero(m).c }

// Options returns the options that each call of m has.
func (m *FairMutex) Options() []leases.Option { return core.OrZero(m).opts }

func (m *FairMutex) Key() string { return core.OrZero(m).key }

func (m *FairMutex) Lock(ctx context.Context, opts ...leases.Option) (*leases.Lease, error) {
	return m.lock(ctx, "lock", opts)
}

func (m *FairMutex) TryLock(ctx context.Context, opts ...leases.Option) (*leases.Lease, error) {
	return m.lock(ctx, "try lock", append(slices.Clip(opts), leases.Once))
}

func (m *FairMutex) ForceUnlock(ctx context.Context) (bool, error) { return core.OrZero(m).force(ctx) }

// force takes the key from its holder, or from owners alone if there are any.
func (m *FairMutex) force(ctx context.Context, owners ...string) (bool, error) {
	const op = "force unlock"
	return resource.Inside(core.OrZero(m.c).fairs, op, m.key, func(r *policy.Fair) (bool, error) {
		had, err := r.Force(ctx, op, r.Lock.ForceUnlock(time.Now(), owners...), r.Held())
		if (had || err != nil) && r.Client.Granting() { // after an error it may be free, too
			r.Client.Withdrawals.PassOn(protocol.FreedForNobody, func() { _, _ = r.Withdrawer().Withdraw(nil) })
		}
		return had, err
	})
}

func (m *FairMutex) Inspect(ctx context.Context) (observe.Standing, error) {
	m = core.OrZero(m)
	return resource.Inside(core.OrZero(m.c).fairs, "inspect", m.key, func(r *policy.Fair) (observe.Standing, error) {
		s, err := r.Inspect(ctx, r.Lock.Inspect())
		if s.Ours {
			s.Waiting = max(0, s.Waiting-r.Served())
		}
		return s, err
	})
}

// lock is the common part of Lock and TryLock.
func (m *FairMutex) lock(ctx context.Context, op string, opts []leases.Option) (*leases.Lease, error) {
	m, ctx = core.OrZero(m), core.Present(ctx)
	var a leases.Attempt
	a.Client, a.Op, a.Kind, a.Key = m.c.Core(), op, core.KindFair, m.key // a literal would be on the stack twice
	a.Begin(ctx, m.opts, opts)
	lease, err := m.take(ctx, &a.Config, a.Err, a.Waits)
	return a.Granted(lease, err)
}

// take waits for the key with the options of cfg; with an err it fails.
func (m *FairMutex) take(ctx context.Context, cfg *leases.Config, err error, waiting func()) (*leases.Lease, error) {
	if err = m.c.Core().Ready(ctx, core.KindFair, m.key, err); err != nil {
		return nil, err
	}
	l := leases.New(m.c.Core(), core.KindFair, ctx)
	l.Core().Label = cfg.Label
	for outer := leases.Enterable(ctx, m.c.Core(), m.key); outer != nil; outer = leases.Enterable(outer.Core().Parent, m.c.Core(), m.key) {
		if outer.Core().Kind() == core.KindFair && outer.Core().Grant.Reenter(outer, l) {
			return l.Entered(ctx, cfg)
		}
	}
	r, err := m.c.fairs.Enter(m.key, false)
	if err != nil {
		return nil, err
	}
	defer r.Exit()
	if r.ReenterBy(l) {
		return l.Entered(ctx, cfg)
	}
	return m.c.base.Contend(ctx, r, resource.NewWaiter(ctx, l, cfg), cfg, waiting)
}
