package lockrt

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/election"
)

// A Schedule runs a function once in each interval, in the first process that asks. Run it in every replica. ShedLock
// does this for Java.
//
//	err := client.Every("invoices", time.Hour, func(ctx context.Context, t lockrt.Tick) error {
//		return invoice(ctx, t.Since(), t.Start) // what has come since the last run that succeeded
//	}).Run(ctx)
//
// Intervals count from 1970 by the clock of the Redis server: those of an hour begin at the full hour, UTC. The first
// process that asks runs the function under the [Mutex] of the name, with a fencing token. No interval begins twice and
// no two runs overlap; a run that takes longer than an interval delays the next. A process that finds an interval that
// has not begun runs at once. One request in each interval, four more for a run.
//
// An interval is missed if no process lived, Redis was away, the process died or the function failed. It does not begin
// again: the next run finds it in its [Tick]. docs/details.md has recipes, and the effects of a server that loses its
// data.
type Schedule struct {
	c        *Client
	m        *Mutex
	name     string
	interval time.Duration
	fn       func(ctx context.Context, t Tick) error
	of       *election.Schedule // nil without a client
}

// A Tick is the interval of a run of a [Schedule], by the clock of the server.
type Tick struct {
	Start    time.Time     // when it began
	Interval time.Duration // its length
	Done     time.Time     // the start of the last interval before it in which the function returned nil; zero if none is known
	Missed   int           // the number of intervals since then without success; 0 if none is known
}

// Since returns the start of the last interval that succeeded, or, if none is known, Start less one Interval: this run
// has to do the work from there to Start.
func (t Tick) Since() time.Time {
	if t.Done.IsZero() {
		return t.Start.Add(-t.Interval)
	}
	return t.Done
}

// Every returns the schedule of that name, which is the key of its [Mutex]. The interval is at least 100ms, in whole milliseconds, and the
// same in all processes. WithWatchdog says how long a process that died during a run keeps others from running. [WithFencing] is implied.
func (c *Client) Every(name string, interval time.Duration, fn func(ctx context.Context, t Tick) error, opts ...LockOption) *Schedule {
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

// Run calls the function in each interval in which this process is the first, until ctx ends. Before that, it returns
// only a permanent error: [ErrBadOption], a [KeyError], [ErrWrongType], [ErrClosed], or a refusal of Redis. The
// function's context ends with ctx, and with [ErrLost] when another process may run. Its error goes to [Options.Logger]
// and makes the interval missed.
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

func (x worker) Work(ctx context.Context, t election.Tick) error { return x.s.fn(ctx, Tick(t)) }

func (x worker) Lock(ctx context.Context, wait time.Duration) (election.Lease, error) {
	alone := &strangerContext{Context: ctx}
	lease, err := x.s.m.lock(alone, "every", []LockOption{WithWait(max(wait, minLease))})
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
	case s.interval < minLease:
		return tooShort("interval", s.interval)
	case s.interval%time.Millisecond != 0:
		return fmt.Errorf("%w: an interval of %v is not of whole milliseconds", ErrBadOption, s.interval)
	}
	if _, err := s.c.configure(s.m.opts, nil); err != nil {
		return err
	}
	return s.c.checkKey(s.name)
}
