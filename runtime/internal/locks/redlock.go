package locks

import (
	"context"
	"fmt"
	"slices"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/observe"
)

// A RedLock is a key that is held on a majority of servers: lockrt.RedLock.
type RedLock struct {
	key      string
	parts    []*Mutex
	err      error  // why it is no lock
	queueKey string // names the queue of its waiters in this process: the key, and the servers
}

var _ Locker = (*RedLock)(nil)

// NewRedLock returns the lock of a key on the servers of clients. The first client decides the timeouts, and calls the hooks; closing it ends the calls.
func NewRedLock(key string, clients []*Client, opts ...LockOption) *RedLock {
	fail := func(format string, args ...any) *RedLock {
		return &RedLock{key: key, err: fmt.Errorf("%w: "+format, append([]any{failure.ErrBadOption}, args...)...)}
	}
	if n := len(clients); n < 3 || n%2 == 0 {
		return fail("a red lock of %d servers, and not of an odd number of three or more", n)
	}
	parts := make([]*Mutex, 0, len(clients))
	seen := make(map[string]bool)
	for i, c := range clients {
		if c.made() == nil {
			return fail("client %d of a red lock is nil", i)
		}
		for _, addr := range c.net.Addrs() {
			if seen[addr] {
				return fail("a red lock with the server %s twice", addr)
			}
			seen[addr] = true
		}
		parts = append(parts, c.Mutex(key, opts...))
	}
	return newRedLock(parts)
}

func newRedLock(parts []*Mutex) *RedLock {
	m := &RedLock{key: parts[0].key, parts: parts}
	for _, part := range parts {
		m.queueKey += part.c.wire.UUID + ":" + part.key + " "
	}
	return m
}

func (m *RedLock) Key() string { return orZero(m).key }

func (m *RedLock) Lock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.lock(ctx, "lock", opts)
}

func (m *RedLock) TryLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.lock(ctx, "try lock", append(slices.Clip(opts), Once))
}

// unusable returns why m is no lock, or nil.
func (m *RedLock) unusable() error {
	switch {
	case m == nil:
		return errNoLock
	case m.err == nil && len(m.parts) == 0:
		return errNoLock
	}
	return m.err
}

func (m *RedLock) lock(ctx context.Context, op string, opts []LockOption) (*Lease, error) {
	if err := m.unusable(); err != nil {
		return nil, &observe.Error{Op: op, Key: m.Key(), Err: err}
	}
	ctx = present(ctx)
	a := attempt{c: m.parts[0].c.core(), op: op, kind: kindRedLock, key: m.key}
	a.begin(ctx, m.parts[0].opts, opts)
	lease, err := m.take(ctx, &a, opts)
	return a.granted(lease, err)
}

func (m *RedLock) take(ctx context.Context, a *attempt, opts []LockOption) (*Lease, error) {
	c, cfg := m.parts[0].c, a.cfg
	if a.err != nil {
		return nil, a.err
	}
	for _, part := range m.parts {
		if err := part.c.core().checkKey(m.key); err != nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, ended(ctx)
	}
	whole := newLease(c.core(), kindRedLock, m.key, ctx)
	whole.label = cfg.label
	e := newQuorumAcquire(ctx, m, opts, cfg, whole)
	e.inLine = cfg.wait != 0 && !m.entered(whole)
	err := c.await(ctx, e, e.w, cfg, a.waits)
	if err == nil && ctx.Err() != nil {
		err = ended(ctx) // granted, but the caller does not want it any more
	}
	e.leave(e.w)
	if err == nil {
		return whole, nil
	}
	if compositeOf(whole) == nil {
		queuesOf(c).leave(e, 0)
	} else {
		c.spawn(func() { _ = whole.grant.unlock(whole) })
	}
	return nil, err
}

// entered reports whether l may enter its caller's lease: it does not wait for itself.
func (m *RedLock) entered(l *Lease) bool {
	return l.rare().owner != nil || slices.ContainsFunc(m.parts, func(part *Mutex) bool { return leaseFrom(l.parent, part.c.core(), part.key) != nil })
}

// needs returns how many parts are a majority.
func (m *RedLock) needs() int { return len(m.parts)/2 + 1 }
