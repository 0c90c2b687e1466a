package lockrt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

const (
	// leaderKeep is how long Redis keeps the record of the leader. The record is worthless once the mutex has another
	// holder.
	leaderKeep = 10 * time.Minute

	// confirmEvery is the interval in which the record is written again.
	confirmEvery = leaderKeep / 3
)

// record returns the record of l.
func (l *Leadership) record() protocol.Term {
	l.mu.Lock()
	defer l.mu.Unlock()
	return protocol.Term{Owner: l.lease.guard.Owner(), Token: l.lease.token, Value: l.value}
}

// confirm repeats write until Redis has answered, or the lease's context ends.
func (l *Leadership) confirm(ctx context.Context) error {
	for failures := 1; ; failures++ {
		err := l.write(ctx)
		if err == nil || errors.Is(err, ErrLost) || !passing(err) {
			return err
		}
		timer := time.NewTimer(l.e.c.opts.Retry.pause(failures))
		select {
		case <-timer.C:
		case <-l.lease.Context().Done():
			timer.Stop()
			return cmpOr(l.lease.Err(), ended(l.lease.Context()))
		}
	}
}

// write writes to Redis that l leads, and with which value.
func (l *Leadership) write(ctx context.Context) error {
	c := l.e.c
	return refused(within(ctx, c, func() error {
		l.writing.Lock() // so that the later of two values stays
		defer l.writing.Unlock()
		if err := l.lease.Err(); err != nil {
			return err
		}
		written, err := c.net.Run(c.wire.Lead(l.e.name, l.record(), leaderKeep)).Int()
		if err == nil && written == 0 {
			err = fmt.Errorf("%w: Redis names another leader", ErrLost)
		}
		return err
	}))
}

// keep confirms the record while l leads, and removes it then, so that observers see the end.
func (l *Leadership) keep() {
	c, every := l.e.c, confirmEvery
	ended := l.lease.Context().Done()
	timer := time.NewTimer(every)
	defer timer.Stop()
	for l.lease.Err() == nil {
		write := true
		select {
		case <-l.resigned:
		case <-ended:
			// The lease outlives the context of the caller, who may be ending the work. After that only Resign reports
			// its end.
			ended, every, write = nil, time.Second, false
		case <-l.again:
		case <-timer.C:
			write = ended != nil
		}
		if write && l.lease.Err() == nil {
			if err := l.confirm(context.Background()); err != nil && l.lease.Err() == nil {
				c.opts.Logger.Warn("lockgen: a leader could not confirm that it leads; observers may take it for gone", "kind", kindElection, "key", l.e.name, "owner", l.lease.ownerName(), "error", err)
			}
		}
		timer.Reset(every)
	}
	l.remove()
}

// remove removes the record of l, unless the client is closed: then it is left to expire with the lock.
func (l *Leadership) remove() {
	if errors.Is(l.lease.Err(), ErrClosed) {
		return
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	_ = l.e.c.net.Run(l.e.c.wire.Resign(l.e.name, l.record())) // the removal only lets observers see the end at once
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
