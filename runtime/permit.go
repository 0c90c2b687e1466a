package lockrt

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/counting"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A PermitSemaphore grants permits that are leases: the Client renews a permit while its holder lives; after a crash
// the permit becomes free; a loss ends its context. Goroutines of one process are served in the order of their calls; processes
// race. Redisson's RPermitExpirableSemaphore, which does not renew permits. Permits expire by the clock of the server, but
// Java programs use their own: a Java clock that is ahead by two thirds of the watchdog time reclaims held permits.
type PermitSemaphore struct {
	c       *Client
	key     string
	permits int
	opts    []LockOption
}

// PermitSemaphore returns the semaphore named key. The first Acquire creates it with that many permits; with 0 only SetPermits and
// TrySetPermits do. Redisson's getPermitExpirableSemaphore.
func (c *Client) PermitSemaphore(key string, permits int, opts ...LockOption) *PermitSemaphore {
	return &PermitSemaphore{c: c.made(), key: key, permits: permits, opts: opts}
}

// Key returns the name of the semaphore, its key in Redis.
func (s *PermitSemaphore) Key() string { return orZero(s).key }

// Acquire waits for one permit. Redisson's acquire, tryAcquire(waitTime, ...).
func (s *PermitSemaphore) Acquire(ctx context.Context, opts ...LockOption) (*Permit, error) {
	return s.acquire(ctx, "acquire", 1, opts)
}

// TryAcquire tries once; waiting calls go first. Redisson's tryAcquire.
func (s *PermitSemaphore) TryAcquire(ctx context.Context, opts ...LockOption) (*Permit, error) {
	return s.TryAcquireN(ctx, 1, opts...)
}

// AcquireN waits for n permits at once, at least 1, even if there are fewer in all. They are renewed, lost and released together. Redisson's
// acquire(permits).
func (s *PermitSemaphore) AcquireN(ctx context.Context, n int, opts ...LockOption) (*Permit, error) {
	return s.acquire(ctx, "acquire", n, opts)
}

// TryAcquireN is TryAcquire of n permits. Redisson's tryAcquire(permits).
func (s *PermitSemaphore) TryAcquireN(ctx context.Context, n int, opts ...LockOption) (*Permit, error) {
	return s.acquire(ctx, "try acquire", n, append(slices.Clip(opts), once))
}

// Do is [Mutex.Do] with one permit.
func (s *PermitSemaphore) Do(ctx context.Context, fn func(ctx context.Context, permit *Permit) error, opts ...LockOption) (err error) {
	if fn == nil {
		return noFunction("do", s.Key())
	}
	p, err := s.Acquire(ctx, opts...)
	if err != nil {
		return err
	}
	defer func() { err = failure.AfterLoss(ctx, err, p.Release(ctx)) }()
	if s.c.opts.ProfileLabels {
		under, end := profiled(p.Context(), p.profileLabel())
		defer end()
		return fn(under, p)
	}
	return fn(p.Context(), p)
}

// Release releases permits by their ids, of any process: all, or none with [ErrLost] if one is gone. A [Permit] of this
// Client keeps its other ids, and is lost without any. One of another process is lost; its other ids stay until
// they expire. The context is that of [Lease.Unlock]. Redisson's release.
func (s *PermitSemaphore) Release(ctx context.Context, ids ...string) error {
	s = orZero(s)
	raw, err := counting.RawIDs(ids...)
	if err != nil {
		return &Error{Op: "release", Key: s.key, Err: err}
	}
	if raw == "" {
		return nil
	}
	_, err = s.c.change(ctx, "release", kindPermit, s.key, true, func(k *counting.Count, ctx context.Context) (int64, error) {
		return k.ReleaseAll(ctx, raw)
	})
	return err
}

// UpdateLease makes the permit with that id end d from now, sooner or later, or never with [UntilDone], and reports
// whether there is one. Its [Permit] here is trusted for no longer from the call on; a fixed one with only this id is
// trusted for longer after the confirmation. Redisson's updateLeaseTime.
func (s *PermitSemaphore) UpdateLease(ctx context.Context, id string, d time.Duration) (bool, error) {
	s = orZero(s)
	if d != UntilDone && d < minLease {
		return false, &Error{Op: "update lease", Key: s.key, Err: tooShort("lease", d)}
	}
	left, err := s.ask(ctx, "update lease", id, func(raw string, here *counting.Count) (int64, error) {
		return s.c.counting.SetLease(s.key, raw, d, here)
	})
	return err == nil && left != protocol.NoPermit, err
}

