package lockrt

import (
	"context"
	"slices"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// An RWMutex is held by one writer, or by any number of readers, in this process and in all others, Java
// programs with Redisson included. It names a key and holds no state: make one for each use, keep
// one, share it between goroutines. Redisson's RReadWriteLock.
//
// Readers of one process have one hold in Redis together, as long as they ask for the same watchdog time
// and neither a [WithLease] nor a [WithMaxHold]: who joins others sends nothing. The last one out gives it
// back.
//
// # Order
//
// Goroutines of one process are served in the order in which they asked: a reader does not pass a writer
// that waits. Processes stand in two lines, one to read and one to write, each first come, first served, and the two take turns:
// when a writer unlocks, all who wait to read are next, and when the last reader does, the first that waits to write. New
// readers do not pass a process that waits to write. Only those are woken whose turn it is. A process in line that has died
// costs 100 milliseconds, and one that waited to write and has died keeps new readers out for 2 seconds at most. Java programs
// race, as always, with a start of 5ms whenever the key is given back here; readers that come and go without end notice within
// 250ms that somebody waits to write of whom they do not hear, a Java program for one, and then nobody joins them.
//
// As with [sync.RWMutex], a goroutine that reads must not wait for another reader, unless that reads under
// its context or as the same owner: a writer that waits may be between them.
//
// # Reentry
//
// Who writes may write again and read, and who reads may read again, under the context of the lease,
// or as the same owner, see [WithOwner]. Who reads and asks to write fails with [ErrUpgrade] at once: two
// who did would wait for each other. A writer that unlocks while it has a lease for reading goes
// on reading, and lets other readers in. The context of a lease taken under that of another ends
// with it, so who goes on reading takes both under the context of an owner:
//
//	ctx = lockrt.WithOwner(ctx, lockrt.NewOwner())
//	w, err := m.Lock(ctx)
//	...
//	r, err := m.RLock(ctx)
//	...
//	err = w.Unlock(ctx) // r is held still
type RWMutex struct {
	c    *Client
	key  string
	opts []LockOption
}

// RWMutex returns the read-write lock named key. It does not contact Redis: make one for each use or keep
// one. An unusable key or option is reported by what uses it. Redisson's getReadWriteLock.
func (c *Client) RWMutex(key string, opts ...LockOption) *RWMutex {
	return &RWMutex{c: c.made(), key: key, opts: opts}
}

var _ Locker = (*RWMutex)(nil)

// Key returns the name of the lock, which is its key in Redis.
func (m *RWMutex) Key() string { return orZero(m).key }

// Lock waits until the key is granted for writing, ctx ends or [WithWait] runs out. It fails like
// [Mutex.Lock], and with [ErrUpgrade] for a caller that reads. Redisson's writeLock().lock and
// tryLock(waitTime, leaseTime, unit).
func (m *RWMutex) Lock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.lock(ctx, "lock", true, opts)
}

// TryLock tries to lock for writing once, without waiting for others, and fails with [ErrNotAcquired]. It is
// refused without a round trip if this process has the key or waits for it already, and also when it is the turn
// of those who wait to read, or of a Java program. Redisson's writeLock().tryLock.
func (m *RWMutex) TryLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.lock(ctx, "try lock", true, append(slices.Clip(opts), once))
}

// RLock waits until the key is granted for reading, ctx ends or [WithWait] runs out. It fails like
// [Mutex.Lock], and with [ErrBadOption] for [WithFencing]: a reader has no fencing token. Redisson's
// readLock().lock and tryLock(waitTime, leaseTime, unit).
func (m *RWMutex) RLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.lock(ctx, "read lock", false, opts)
}

// TryRLock tries to lock for reading once, without waiting for others, and fails with [ErrNotAcquired] if
// somebody writes, or waits to write. Redisson's readLock().tryLock.
func (m *RWMutex) TryRLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.lock(ctx, "try read lock", false, append(slices.Clip(opts), once))
}

// Do locks for writing, calls fn with the lease's context and unlocks, like [Mutex.Do].
func (m *RWMutex) Do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error, opts ...LockOption) error {
	return do(ctx, m, fn, opts)
}

// RDo locks for reading, calls fn with the lease's context and unlocks, like [Mutex.Do].
func (m *RWMutex) RDo(ctx context.Context, fn func(ctx context.Context, lease *Lease) error, opts ...LockOption) error {
	return do(ctx, m.RLocker(), fn, opts)
}

