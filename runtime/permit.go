package lockrt

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// A PermitSemaphore grants permits that are leases: each is renewed while its holder lives, comes back
// when it has died, and tells its holder when it is lost. It names a key and holds no state. Redisson's
// RPermitExpirableSemaphore, whose permits nothing renews.
//
// Redis keeps with each permit when it expires. Redisson takes that time from its clients, this library from
// the server, so that the clocks of its clients do not matter. Those of Java programs that use the same
// semaphore do: one that is ahead of the server by more than two thirds of the watchdog time takes back
// permits that are held, which their holders learn at the next renewal.
//
// Goroutines of one process are served in the order in which they asked; processes race for what
// was given back.
type PermitSemaphore struct {
	c       *Client
	key     string
	permits int
	opts    []LockOption
}

// PermitSemaphore returns the semaphore named key. It does not contact Redis: make one for each use or
// keep one. If it does not exist, the first that acquires creates it with that many permits; with 0
// only [PermitSemaphore.TrySetPermits] and [PermitSemaphore.SetPermits] do, as in Redisson. An unusable key,
// number or option is reported by what uses it. Redisson's getPermitExpirableSemaphore.
func (c *Client) PermitSemaphore(key string, permits int, opts ...LockOption) *PermitSemaphore {
	return &PermitSemaphore{c: c.made(), key: key, permits: permits, opts: opts}
}

// Key returns the name of the semaphore, which is its key in Redis.
func (s *PermitSemaphore) Key() string { return orZero(s).key }

// Acquire takes one permit and waits until there is one, ctx ends or [WithWait] runs out. ctx becomes the
// parent of [Permit.Context]. With [WithLease] it is not renewed. After an error nothing is taken. It
// fails like [Mutex.Lock]. Redisson's acquire and tryAcquire(waitTime, leaseTime, unit).
func (s *PermitSemaphore) Acquire(ctx context.Context, opts ...LockOption) (*Permit, error) {
	return s.acquire(ctx, "acquire", 1, opts)
}

// TryAcquire takes one permit if there is one now, and fails with [ErrNotAcquired] if not, or if others
// of this process wait already. Redisson's tryAcquire.
func (s *PermitSemaphore) TryAcquire(ctx context.Context, opts ...LockOption) (*Permit, error) {
	return s.TryAcquireN(ctx, 1, opts...)
}

// AcquireN is Acquire of n permits, all at once, that are given back, renewed and lost together, unless
// [PermitSemaphore.Release] gives back some of them before. It fails with
// [ErrBadOption] for n < 1; a semaphore that has fewer in all makes it wait for as long. Redisson's acquire(permits).
func (s *PermitSemaphore) AcquireN(ctx context.Context, n int, opts ...LockOption) (*Permit, error) {
	return s.acquire(ctx, "acquire", n, opts)
}

// TryAcquireN is TryAcquire of n permits. Redisson's tryAcquire(permits).
func (s *PermitSemaphore) TryAcquireN(ctx context.Context, n int, opts ...LockOption) (*Permit, error) {
	return s.acquire(ctx, "try acquire", n, append(slices.Clip(opts), once))
}

// Do acquires one permit, calls fn with its context and gives it back, also if fn panics. Its error
// joins fn's own, the loss of the permit if it was lost while fn ran, even if fn returned nil, and a
// failure to give back.
func (s *PermitSemaphore) Do(ctx context.Context, fn func(ctx context.Context, permit *Permit) error, opts ...LockOption) (err error) {
	if fn == nil {
		return noFunction("do", s.Key())
	}
	p, err := s.Acquire(ctx, opts...)
	if err != nil {
		return err
	}
	defer func() { err = afterLoss(ctx, err, p.Release(ctx)) }()
	if s.c.opts.ProfileLabels {
		under, end := profiled(p.Context(), p.label())
		defer end()
		return fn(under, p)
	}
	return fn(p.Context(), p)
}

