package locks

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/election"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/resource"
)

// An Election chooses one leader, the holder of the mutex of its name: lockrt.Election.
type Election struct {
	c    *Client
	m    *Mutex
	name string
	of   *election.Election // nil without a client
}

func (c *Client) Election(name string, opts ...leases.Option) *Election {
	e := &Election{c: c.Made(), m: c.Mutex(name, append(slices.Clip(opts), leases.WithFencing(), leases.WithLinger(0))...), name: name}
	if e.c != nil {
		e.of = election.New(c.elections(), name)
	}
	return e
}

func (e *Election) Name() string { return core.OrZero(e).name }

func (e *Election) Campaign(ctx context.Context, value string) (*Leadership, error) {
	e = core.OrZero(e)
	fail := func(err error) (*Leadership, error) { return nil, core.FailedAt("campaign", e.name, err) }
	switch {
	case e.c == nil:
		return fail(core.ErrNoClient)
	case ctx == nil:
		return fail(core.ErrNoContext)
	}
	if err := election.CheckValue(value); err != nil {
		return fail(err)
	}
	if outer := leases.Enterable(ctx, e.c.Core(), e.name); outer != nil && outer.Err() == nil {
		return fail(fmt.Errorf("%w: the context is below the leadership of this very candidate", failure.ErrBadOption))
	}
	alone := &leases.OwnerlessContext{Context: ctx}
	lease, err := e.m.lock(alone, "campaign", nil)
	if err != nil {
		return nil, err
	}
	alone.Over.Store(true)
	term, err := e.of.Begin(ctx, soleLease{lease}, value)
	if err != nil {
		return fail(err)
	}
	return &Leadership{e, lease, term}, nil
}

// Lead campaigns again after each loss, and waits out outages. It returns only what would end the next campaign, too.
func (e *Election) Lead(ctx context.Context, value string, fn func(ctx context.Context, l *Leadership) error) error {
	e = core.OrZero(e)
	return e.of.Lead(ctx, &candidate{e: e, ctx: ctx, value: value, fn: fn})
}

// A candidate implements election.Candidate.
type candidate struct {
	e     *Election
	ctx   context.Context
	value string
	fn    func(ctx context.Context, l *Leadership) error
	term  *Leadership // after Campaign
}

func (x *candidate) Campaign() (err error) {
	x.term, err = x.e.Campaign(x.ctx, x.value)
	return err
}

func (x *candidate) Lead() error   { return x.fn(x.term.Context(), x.term) }
func (x *candidate) Resign() error { return x.term.Resign(x.ctx) }

func (e *Election) Leader(ctx context.Context) (election.Leader, error) {
	e = core.OrZero(e)
	err := e.check(ctx)
	if err != nil {
		return election.Leader{}, core.FailedAt("leader", e.name, err)
	}
	leader, err := e.of.Leader(ctx)
	return leader, core.FailedAt("leader", e.name, err)
}

func (e *Election) Observe(ctx context.Context) iter.Seq2[election.Leader, error] {
	return func(yield func(election.Leader, error) bool) {
		e := core.OrZero(e)
		if err := e.check(ctx); err != nil {
			yield(election.Leader{}, core.FailedAt("observe", e.name, err))
			return
		}
		e.of.Observe(ctx, func(leader election.Leader, err error) bool {
			return yield(leader, core.FailedAt("observe", e.name, err))
		})
	}
}

// check returns why e cannot be used, or nil.
func (e *Election) check(ctx context.Context) error {
	switch {
	case e.c == nil:
		return core.ErrNoClient
	case ctx == nil:
		return core.ErrNoContext
	case !e.c.base.Granting():
		return failure.ErrClosed
	}
	return e.c.Core().CheckKey(e.name)
}

// elections returns what the elections and schedules of c have in common.
func (c *Client) elections() election.Client {
	return election.Client{Host: resource.Host{Of: c.Base()}, Wire: c.base.Wire, Net: c.base.Net, Logger: c.base.Settings.Logger}
}

// A soleLease implements election.Lease.
type soleLease struct{ *leases.Lease }

func (l soleLease) Owner() string { return l.Core().Guard().Owner() }

func (l soleLease) Release() error {
	err := l.Core().Grant.Unlock(l.Lease)
	l.Core().Report()
	return err
}
