package locks

import (
	"context"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/election"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/observe"
)

// A Leadership is one term of one candidate: lockrt.Leadership.
type Leadership struct {
	e     *Election
	lease *leases.Lease
	term  *election.Term
}

// none reports whether l is no leadership.
func (l *Leadership) none() bool { return l == nil || l.lease == nil }

func (l *Leadership) Context() context.Context { return core.OrZero(l).lease.Context() }

func (l *Leadership) Err() error {
	if l.none() {
		return &observe.Error{Op: "leadership", Err: core.ErrNoLease}
	}
	return l.lease.Err()
}

func (l *Leadership) Until() time.Time { return core.OrZero(l).lease.Until() }

func (l *Leadership) Token() int64 { return core.OrZero(l).lease.Token() }

func (l *Leadership) Proclaim(ctx context.Context, value string) error {
	if l.none() {
		return &observe.Error{Op: "proclaim", Err: core.ErrNoLease}
	}
	fail := func(err error) error { return core.FailedAt("proclaim", l.e.name, err) }
	if ctx == nil {
		return fail(core.ErrNoContext)
	}
	if err := election.CheckValue(value); err != nil {
		return fail(err)
	}
	return fail(l.term.Proclaim(ctx, value))
}

// Resign is as [leases.Lease.Unlock].
func (l *Leadership) Resign(context.Context) error {
	if l.none() {
		return &observe.Error{Op: "resign", Err: core.ErrNoLease}
	}
	return core.FailedAt("resign", l.e.name, l.term.Resign())
}
