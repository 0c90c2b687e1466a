package election

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// A Schedule is what one process knows of a schedule, of which each interval is run by the first process that asks.
type Schedule struct {
	Rate float64 // the speed of this process's clock: 1, but in tests

	c      Client
	of     protocol.Schedule
	worker Worker

	mu    sync.Mutex
	known protocol.Known
}

// longestPause is how long a process waits at most before it asks again. The time to the next interval may be wrong by then: the clock of the server was
// set, or another server is the master, or the machine of this process slept, while its timers stood still.
const longestPause = time.Minute

// A Worker runs the intervals in one process.
type Worker interface {
	// Lock locks the mutex of the schedule, for which it waits no longer than wait, and perhaps less.
	Lock(ctx context.Context, wait time.Duration) (Lease, error)
	// Work does the work of an interval.
	Work(ctx context.Context, t Tick) error
}

// A Tick is the interval of a run, by the clock of the server.
type Tick struct {
	Start    time.Time
	Interval time.Duration
	Done     time.Time // the start of the last interval before it that succeeded; zero if none is known
	Missed   int       // the number of intervals since then; 0 if none is known
}

// NewSchedule returns the schedule with the mutex of a key. The server knows it for keep after its last run.
func NewSchedule(c Client, key string, interval, keep time.Duration, worker Worker) *Schedule {
	return &Schedule{Rate: 1, c: c, of: protocol.Schedule{Key: key, Interval: interval, Keep: keep}, worker: worker}
}

// Known returns the part of the schedule that the process remembers for the server.
func (s *Schedule) Known() protocol.Known {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known
}

// Run has the worker run each interval in which this process is the first, until ctx ends, or after an error that stays.
func (s *Schedule) Run(ctx context.Context) error {
	for failures, refusals := 0, 0; ; {
		wait, err := s.turn(ctx)
		switch {
		case ctx.Err() != nil:
			return failure.Ended(ctx)
		case err == nil:
			if failures > 0 {
				s.c.Logger.InfoContext(ctx, "lockgen: a schedule goes on", "kind", kindSchedule, "key", s.of.Key)
			}
			failures, refusals = 0, 0
			wait = time.Duration(float64(min(wait, longestPause)) / s.Rate)
		case errors.Is(err, failure.ErrNotAcquired):
			refusals++
			wait = min(wait, s.c.Backoff(refusals))
		case s.c.Net.Closing():
			return failure.ErrClosed
		case stays(err):
			return err
		default:
			if failures++; failures == 1 {
				s.c.Logger.WarnContext(ctx, "lockgen: a schedule is held up; it goes on when Redis answers", "kind", kindSchedule, "key", s.of.Key, "error", err)
			}
			wait = s.c.Backoff(failures)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		case <-s.c.Closing():
			timer.Stop()
			return failure.ErrClosed
		}
	}
}

// stays reports whether the next turn would fail with err too.
func stays(err error) bool {
	return errors.Is(err, failure.ErrClosed) || !errors.Is(err, failure.ErrUnavailable) && !errors.Is(err, failure.ErrLost) &&
		!errors.Is(err, failure.ErrNotAcquired) && !transport.Passing(err)
}

