package locks

import (
	"context"
	"slices"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/policy"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/resource"
	"github.com/lockgen/lockgen/runtime/observe"
)

// An RWMutex is a key with one writer, or with any number of readers: lockrt.RWMutex.
type RWMutex struct {
	c    *Client
	key  string
	opts []leases.Option
}

func (c *Client) RWMutex(key string, opts ...leases.Option) *RWMutex {
	return &RWMutex{c: c.Made(), key: key, opts: opts}
}

var _ Locker = (*RWMutex)(nil)

// Client returns the client of m, or nil.
func (m *RWMutex) Client() *Client { return core.OrZero(m).c }

// Options returns the options that each call of m has.
func (m *RWMutex) Options() []leases.Option { return core.OrZero(m).opts }

func (m *RWMutex) Key() string { return core.OrZero(m).key }

func (m *RWMutex) Lock(ctx context.Context, opts ...leases.Option) (*leases.Lease, error) {
	return m.lock(ctx, "lock", true, opts)
}

func (m *RWMutex) TryLock(ctx context.Context, opts ...leases.Option) (*leases.Lease, error) {
	return m.lock(ctx, "try lock", true, append(slices.Clip(opts), leases.Once))
}

func (m *RWMutex) RLock(ctx context.Context, opts ...leases.Option) (*leases.Lease, error) {
	return m.lock(ctx, "read lock", false, opts)
}

func (m *RWMutex) TryRLock(ctx context.Context, opts ...leases.Option) (*leases.Lease, error) {
	return m.lock(ctx, "try read lock", false, append(slices.Clip(opts), leases.Once))
}

func (m *RWMutex) ForceUnlock(ctx context.Context) (bool, error) {
	return core.OrZero(m).force(ctx, "force unlock", true)
}

func (m *RWMutex) ForceRUnlock(ctx context.Context) (bool, error) {
	return core.OrZero(m).force(ctx, "force read unlock", false)
}

// force takes the key from the writer or from readers, or from owners alone if there are any.
func (m *RWMutex) force(ctx context.Context, op string, write bool, owners ...string) (bool, error) {
	return resource.Inside(core.OrZero(m.c).rws, op, m.key, func(r *policy.RW) (bool, error) {
		return r.Force(ctx, op, r.Lock.ForceUnlock(write, owners...), r.HeldFor(write))
	})
}

func (m *RWMutex) Inspect(ctx context.Context) (observe.RWStanding, error) {
	m = core.OrZero(m)
	return resource.Inside(core.OrZero(m.c).rws, "inspect", m.key, func(r *policy.RW) (observe.RWStanding, error) {
		s, err := core.Answer(ctx, m.c.Core(), "inspect", m.key, func() (observe.RWStanding, error) {
			in, err := m.c.base.Inspection(r.Lock.Inspect())
			s := observe.RWStanding{Listening: in.Listening, TTL: in.TTL}
			for _, field := range in.Fields {
				if writer, writes := protocol.WriterOf(field.Owner); writes {
					s.Writer = writer
				} else {
					s.Readers = append(s.Readers, field.Owner)
				}
			}
			slices.Sort(s.Readers)
			return s, err
		})
		if err == nil {
			s.WriteCount, s.ReadCount = r.Entered()
		}
		return s, err
	})
}

// lock is the common part of Lock, TryLock, RLock and TryRLock.
func (m *RWMutex) lock(ctx context.Context, op string, write bool, opts []leases.Option) (*leases.Lease, error) {
	m, ctx = core.OrZero(m), core.Present(ctx)
	var a leases.Attempt
	a.Client, a.Op, a.Kind, a.Key = m.c.Core(), op, core.KindRead, m.key // a literal would be on the stack twice
	if write {
		a.Kind = core.KindWrite
	}
	a.Begin(ctx, m.opts, opts)
	lease, err := m.take(ctx, a.Kind, &a.Config, a.Err, a.Waits)
	return a.Granted(lease, err)
}

// take waits for the key with the options of cfg; with an err it fails.
func (m *RWMutex) take(ctx context.Context, kind string, cfg *leases.Config, err error, waiting func()) (*leases.Lease, error) {
	if err = m.c.Core().Ready(ctx, kind, m.key, err); err != nil {
		return nil, err
	}
	l := leases.New(m.c.Core(), kind, ctx)
	l.Core().Label = cfg.Label
	if r, known := m.c.rws.Find(m.key); known { // a call that enters a hold of this process is no further user of the resource
		if entered, _, err := r.Enter(ctx, l, cfg); entered {
			return l.Entered(ctx, cfg)
		} else if err != nil {
			return nil, err
		}
	}
	r, err := m.c.rws.Enter(m.key, false)
	if err != nil {
		return nil, err
	}
	defer r.Exit()
	entered, under, err := r.Enter(ctx, l, cfg) // this process may have been granted the lock meanwhile
	if err != nil {
		return nil, err
	}
	if entered {
		return l.Entered(ctx, cfg)
	}
	w := resource.NewWaiter(ctx, l, cfg)
	r.NewTicket(w, kind == core.KindWrite, under)
	return m.c.base.Contend(ctx, r, w, cfg, waiting)
}

// A ReadLocker locks M for reading.
type ReadLocker struct{ M *RWMutex }

func (r ReadLocker) Lock(ctx context.Context, opts ...leases.Option) (*leases.Lease, error) {
	return r.M.RLock(ctx, opts...)
}

func (r ReadLocker) TryLock(ctx context.Context, opts ...leases.Option) (*leases.Lease, error) {
	return r.M.TryRLock(ctx, opts...)
}

func (r ReadLocker) Key() string { return r.M.Key() }
