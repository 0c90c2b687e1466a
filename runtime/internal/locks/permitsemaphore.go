package locks

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/counting"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/observe"
)

// A PermitSemaphore grants permits that are leases: lockrt.PermitSemaphore.
type PermitSemaphore struct {
	c       *Client
	key     string
	permits int
	opts    []leases.Option
}

func (c *Client) PermitSemaphore(key string, permits int, opts ...leases.Option) *PermitSemaphore {
	return &PermitSemaphore{c: c.Made(), key: key, permits: permits, opts: opts}
}

// Client returns the client of s, or nil.
func (s *PermitSemaphore) Client() *Client { return core.OrZero(s).c }

// Options returns the options that each call of s has.
func (s *PermitSemaphore) Options() []leases.Option { return core.OrZero(s).opts }

func (s *PermitSemaphore) Key() string { return core.OrZero(s).key }

func (s *PermitSemaphore) Acquire(ctx context.Context, opts ...leases.Option) (*Permit, error) {
	return s.acquire(ctx, "acquire", 1, opts)
}

func (s *PermitSemaphore) TryAcquire(ctx context.Context, opts ...leases.Option) (*Permit, error) {
	return s.TryAcquireN(ctx, 1, opts...)
}

func (s *PermitSemaphore) AcquireN(ctx context.Context, n int, opts ...leases.Option) (*Permit, error) {
	return s.acquire(ctx, "acquire", n, opts)
}

func (s *PermitSemaphore) TryAcquireN(ctx context.Context, n int, opts ...leases.Option) (*Permit, error) {
	return s.acquire(ctx, "try acquire", n, append(slices.Clip(opts), leases.Once))
}

// Release releases all permits with these ids, or none if one is gone.
func (s *PermitSemaphore) Release(ctx context.Context, ids ...string) error {
	s = core.OrZero(s)
	return s.release(ctx, protocol.MissingOf(s.permits), ids)
}

// release is Release, where missing says whether it creates the semaphore.
func (s *PermitSemaphore) release(ctx context.Context, missing protocol.Missing, ids []string) error {
	raw, err := counting.RawIDs(ids...)
	if err != nil {
		return &observe.Error{Op: "release", Key: s.key, Err: err}
	}
	if raw == "" {
		return nil
	}
	_, err = s.c.change(ctx, "release", core.KindPermit, s.key, true, func(k *counting.Count, ctx context.Context) (int64, error) {
		return k.ReleaseAll(ctx, raw, missing)
	})
	return err
}

// UpdateLease changes how long a permit of this client is trusted, too.
func (s *PermitSemaphore) UpdateLease(ctx context.Context, id string, d time.Duration) (bool, error) {
	s = core.OrZero(s)
	if d != leases.UntilDone && d < leases.MinLease {
		return false, &observe.Error{Op: "update lease", Key: s.key, Err: leases.TooShort("lease", d)}
	}
	left, err := s.ask(ctx, "update lease", id, func(raw string, here *counting.Count) (int64, error) {
		return s.c.counting.SetLease(s.key, raw, d, here)
	})
	return err == nil && left != protocol.NoPermit, err
}

// TTL changes how long a fixed permit of this client is trusted, too.
func (s *PermitSemaphore) TTL(ctx context.Context, id string) (time.Duration, error) {
	s = core.OrZero(s)
	left, err := s.ask(ctx, "ttl", id, func(raw string, here *counting.Count) (int64, error) {
		return s.c.counting.Lease(s.key, raw, here)
	})
	switch {
	case err != nil:
		return 0, err
	case left == protocol.NoPermit:
		return 0, &observe.Error{Op: "ttl", Key: s.key, Err: fmt.Errorf("%w: Redis has no such permit", failure.ErrLost)}
	}
	return protocol.Milliseconds(left), nil
}

func (s *PermitSemaphore) Available(ctx context.Context) (int, error) {
	s = core.OrZero(s)
	free, _, err := s.count(ctx, "available")
	return free, err
}

func (s *PermitSemaphore) Acquired(ctx context.Context) (int, error) {
	s = core.OrZero(s)
	_, taken, err := s.count(ctx, "acquired")
	return taken, err
}

func (s *PermitSemaphore) Total(ctx context.Context) (int, error) {
	s = core.OrZero(s)
	free, taken, err := s.count(ctx, "total")
	return free + taken, err
}