// Release gives permits back by their ids, whoever has them: all of them, or none and an error that matches
// [ErrLost] if one of them expired, was given back or never was. A [Permit] of this Client that has
// some of them goes on with the others, and is lost if it has no others. One of another process is lost, and its others
// stay until they expire or their holder releases them. It runs to its end like [Permit.Release]. Redisson's release
// and tryRelease by id.
func (s *PermitSemaphore) Release(ctx context.Context, ids ...string) error {
	s = orZero(s)
	raw, err := rawIDs(ids)
	if err != nil {
		return &Error{Op: "release", Key: s.key, Err: err}
	}
	if raw == "" {
		return nil
	}
	_, err = s.c.change(ctx, "release", kindPermit, s.key, true, func(ctx context.Context, ct *counter) (int64, error) {
		touched := ct.holding(raw)
		for _, p := range touched {
			p.releasing.Add(1)
		}
		defer func() {
			for _, p := range touched {
				p.releasing.Add(-1)
			}
		}()
		permits := s.c.wire.PermitSemaphore(s.key)
		valid, err := ct.once(ctx, true, func(r protocol.Request) (int64, error) {
			n, err := s.c.net.Run(permits.ReleaseAll(r, raw)).Int()
			if err == nil {
				ct.wake()
			}
			return n, err
		})
		if err == nil && valid == 0 {
			err = fmt.Errorf("%w: not all of the permits are there any more; none was given back", ErrLost)
		}
		if err == nil {
			ct.took(touched, raw)
		}
		return valid, err
	})
	return err
}

// UpdateLease has the permit with that id end in d from now, sooner or later than it would, or never with
// [UntilDone], and reports whether there is such a permit. A [Permit] of this Client that has this one id is trusted
// for as long, and one that is renewed goes on being renewed; use [Permit.Extend] for those. A holder elsewhere that
// asks for its [PermitSemaphore.TTL] trusts it for longer from then on. Redisson's updateLeaseTime.
func (s *PermitSemaphore) UpdateLease(ctx context.Context, id string, d time.Duration) (bool, error) {
	s = orZero(s)
	if d != UntilDone && d < minLease {
		return false, &Error{Op: "update lease", Key: s.key, Err: tooShort("lease", d)}
	}
	left, err := s.lease(ctx, "update lease", id, &d)
	return err == nil && left != protocol.NoPermit, err
}

// TTL asks Redis for how long the permit with that id lasts if it is not renewed, negative if for ever. It fails
// with [ErrLost] if it expired, was given back or never was. A [Permit] of this Client that has this one id and a
// fixed length is trusted for as long from then on, if somebody has prolonged it. Redisson's getLeaseTime.
func (s *PermitSemaphore) TTL(ctx context.Context, id string) (time.Duration, error) {
	s = orZero(s)
	left, err := s.lease(ctx, "ttl", id, nil)
	switch {
	case err != nil:
		return 0, err
	case left == protocol.NoPermit:
		return 0, &Error{Op: "ttl", Key: s.key, Err: fmt.Errorf("%w: Redis has no such permit", ErrLost)}
	}
	return time.Duration(left) * time.Millisecond, nil
}

// Available asks Redis how many permits are available: 0 if the semaphore does not exist, or as many as it
// will be created with; less than 0 if more are taken than there are in all. Redisson's availablePermits.
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

// Total asks Redis how many permits there are, taken or not. Redisson's getPermits.
func (s *PermitSemaphore) Total(ctx context.Context) (int, error) {
	s = orZero(s)
	free, taken, err := s.count(ctx, "total")
	return free + taken, err
}

// TrySetPermits creates the semaphore with n permits and reports whether it did; one that exists stays what it
// is. After ttl it is gone, with the permits that are taken; 0 is for ever. Redisson's trySetPermits.
func (s *PermitSemaphore) TrySetPermits(ctx context.Context, n int, ttl time.Duration) (bool, error) {
	s = orZero(s)
	return trySetPermits(ctx, s.c, kindPermit, s.key, n, ttl)
}

