package locks

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/counting"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/observe"
)

// A Semaphore counts permits: lockrt.Semaphore.
type Semaphore struct {
	c       *Client
	key     string
	permits int
	opts    []leases.Option
}

func (c *Client) Semaphore(key string, permits int, opts ...leases.Option) *Semaphore {
	return &Semaphore{c: c.Made(), key: key, permits: permits, opts: opts}
}

func (s *Semaphore) Key() string { return core.OrZero(s).key }

func (s *Semaphore) Acquire(ctx context.Context, n int, opts ...leases.Option) error {
	return s.acquire(ctx, "acquire", n, opts)
}

func (s *Semaphore) TryAcquire(ctx context.Context, n int, opts ...leases.Option) error {
	return s.acquire(ctx, "try acquire", n, append(slices.Clip(opts), leases.Once))
}

func (s *Semaphore) Do(ctx context.Context, n int, fn func(ctx context.Context) error, opts ...leases.Option) (err error) {
	if fn == nil {
		return core.NoFunction("do", s.Key())
	}
	if err := s.Acquire(ctx, n, opts...); err != nil {
		return err
	}
	defer func() { err = failure.AfterWork(ctx, err, s.Release(ctx, n)) }()
	if c := core.OrZero(s).c; c != nil && c.base.Settings.ProfileLabels {
		under, end := leases.Profiled(ctx, cmp.Or(leases.LabelOf(s.opts, opts).Name(), core.KindSemaphore))
		defer end()
		return fn(under)
	}
	return fn(ctx)
}

// Release returns an error after Options.OpTimeout without an answer, and goes on in the background for up to a minute. Another call
// after such an error may release the permits twice.
func (s *Semaphore) Release(ctx context.Context, n int) error {
	const op = "release"
	s = core.OrZero(s)
	if n == 0 && s.permits >= 0 { // also while Redis is away: Acquire of as many does nothing, either
		return core.FailedAt(op, s.key, s.c.Core().CheckKey(s.key))
	}
	_, err := s.add(ctx, op, n, s.permits > 0)
	return err
}

func (s *Semaphore) ReleaseIfExists(ctx context.Context, n int) (bool, error) {
	s = core.OrZero(s)
	return s.add(ctx, "release", n, true)
}

func (s *Semaphore) Resize(ctx context.Context, delta int) (bool, error) {
	s = core.OrZero(s)
	return resize(ctx, s.c, core.KindSemaphore, s.key, delta)
}

func (s *Semaphore) TrySetPermits(ctx context.Context, n int, ttl time.Duration) (bool, error) {
	s = core.OrZero(s)
	return trySetPermits(ctx, s.c, core.KindSemaphore, s.key, n, ttl)
}

func (s *Semaphore) Drain(ctx context.Context) (int, error) {
	s = core.OrZero(s)
	n, err := s.c.change(ctx, "drain", core.KindSemaphore, s.key, false, (*counting.Count).Drain)
	return int(n), err
}

func (s *Semaphore) Available(ctx context.Context) (int, error) {
	s = core.OrZero(s)
	return core.Answer(ctx, s.c.Core(), "available", s.key, func() (int, error) {
		text, exists, err := s.c.base.Net.Get(s.key)
		if err != nil || !exists {
			return s.permits, err
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return 0, failure.ErrWrongType
		}
		return n, nil
	})
}

// acquire is the common part of Acquire and TryAcquire.
func (s *Semaphore) acquire(ctx context.Context, op string, n int, opts []leases.Option) error {
	s, ctx = core.OrZero(s), core.Present(ctx)
	a := leases.Attempt{Client: s.c.Core(), Op: op, Kind: core.KindSemaphore, Key: s.key}
	a.Begin(ctx, s.opts, opts)
	err := core.FirstError(enough(n, 0), enough(s.permits, 0))
	switch {
	case err != nil:
	case n == 0:
		err = s.c.Core().CheckKey(s.key)
	default:
		err = s.c.count(ctx, &a, func() *counting.Demand { return &counting.Demand{Demand: engine.Demand{N: n, Create: s.permits}} })
	}
	return a.Counted(err)
}

// add is the common part of all ways to release.
func (s *Semaphore) add(ctx context.Context, op string, n int, exists bool) (bool, error) {
	if err := core.FirstError(enough(n, 0), enough(s.permits, 0)); err != nil {
		return false, &observe.Error{Op: op, Key: s.key, Err: err}
	}
	missing := protocol.CreateMissing
	if exists {
		missing = protocol.LeaveMissing
	}
	return addPermits(ctx, s.c, op, core.KindSemaphore, s.key, n, missing, true)
}
