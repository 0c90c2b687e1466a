package engine

import (
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// An AnswerLog is the last answer of Redis about a key, for a waiter of a contest.
type AnswerLog struct {
	Asking   int             // requests under way
	Refused  monotonic.Time  // when Redis last replied that another owner has the key
	Err      error           // the error since then, or nil
	Answered <-chan struct{} // closed at the next answer or change
}

// Answers are what Redis has answered about a key, and what it is still to answer. The lock of the contest guards them.
type Answers struct {
	Busy    int32    // requests of the queue under way, or the report of a loss
	asking  int32    // requests to lock under way
	unusual *unusual // nil for most keys
}

// An unusual state of answers is that of a key that Redis has refused, or failed to answer for, or for which a waiter waits for an answer.
type unusual struct {
	refused monotonic.Time // when Redis last replied that another owner has the key
	open    *open          // nil for most keys that Redis has refused
}

// An open state is that of a key for which Redis has failed to answer, or for which a waiter waits for an answer.
type open struct {
	err      error         // since Redis refused last, or nil
	answered chan struct{} // closed at the next answer or change; made when a waiter waits for that
}

// more returns the unusual state, to change it.
func (x *Answers) more() *unusual {
	if x.unusual == nil {
		x.unusual = new(unusual)
	}
	return x.unusual
}

// isOpen reports whether there is an open state.
func (x *Answers) isOpen() bool { return x.unusual != nil && x.unusual.open != nil }

// opens returns the open state, to change it.
func (x *Answers) opens() *open {
	last := x.more()
	if last.open == nil {
		last.open = new(open)
	}
	return last.open
}

// Asks records that a request is sent.
func (x *Answers) Asks() { x.asking++ }

// Says records the answer to a request: err, or whether another owner has the key.
func (x *Answers) Says(refused bool, err error) {
	x.asking = max(0, x.asking-1)
	if refused {
		x.more().refused = monotonic.Now()
	} else if err == nil && x.unusual != nil {
		x.unusual.refused = 0
	}
	x.Fails(err)
}

// Ignores records that the answers to all requests under way do not matter any more.
func (x *Answers) Ignores() { x.asking = 0 }

// Withdraws records that a request is given up, and that its answer will not be known.
func (x *Answers) Withdraws() {
	x.asking = max(0, x.asking-1)
	x.Changes()
}

// Fails records an error of Redis for any request, or a success if err is nil.
func (x *Answers) Fails(err error) {
	x.Changes()
	if err != nil {
		x.opens().err = err
	} else if x.isOpen() {
		x.unusual.open.err = nil
	}
}

// Changes wakes the waiters for an answer: the key has come to this process, or has left it, without one.
func (x *Answers) Changes() {
	if x.Awaited() {
		close(x.unusual.open.answered)
		x.unusual.open.answered = nil
	}
}

// Awaited reports whether a waiter waits for the next answer.
func (x *Answers) Awaited() bool { return x.isOpen() && x.unusual.open.answered != nil }

// Look returns the last answer, and a channel that is closed at the next one.
func (x *Answers) Look() AnswerLog {
	last := x.opens()
	if last.answered == nil {
		last.answered = make(chan struct{})
	}
	return AnswerLog{Asking: int(x.asking), Refused: x.unusual.refused, Err: last.err, Answered: last.answered}
}
