package lockrt

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
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
}

// Election returns the election of that name, which is the key of its [Mutex]. WithWatchdog is how long a dead leader
// stays the leader, WithWait is how long a campaign may wait. [WithFencing] is implied.
func (c *Client) Election(name string, opts ...LockOption) *Election {
	return &Election{c: c, m: c.Mutex(name, append(slices.Clip(opts), WithFencing(), WithLinger(0))...), name: name}
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
	case len(value) > mostValue:
		return fail(tooLong(value))
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
	l := newLeadership(e, lease, value)
	if err := l.confirm(ctx); err != nil {
		err = join(err, lease.Unlock(ctx))
		e.c.spawn(l.remove)
		return fail(err)
	}
	e.c.spawn(l.keep)
	return l, nil
}

// mostValue is the length of the longest value of a leader, in bytes.
const mostValue = 64 << 10

func tooLong(value string) error {
	return fmt.Errorf("%w: a value of %d bytes is longer than 64 KB", ErrBadOption, len(value))
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
	for {
		l, err := e.Campaign(ctx, value)
		switch {
		case err == nil:
			err, again := l.term(ctx, fn)
			if !again {
				return err
			}
			e.c.opts.Logger.WarnContext(ctx, "lockgen: the leadership was lost; campaigning again", "kind", kindElection, "key", e.name, "error", err)
		case ctx != nil && ctx.Err() != nil, !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrLost):
			return err
		default:
			e.c.opts.Logger.WarnContext(ctx, "lockgen: a campaign failed; campaigning again", "kind", kindElection, "key", e.name, "error", err)
			e.c.pause(e.c.opts.Retry.pause(1))
		}
	}
}

// term calls fn under l and resigns, also if fn panics. again reports that the leadership was lost while ctx goes on.
func (l *Leadership) term(ctx context.Context, fn func(ctx context.Context, l *Leadership) error) (err error, again bool) { //nolint:staticcheck,revive // term returns an error with its own key
	defer func() {
		resigned := l.Resign(ctx)
		again = errors.Is(resigned, ErrLost) && ctx.Err() == nil
		switch {
		case again:
			err = resigned
		case errors.Is(resigned, ErrReleased): // by fn
		default:
			err = afterLoss(ctx, err, resigned)
		}
	}()
	return fn(l.Context(), l), false
}

// Leader asks Redis for the leader. Token is 0 if there is none, or none yet.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	leader, _, err := orZero(e).look(ctx)
	return leader, failedAt("leader", e.Name(), err)
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
	return func(yield func(Leader, error) bool) { orZero(e).observe(ctx, yield) }
}
