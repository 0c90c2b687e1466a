package locks

import (
	"context"
	"slices"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/observe"
)

// An RWMutex is a key with one writer, or with any number of readers: lockrt.RWMutex.
type RWMutex struct {
	c    *Client
	key  string
	opts []LockOption
}

func (c *Client) RWMutex(key string, opts ...LockOption) *RWMutex {
	return &RWMutex{c: c.made(), key: key, opts: opts}
}

var _ Locker = (*RWMutex)(nil)

func (m *RWMutex) Key() string { return orZero(m).key }

func (m *RWMutex) Lock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.lock(ctx, "lock", true, opts)
}

func (m *RWMutex) TryLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.lock(ctx, "try lock", true, append(slices.Clip(opts), Once))
}

func (m *RWMutex) RLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.lock(ctx, "read lock", false, opts)
}

func (m *RWMutex) TryRLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.lock(ctx, "try read lock", false, append(slices.Clip(opts), Once))
}

// A ReadLocker locks M for reading.
type ReadLocker struct{ M *RWMutex }

func (r ReadLocker) Lock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return r.M.RLock(ctx, opts...)
}

func (r ReadLocker) TryLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return r.M.TryRLock(ctx, opts...)
}

func (r ReadLocker) Key() string { return r.M.Key() }

func (m *RWMutex) ForceUnlock(ctx context.Context) (bool, error) {
	return orZero(m).force(ctx, "force unlock", true)
}

func (m *RWMutex) ForceRUnlock(ctx context.Context) (bool, error) {
	return orZero(m).force(ctx, "force read unlock", false)
}

// force takes the key from the writer or from readers, or from owners alone if there are any.
func (m *RWMutex) force(ctx context.Context, op string, write bool, owners ...string) (bool, error) {
	return inside(orZero(m.c).rws, op, m.key, func(r *rwResource) (bool, error) {
		return r.force(ctx, op, r.lock.ForceUnlock(write, owners...), r.heldFor(write))
	})
}

func (m *RWMutex) Inspect(ctx context.Context) (observe.RWStanding, error) {
	m = orZero(m)
	return inside(orZero(m.c).rws, "inspect", m.key, func(r *rwResource) (observe.RWStanding, error) {
		s, err := answer(ctx, m.c.core(), "inspect", m.key, func() (observe.RWStanding, error) {
			in, err := m.c.inspection(r.lock.Inspect())
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
			s.WriteCount, s.ReadCount = r.entered()
		}
		return s, err
	})
}

// lock is the common part of all ways to lock.
func (m *RWMutex) lock(ctx context.Context, op string, write bool, opts []LockOption) (*Lease, error) {
	m, ctx = orZero(m), present(ctx)
	a := attempt{c: m.c.core(), op: op, kind: kindRead, key: m.key}
	if write {
		a.kind = kindWrite
	}
	a.begin(ctx, m.opts, opts)
	lease, err := m.take(ctx, a.kind, a.cfg, a.err, a.waits)
	return a.granted(lease, err)
}

// take waits for the key with the options of cfg; with an err it fails.
func (m *RWMutex) take(ctx context.Context, kind string, cfg lockConfig, err error, waiting func()) (*Lease, error) {
	if err = m.c.core().ready(ctx, kind, m.key, err); err != nil {
		return nil, err
	}
	l := newLease(m.c.core(), kind, m.key, ctx)
	l.label = cfg.label
	if r, known := m.c.rws.known(m.key); known { // a call that enters a hold of this process is no further user of the resource
		if entered, _, err := r.enter(ctx, l, cfg); entered {
			return l.entered(ctx, cfg)
		} else if err != nil {
			return nil, err
		}
	}
	r, err := m.c.rws.enter(m.key, false)
	if err != nil {
		return nil, err
	}
	defer r.exit()
	entered, under, err := r.enter(ctx, l, cfg) // this process may have been granted the lock meanwhile
	if err != nil {
		return nil, err
	}
	if entered {
		return l.entered(ctx, cfg)
	}
	w := newWaiter(ctx, l, cfg)
	r.newTicket(w, kind == kindWrite, under)
	return m.c.contend(ctx, r, w, cfg, waiting)
}
