package lockrt

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
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

// leaderKeep is how long Redis keeps the record of the leader. The record is worthless once the mutex has another
// holder.
const leaderKeep = 10 * time.Minute

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

// A strangerContext hides the owner of its caller, see [WithOwner]: each campaign, and each run of a schedule, is an
// owner of its own. Under the lease, the caller's owner counts again.
type strangerContext struct {
	context.Context

	over atomic.Bool
}

func (x *strangerContext) Value(key any) any {
	if _, owner := key.(ownerKey); owner && !x.over.Load() {
		return nil
	}
	return x.Context.Value(key)
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
	if err != nil {
		return Leader{}, failedAt("leader", orZero(e).name, err)
	}
	return leader, nil
}

// look is Leader, and returns how long the mutex stays held without a renewal; 0 if it is free.
func (e *Election) look(ctx context.Context) (leader Leader, left time.Duration, err error) {
	if err := e.check(ctx); err != nil {
		return leader, 0, err
	}
	type reply struct {
		term protocol.Term
		left time.Duration
	}
	got, err := bounded(ctx, e.c, func() (reply, error) {
		said, err := e.c.net.Run(e.c.wire.Leader(e.name)).Any()
		if err != nil {
			return reply{}, err
		}
		ttl, term, err := protocol.ReadLeading(said)
		return reply{term, max(0, ttl)}, err
	})
	if err != nil {
		if ctx.Err() == nil && passing(err) && !errors.Is(err, ErrUnavailable) {
			err = unavailable("", err)
		}
		return leader, 0, refused(err)
	}
	client, _ := protocol.ClientOf(got.term.Owner)
	return Leader{Value: got.term.Value, Token: got.term.Token, Client: client}, got.left, nil
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

func (e *Election) observe(ctx context.Context, yield func(Leader, error) bool) {
	if err := e.check(ctx); err != nil {
		yield(Leader{}, failedAt("observe", e.name, err))
		return
	}
	changed := make(chan struct{}, 1)
	listener := e.c.net.Listen(protocol.LeaderChannel(e.name), func(hub.Event) {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	defer listener.Close()
	var last Leader
	known, away, failures := false, false, 0
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		leader, left, err := e.look(ctx)
		var pause time.Duration
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			if (!known || away || leader != last) && !yield(leader, nil) {
				return
			}
			known, away, failures, last = true, false, 0, leader
			pause = lookAgainBlind
			if left > 0 {
				pause = min(left+time.Millisecond, lookAgain)
			}
			if !listener.Live() {
				pause = min(pause, pollUnheard)
			}
		case errors.Is(err, ErrClosed) || !passing(err):
			yield(last, failedAt("observe", e.name, err))
			return
		default:
			if !away && !yield(last, failedAt("observe", e.name, err)) {
				return
			}
			failures++
			away, pause = true, e.c.opts.Retry.pause(failures)
		}
		until := now().Add(pause)
		for waiting := true; waiting; {
			timer.Reset(min(time.Until(until), pollUnheard))
			select {
			case <-changed:
				waiting = away // the subscription may return before the other connections
			case <-timer.C: // without messages it asks Redis
				waiting = listener.Live() && now().Before(until)
			case <-ctx.Done():
				return
			case <-e.c.closing:
				yield(last, failedAt("observe", e.name, ErrClosed))
				return
			}
		}
	}
}
