package lockrt

import (
	"context"
	"fmt"
	"slices"
)

// A RedLock is held on a majority of independent Redis servers, so it outlives the loss of the others: of two
// of five, say. Most programs want a [Mutex] with [WithFencing] on one server, with a replica, instead: it costs a
// request where this costs five, and its token guards what a lock alone cannot. Redisson's RRedLock, which
// is deprecated for the same reason; the algorithm is antirez' Redlock, with Kleppmann's objections
// in mind.
//
// All servers are asked at once. A majority that grants in time makes the lease; what the others grant later joins it,
// and what was granted without a majority is given back. The lease is trusted as long as a majority of its
// parts is, each counted from before its own request was sent, less a margin for clocks that run at different
// speeds: a tenth of its time, 3 seconds at most. Each part is renewed by its own Client. A server that has no part in a
// lease that is renewed, because it refused, did not answer or lost it, is asked again while the majority has it, so the lease
// is lost with a majority at a time, and not with one server after the other.
//
// A minority that is down, slow or cut off delays nobody: the answer of the majority is enough to lock, to
// renew, to extend and to unlock.
//
// Of one process only one at a time asks the servers, in the order in which they came, if all use the same Clients; what
// it was granted goes from one to the next for up to 10ms, except with fencing, [WithLease] or [WithMaxHold]. Who is
// refused asks again when a server says that the lock was released, after a random pause; pauses also grow to a third of
// a second while nobody says anything. There is no order among processes.
//
// # What it does not give
//
// It takes the servers' word for what they granted. A server that was restarted without what it knew grants
// again: one server that restarts empty while the lock is held by a bare majority makes a second holder. The first one learns of it at its
// next renewal, or at once where the server tells of changes. So have each write to disk with appendfsync always, or
// keep one that was restarted away for as long as the longest watchdog or lease time of its locks, or what [Lease.Extend] made of
// it, before it serves again. The same goes for a replica that takes over: make every server a single one.
//
// A holder that is stopped for longer than its lease, or whose writes are under way for that long, is not kept
// from what the next one does. With WithFencing the lease has a token, larger than that of every earlier lease
// of the key: the largest of those that the majority gave, written back to a majority before Lock returns.
type RedLock struct {
	key      string
	parts    []*Mutex
	err      error  // why there are none
	queueKey string // names the line of those of this process who want it: the key, and the servers
}

var _ Locker = (*RedLock)(nil)

// NewRedLock returns the lock named key on the servers of clients: three or more, of an odd number, each another
// server. It does not contact them. Servers that are not, an unusable key and an unusable
// option are reported by what uses it, before anything is sent. The Clients remain the caller's to close, and closing one of
// them is the loss of its server; closing the first also ends the calls that wait.
func NewRedLock(key string, clients []*Client, opts ...LockOption) *RedLock {
	fail := func(format string, args ...any) *RedLock {
		return &RedLock{key: key, err: fmt.Errorf("%w: "+format, append([]any{ErrBadOption}, args...)...)}
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

// Key returns the name of the lock, which is its key in Redis, on each server.
func (m *RedLock) Key() string { return orZero(m).key }

// Lock waits until a majority of the servers has granted the key, ctx ends or [WithWait] runs out. Otherwise it
// is like [Mutex.Lock]: after an error nothing is held, what was granted without a majority is given
// back, in the background if a server does not answer within 100ms. It fails with [ErrUnavailable] and the error of a server only if a
// majority cannot be had without those that fail. An attempt waits for an answer for as long as [Options.RedLockTimeout] of the
// first client, or half of the watchdog or lease time if that is shorter; but, as a rule, a moment only when a majority has answered
// and does not agree: then it gives back what it has and asks again, since the others may be away.
func (m *RedLock) Lock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.lock(ctx, "lock", opts)
}

// TryLock asks all servers once, without waiting for others, and fails with [ErrNotAcquired]. It waits for answers as long as
// a majority can still grant the key, at most for [Options.RedLockTimeout]: a slow server that is needed is waited for, and one
// that is not needed is not. Two who try at the same time may both fail.
func (m *RedLock) TryLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.lock(ctx, "try lock", append(slices.Clip(opts), once))
}

// Do is [Mutex.Do].
func (m *RedLock) Do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error, opts ...LockOption) error {
	return do(ctx, m, fn, opts)
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
		return nil, &Error{Op: op, Key: m.Key(), Err: err}
	}
	ctx = present(ctx)
	a := attempt{c: m.parts[0].c, op: op, kind: kindRedLock, key: m.key}
	a.begin(ctx, m.parts[0].opts, opts)
	lease, err := m.take(ctx, &a, opts)
	return a.granted(lease, err)
}

func (m *RedLock) take(ctx context.Context, a *attempt, opts []LockOption) (*Lease, error) {
	c, cfg := a.c, a.cfg
	if a.err != nil {
		return nil, a.err
	}
	for _, part := range m.parts {
		if err := part.c.checkKey(m.key); err != nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, ended(ctx)
	}
	whole := newLease(c, kindRedLock, m.key, ctx)
	whole.name = cfg.name
	e := &quorumAcquire{m: m, ctx: ctx, opts: append(slices.Clip(opts), WithWait(0), following), cfg: cfg, whole: whole}
	e.w = newWaiter(ctx, whole, cfg) // not used again: it may be poked late
	e.w.quorum = true
	e.inLine = cfg.wait != 0 && !m.entered(whole)
	err := c.await(ctx, e, e.w, cfg, a.waits)
	if err == nil && ctx.Err() != nil {
		err = ended(ctx) // granted, but not wanted any more
	}
	e.leave(e.w)
	if err == nil {
		return whole, nil
	}
	if whole.composite == nil {
		c.quorums.leave(e, 0)
	} else {
		c.spawn(func() { _ = whole.grant.unlock(whole) })
	}
	return nil, err
}

// entered reports whether l may enter what its caller has: it does not wait for itself.
func (m *RedLock) entered(l *Lease) bool {
	return l.owner != nil || slices.ContainsFunc(m.parts, func(part *Mutex) bool { return leaseFrom(l.parent, part.c, part.key) != nil })
}

// needs returns how many parts are a majority.
func (m *RedLock) needs() int { return len(m.parts)/2 + 1 }
