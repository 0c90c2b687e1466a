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

// An Election has one of several candidates lead: the one that has the mutex of its name, with a fencing token. Each
// candidate has a value by which observers know it, such as its address. It names a key and holds no state: make one for each
// use or keep one. It is safe for concurrent use. Its shape is that of etcd's concurrency.Election; Redisson has nothing like it.
//
//	err := client.Election("reports").Lead(ctx, addr, func(ctx context.Context, l *lockrt.Leadership) error {
//		return serve(ctx) // ends when somebody else may lead
//	})
//
// What a lease promises, a leadership does: no two are trusted at once; one that cannot be trusted any more ends its context before
// another candidate can lead; a leader that dies is followed when its lease is over, see [Options.Watchdog], and one that resigns
// at once, by the candidate that has waited longest. A leader that was stopped for longer than its lease does not know it until it
// runs again: send [Leadership.Token] with each write where that matters.
//
// Beside the mutex there is the key lockgen_leader:{name}, which says who leads and is kept for 10 minutes after it was
// last confirmed, which a leader does every 200 seconds.
type Election struct {
	c    *Client
	m    *Mutex
	name string
}

// Election returns the election of that name. It does not contact Redis. opts are those of a Mutex: WithWatchdog says after how
// long a leader that died is followed, WithWait how long a campaign lasts. An unusable name or option is reported by what uses it.
func (c *Client) Election(name string, opts ...LockOption) *Election {
	return &Election{c: c, m: c.Mutex(name, append(slices.Clip(opts), WithFencing())...), name: name}
}

// Name returns the name of the election, which is the key of its mutex.
func (e *Election) Name() string { return orZero(e).name }

// A Leader is who leads, as Redis says.
type Leader struct {
	Value  string // by which it wants to be known
	Token  int64  // the fencing token of its term: larger than that of every earlier one; 0 if nobody leads
	Client string // the [Client.ID] of its client
}

// leaderKeep is how long Redis keeps the record of who leads, which is good for nothing once the mutex is somebody else's.
const leaderKeep = 10 * time.Minute

// Campaign waits until this candidate leads, ctx ends or [WithWait] runs out. ctx becomes an ancestor of
// [Leadership.Context]. It takes one round trip more than [Mutex.Lock] and fails as that does; after an error it does
// not lead. It fails with [ErrBadOption] below its own leadership, where it would wait for itself, and for a value of more than 64 KB.
func (e *Election) Campaign(ctx context.Context, value string) (*Leadership, error) {
	e = orZero(e)
	fail := func(err error) (*Leadership, error) { return nil, failedAt("campaign", e.name, err) }
	switch {
	case e.c == nil:
		return fail(errNoClient)
	case ctx == nil:
		return fail(fmt.Errorf("%w: the context is nil", ErrBadOption))
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

// A strangerContext hides, until it is over, the owner of its caller, see [WithOwner]: each campaign, and each run of a schedule, is one of
// its own, although what is locked below it is the owner's.
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

// Lead campaigns with value, calls fn whenever this candidate leads, and campaigns again when that was lost, until ctx ends or
// fn returns while it leads; then it resigns. fn is given a context that ends with the leadership, and has to return then: nobody
// campaigns in its place meanwhile.
//
// It returns what fn returned, the error of ctx if that has ended, or what a campaign failed with that another
// one would fail with, too, such as [ErrWrongType], [ErrClosed] or, after [WithWait], [ErrNotAcquired]. An outage of Redis is
// waited out, however long; [Options.Logger] gets a line about it, and about each leadership that was lost.
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
			e.c.opts.Logger.WarnContext(ctx, "lockgen: the leadership was lost; campaigning again", "key", e.name, "error", err)
		case ctx != nil && ctx.Err() != nil, !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrLost):
			return err
		default:
			e.c.opts.Logger.WarnContext(ctx, "lockgen: a campaign failed; campaigning again", "key", e.name, "error", err)
			e.c.pause(e.c.opts.Retry.pause(1))
		}
	}
}

// term calls fn under l and resigns, also if fn panics. again says that the leadership was lost and ctx goes on.
func (l *Leadership) term(ctx context.Context, fn func(ctx context.Context, l *Leadership) error) (err error, again bool) { //nolint:staticcheck,revive // the error is what it is about
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

// Leader asks Redis who leads. Nobody does while the Token is 0: the next candidate has not been elected, or has not said so yet.
// It takes one round trip and fails with [ErrUnavailable] if Redis does not answer within [Options.OpTimeout].
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	leader, _, err := orZero(e).look(ctx)
	if err != nil {
		return Leader{}, failedAt("leader", orZero(e).name, err)
	}
	return leader, nil
}

// look is Leader, and returns how long the mutex is held at least if it is not renewed; 0 if it is free.
func (e *Election) look(ctx context.Context) (leader Leader, left time.Duration, err error) {
	if err := e.check(ctx); err != nil {
		return leader, 0, err
	}
	type reply struct {
		term protocol.Term
		left time.Duration
		err  error
	}
	got, err := bounded(ctx, e.c, func() reply {
		said, err := e.c.net.Run(e.c.wire.Leader(e.name)).Any()
		if err != nil {
			return reply{err: err}
		}
		ttl, term, err := protocol.ReadLeading(said)
		return reply{term, max(0, ttl), err}
	})
	if err = cmpOr(err, got.err); err != nil {
		if ctx.Err() == nil && passing(err) && !errors.Is(err, ErrUnavailable) {
			err = unavailable("", err)
		}
		return leader, 0, refused(err)
	}
	client, _ := protocol.ClientOf(got.term.Owner)
	return Leader{Value: got.term.Value, Token: got.term.Token, Client: client}, got.left, nil
}

// check reports why e cannot be asked.
func (e *Election) check(ctx context.Context) error {
	switch {
	case e.c == nil:
		return errNoClient
	case ctx == nil:
		return fmt.Errorf("%w: the context is nil", ErrBadOption)
	case !e.c.granting():
		return ErrClosed
	}
	if err := e.c.checkKey(e.name); err != nil {
		return err
	}
	return nil
}

// Observe returns who leads: at once, and then each time that another one does, that nobody does any more, or that the leader has
// another value. Of changes that follow each other faster than the loop body returns only the last is returned, so what it sees
// is always what was the case a moment ago.
//
//	for leader, err := range election.Observe(ctx) {
//		switch {
//		case err != nil:
//			log.Print(err) // and leader is who led when Redis last answered
//		case leader.Token == 0:
//			route(nil)
//		default:
//			route(leader.Value)
//		}
//	}
//
// While Redis does not answer that is returned once, with an error that matches [ErrUnavailable] and the leader that was known; and
// then who leads, as soon as Redis says so again. The loop ends when ctx ends. Before it ends by itself it returns the error that no
// further try would mend: [ErrClosed], a [KeyError], [ErrWrongType] or what Redis refused with.
//
// A change is announced on a channel, so it is seen within milliseconds. That of a leader that died is seen when its
// lease is over. An observer asks Redis once for each change, and once for each watchdog time of the leader, or every 5s while nobody leads.
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
				waiting = away // the subscription may be back before the rest is
			case <-timer.C: // while changes are not heard Redis is asked
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
