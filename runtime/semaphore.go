package lockrt

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/counting"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A Semaphore counts permits, not holders: any process may release permits of any other, and a crashed process keeps
// its permits. Use a [PermitSemaphore] unless you want that. Goroutines of one process are served in the order of their
// calls; processes race. Redisson's RSemaphore.
type Semaphore struct {
	c       *Client
	key     string
	permits int
	opts    []LockOption
}

// Semaphore returns the semaphore named key. The first Acquire creates it with that many permits; with 0 only TrySetPermits and Release do.
// Redisson's getSemaphore.
func (c *Client) Semaphore(key string, permits int, opts ...LockOption) *Semaphore {
	return &Semaphore{c: c.made(), key: key, permits: permits, opts: opts}
}

// Key returns the name of the semaphore, its key in Redis.
func (s *Semaphore) Key() string { return orZero(s).key }

// Acquire waits for n permits at once, even if there are fewer in all. 0 does nothing, a negative n is [ErrBadOption].
// Redisson's acquire and tryAcquire(permits, waitTime).
func (s *Semaphore) Acquire(ctx context.Context, n int, opts ...LockOption) error {
	return s.acquire(ctx, "acquire", n, opts)
}

// TryAcquire tries once; waiting calls go first. Redisson's tryAcquire.
func (s *Semaphore) TryAcquire(ctx context.Context, n int, opts ...LockOption) error {
	return s.acquire(ctx, "try acquire", n, append(slices.Clip(opts), once))
}

// Do acquires n permits, calls fn with ctx and releases them, also if fn panics. Its error joins that of fn and a failure to release.
func (s *Semaphore) Do(ctx context.Context, n int, fn func(ctx context.Context) error, opts ...LockOption) (err error) {
	if fn == nil {
		return noFunction("do", s.Key())
	}
	if err := s.Acquire(ctx, n, opts...); err != nil {
		return err
	}
	defer func() { err = failure.Join(err, s.Release(ctx, n)) }()
	if c := orZero(s).c; c != nil && c.opts.ProfileLabels {
		under, end := profiled(ctx, cmp.Or(labelOf(s.opts, opts).Name(), kindSemaphore))
		defer end()
		return fn(under)
	}
	return fn(ctx)
}

// Release releases n permits of any holder; 0 does nothing. Its context is that of [Lease.Unlock]. The Client tries for a minute:
// after an error, another call could release twice. A semaphore that does not exist gets n permits, as in Redisson,
// unless Acquire creates it. Redisson's release.
func (s *Semaphore) Release(ctx context.Context, n int) error {
	s = orZero(s)
	_, err := s.add(ctx, "release", n, s.permits > 0)
	return err
}

// ReleaseIfExists is Release that creates nothing, and reports whether the semaphore exists. Redisson's releaseIfExists.
func (s *Semaphore) ReleaseIfExists(ctx context.Context, n int) (bool, error) {
	s = orZero(s)
	return s.add(ctx, "release", n, true)
}

// Resize adds delta permits for good and reports whether the semaphore existed; a new semaphore has delta permits. The number may become
// negative. Redisson's addPermits, which also takes away a time to live.
func (s *Semaphore) Resize(ctx context.Context, delta int) (bool, error) {
	s = orZero(s)
	return resize(ctx, s.c, kindSemaphore, s.key, delta)
}

// TrySetPermits creates the semaphore with n permits for ttl, 0 for ever, and reports false if it exists. Redisson's trySetPermits.
func (s *Semaphore) TrySetPermits(ctx context.Context, n int, ttl time.Duration) (bool, error) {
	s = orZero(s)
	return trySetPermits(ctx, s.c, kindSemaphore, s.key, n, ttl)
}

// Drain takes all free permits and returns how many. Redisson's drainPermits, which also raises a negative number to 0 and takes away a
// time to live.
func (s *Semaphore) Drain(ctx context.Context) (int, error) {
	s = orZero(s)
	n, err := s.c.change(ctx, "drain", kindSemaphore, s.key, false, (*counting.Count).Drain)
	return int(n), err
}

// Available asks Redis how many permits are free: if the semaphore does not exist, as many as Acquire would create. The number is
// negative after Resize took more than there were. Redisson's availablePermits.
func (s *Semaphore) Available(ctx context.Context) (int, error) {
	s = orZero(s)
	return answer(ctx, s.c, "available", s.key, func() (int, error) {
		ctx, cancel := s.c.net.Briefly()
		defer cancel()
		text, exists, err := s.c.net.Get(ctx, s.key)
		if err != nil || !exists {
			return s.permits, err
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return 0, ErrWrongType
		}
		return n, nil
	})
}

func (s *Semaphore) acquire(ctx context.Context, op string, n int, opts []LockOption) error {
	s, ctx = orZero(s), present(ctx)
	a := attempt{c: s.c, op: op, kind: kindSemaphore, key: s.key}
	a.begin(ctx, s.opts, opts)
	err := cmpOr(enough(n, 0), enough(s.permits, 0))
	switch {
	case err != nil:
	case n == 0:
		err = s.c.checkKey(s.key)
	default:
		err = a.count(ctx, func() *counting.Demand { return &counting.Demand{Demand: engine.Demand{N: n, Create: s.permits}} })
	}
	return a.counted(err)
}

// add is the common part of all ways to release.
func (s *Semaphore) add(ctx context.Context, op string, n int, exists bool) (bool, error) {
	err := cmpOr(enough(n, 0), enough(s.permits, 0))
	if err == nil && n == 0 && !exists {
		err = s.c.checkKey(s.key)
		if err == nil {
			return true, nil
		}
	}
	if err != nil {
		return false, &Error{Op: op, Key: s.key, Err: err}
	}
	missing := protocol.CreateMissing
	if exists {
		missing = protocol.LeaveMissing
	}
	return addPermits(ctx, s.c, op, kindSemaphore, s.key, n, missing, true)
}
