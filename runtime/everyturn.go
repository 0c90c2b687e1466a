package lockrt

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// turn runs the function if the present interval has not begun, and returns how long to wait after
// that.
func (s *Schedule) turn(ctx context.Context) (wait time.Duration, err error) {
	m, err := s.ask(ctx, nil)
	if err != nil {
		return 0, err
	}
	if !m.Due {
		return s.until(m), nil
	}
	// The holder may run for longer than the interval. After the wait, ask again whether the interval can begin.
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

// until returns the time to the next interval: a little more, at random, so that processes do not ask all at once.
func (s *Schedule) until(m protocol.Moment) time.Duration {
	return m.Left + time.Millisecond + rand.N(min(s.of.Interval/20, 50*time.Millisecond)) //nolint:gosec // it spreads load
}

// run begins the present interval under lease, if it has not begun, calls the function, and releases lease.
func (s *Schedule) run(ctx context.Context, lease *Lease) (m protocol.Moment, err error) {
	defer func() {
		lost := lease.grant.unlock(lease)
		lease.report()
		if lost != nil && !errors.Is(lost, ErrReleased) {
			s.c.opts.Logger.WarnContext(ctx, "lockgen: the lock of a schedule could not be given back, or was lost", "kind", kindSchedule, "key", s.of.Key, "error", lost)
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
		s.c.opts.Logger.WarnContext(ctx, "lockgen: a run of a schedule failed; for the next one it counts as missed", "kind", kindSchedule, "key", s.of.Key, "start", m.Start, "error", err)
	}
	m.Left -= time.Since(began)
	return m, nil
}

// ask asks whether the present interval can begin, and begins it under lease if that is not nil.
func (s *Schedule) ask(ctx context.Context, lease *Lease) (protocol.Moment, error) {
	s.mu.Lock()
	known := s.known
	s.mu.Unlock()
	cmd := s.of.Look(known)
	if lease != nil {
		cmd = s.of.Begin(lease.guard.Owner(), lease.token, known)
	}
	m, err := bounded(ctx, s.c, func() (m protocol.Moment, err error) {
		numbers, err := s.c.net.Run(cmd).Ints()
		if err != nil {
			return m, err
		}
		m, err = protocol.ReadEvery(numbers)
		if err == nil && m.Lost {
			err = fmt.Errorf("%w: Redis has no such owner", ErrLost)
		}
		return m, err
	})
	if err != nil {
		return protocol.Moment{}, refused(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = m.Begun
	return m, nil
}

// done records that the interval was done. If the record fails, the interval counts as missed for
// the next run.
func (s *Schedule) done(ctx context.Context, start time.Time) error {
	ctx = context.WithoutCancel(ctx)
	var err error
	for failures := range 3 {
		if failures > 0 {
			s.c.pause(s.c.opts.Retry.pause(failures))
		}
		err = within(ctx, s.c, func() error { return s.c.net.Run(s.of.Done(start)).Err() })
		if err == nil || !passing(err) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("store the time of the run: %w", refused(err))
	}
	return nil
}
