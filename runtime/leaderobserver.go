package lockrt

import (
	"context"
	"errors"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

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

// observe yields the leader for Observe.
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
