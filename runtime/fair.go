package lockrt

import (
	"context"
	"slices"
	"time"
)

// A FairMutex is a [Mutex] that Redis grants strictly in the order of the requests, of all goroutines and Java threads.
// Redisson's RFairLock.
//
// Each waiting goroutine is an owner of its own in Redisson's wait queue. Neighbours of one process hand the key on
// without a round trip, [Options.Cohort] at most in a row; so a grant costs one command, and a hand-over to another
// process one more. A dead waiting process delays the waiters behind it for two seconds when it is next, a dead Java program for
// [Options.FairWait] at most. The Client sends a request without an answer again after 250ms, over another connection.
// docs/details.md has the exact rules.
type FairMutex struct {
	c    *Client
	key  string
	opts []LockOption
}

// FairMutex returns the fair mutex named key. Redisson's getFairLock.
func (c *Client) FairMutex(key string, opts ...LockOption) *FairMutex {
	return &FairMutex{c: c.made(), key: key, opts: opts}
}

var _ Locker = (*FairMutex)(nil)

// Key returns the name of the mutex, its key in Redis.
func (m *FairMutex) Key() string { return orZero(m).key }

// Lock waits for the key. Redisson's lock and tryLock(waitTime, ...).
func (m *FairMutex) Lock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.lock(ctx, "lock", opts)
}

// TryLock tries once, without entering the queue; it fails if there is a holder or a waiter. Redisson's tryLock.
func (m *FairMutex) TryLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.lock(ctx, "try lock", append(slices.Clip(opts), once))
}

// Do is [Mutex.Do].
func (m *FairMutex) Do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error, opts ...LockOption) error {
	return do(ctx, m, fn, opts)
}

// ForceUnlock is [Mutex.ForceUnlock]. The next waiter has the key.
func (m *FairMutex) ForceUnlock(ctx context.Context) (bool, error) { return orZero(m).force(ctx) }

// force takes the key from its holder, or from owners alone if there are any.
func (m *FairMutex) force(ctx context.Context, owners ...string) (bool, error) {
	const op = "force unlock"
	return inside(&orZero(m.c).fairs, op, m.key, func(r *fairResource) (bool, error) {
		return r.force(ctx, op, r.lock.ForceUnlock(time.Now(), owners...), r.held())
	})
}

// Inspect asks Redis for the holder of the key and the number of waiters. Redisson's isLocked.
func (m *FairMutex) Inspect(ctx context.Context) (Standing, error) {
	m = orZero(m)
	return inside(&orZero(m.c).fairs, "inspect", m.key, func(r *fairResource) (Standing, error) {
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
	a := attempt{c: m.c, op: op, kind: kindFair, key: m.key}
	a.begin(ctx, m.opts, opts)
	lease, err := m.take(ctx, a.cfg, a.err, a.waits)
	return a.granted(lease, err)
}

// take waits for the key with the options of cfg; with an err it fails.
func (m *FairMutex) take(ctx context.Context, cfg lockConfig, err error, waiting func()) (*Lease, error) {
	if err = m.c.ready(ctx, kindFair, m.key, err); err != nil {
		return nil, err
	}
	l := newLease(m.c, kindFair, m.key, ctx)
	l.label = cfg.label
	for outer := leaseFrom(ctx, m.c, m.key); outer != nil; outer = leaseFrom(outer.parent, m.c, m.key) {
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
