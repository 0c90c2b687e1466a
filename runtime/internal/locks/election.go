package locks

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/lockgen/lockgen/runtime/internal/election"
	"github.com/lockgen/lockgen/runtime/internal/failure"
)

// An Election chooses one leader, the holder of the mutex of its name: lockrt.Election.
type Election struct {
	c    *Client
	m    *Mutex
	name string
	of   *election.Election // nil without a client
}

func (c *Client) Election(name string, opts ...LockOption) *Election {
	e := &Election{c: c.made(), m: c.Mutex(name, append(slices.Clip(opts), WithFencing(), WithLinger(0))...), name: name}
	if e.c != nil {
		e.of = election.New(c.elections(), name)
	}
	return e
}

func (e *Election) Name() string { return orZero(e).name }

func (e *Election) Campaign(ctx context.Context, value string) (*Leadership, error) {
	e = orZero(e)
	fail := func(err error) (*Leadership, error) { return nil, failedAt("campaign", e.name, err) }
	switch {
	case e.c == nil:
		return fail(errNoClient)
	case ctx == nil:
		return fail(errNoContext)
	}
	if err := election.CheckValue(value); err != nil {
		return fail(err)
	}
	if outer := leaseFrom(ctx, e.c.core(), e.name); outer != nil && outer.Err() == nil {
		return fail(fmt.Errorf("%w: the context is below the leadership of this very candidate", failure.ErrBadOption))
	}
	alone := &strangerContext{Context: ctx}
	lease, err := e.m.lock(alone, "campaign", nil)
	if err != nil {
		return nil, err
	}
	alone.over.Store(true)
	term, err := e.of.Begin(ctx, soleLease{lease}, value)
	if err != nil {
		return fail(err)
	}
	return &Leadership{e, lease, term}, nil
}

// Lead campaigns again after each loss, and waits out outages. It returns only what would end the next campaign, too.
func (e *Election) Lead(ctx context.Context, value string, fn func(ctx context.Context, l *Leadership) error) error {
	e = orZero(e)
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
	e = orZero(e)
	err := e.check(ctx)
	if err != nil {
		return election.Leader{}, failedAt("leader", e.name, err)
	}
	leader, err := e.of.Leader(ctx)
	return leader, failedAt("leader", e.name, err)
}

func (e *Election) Observe(ctx context.Context) iter.Seq2[election.Leader, error] {
	return func(yield func(election.Leader, error) bool) {
		e := orZero(e)
		if err := e.check(ctx); err != nil {
			yield(election.Leader{}, failedAt("observe", e.name, err))
			return
		}
		e.of.Observe(ctx, func(leader election.Leader, err error) bool {
			return yield(leader, failedAt("observe", e.name, err))
		})
	}
}

// check returns why e cannot be used, or nil.
func (e *Election) check(ctx context.Context) error {
	switch {
	case e.c == nil:
		return errNoClient
	case ctx == nil:
		return errNoContext
	case !e.c.granting():
		return failure.ErrClosed
	}
	return e.c.core().checkKey(e.name)
}

// elections returns what the elections and schedules of c have in common.
func (c *Client) elections() election.Client {
	return election.Client{Host: host{c.line()}, Wire: c.wire, Net: c.net, Logger: c.opts.Logger}
}

// A soleLease implements election.Lease.
type soleLease struct{ *Lease }

func (l soleLease) Owner() string { return l.guard.Owner() }

func (l soleLease) Release() error {
	err := l.grant.unlock(l.Lease)
	l.report()
	return err
}
