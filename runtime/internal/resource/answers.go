package resource

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// A shared contest is one in which one waiter asks Redis on behalf of others, too.
type shared interface {
	// Last returns whether this process has what w wants, and the last answer of Redis.
	Last(w *Waiter) (held bool, said engine.AnswerLog)
	// Remind makes the waiter whose turn it is ask again, or w if each asks for itself.
	Remind(w *Waiter)
}

const (
	// stillSo is how long an answer of Redis counts as current.
	stillSo = 100 * time.Millisecond

	// LastAnswer is how much longer a call waits for an answer that is on its way when its wait is over. A busy server answers, and says
	// whether another owner has the lock; a mute one does not.
	LastAnswer = time.Second
)

// fresh reports whether an answer at t counts as current.
func fresh(t monotonic.Time) bool { return !t.IsZero() && monotonic.Since(t) < stillSo }

// errEntered is no error: the waiter has what it wants.
var errEntered = errors.New("entered")

// last returns the known reason why w still waits.
func last(q Contest, w *Waiter, refused monotonic.Time, down *engine.Outage) engine.AnswerLog {
	said := engine.AnswerLog{Refused: refused, Err: down.Last}
	if of, ok := q.(shared); ok && refused.IsZero() && down.Last == nil { // it is not the turn of w to ask, or has not been for long
		held, shared := of.Last(w)
		if said = shared; held {
			said = engine.AnswerLog{Refused: monotonic.Now()}
		}
	}
	return said
}

// withAnswer adds x, the last answer of Redis, to the error of a context that ended. The result matches only what err matches.
func withAnswer(x engine.AnswerLog, err error) error {
	switch {
	case x.Err != nil:
		return fmt.Errorf("%w; Redis last failed with: %v", err, x.Err) //nolint:errorlint // the call ended for another reason
	case !x.Refused.IsZero():
		return &leases.HeldError{Err: err}
	}
	return fmt.Errorf("%w; Redis had not answered", err)
}

// EndedBy joins the error of an ended context with the error err of the call.
func EndedBy(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, ctx.Err()):
		return err
	case errors.Is(err, failure.ErrNotAcquired):
		return withAnswer(engine.AnswerLog{Refused: monotonic.Now()}, core.Ended(ctx))
	}
	return withAnswer(engine.AnswerLog{Err: err}, core.Ended(ctx))
}

// WithoutTheCaller replaces err, of a call under a context with a shorter deadline than the caller's own, by an error
// that the caller does not mistake for the end of its own context.
func WithoutTheCaller(ctx, caller context.Context, err error) error {
	if err == nil || ctx.Err() == nil || caller.Err() != nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	return transport.ErrNoAnswer
}

// AnswerOf returns the answer to a request that was sent at sent for a lease of ttl: granted or not, or err.
func AnswerOf(sent time.Time, ttl time.Duration, granted bool, err error) engine.Answer {
	return engine.Answer{Sent: sent, TTL: ttl, Granted: granted, Err: err, Fate: fateOf(err)}
}

// fateOf returns what Redis may have done for a request although err came back.
func fateOf(err error) (f engine.Fate) {
	if transport.Unknown(err) || transport.Begun(err) {
		f |= engine.FateUnknown
	}
	if transport.Unconfirmed(err) {
		f |= engine.FateUnconfirmed
	}
	return f
}
