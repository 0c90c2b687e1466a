package engine

import (
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// An AnswerLog is the last answer of Redis about a key, for the waiters of a contest. The lock of the contest guards
// it.
type AnswerLog struct {
	Asking   int            // requests under way
	Refused  monotonic.Time // when Redis last replied that another owner has the key
	Err      error          // the error since then, or nil
	Answered chan struct{}  // closed at the next answer or change; made when a waiter waits for that
}

// Asks records that a request is sent.
func (x *AnswerLog) Asks() { x.Asking++ }

// Says records the answer to a request: err, or whether another owner has the key.
func (x *AnswerLog) Says(refused bool, err error) {
	x.Asking = max(0, x.Asking-1)
	if refused {
		x.Refused = monotonic.Now()
	} else if err == nil {
		x.Refused = 0
	}
	x.Fails(err)
}

// Withdraws records that a request is given up, and that its answer will not be known.
func (x *AnswerLog) Withdraws() {
	x.Asking = max(0, x.Asking-1)
	x.Changes()
}

// Fails records an error of Redis for any request, or a success if err is nil.
func (x *AnswerLog) Fails(err error) {
	x.Err = err
	x.Changes()
}

// Changes wakes the waiters for an answer: the key has come to this process, or has left it, without one.
func (x *AnswerLog) Changes() {
	if x.Answered != nil {
		close(x.Answered)
		x.Answered = nil
	}
}

// Look returns the log, and a channel that is closed at the next answer.
func (x *AnswerLog) Look() AnswerLog {
	if x.Answered == nil {
		x.Answered = make(chan struct{})
	}
	return *x
}
