package lockrt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// An answerLog is what Redis said last of a key to those who share a contest. It is guarded by the lock of the contest.
type answerLog struct {
	asking   int            // requests under way
	refused  monotonic.Time // when it said last that somebody else has the key
	err      error          // what it failed with since, or nil
	answered chan struct{}  // closed at the next answer or change; made when somebody waits for that
}

// asks notes that a request is sent.
func (x *answerLog) asks() { x.asking++ }

// says notes the answer to a request: err, or whether somebody else has the key.
func (x *answerLog) says(refused bool, err error) {
	x.asking = max(0, x.asking-1)
	if refused {
		x.refused = monotonic.Now()
	} else if err == nil {
		x.refused = 0
	}
	x.fails(err)
}

// withdraws notes that a request is given up, and that nothing is known of its answer.
func (x *answerLog) withdraws() {
	x.asking = max(0, x.asking-1)
	x.changes()
}

// fails notes that Redis failed with err, of whatever it was asked, or did not if that is nil.
func (x *answerLog) fails(err error) {
	x.err = err
	x.changes()
}

// changes has those look again who wait for an answer: the key has come to this process, or has left it, without one.
func (x *answerLog) changes() {
	if x.answered != nil {
		close(x.answered)
		x.answered = nil
	}
}

// look returns what is known, and a channel that is closed at the next answer.
func (x *answerLog) look() answerLog {
	if x.answered == nil {
		x.answered = make(chan struct{})
	}
	return *x
}

// A shared contest is one in which one waiter asks Redis for others, too.
type shared interface {
	// last returns whether somebody of this process has what w wants, and what Redis said last to those who asked.
	last(w *waiter) (held bool, said answerLog)
	// remind has whoever's turn it is ask again.
	remind()
}

const (
	// What Redis said is taken to be still so for this long.
	stillSo = 100 * time.Millisecond

	// When a wait is over, an answer that is on its way is waited for this much longer: a busy server gives it, and says who has
	// what is wanted, a mute one does not.
	lastAnswer = time.Second
)

// fresh reports whether what was said at t is taken to be still so.
func fresh(t monotonic.Time) bool { return !t.IsZero() && monotonic.Since(t) < stillSo }

// errEntered is no error: the waiter has been given what it wants.
var errEntered = errors.New("entered")

// unavailable returns the error of a call to which Redis has given no answer, because of err. when begins with a space, or is empty.
func unavailable(when string, err error) error {
	if errors.Is(err, ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w%s: %w", ErrUnavailable, when, err)
}

// last returns what is known about why w still waits.
func last(q contest, w *waiter, refused monotonic.Time, down *outage) answerLog {
	said := answerLog{refused: refused, err: down.last}
	if of, ok := q.(shared); ok && refused.IsZero() && down.last == nil { // it is not on w to ask, or has not been for long
		held, shared := of.last(w)
		if said = shared; held {
			said = answerLog{refused: monotonic.Now()}
		}
	}
	return said
}

// explain adds to the error of a context that ended what Redis had said by then. The result matches what err does, and nothing else.
func (x answerLog) explain(err error) error {
	switch {
	case x.err != nil:
		return fmt.Errorf("%w; Redis last failed with: %v", err, x.err) //nolint:errorlint // it is not why the call ended
	case !x.refused.IsZero():
		return fmt.Errorf("%w; somebody else had it", err)
	}
	return fmt.Errorf("%w; Redis had not answered", err)
}

// endedBy returns the error of a context that ended beside a call that failed with err.
func endedBy(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, ctx.Err()):
		return err
	case errors.Is(err, ErrNotAcquired):
		return answerLog{refused: monotonic.Now()}.explain(ended(ctx))
	}
	return answerLog{err: err}.explain(ended(ctx))
}

// withoutTheCaller replaces err, of a call under a context with a shorter time than the caller's own, by one that the caller does
// not take for the end of its own.
func withoutTheCaller(ctx, caller context.Context, err error) error {
	if err == nil || ctx.Err() == nil || caller.Err() != nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	return transport.ErrNoAnswer
}
