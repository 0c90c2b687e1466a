package lockrt

import (
	"context"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/election"
	"github.com/lockgen/lockgen/runtime/internal/locks"
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
// has not begun runs at once. One request in each interval, and in each minute of a longer one, and four more for a run.
//
// An interval is missed if no process lived, Redis was away, the process died or the function failed. It does not begin
// again: the next run finds it in its [Tick]. docs/details.md has recipes, and the effects of a server that loses its
// data.
type Schedule locks.Schedule

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
	var run func(ctx context.Context, t election.Tick) error
	if fn != nil {
		run = func(ctx context.Context, t election.Tick) error { return fn(ctx, Tick(t)) }
	}
	return (*Schedule)((*locks.Client)(c).Every(name, interval, run, optionsOf(opts)...))
}

// Run calls the function in each interval in which this process is the first, until ctx ends. Before that, it returns
// only a permanent error: [ErrBadOption], a [KeyError], [ErrWrongType], [ErrClosed], or a refusal of Redis. The
// function's context ends with ctx, and with [ErrLost] when another process may run. Its error goes to [Options.Logger]
// and makes the interval missed. Below a lease of the name, such as that of a leader, a process has one Run at a time: a second one
// fails with [ErrBadOption].
func (s *Schedule) Run(ctx context.Context) error { return (*locks.Schedule)(s).Run(ctx) }