func (s *PermitSemaphore) TrySetPermits(ctx context.Context, n int, ttl time.Duration) (bool, error) {
	s = core.OrZero(s)
	return trySetPermits(ctx, s.c, core.KindPermit, s.key, n, ttl)
}

func (s *PermitSemaphore) SetPermits(ctx context.Context, n int) error {
	s = core.OrZero(s)
	if err := enough(n, 0); err != nil {
		return &observe.Error{Op: "set permits", Key: s.key, Err: err}
	}
	_, err := s.c.change(ctx, "set permits", core.KindPermit, s.key, false, func(k *counting.Count, ctx context.Context) (int64, error) {
		return k.SetTotal(ctx, n)
	})
	return err
}

func (s *PermitSemaphore) Resize(ctx context.Context, delta int) (bool, error) {
	s = core.OrZero(s)
	return resize(ctx, s.c, core.KindPermit, s.key, delta)
}

func (s *PermitSemaphore) Inspect(ctx context.Context) (observe.PermitStanding, error) {
	s = core.OrZero(s)
	free, taken, err := s.count(ctx, "inspect")
	if err != nil {
		return observe.PermitStanding{}, err
	}
	standing := observe.PermitStanding{Total: free + taken, Available: free, Acquired: taken}
	if ct, known := s.c.permits.Find(s.key); known {
		standing.Ours = ct.Ours()
		ct.Mu.Lock()
		standing.Waiting = ct.Queue.Length()
		ct.Mu.Unlock()
	}
	return standing, nil
}

// acquire is the common part of all ways to acquire n permits.
func (s *PermitSemaphore) acquire(ctx context.Context, op string, n int, opts []leases.Option) (*Permit, error) {
	s, ctx = core.OrZero(s), core.Present(ctx)
	a := leases.Attempt{Client: s.c.Core(), Op: op, Kind: core.KindPermit, Key: s.key}
	a.Begin(ctx, s.opts, opts)
	if err := core.FirstError(enough(n, 1), enough(s.permits, 0)); err != nil {
		return nil, a.Failed(err)
	}
	if n > protocol.MostPermits {
		return nil, a.Failed(fmt.Errorf("%w: %d permits are more than a call can have, %d", failure.ErrBadOption, n, protocol.MostPermits))
	}
	var p *Permit
	err := s.c.count(ctx, &a, func() *counting.Demand {
		p = newPermit(s.c, a.Config.Label, ctx)
		return &counting.Demand{Demand: engine.Demand{N: n, Create: s.permits, IDs: counting.NewIDs(s.c.ID(), n)}, Permit: p.hold}
	})
	if err != nil {
		return nil, a.Failed(err)
	}
	a.Acquired(p.core, 0)
	return p, nil
}

// ask asks about the permit with that id. f gets the count with the permits of this process as here, or nil.
func (s *PermitSemaphore) ask(ctx context.Context, op, id string, f func(raw string, here *counting.Count) (int64, error)) (int64, error) {
	raw, err := counting.RawIDs(id)
	if err != nil {
		return 0, &observe.Error{Op: op, Key: s.key, Err: err}
	}
	return core.Answer(ctx, s.c.Core(), op, s.key, func() (int64, error) {
		if ct, known := s.c.permits.Find(s.key); known {
			return f(raw, &ct.Count)
		}
		return f(raw, nil)
	})
}

// count asks Redis how many permits are free, and how many are taken.
func (s *PermitSemaphore) count(ctx context.Context, op string) (free, taken int, err error) {
	got, err := core.Answer(ctx, s.c.Core(), op, s.key, func() ([]int64, error) {
		permits := s.c.base.Wire.PermitSemaphore(s.key)
		return s.c.base.Net.Ask(permits.Count(s.permits)).Ints()
	})
	if err != nil {
		return 0, 0, err
	}
	return protocol.ReadPermitCount(got)
}

// A PermitLocker locks by acquiring one permit. It is a Locker only for locks that consist of Lockers: the permit is
// renewed, lost and released as a lease is, but others can have one too.
type PermitLocker struct{ *PermitSemaphore }

var _ Locker = PermitLocker{}

func (s PermitLocker) Lock(ctx context.Context, opts ...leases.Option) (*leases.Lease, error) {
	p, err := s.Acquire(ctx, opts...)
	if err != nil {
		return nil, err
	}
	return &p.own, nil
}

func (s PermitLocker) TryLock(ctx context.Context, opts ...leases.Option) (*leases.Lease, error) {
	return s.Lock(ctx, append(slices.Clip(opts), leases.Once)...)
}
