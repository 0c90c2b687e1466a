package composite

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/locks"
	"github.com/lockgen/lockgen/runtime/observe"
)

func (m *RedLock) Inspect(ctx context.Context) (observe.RedStanding, error) {
	if err := m.unusable(); err != nil {
		return observe.RedStanding{}, &observe.Error{Op: "inspect", Key: m.Key(), Err: err}
	}
	s := observe.RedStanding{Majority: m.needs(), Servers: make([]observe.ServerStanding, len(m.parts))}
	err := m.each(ctx, func(ctx context.Context, i int, part *locks.Mutex) (err error) {
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
		return s, &observe.Error{Op: "inspect", Key: m.key, Err: err}
	}
	return s, nil
}

func (m *RedLock) ForceUnlock(ctx context.Context) (bool, error) {
	if err := m.unusable(); err != nil {
		return false, &observe.Error{Op: "force unlock", Key: m.Key(), Err: err}
	}
	taken := make([]bool, len(m.parts))
	err := m.each(ctx, func(ctx context.Context, i int, part *locks.Mutex) (err error) {
		taken[i], err = part.ForceUnlock(ctx)
		return err
	})
	if err != nil {
		err = &observe.Error{Op: "force unlock", Key: m.key, Err: err}
	}
	return slices.Contains(taken, true), err
}

// each calls ask for all parts at once and waits for all of them. It fails unless a majority of them succeeds.
func (m *RedLock) each(ctx context.Context, ask func(ctx context.Context, i int, part *locks.Mutex) error) error {
	ctx = core.Present(ctx)
	for _, part := range m.parts {
		if err := part.Client().Core().CheckKey(m.key); err != nil {
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
		return core.Ended(ctx)
	case !core.Passing(errs):
		return errs
	}
	return fmt.Errorf("%w: %d of %d servers answer: %w", failure.ErrUnavailable, done, len(m.parts), errs)
}

func (m *MultiLock) Inspect(ctx context.Context) ([]observe.MemberStanding, error) {
	switch {
	case m != nil && m.err != nil:
		return nil, m.err
	case m == nil || len(m.members) == 0:
		return nil, &observe.Error{Op: "inspect", Key: m.Key(), Err: core.ErrNoLock}
	}
	ctx = core.Present(ctx)
	standings := make([]observe.MemberStanding, len(m.members))
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
func inspectMember(ctx context.Context, s *observe.MemberStanding, l locks.Locker) (err error) {
	kind, _, _ := describe(l)
	s.Key, s.Kind = l.Key(), observe.Kind(kind)
	switch l := l.(type) {
	case *locks.RWMutex:
		s.RW, err = pointTo(l.Inspect(ctx))
	case locks.ReadLocker:
		s.RW, err = pointTo(l.M.Inspect(ctx))
	case locks.PermitLocker:
		s.Permits, err = pointTo(l.Inspect(ctx))
	case *RedLock:
		s.Red, err = pointTo(l.Inspect(ctx))
	case interface {
		Inspect(ctx context.Context) (observe.Standing, error)
	}:
		if kind == "" {
			s.Kind = observe.KindMutex
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