// TTL asks Redis how long the permit with that id lasts, negative for ever, or [ErrLost]. A fixed [Permit] of this Client with only this
// id is trusted for that time from then on. Redisson's getLeaseTime.
func (s *PermitSemaphore) TTL(ctx context.Context, id string) (time.Duration, error) {
	s = orZero(s)
	left, err := s.ask(ctx, "ttl", id, func(raw string, here *counting.Count) (int64, error) {
		return s.c.counting.Lease(s.key, raw, here)
	})
	switch {
	case err != nil:
		return 0, err
	case left == protocol.NoPermit:
		return 0, &Error{Op: "ttl", Key: s.key, Err: fmt.Errorf("%w: Redis has no such permit", ErrLost)}
	}
	return time.Duration(left) * time.Millisecond, nil
}

// Available asks Redis how many permits are free: if the semaphore does not exist, as many as Acquire would create; negative if more are
// taken than there are in all. Redisson's availablePermits.
func (s *PermitSemaphore) Available(ctx context.Context) (int, error) {
	s = orZero(s)
	free, _, err := s.count(ctx, "available")
	return free, err
}

// Acquired asks Redis how many permits are taken. Redisson's acquiredPermits.
func (s *PermitSemaphore) Acquired(ctx context.Context) (int, error) {
	s = orZero(s)
	_, taken, err := s.count(ctx, "acquired")
	return taken, err
}

// Total asks Redis how many permits there are in all. Redisson's getPermits.
func (s *PermitSemaphore) Total(ctx context.Context) (int, error) {
	s = orZero(s)
	free, taken, err := s.count(ctx, "total")
	return free + taken, err
}

// TrySetPermits creates the semaphore with n permits for ttl, 0 for ever, and reports false if it exists. Taken permits end with it.
// Redisson's trySetPermits.
func (s *PermitSemaphore) TrySetPermits(ctx context.Context, n int, ttl time.Duration) (bool, error) {
	s = orZero(s)
	return trySetPermits(ctx, s.c, kindPermit, s.key, n, ttl)
}

// SetPermits sets how many permits there are in all. If more are taken, none is free until enough are released. Redisson's setPermits.
func (s *PermitSemaphore) SetPermits(ctx context.Context, n int) error {
	s = orZero(s)
	if err := enough(n, 0); err != nil {
		return &Error{Op: "set permits", Key: s.key, Err: err}
	}
	_, err := s.c.change(ctx, "set permits", kindPermit, s.key, false, func(k *counting.Count, ctx context.Context) (int64, error) {
		return k.SetTotal(ctx, n)
	})
	return err
}

// Resize adds delta permits and reports whether the semaphore existed; a new semaphore has delta permits. Redisson's addPermits.
func (s *PermitSemaphore) Resize(ctx context.Context, delta int) (bool, error) {
	s = orZero(s)
	return resize(ctx, s.c, kindPermit, s.key, delta)
}

func (s *PermitSemaphore) acquire(ctx context.Context, op string, n int, opts []LockOption) (*Permit, error) {
	s, ctx = orZero(s), present(ctx)
	a := attempt{c: s.c, op: op, kind: kindPermit, key: s.key}
	a.begin(ctx, s.opts, opts)
	if err := cmpOr(enough(n, 1), enough(s.permits, 0)); err != nil {
		return nil, a.failed(err)
	}
	var p *Permit
	err := a.count(ctx, func() *counting.Demand {
		p = newPermit(s.c, s.key, a.cfg.label, ctx)
		return &counting.Demand{Demand: engine.Demand{N: n, Create: s.permits, IDs: counting.NewIDs(s.c.ID(), n)}, Permit: p.hold}
	})
	if err != nil {
		return nil, a.failed(err)
	}
	a.hands(p.leaseCore, 0)
	return p, nil
}

// ask asks about the permit with that id. here has the permits of this process, or is nil.
func (s *PermitSemaphore) ask(ctx context.Context, op, id string, f func(raw string, here *counting.Count) (int64, error)) (int64, error) {
	raw, err := counting.RawIDs(id)
	if err != nil {
		return 0, &Error{Op: op, Key: s.key, Err: err}
	}
	return answer(ctx, s.c, op, s.key, func() (int64, error) {
		if ct, known := s.c.permits.known(s.key); known {
			return f(raw, &ct.Count)
		}
		return f(raw, nil)
	})
}

func (s *PermitSemaphore) count(ctx context.Context, op string) (free, taken int, err error) {
	got, err := answer(ctx, s.c, op, s.key, func() ([]int64, error) {
		permits := s.c.wire.PermitSemaphore(s.key)
		return s.c.net.Ask(permits.Count(s.permits)).Ints()
	})
	if err != nil {
		return 0, 0, err
	}
	return protocol.ReadPermitCount(got)
}

var _ Locker = permitLocker{}
