package lockrt

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A Schedule has a function run once in each interval, by whichever process comes first: what users of ShedLock come for.
//
//	err := client.Every("invoices", time.Hour, func(ctx context.Context, t lockrt.Tick) error {
//		return invoice(ctx, t.Since(), t.Start) // whatever has come since the last run that succeeded
//	}).Run(ctx)
//
// Every replica of a service runs the schedule. Intervals are counted from 1970 by the clock of the Redis server, so those of an hour
// begin at the full hour, in UTC. The clocks of processes do not matter; they only have to go at about the right speed. The first
// process that asks in an interval runs the function, under the mutex of the schedule's name with a fencing token; the others wait for
// the next interval. No interval is begun twice, and no two runs overlap: one that takes longer than an interval delays the next, which
// begins late, or not at all if it is over by then.
//
// # Missed intervals
//
// An interval is missed if no process lived in it, Redis was away, the process died that had begun it, or the function failed. It is not
// begun again: instead the next run knows of it. [Tick.Done] is the start of the last interval in which the function returned nil, and
// [Tick.Missed] how many have passed since. Three recipes:
//
//   - Work through everything since: query for what changed in [Tick.Since] to [Tick.Start], as above. Nothing is left out whatever
//     was missed, and in the normal case it is what changed in one interval.
//   - Once for each interval, also for those that were missed: loop from [Tick.Since] to [Tick.Start] in steps of [Tick.Interval].
//   - Nothing: what matters is only that it runs now and then. Ignore them.
//
// A run whose process died between the last of its work and its end is repeated as part of the next by the first two: write what is done
// under a key that is unique to the interval, or in one transaction with a token, see [WithFencing].
//
// # What it takes
//
// The key lockgen_every:{name} keeps the starts of the last interval that was begun, and done, for 30 days or 100 intervals, whichever is longer. A server
// that was restarted empty learns from each process that asks what that one knows. If the first one has not asked since the interval was
// begun, the interval is begun twice.
// So it may if the clock of the server is set back by more than an interval, as by a failover to one whose clock is wrong.
//
// Each process sends one request in an interval, and the one that runs four more. In an interval of which the beginning
// was missed, as by the first process that is started, the function runs at once.
type Schedule struct {
	c    *Client
	m    *Mutex
	of   protocol.Schedule
	fn   func(ctx context.Context, t Tick) error
	rate float64 // at which the clock of this process goes, for tests

	mu    sync.Mutex
	known time.Time // the start of the last interval that is known to have begun
}

// A Tick is the interval that a [Schedule] runs a function for. Its times are those of the clock of the server.
type Tick struct {
	Start    time.Time     // when it began
	Interval time.Duration // its length
	Done     time.Time     // the start of the last one before it in which the function returned nil; zero if none is known
	Missed   int           // how many have passed since that one without success; 0 if none is known
}

// Since returns up to when the last run that succeeded has worked: the start of its interval, or, if none is known, the time one interval
// before Start. So Since to Start is what this run is to work through: one interval in the normal case, and one more for each that was missed.
func (t Tick) Since() time.Time {
	if t.Done.IsZero() {
		return t.Start.Add(-t.Interval)
	}
	return t.Done
}

// Every returns the schedule of that name, which is the key of its mutex, too. It does not contact Redis: [Schedule.Run] does. The
// interval is at least 100ms, in whole milliseconds; all processes should give the same. opts are those of a Mutex: WithWatchdog says
// after how long a process that died while it ran lets others run. What is unusable is reported by Run.
func (c *Client) Every(name string, interval time.Duration, fn func(ctx context.Context, t Tick) error, opts ...LockOption) *Schedule {
	return &Schedule{
		c:    c,
		m:    c.Mutex(name, append(slices.Clip(opts), WithFencing())...),
		of:   protocol.Schedule{Key: name, Interval: interval, Keep: max(30*24*time.Hour, hundred(interval))},
		fn:   fn,
		rate: 1,
	}
}

// hundred returns the time of a hundred intervals, as far as that can be said.
func hundred(interval time.Duration) time.Duration {
	const most = 1<<63 - 1
	if interval > most/100 {
		return most
	}
	return 100 * interval
}

// Run calls the function in each interval in which this process is the first, until ctx ends; then it returns the error
// of ctx. It returns before that only with what will not pass by itself: [ErrBadOption], a [KeyError], [ErrWrongType], [ErrClosed],
// or what Redis refuses with, such as a missing permission.
//
// The function is given a context that ends with ctx, and with [ErrLost] when another process may run. What it returns goes to [Options.Logger] and decides
// whether the interval is done; a panic goes on. An outage of Redis is waited out, however long. Several Runs at once, in
// one process too, are like several processes.
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
				s.c.opts.Logger.InfoContext(ctx, "lockgen: a schedule goes on", "key", s.of.Key)
			}
			failures = 0
			wait = time.Duration(float64(wait) / s.rate)
		case !s.c.granting() || errors.Is(err, ErrClosed) || !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrLost) && !errors.Is(err, ErrNotAcquired) && !passing(err):
			return failedAt("every", s.of.Key, err)
		default:
			if failures++; failures == 1 {
				s.c.opts.Logger.WarnContext(ctx, "lockgen: a schedule is held up; it goes on when Redis answers", "key", s.of.Key, "error", err)
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
		return fmt.Errorf("%w: the context is nil", ErrBadOption)
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
	if err := s.c.checkKey(s.of.Key); err != nil {
		return err
	}
	return nil
}

