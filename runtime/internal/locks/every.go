package locks

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/election"
	"github.com/lockgen/lockgen/runtime/internal/failure"
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

func (c *Client) Every(name string, interval time.Duration, fn func(ctx context.Context, t election.Tick) error, opts ...LockOption) *Schedule {
	s := &Schedule{c: c.made(), m: c.Mutex(name, append(slices.Clip(opts), WithFencing(), WithLinger(0))...), name: name, interval: interval, fn: fn}
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
		return failedAt("every", s.name, err)
	}
	return failedAt("every", s.name, s.of.Run(ctx))
}

// A worker implements election.Worker.
type worker struct{ s *Schedule }

func (x worker) Work(ctx context.Context, t election.Tick) error { return x.s.fn(ctx, t) }

func (x worker) Lock(ctx context.Context, wait time.Duration) (election.Lease, error) {
	alone := &strangerContext{Context: ctx}
	lease, err := x.s.m.lock(alone, "every", []LockOption{WithWait(max(wait, MinLease))})
	alone.over.Store(true)
	return soleLease{lease}, err
}

func (s *Schedule) check(ctx context.Context) error {
	switch {
	case s.c == nil:
		return errNoClient
	case ctx == nil:
		return errNoContext
	case s.fn == nil:
		return errNoFunction
	case s.interval < MinLease:
		return tooShort("interval", s.interval)
	case s.interval%time.Millisecond != 0:
		return fmt.Errorf("%w: an interval of %v is not of whole milliseconds", failure.ErrBadOption, s.interval)
	}
	if _, err := configure(s.c.core(), s.m.opts, nil); err != nil {
		return err
	}
	return s.c.core().checkKey(s.name)
}