// SetPermits sets how many permits there are in all, taken or not. If more are taken, none is available
// until enough came back. Redisson's setPermits.
func (s *PermitSemaphore) SetPermits(ctx context.Context, n int) error {
	s = orZero(s)
	if err := enough(n, 0); err != nil {
		return &Error{Op: "set permits", Key: s.key, Err: err}
	}
	_, err := s.c.change(ctx, "set permits", kindPermit, s.key, false, func(ctx context.Context, ct *counter) (int64, error) {
		return ct.insist(ctx, false, func() {}, func() (int64, error) {
			permits := s.c.wire.PermitSemaphore(s.key)
			return s.c.net.Run(permits.SetTotal(n)).Int()
		})
	})
	return err
}

// Resize changes how many permits there are by delta, and reports whether the semaphore existed; one that did not exist has
// delta then. With an error the outcome is unknown. Redisson's addPermits.
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
	w, err := a.count(ctx, func(w *waiter) {
		w.demand = demand{n: n, create: s.permits, permit: newPermit(s.c, s.key, ctx), ids: newIDs(n)}
	})
	if err != nil {
		return nil, a.failed(err)
	}
	a.hands(w.demand.permit.leaseCore, 0)
	return w.demand.permit, nil
}

// lease asks how long a permit lasts in milliseconds, after setting that unless set is nil. What this process has of it is
// trusted for as long.
func (s *PermitSemaphore) lease(ctx context.Context, op, id string, set *time.Duration) (int64, error) {
	raw, err := rawIDs([]string{id})
	if err != nil {
		return 0, &Error{Op: op, Key: s.key, Err: err}
	}
	got, err := s.question(ctx, op, func() ([]int64, error) {
		sent := now()
		permits := s.c.wire.PermitSemaphore(s.key)
		cmd := permits.Lease(raw)
		if set != nil {
			cmd = permits.SetLease(raw, *set)
		}
		left, err := s.c.net.Run(cmd).Int()
		switch {
		case err == nil:
			s.lasts(raw, sent, left, set != nil)
		case set != nil && transport.Unknown(err):
			left = set.Milliseconds()
			if *set == UntilDone {
				left = -1
			}
			s.lasts(raw, sent, left, true)
		}
		return []int64{left}, err
	})
	if err != nil {
		return 0, err
	}
	return got[0], nil
}

// lasts has the permit of this process that has the one id be trusted for as long as it lasts, counted from sent: longer if it
// is not renewed, or less if it was set to less. Others that were taken together with it end when they end.
func (s *PermitSemaphore) lasts(id string, sent time.Time, left int64, set bool) {
	if left == protocol.NoPermit {
		return
	}
	ttl := time.Duration(left) * time.Millisecond
	if left < 0 {
		ttl = forEver
	}
	s.c.mu.Lock()
	ct := s.c.counters[kindPermit+" "+s.key]
	s.c.mu.Unlock()
	if ct == nil {
		return
	}
	for _, p := range ct.holding(id) {
		if set {
			s.c.watchdog.Shorten(p.guard, sent, ttl)
		}
		if !p.guard.Renew && p.owned() == id {
			s.c.watchdog.Extend(p.guard, sent, ttl)
		}
	}
}

// forEver is how long a permit lasts that does not expire.
const forEver = 100 * 365 * 24 * time.Hour

func (s *PermitSemaphore) count(ctx context.Context, op string) (free, taken int, err error) {
	got, err := s.question(ctx, op, func() ([]int64, error) {
		permits := s.c.wire.PermitSemaphore(s.key)
		return s.c.net.Run(permits.Count(s.permits)).Ints()
	})
	if err != nil {
		return 0, 0, err
	}
	return protocol.ReadPermitCount(got)
}

func (s *PermitSemaphore) question(ctx context.Context, op string, ask func() ([]int64, error)) ([]int64, error) {
	type reply struct {
		n   []int64
		err error
	}
	if err := s.c.checkKey(s.key); err != nil {
		return nil, &Error{Op: op, Key: s.key, Err: err}
	}
	got, err := bounded(ctx, s.c, func() reply {
		n, err := ask()
		return reply{n, err}
	})
	if err = cmpOr(err, got.err); err != nil {
		return nil, &Error{Op: op, Key: s.key, Err: refused(err)}
	}
	return got.n, nil
}

var _ Locker = permitLocker{}
