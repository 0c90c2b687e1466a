package lockrt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
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
	c    *Client
	m    *Mutex
	of   protocol.Schedule
	fn   func(ctx context.Context, t Tick) error
	rate float64 // the speed of this process's clock, for tests

	mu    sync.Mutex
	known time.Time // the start of the last interval that has begun, as far as known
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
	return &Schedule{
		c:    c,
		m:    c.Mutex(name, append(slices.Clip(opts), WithFencing(), WithLinger(0))...),
		of:   protocol.Schedule{Key: name, Interval: interval, Keep: max(30*24*time.Hour, hundred(interval))},
		fn:   fn,
		rate: 1,
	}
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
		return failedAt("every", s.of.Key, err)
	}
	for failures := 0; ; {
		wait, err := s.turn(ctx)
		switch {
		case ctx.Err() != nil:
			return failedAt("every", s.of.Key, ended(ctx))
		case err == nil:
			if failures > 0 {
				s.c.opts.Logger.InfoContext(ctx, "lockgen: a schedule goes on", "kind", kindSchedule, "key", s.of.Key)
			}
			failures = 0
			wait = time.Duration(float64(wait) / s.rate)
		case !s.c.granting():
			return failedAt("every", s.of.Key, ErrClosed)
		case errors.Is(err, ErrClosed) || !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrLost) && !errors.Is(err, ErrNotAcquired) && !passing(err):
			return failedAt("every", s.of.Key, err)
		default:
			if failures++; failures == 1 {
				s.c.opts.Logger.WarnContext(ctx, "lockgen: a schedule is held up; it goes on when Redis answers", "kind", kindSchedule, "key", s.of.Key, "error", err)
			}
			wait = s.c.opts.Retry.pause(failures)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		case <-s.c.closing:
			timer.Stop()
			return failedAt("every", s.of.Key, ErrClosed)
		}
	}
}

func (s *Schedule) check(ctx context.Context) error {
	switch {
	case s.c == nil:
		return errNoClient
	case ctx == nil:
		return errNoContext
	case s.fn == nil:
		return errNoFunction
	case s.of.Interval < minLease:
		return tooShort("interval", s.of.Interval)
	case s.of.Interval%time.Millisecond != 0:
		return fmt.Errorf("%w: an interval of %v is not of whole milliseconds", ErrBadOption, s.of.Interval)
	}
	if _, err := s.c.configure(s.m.opts, nil); err != nil {
		return err
	}
	return s.c.checkKey(s.of.Key)
}
