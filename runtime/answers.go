package lockrt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// An answerLog is the last answer of Redis about a key, for the waiters of a contest. The lock of the contest guards
// it.
type answerLog struct {
	asking   int            // requests under way
	refused  monotonic.Time // when Redis last replied that another owner has the key
	err      error          // the error since then, or nil
	answered chan struct{}  // closed at the next answer or change; made when a waiter waits for that
}

// asks records that a request is sent.
func (x *answerLog) asks() { x.asking++ }

// says records the answer to a request: err, or whether another owner has the key.
func (x *answerLog) says(refused bool, err error) {
	x.asking = max(0, x.asking-1)
	if refused {
		x.refused = monotonic.Now()
	} else if err == nil {
		x.refused = 0
	}
	x.fails(err)
}

// withdraws records that a request is given up, and that its answer will not be known.
func (x *answerLog) withdraws() {
	x.asking = max(0, x.asking-1)
	x.changes()
}

// fails records an error of Redis for any request, or a success if err is nil.
func (x *answerLog) fails(err error) {
	x.err = err
	x.changes()
}

// changes wakes the waiters for an answer: the key has come to this process, or has left it, without one.
func (x *answerLog) changes() {
	if x.answered != nil {
		close(x.answered)
		x.answered = nil
	}
}

// look returns the log, and a channel that is closed at the next answer.
func (x *answerLog) look() answerLog {
	if x.answered == nil {
		x.answered = make(chan struct{})
	}
	return *x
}

// A shared contest is one in which one waiter asks Redis on behalf of others, too.
type shared interface {
	// last returns whether this process has what w wants, and the last answer of Redis.
	last(w *waiter) (held bool, said answerLog)
	// remind makes the waiter ask again whose turn it is.
	remind()
}

const (
	// An answer of Redis counts as current for this long.
	stillSo = 100 * time.Millisecond

	// When a wait is over, the call waits this much longer for an answer that is on its way. A busy server answers, and
	// tells whether another owner has the lock; a mute one does not.
	lastAnswer = time.Second
)

// fresh reports whether an answer at t counts as current.
func fresh(t monotonic.Time) bool { return !t.IsZero() && monotonic.Since(t) < stillSo }

// errEntered is no error: the waiter has what it wants.
var errEntered = errors.New("entered")

// unavailable returns the error of a call without an answer from Redis, because of err. when begins with a space, or is
// empty.
func unavailable(when string, err error) error {
	if errors.Is(err, ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w%s: %w", ErrUnavailable, when, err)
}

// last returns the known reason why w still waits.
func last(q contest, w *waiter, refused monotonic.Time, down *outage) answerLog {
	said := answerLog{refused: refused, err: down.last}
	if of, ok := q.(shared); ok && refused.IsZero() && down.last == nil { // it is not the turn of w to ask, or has not been for long
		held, shared := of.last(w)
		if said = shared; held {
			said = answerLog{refused: monotonic.Now()}
		}
	}
	return said
}

// explain adds the last answer of Redis to the error of a context that ended. The result matches only what err matches.
func (x answerLog) explain(err error) error {
	switch {
	case x.err != nil:
		return fmt.Errorf("%w; Redis last failed with: %v", err, x.err) //nolint:errorlint // the call ended for another reason
	case !x.refused.IsZero():
		return &heldError{err}
	}
	return fmt.Errorf("%w; Redis had not answered", err)
}

// endedBy joins the error of an ended context with the error err of the call.
func endedBy(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, ctx.Err()):
		return err
	case errors.Is(err, ErrNotAcquired):
		return answerLog{refused: monotonic.Now()}.explain(ended(ctx))
	}
	return answerLog{err: err}.explain(ended(ctx))
}

// withoutTheCaller replaces err, of a call under a context with a shorter deadline than the caller's own, by an error
// that the caller does not mistake for the end of its own context.
func withoutTheCaller(ctx, caller context.Context, err error) error {
	if err == nil || ctx.Err() == nil || caller.Err() != nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	return transport.ErrNoAnswer
}

// answerOf returns the answer to a request that was sent at sent for a lease of ttl: granted or not, or err.
func answerOf(sent time.Time, ttl time.Duration, granted bool, err error) engine.Answer {
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