// RLocker returns a [Locker] whose Lock and TryLock are RLock and TryRLock. Other than a Locker promises,
// it has many holders. Redisson's readLock.
func (m *RWMutex) RLocker() Locker { return rLocker{m} }

type rLocker struct{ m *RWMutex }

func (r rLocker) Lock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return r.m.RLock(ctx, opts...)
}

func (r rLocker) TryLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return r.m.TryRLock(ctx, opts...)
}

func (r rLocker) Key() string { return r.m.Key() }

// ForceUnlock takes the key from whoever writes, with what that one has for reading, and reports whether
// anybody did. Readers keep it. The holder's leases are lost at once; a Java program learns when it unlocks.
// Redisson's writeLock().forceUnlock.
func (m *RWMutex) ForceUnlock(ctx context.Context) (bool, error) {
	return orZero(m).force(ctx, "force unlock", true)
}

// ForceRUnlock takes the key from all who read, and reports whether anybody did. A writer keeps it, with what
// it has for reading. Redisson's readLock().forceUnlock.
func (m *RWMutex) ForceRUnlock(ctx context.Context) (bool, error) {
	return orZero(m).force(ctx, "force read unlock", false)
}

func (m *RWMutex) force(ctx context.Context, op string, write bool) (bool, error) {
	if m.c == nil {
		return false, &Error{Op: op, Key: m.key, Err: errNoClient}
	}
	lock := m.c.wire.RW(m.key)
	return m.c.force(ctx, op, m.key, func() (victims []victim, exit func(), err error) {
		r, err := m.c.enterRW(m.key)
		if err != nil {
			return nil, nil, err
		}
		for _, g := range r.held(write) {
			victims = append(victims, victim{&g.guard, func(cause error) { r.endLeases(g, cause) }})
		}
		return victims, r.exit, nil
	}, lock.ForceUnlock(write))
}

// Inspect asks Redis who holds the key, and how. It fails with [ErrWrongType] if the key is not a lock.
// Redisson's isLocked and remainTimeToLive, of either side.
func (m *RWMutex) Inspect(ctx context.Context) (RWStanding, error) {
	m = orZero(m)
	type reply struct {
		standing RWStanding
		err      error
	}
	fail := func(err error) (RWStanding, error) {
		return RWStanding{}, &Error{Op: "inspect", Key: m.key, Err: err}
	}
	if err := m.c.checkKey(m.key); err != nil {
		return fail(err)
	}
	r, err := m.c.enterRW(m.key)
	if err != nil {
		return fail(err)
	}
	defer r.exit()
	got, err := bounded(ctx, m.c, func() reply {
		in, err := m.c.inspection(r.lock.Inspect())
		s := RWStanding{Listening: in.Listening, TTL: in.TTL}
		if err != nil {
			return reply{s, err}
		}
		for _, field := range in.Fields {
			if writer, writes := protocol.WriterOf(field.Owner); writes {
				s.Writer = writer
			} else {
				s.Readers = append(s.Readers, field.Owner)
			}
		}
		slices.Sort(s.Readers)
		return reply{s, nil}
	})
	if err = cmpOr(err, got.err); err != nil {
		return fail(refused(err))
	}
	got.standing.WriteCount, got.standing.ReadCount = r.entered()
	return got.standing, nil
}

// lock is every way to lock.
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

// take waits for the key as cfg says, which is of no use with an err.
func (m *RWMutex) take(ctx context.Context, kind string, cfg lockConfig, err error, waiting func()) (*Lease, error) {
	if err != nil {
		return nil, err
	}
	if err := m.c.checkKey(m.key); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ended(ctx)
	}
	l := newLease(m.c, kind, m.key, ctx)
	l.name = cfg.name
	if r := m.c.knownRW(m.key); r != nil {
		// Who is let in by what the process has need not be counted as a user of the resource besides.
		if entered, _, err := r.enter(ctx, l, cfg); entered {
			return l.entered(ctx, cfg)
		} else if err != nil {
			return nil, err
		}
	}
	r, err := m.c.enterRW(m.key)
	if err != nil {
		return nil, err
	}
	defer r.exit()
	entered, under, err := r.enter(ctx, l, cfg) // somebody may have been granted something meanwhile
	if err != nil {
		return nil, err
	}
	if entered {
		return l.entered(ctx, cfg)
	}
	w := newWaiter(ctx, l, cfg)
	w.rw = &rwTicket{r: r, w: w, write: kind == kindWrite, under: under}
	return m.c.contend(ctx, r, w, cfg, waiting)
}
