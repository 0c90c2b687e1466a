package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/election"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/leases"
)

// A Schedule runs a function once in each interval, in the first process that asks.
type Schedule struct {
	c        *Client
	m        *Mutex
	name     string
	interval time.Duration
	fn       func(ctx context.Context, t election.Tick) error
	of       *election.Schedule // nil without a client
}

func (c *Client) Every(name string, interval time.Duration, fn func(ctx context.Context, t election.Tick) error, opts ...leases.Option) *Schedule {
	s := &Schedule{c: c.Made(), m: c.Mutex(name, append(slices.Clip(opts), leases.WithFencing(), leases.WithLinger(0))...), name: name, interval: interval, fn: fn}
	if s.c != nil {
		s.of = election.NewSchedule(c.elections(), name, interval, max(30*24*time.Hour, hundred(interval)), worker{s})
	}
	return s
}

// hundred returns the time of a hundred intervals, within the range of a Duration.
func hundred(interval time.Duration) time.Duration {
	const most = 1<<63 - 1
	if interval > most/100 {
		return most
	}
	return 100 * interval
}

func (s *Schedule) Run(ctx context.Context) error {
	if s == nil {
		s = &Schedule{}
	}
	if err := s.check(ctx); err != nil {
		return core.FailedAt("every", s.name, err)
	}
	if outer := leases.Enterable(ctx, s.c.Core(), s.name); outer != nil && outer.Err() == nil { // then each run enters again, and waits for no other one
		if !s.enters(outer) {
			return core.FailedAt("every", s.name, fmt.Errorf("%w: another Run of this schedule is below a lease of its key, as this one is: they would run at the same time", failure.ErrBadOption))
		}
		defer s.c.entered.CompareAndDelete(s.name, outer)
	}
	return core.FailedAt("every", s.name, s.of.Run(ctx))
}

// enters records that a Run is below outer, a lease of its key, and reports false if another one is below such a lease. One whose lease was lost is in the
// way of none: what it has entered by that was lost, too. A lease that was unlocked may leave the key to a run under way.
func (s *Schedule) enters(outer *leases.Lease) bool {
	for {
		before, another := s.c.entered.LoadOrStore(s.name, outer)
		switch {
		case !another:
			return true
		case !errors.Is(before.(*leases.Lease).Err(), failure.ErrLost):
			return false
		case s.c.entered.CompareAndSwap(s.name, before, outer):
			return true
		}
	}
}

// A worker implements election.Worker.
type worker struct{ s *Schedule }

func (x worker) Work(ctx context.Context, t election.Tick) error { return x.s.fn(ctx, t) }

func (x worker) Lock(ctx context.Context, wait time.Duration) (election.Lease, error) {
	alone := &leases.OwnerlessContext{Context: ctx}
	lease, err := x.s.m.lock(alone, "every", []leases.Option{leases.WithWait(max(wait, leases.MinLease))})
	alone.Over.Store(true)
	return soleLease{lease}, err
}

// check returns why s cannot run under ctx, or nil.
func (s *Schedule) check(ctx context.Context) error {
	switch {
	case s.c == nil:
		return core.ErrNoClient
	case ctx == nil:
		return core.ErrNoContext
	case s.fn == nil:
		return core.ErrNoFunction
	case s.interval < leases.MinLease:
		return leases.TooShort("interval", s.interval)
	case s.interval%time.Millisecond != 0:
		return fmt.Errorf("%w: an interval of %v is not of whole milliseconds", failure.ErrBadOption, s.interval)
	}
	if _, err := leases.Configure(s.c.Core(), s.m.opts, nil); err != nil {
		return err
	}
	return s.c.Core().CheckKey(s.name)
}