// turn runs the present interval if it has not begun, and returns how long to wait after that. If another owner has the mutex, and the worker
// has not waited until the interval is over, turn returns what is left of it, and ErrNotAcquired.
func (s *Schedule) turn(ctx context.Context) (wait time.Duration, err error) {
	m, err := s.ask(ctx, nil)
	if err != nil {
		return 0, err
	}
	if !m.Due {
		return s.until(m), nil
	}
	// The holder may run for longer than the interval. After the wait, ask again whether the interval can begin.
	began := monotonic.Now()
	lease, err := s.worker.Lock(ctx, m.Left)
	if errors.Is(err, failure.ErrNotAcquired) {
		if left := m.Left - monotonic.Since(began); left > 0 {
			return left, err
		}
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

// until returns the time to the next interval: a little more, at random, so that processes do not ask all at once.
func (s *Schedule) until(m protocol.Moment) time.Duration {
	return m.Left + time.Millisecond + rand.N(min(s.of.Interval/20, 50*time.Millisecond)) //nolint:gosec // it spreads load
}

// run begins the present interval under lease, if it has not begun, has the worker work, and releases lease.
func (s *Schedule) run(ctx context.Context, lease Lease) (m protocol.Moment, err error) {
	defer func() {
		lost := lease.Release()
		if lost != nil && !errors.Is(lost, failure.ErrReleased) {
			s.c.Logger.WarnContext(ctx, "lockgen: the lock of a schedule could not be given back, or was lost", "kind", kindSchedule, "key", s.of.Key, "error", lost)
		}
	}()
	for failures := 1; ; failures++ {
		m, err = s.ask(ctx, lease)
		if err == nil || ctx.Err() != nil || lease.Err() != nil || !transport.Passing(err) {
			break
		}
		s.c.Pause(s.c.Backoff(failures))
	}
	if err != nil || !m.Begins {
		return m, err
	}
	t := Tick{Start: m.Start, Interval: s.of.Interval, Done: m.Done}
	if !m.Done.IsZero() {
		t.Missed = max(0, int(m.Start.Sub(m.Done)/s.of.Interval)-1)
	}
	began := monotonic.Now()
	err = s.worker.Work(lease.Context(), t)
	if err == nil {
		err = lease.Err() // another process may have run meanwhile
	}
	if err == nil {
		s.succeeded(m.Start)
		err = s.done(ctx, m.Start)
	}
	if err != nil {
		s.c.Logger.WarnContext(ctx, "lockgen: a run of a schedule failed; for the next one it may count as missed", "kind", kindSchedule, "key", s.of.Key, "start", m.Start, "error", err)
	}
	m.Left -= monotonic.Since(began)
	return m, nil
}

// ask asks whether the present interval can begin, and begins it under lease if that is not nil.
func (s *Schedule) ask(ctx context.Context, lease Lease) (protocol.Moment, error) {
	known := s.Known()
	cmd := s.of.Look(known)
	if lease != nil {
		cmd = s.of.Begin(lease.Owner(), lease.Token(), known)
	}
	m, err := transport.Bounded(ctx, s.c.Net, func() (m protocol.Moment, err error) {
		numbers, err := s.c.Net.Run(cmd).Ints()
		if err != nil {
			return m, err
		}
		m, err = protocol.ReadEvery(numbers)
		if err == nil && m.Lost {
			err = fmt.Errorf("%w: Redis has no such owner", failure.ErrLost)
		}
		return m, err
	})
	if err != nil {
		return protocol.Moment{}, transport.Refused(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known.Begun = learned(known.Begun, s.known.Begun, m.Begun)
	s.known.Done = learned(known.Done, s.known.Done, m.Done)
	return m, nil
}

// learned returns the start to remember after a reply. The server has compared its own start with the one that was sent, and the reply is an
// earlier one if its clock was set back. A later start that another run in this process has learned meanwhile stays.
func learned(sent, present, reply time.Time) time.Time {
	if present.After(sent) && present.After(reply) {
		return present
	}
	return reply
}

// succeeded remembers that the interval with that start was done, in case the server does not record it, or loses the record.
func (s *Schedule) succeeded(start time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if start.After(s.known.Done) {
		s.known.Done = start
	}
}

// done records that the interval was done. If the record fails, the interval counts as missed for
// the next run, unless this process begins it.
func (s *Schedule) done(ctx context.Context, start time.Time) error {
	ctx = context.WithoutCancel(ctx)
	var err error
	for failures := range 3 {
		if failures > 0 {
			s.c.Pause(s.c.Backoff(failures))
		}
		err = transport.Within(ctx, s.c.Net, func() error { return s.c.Net.Run(s.of.Done(start)).Err() })
		if err == nil || !transport.Passing(err) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("store the time of the run: %w", transport.Refused(err))
	}
	return nil
}
