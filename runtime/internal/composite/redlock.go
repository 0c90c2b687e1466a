package composite

import (
	"context"
	"fmt"
	"slices"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/locks"
	"github.com/lockgen/lockgen/runtime/observe"
)

// A RedLock is a key that is held on a majority of servers: lockrt.RedLock.
type RedLock struct {
	key      string
	parts    []*locks.Mutex
	err      error  // why the call of NewRedLock was wrong, or nil
	queueKey string // names the queue of its waiters in this process: the key, and the servers
}

var _ locks.Locker = (*RedLock)(nil)

// NewRedLock returns the lock of a key on the servers of clients. The first client decides the timeouts, and calls the hooks. Closing it
// ends the calls.
func NewRedLock(key string, clients []*locks.Client, opts ...leases.Option) *RedLock {
	fail := func(format string, args ...any) *RedLock {
		return &RedLock{key: key, err: fmt.Errorf("%w: "+format, append([]any{failure.ErrBadOption}, args...)...)}
	}
	if n := len(clients); n < 3 || n%2 == 0 {
		return fail("a red lock of %d servers, and not of an odd number of three or more", n)
	}
	parts := make([]*locks.Mutex, 0, len(clients))
	seen := make(map[string]bool)
	for i, c := range clients {
		if c.Made() == nil {
			return fail("client %d of a red lock is nil", i)
		}
		for _, addr := range c.Base().Net.Addrs() {
			if seen[addr] {
				return fail("a red lock with the server %s twice", addr)
			}
			seen[addr] = true
		}
		parts = append(parts, c.Mutex(key, opts...))
	}
	return newRedLock(parts)
}

// newRedLock returns the lock whose parts are these mutexes.
func newRedLock(parts []*locks.Mutex) *RedLock {
	m := &RedLock{key: parts[0].Key(), parts: parts}
	for _, part := range parts {
		m.queueKey += part.Client().Base().Wire.UUID + ":" + part.Key() + " "
	}
	return m
}

func (m *RedLock) Key() string { return core.OrZero(m).key }

func (m *RedLock) Lock(ctx context.Context, opts ...leases.Option) (*leases.Lease, error) {
	return m.lock(ctx, "lock", opts)
}

func (m *RedLock) TryLock(ctx context.Context, opts ...leases.Option) (*leases.Lease, error) {
	return m.lock(ctx, "try lock", append(slices.Clip(opts), leases.Once))
}

// unusable returns why m is no lock, or nil.
func (m *RedLock) unusable() error {
	switch {
	case m == nil:
		return core.ErrNoLock
	case m.err == nil && len(m.parts) == 0:
		return core.ErrNoLock
	}
	return m.err
}

func (m *RedLock) lock(ctx context.Context, op string, opts []leases.Option) (*leases.Lease, error) {
	if err := m.unusable(); err != nil {
		return nil, &observe.Error{Op: op, Key: m.Key(), Err: err}
	}
	ctx = core.Present(ctx)
	a := leases.Attempt{Client: m.parts[0].Client().Core(), Op: op, Kind: core.KindRedLock, Key: m.key}
	a.Begin(ctx, m.parts[0].Options(), opts)
	lease, err := m.take(ctx, &a, opts)
	return a.Granted(lease, err)
}

func (m *RedLock) take(ctx context.Context, a *leases.Attempt, opts []leases.Option) (*leases.Lease, error) {
	c, cfg := m.parts[0].Client(), a.Config
	if a.Err != nil {
		return nil, a.Err
	}
	for _, part := range m.parts {
		if err := part.Client().Core().CheckKey(m.key); err != nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, core.Ended(ctx)
	}
	whole := leases.New(c.Core(), core.KindRedLock, ctx)
	whole.Core().Label = cfg.Label
	e := newQuorumAcquire(ctx, m, opts, cfg, whole)
	e.inLine = cfg.Wait != 0 && !m.entered(whole)
	err := c.Base().Await(ctx, e, e.w, &cfg, a.Waits)
	if err == nil && ctx.Err() != nil {
		err = core.Ended(ctx) // granted, but the caller does not want it any more
	}
	e.Leave(e.w)
	if err == nil {
		return whole, nil
	}
	if compositeOf(whole) == nil {
		queuesOf(c).leave(e, 0)
	} else {
		c.Base().Spawn(func() { _ = whole.Core().Grant.Unlock(whole) })
	}
	return nil, err
}

// entered reports whether l may enter the lease of its caller, which then does not wait for itself.
func (m *RedLock) entered(l *leases.Lease) bool {
	return l.Core().Rare().Owner != nil || slices.ContainsFunc(m.parts, func(part *locks.Mutex) bool {
		return leases.Enterable(l.Core().Parent, part.Client().Core(), part.Key()) != nil
	})
}

// needs returns how many parts are a majority.
func (m *RedLock) needs() int { return len(m.parts)/2 + 1 }
