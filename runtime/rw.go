package lockrt

import (
	"context"
	"slices"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// An RWMutex is held by one writer or by any number of readers, in this process and in all others, Java programs too. Redisson's
// RReadWriteLock.
//
// Readers of one process with the same watchdog time, and without [WithLease] and [WithMaxHold], share one hold in
// Redis: joining it costs no round trip. Processes wait in two queues, of readers and of writers, which take turns; new
// readers do not pass a waiting writer. So, as with [sync.RWMutex], a reader must not wait for another reader, unless
// the other reads under its context or owner. A dead waiting process delays the others by 100ms, a dead writer by 2s:
// see docs/details.md.
//
// A writer may write again and read, a reader may read again, under the context of the lease or as the same owner. A reader that asks to
// write fails with [ErrUpgrade]. To go on reading after writing, take both under an owner:
//
//	ctx = lockrt.WithOwner(ctx, lockrt.NewOwner())
//	w, err := m.Lock(ctx)
//	r, err := m.RLock(ctx)
//	err = w.Unlock(ctx) // r is still held, and other readers may come
type RWMutex struct {
	c    *Client
	key  string
	opts []LockOption
}

// RWMutex returns the read-write lock named key. Redisson's getReadWriteLock.
func (c *Client) RWMutex(key string, opts ...LockOption) *RWMutex {
	return &RWMutex{c: c.made(), key: key, opts: opts}
}

var _ Locker = (*RWMutex)(nil)

// Key returns the name of the lock, its key in Redis.
func (m *RWMutex) Key() string { return orZero(m).key }

// Lock waits for the key, for writing. Redisson's writeLock().lock.
func (m *RWMutex) Lock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.lock(ctx, "lock", true, opts)
}

// TryLock tries once, for writing. It is refused without a round trip if this process holds the key or waits, and in the turn of readers or
// a Java program. Redisson's writeLock().tryLock.
func (m *RWMutex) TryLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.lock(ctx, "try lock", true, append(slices.Clip(opts), once))
}

// RLock waits for the key, for reading. Redisson's readLock().lock.
func (m *RWMutex) RLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.lock(ctx, "read lock", false, opts)
}

// TryRLock tries once, for reading; it fails if there is a writer, or a waiter that wants to write. Redisson's
// readLock().tryLock.
func (m *RWMutex) TryRLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.lock(ctx, "try read lock", false, append(slices.Clip(opts), once))
}

// Do is [Mutex.Do], for writing.
func (m *RWMutex) Do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error, opts ...LockOption) error {
	return do(ctx, m, fn, opts)
}

// RDo is [Mutex.Do], for reading.
func (m *RWMutex) RDo(ctx context.Context, fn func(ctx context.Context, lease *Lease) error, opts ...LockOption) error {
	return do(ctx, m.RLocker(), fn, opts)
}

// RLocker returns a [Locker] that locks for reading, with many holders.
func (m *RWMutex) RLocker() Locker { return rLocker{m} }

type rLocker struct{ m *RWMutex }

func (r rLocker) Lock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return r.m.RLock(ctx, opts...)
}

func (r rLocker) TryLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return r.m.TryRLock(ctx, opts...)
}

func (r rLocker) Key() string { return r.m.Key() }

// ForceUnlock takes the key from the writer, including its holds for reading, and reports whether there was one.
// Redisson's writeLock().forceUnlock.
func (m *RWMutex) ForceUnlock(ctx context.Context) (bool, error) {
	return orZero(m).force(ctx, "force unlock", true)
}

// ForceRUnlock takes the key from all readers except a writer that reads, and reports whether there were any.
// Redisson's readLock().forceUnlock.
func (m *RWMutex) ForceRUnlock(ctx context.Context) (bool, error) {
	return orZero(m).force(ctx, "force read unlock", false)
}

// force takes the key from the writer or from readers, or from owners alone if there are any.
func (m *RWMutex) force(ctx context.Context, op string, write bool, owners ...string) (bool, error) {
	return inside(&orZero(m.c).rws, op, m.key, func(r *rwResource) (bool, error) {
		return r.force(ctx, op, r.lock.ForceUnlock(write, owners...), r.heldFor(write))
	})
}

// Inspect asks Redis for the writer or the readers. Redisson's isLocked, of both.
func (m *RWMutex) Inspect(ctx context.Context) (RWStanding, error) {
	m = orZero(m)
	return inside(&orZero(m.c).rws, "inspect", m.key, func(r *rwResource) (RWStanding, error) {
		s, err := answer(ctx, m.c, "inspect", m.key, func() (RWStanding, error) {
			in, err := m.c.inspection(r.lock.Inspect())
			s := RWStanding{Listening: in.Listening, TTL: in.TTL}
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
	a := attempt{c: m.c, op: op, kind: kindRead, key: m.key}
	if write {
		a.kind = kindWrite
	}
	a.begin(ctx, m.opts, opts)
	lease, err := m.take(ctx, a.kind, a.cfg, a.err, a.waits)
	return a.granted(lease, err)
}

// take waits for the key with the options of cfg; with an err it fails.
func (m *RWMutex) take(ctx context.Context, kind string, cfg lockConfig, err error, waiting func()) (*Lease, error) {
	if err = m.c.ready(ctx, kind, m.key, err); err != nil {
		return nil, err
	}
	l := newLease(m.c, kind, m.key, ctx)
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