// turn runs the function if the present interval has not begun, and returns for how long to wait then.
func (s *Schedule) turn(ctx context.Context) (wait time.Duration, err error) {
	m, err := s.ask(ctx, nil)
	if err != nil {
		return 0, err
	}
	if !m.Due {
		return s.until(m), nil
	}
	// The one that is before may run for longer than the interval. Whether it is to be begun is asked again then.
	alone := &strangerContext{Context: ctx}
	lease, err := s.m.lock(alone, "every", []LockOption{WithWait(max(m.Left, minLease))})
	alone.over.Store(true)
	if errors.Is(err, ErrNotAcquired) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if m, err = s.run(ctx, lease); err != nil {
		return 0, err
	}
	return s.until(m), nil
}

// until returns how long it is to the next interval: a little more, at random, so that processes do not ask all at once.
func (s *Schedule) until(m protocol.Moment) time.Duration {
	return m.Left + time.Millisecond + rand.N(min(s.of.Interval/20, 50*time.Millisecond)) //nolint:gosec // it spreads load
}

// run begins the present interval under lease, if that has not begun, calls the function, and gives lease back.
func (s *Schedule) run(ctx context.Context, lease *Lease) (m protocol.Moment, err error) {
	defer func() {
		if lost := lease.grant.unlock(lease); lost != nil && !errors.Is(lost, ErrReleased) {
			s.c.opts.Logger.WarnContext(ctx, "lockgen: the lock of a schedule could not be given back, or was lost", "key", s.of.Key, "error", lost)
		}
	}()
	for failures := 1; ; failures++ {
		m, err = s.ask(ctx, lease)
		if err == nil || ctx.Err() != nil || lease.Err() != nil || !passing(err) {
			break
		}
		s.c.pause(s.c.opts.Retry.pause(failures))
	}
	if err != nil || !m.Begins {
		return m, err
	}
	t := Tick{Start: m.Start, Interval: s.of.Interval, Done: m.Done}
	if !m.Done.IsZero() {
		t.Missed = max(0, int(m.Start.Sub(m.Done)/s.of.Interval)-1)
	}
	began := now()
	err = s.fn(lease.Context(), t)
	if err == nil {
		err = lease.Err() // another process may have run meanwhile
	}
	if err == nil {
		err = s.done(ctx, m.Start)
	}
	if err != nil {
		s.c.opts.Logger.WarnContext(ctx, "lockgen: a run of a schedule failed; for the next one it counts as missed", "key", s.of.Key, "start", m.Start, "error", err)
	}
	m.Left -= time.Since(began)
	return m, nil
}

// ask asks whether the present interval is to be begun, and begins it under lease if that is not nil.
func (s *Schedule) ask(ctx context.Context, lease *Lease) (protocol.Moment, error) {
	type reply struct {
		m   protocol.Moment
		err error
	}
	s.mu.Lock()
	known := s.known
	s.mu.Unlock()
	cmd := s.of.Look(known)
	if lease != nil {
		cmd = s.of.Begin(lease.guard.Owner(), lease.token, known)
	}
	got, err := bounded(ctx, s.c, func() reply {
		numbers, err := s.c.net.Run(cmd).Ints()
		if err != nil {
			return reply{err: err}
		}
		m, err := protocol.ReadEvery(numbers)
		if err == nil && m.Lost {
			err = fmt.Errorf("%w: Redis has no such owner", ErrLost)
		}
		return reply{m, err}
	})
	if err = cmpOr(err, got.err); err != nil {
		return protocol.Moment{}, refused(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = got.m.Begun
	return got.m, nil
}

// done notes that the interval was done. What cannot be noted counts as missed for the next run.
func (s *Schedule) done(ctx context.Context, start time.Time) error {
	ctx = context.WithoutCancel(ctx)
	var err error
	for failures := range 3 {
		if failures > 0 {
			s.c.pause(s.c.opts.Retry.pause(failures))
		}
		var sent error
		sent, err = bounded(ctx, s.c, func() error { return s.c.net.Run(s.of.Done(start)).Err() })
		if err = cmpOr(err, sent); err == nil || !passing(err) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("note that it was done: %w", refused(err))
	}
	return nil
}
