package lockrt

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/lockgen/lockgen/runtime/internal/election"
)

// An Election chooses one leader among candidates: the holder of the [Mutex] of its name, with a fencing token. A
// leadership makes the promises of a lease. Each candidate has a value for observers, such as its address. The key
// lockgen_leader:{name} has the record of the leader: the leader confirms it every 200 seconds, and it expires after 10
// minutes. Compare etcd's concurrency.Election.
//
//	err := client.Election("reports").Lead(ctx, addr, func(ctx context.Context, l *lockrt.Leadership) error {
//		return serve(ctx) // ends before another candidate can lead
//	})
type Election struct {
	c    *Client
	m    *Mutex
	name string
	of   *election.Election // nil without a client
}

// Election returns the election of that name, which is the key of its [Mutex]. WithWatchdog is how long a dead leader
// stays the leader, WithWait is how long a campaign may wait. [WithFencing] is implied.
func (c *Client) Election(name string, opts ...LockOption) *Election {
	e := &Election{c: c.made(), m: c.Mutex(name, append(slices.Clip(opts), WithFencing(), WithLinger(0))...), name: name}
	if e.c != nil {
		e.of = election.New(c.elections(), name)
	}
	return e
}

// Name returns the name of the election, the key of its mutex.
func (e *Election) Name() string { return orZero(e).name }

// A Leader is the leader of an [Election], as Redis knows it.
type Leader struct {
	Value  string // its value for observers
	Token  int64  // the fencing token of its term: larger than that of every earlier one; 0 without a leader
	Client string // the [Client.ID] of its client
}

// Campaign waits until this candidate leads. It fails like Lock; under its own leadership, and for a value of more than 64 KB, with
// [ErrBadOption]. One round trip more than Lock.
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
	if outer := leaseFrom(ctx, e.c, e.name); outer != nil && outer.Err() == nil {
		return fail(fmt.Errorf("%w: the context is below the leadership of this very candidate", ErrBadOption))
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

// Lead campaigns with value, calls fn while this candidate leads, and campaigns again when the leadership was lost,
// until ctx ends or fn returns while it leads; then it resigns. fn must return when its context ends. Lead returns the
// error of fn, of ctx, or one that would also fail the next campaign, such as [ErrWrongType], [ErrClosed] or, after
// [WithWait], [ErrNotAcquired]. It waits out any outage of Redis and writes a line about it, and about each lost
// leadership, to [Options.Logger].
func (e *Election) Lead(ctx context.Context, value string, fn func(ctx context.Context, l *Leadership) error) error {
	e = orZero(e)
	if fn == nil {
		return noFunction("lead", e.name)
	}
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

// Leader asks Redis for the leader. Token is 0 if there is none, or none yet.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	e = orZero(e)
	err := e.check(ctx)
	if err != nil {
		return Leader{}, failedAt("leader", e.name, err)
	}
	leader, err := e.of.Leader(ctx)
	return Leader(leader), failedAt("leader", e.name, err)
}

// Observe returns the leader at once and after each change of leader or value. Several changes during the loop body are
// one: the last. Token is 0 without a leader.
//
//	for leader, err := range election.Observe(ctx) {
//		route(leader, err) // with an error it is the last one known
//	}
//
// During an outage it returns one error, which matches [ErrUnavailable]. The loop ends with ctx, or after a permanent
// error. It sees a change within milliseconds, and the end of a dead leader when its lease is over. It costs one round
// trip for each change and each watchdog time of the leader, or every 5s without a leader.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		e := orZero(e)
		if err := e.check(ctx); err != nil {
			yield(Leader{}, failedAt("observe", e.name, err))
			return
		}
		e.of.Observe(ctx, func(leader election.Leader, err error) bool {
			return yield(Leader(leader), failedAt("observe", e.name, err))
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
		return ErrClosed
	}
	return e.c.checkKey(e.name)
}
