package lockrt

import (
	"context"
	"slices"
	"time"
)

// A FairMutex is a [Mutex] that is granted strictly in the order in which Redis was asked for it, by all goroutines of
// all processes, Java programs with Redisson included. It names a key and holds no state: make one for each use, keep
// one, share it between goroutines. Redisson's RFairLock.
//
// To Redis each goroutine that waits is an owner of its own, with a place in Redisson's queue. Those of one process that
// stand there one behind the other, on the same terms, have the key one after the other without a word to Redis, which sees
// the first of them as its owner until the last one gives it back; [Options.Cohort] bounds how many these are. So a grant
// costs one command, to ask, and another one for each time that the key goes to another process. A [Mutex] serves the
// goroutines of one process for less.
//
// # The dead
//
// Who gives up leaves the queue, whatever became of the request by which it came. A process of this library that died
// while it waited holds up those behind it for two seconds, once it is next; so does one that cannot be reached. A
// Java program that died holds them up until its time is over, which is up to [Options.FairWait], or its waitTime, after
// it became next. So does each goroutine of a process of this library that died, while nobody but Java programs waits, and
// of a row also each that had the key. The times come from the clocks of the clients, as Redisson has it: one that is ahead of the others by
// more than that puts those it finds at the head of the queue to its end.
//
// A request that is not answered within 250 ms is sent again over another connection, twice at most. So a connection that
// has fallen mute keeps a key from those who wait for it for about that long, and not until it is found to be mute.
type FairMutex struct {
	c    *Client
	key  string
	opts []LockOption
}

// FairMutex returns the fair mutex named key. It does not contact Redis: make one for each use or keep one. An unusable
// key or option is reported by what uses it. Redisson's getFairLock.
func (c *Client) FairMutex(key string, opts ...LockOption) *FairMutex {
	return &FairMutex{c: c.made(), key: key, opts: opts}
}

var _ Locker = (*FairMutex)(nil)

// Key returns the name of the mutex, which is its key in Redis.
func (m *FairMutex) Key() string { return orZero(m).key }

// Lock waits until the key is granted, ctx ends or [WithWait] runs out. It fails like [Mutex.Lock]. Redisson's lock and
// tryLock(waitTime, leaseTime, unit).
func (m *FairMutex) Lock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.lock(ctx, "lock", opts)
}

// TryLock tries once, without standing in the queue, and fails with [ErrNotAcquired] if somebody has the key or waits
// for it. A key that this process holds is refused without a round trip. Redisson's tryLock.
func (m *FairMutex) TryLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.lock(ctx, "try lock", append(slices.Clip(opts), once))
}

// Do locks, calls fn with the lease's context and unlocks, like [Mutex.Do].
func (m *FairMutex) Do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error, opts ...LockOption) error {
	return do(ctx, m, fn, opts)
}

// ForceUnlock takes the key from whoever holds it, gives it to who is next and reports whether anybody had it. The
// holder's lease is lost at once; a Java program learns when it unlocks. Redisson's forceUnlock.
func (m *FairMutex) ForceUnlock(ctx context.Context) (bool, error) {
	m = orZero(m)
	if m.c == nil {
		return false, &Error{Op: "force unlock", Key: m.key, Err: errNoClient}
	}
	lock := m.c.wire.Fair(m.key)
	return m.c.force(ctx, "force unlock", m.key, func() (victims []victim, exit func(), err error) {
		r, err := m.c.enterFair(m.key)
		if err != nil {
			return nil, nil, err
		}
		if g := r.held(); g != nil {
			victims = []victim{{&g.guard, func(cause error) { r.endLeases(g, cause) }}}
		}
		return victims, r.exit, nil
	}, lock.ForceUnlock(time.Now()))
}

// Inspect asks Redis who holds the key and how many wait for it. It fails with [ErrWrongType] if the key is not a lock.
// Redisson's isLocked, remainTimeToLive and getHoldCount.
func (m *FairMutex) Inspect(ctx context.Context) (Standing, error) {
	m = orZero(m)
	fail := func(err error) (Standing, error) { return Standing{}, &Error{Op: "inspect", Key: m.key, Err: err} }
	if err := m.c.checkKey(m.key); err != nil {
		return fail(err)
	}
	r, err := m.c.enterFair(m.key)
	if err != nil {
		return fail(err)
	}
	defer r.exit()
	s, err := m.c.inspect(ctx, m.key, r.lock.Inspect(), r.entered)
	if s.Ours {
		s.Waiting = max(0, s.Waiting-r.served())
	}
	return s, err
}

// lock is every way to lock.
func (m *FairMutex) lock(ctx context.Context, op string, opts []LockOption) (*Lease, error) {
	m, ctx = orZero(m), present(ctx)
	a := attempt{c: m.c, op: op, kind: kindFair, key: m.key}
	a.begin(ctx, m.opts, opts)
	lease, err := m.take(ctx, a.cfg, a.err, a.waits)
	return a.granted(lease, err)
}

// take waits for the key as cfg says, which is of no use with an err.
func (m *FairMutex) take(ctx context.Context, cfg lockConfig, err error, waiting func()) (*Lease, error) {
	if err != nil {
		return nil, err
	}
	if err := m.c.checkKey(m.key); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ended(ctx)
	}
	l := newLease(m.c, kindFair, m.key, ctx)
	l.name = cfg.name
	for outer := leaseFrom(ctx, m.c, m.key); outer != nil; outer = leaseFrom(outer.parent, m.c, m.key) {
		if outer.kind == kindFair && outer.grant.reenter(outer, l) {
			return l.entered(ctx, cfg)
		}
	}
	r, err := m.c.enterFair(m.key)
	if err != nil {
		return nil, err
	}
	defer r.exit()
	if r.reenterBy(l) {
		return l.entered(ctx, cfg)
	}
	w := newWaiter(ctx, l, cfg)
	return m.c.contend(ctx, r.contest(w, cfg), w, cfg, waiting)
}
