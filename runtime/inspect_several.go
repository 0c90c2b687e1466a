package lockrt

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Inspect asks all servers at once. It waits for each, for [Options.OpTimeout] at most, and returns their answers and errors in the order
// of the clients. It fails with [ErrUnavailable] if no majority answers.
func (m *RedLock) Inspect(ctx context.Context) (RedStanding, error) {
	if err := m.unusable(); err != nil {
		return RedStanding{}, &Error{Op: "inspect", Key: m.Key(), Err: err}
	}
	s := RedStanding{Majority: m.needs(), Servers: make([]ServerStanding, len(m.parts))}
	err := m.each(ctx, func(ctx context.Context, i int, part *Mutex) (err error) {
		s.Servers[i].Standing, err = part.Inspect(ctx)
		s.Servers[i].Err = err
		return err
	})
	for _, server := range s.Servers {
		if server.Owner != "" {
			s.Held++
		}
		if server.Ours {
			s.Ours++
		}
	}
	if err != nil {
		return s, &Error{Op: "inspect", Key: m.key, Err: err}
	}
	return s, nil
}

// ForceUnlock takes the key from its holder on all servers at once and reports whether any had it. It waits for each server, for
// [Options.OpTimeout] at most, and fails with [ErrUnavailable] without a majority. It may be called again.
func (m *RedLock) ForceUnlock(ctx context.Context) (bool, error) {
	if err := m.unusable(); err != nil {
		return false, &Error{Op: "force unlock", Key: m.Key(), Err: err}
	}
	taken := make([]bool, len(m.parts))
	err := m.each(ctx, func(ctx context.Context, i int, part *Mutex) (err error) {
		taken[i], err = part.ForceUnlock(ctx)
		return err
	})
	if err != nil {
		err = &Error{Op: "force unlock", Key: m.key, Err: err}
	}
	return slices.Contains(taken, true), err
}

// each calls ask for all parts at once and waits for all of them. It fails unless a majority of them succeeds.
func (m *RedLock) each(ctx context.Context, ask func(ctx context.Context, i int, part *Mutex) error) error {
	ctx = present(ctx)
	for _, part := range m.parts {
		if err := part.c.checkKey(m.key); err != nil {
			return err
		}
	}
	outcomes := make(chan error, len(m.parts))
	for i, part := range m.parts {
		go func() { outcomes <- ask(ctx, i, part) }()
	}
	done := 0
	var errs error
	for range m.parts {
		if err := <-outcomes; err != nil {
			errs = errors.Join(errs, err)
		} else {
			done++
		}
	}
	switch {
	case done >= m.needs():
		return nil
	case ctx.Err() != nil:
		return ended(ctx)
	case !passing(errs):
		return errs
	}
	return fmt.Errorf("%w: %d of %d servers answer: %w", ErrUnavailable, done, len(m.parts), errs)
}

// Inspect asks Redis for the permits in all and taken, without expired ones, and adds those of this Client. Redisson's getPermits,
// acquiredPermits.
func (s *PermitSemaphore) Inspect(ctx context.Context) (PermitStanding, error) {
	s = orZero(s)
	free, taken, err := s.count(ctx, "inspect")
	if err != nil {
		return PermitStanding{}, err
	}
	standing := PermitStanding{Total: free + taken, Available: free, Acquired: taken}
	if ct, known := s.c.permits.known(s.key); known {
		standing.Ours = ct.Ours()
		ct.mu.Lock()
		standing.Waiting = ct.Queue.Length()
		ct.mu.Unlock()
	}
	return standing, nil
}

// Inspect returns the Inspect of each member, in the order of locking, not at one moment. If some fail, it returns an error and the other
// answers.
func (m *MultiLock) Inspect(ctx context.Context) ([]MemberStanding, error) {
	switch {
	case m != nil && m.err != nil:
		return nil, m.err
	case m == nil || len(m.members) == 0:
		return nil, &Error{Op: "inspect", Key: m.Key(), Err: errNoLock}
	}
	ctx = present(ctx)
	standings := make([]MemberStanding, len(m.members))
	outcomes := make(chan error, len(m.members))
	for i, l := range m.members {
		go func() { outcomes <- inspectMember(ctx, &standings[i], l) }()
	}
	var errs error
	for range m.members {
		errs = errors.Join(errs, <-outcomes)
	}
	return standings, errs
}

// inspectMember stores the result of l's Inspect in s.
func inspectMember(ctx context.Context, s *MemberStanding, l Locker) (err error) {
	kind, _, _ := describe(l)
	s.Key, s.Kind = l.Key(), Kind(kind)
	switch l := l.(type) {
	case *RWMutex:
		s.RW, err = pointTo(l.Inspect(ctx))
	case rLocker:
		s.RW, err = pointTo(l.m.Inspect(ctx))
	case permitLocker:
		s.Permits, err = pointTo(l.Inspect(ctx))
	case *RedLock:
		s.Red, err = pointTo(l.Inspect(ctx))
	case interface {
		Inspect(ctx context.Context) (Standing, error)
	}:
		if kind == "" {
			s.Kind = KindMutex
		}
		s.Lock, err = pointTo(l.Inspect(ctx))
	}
	return err
}

// pointTo returns a pointer to v, or nil if there is an error.
func pointTo[T any](v T, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return &v, nil
}
