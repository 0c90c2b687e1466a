package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// An Outage is a time without answers from Redis.
type Outage struct {
	Tries int
	Last  error
	since monotonic.Time
}

// Longer reports whether Redis has not answered for d.
func (o *Outage) Longer(d time.Duration) bool {
	return !o.since.IsZero() && monotonic.Since(o.since) > d
}

// Pause records one more failure, and returns the pause for it.
func (o *Outage) Pause(backoff func(tries int) time.Duration, err error) time.Duration {
	if o.since.IsZero() {
		o.since = monotonic.Now()
	}
	o.Tries++
	o.Last = err
	return backoff(o.Tries)
}

// A CountHost is the client of a counter.
type CountHost interface {
	// Number returns a new number for a request.
	Number() uint64
	// Granting reports whether the client is open.
	Granting() bool
	// Spawn runs f on a goroutine that the end of the client waits for.
	Spawn(f func())
	// Pause waits for d, and reports false if the client is closed meanwhile.
	Pause(d time.Duration) bool
	// Backoff returns the pause after so many requests without an answer.
	Backoff(tries int) time.Duration
	// Fate returns whether Redis may have done what was asked for, although err came back, and whether err goes away by itself.
	Fate(err error) (unknown, passing bool)
	// Abandoned is called when the outcome of a request stays unknown: of a batch, or of a change.
	Abandoned(batch bool, err error)
}

// Changes are the requests of a counter that change the count for a caller, and the numbers of all its requests.
type Changes struct {
	host    CountHost
	mu      *sync.Mutex // of the counter; guards the rest
	numbers []uint64    // of the requests with an unknown outcome, in their order
	wake    func()      // makes the head of the queue ask; called under mu
}

// enroll numbers a request. The caller holds ch.mu.
func (ch *Changes) enroll() uint64 {
	n := ch.host.Number()
	ch.numbers = append(ch.numbers, n)
	return n
}

// settled ends enroll. The caller holds ch.mu.
func (ch *Changes) settled(number uint64) {
	if i := slices.Index(ch.numbers, number); i >= 0 {
		ch.numbers = slices.Delete(ch.numbers, i, i+1)
	}
}

// oldest returns the oldest number that is not settled, or 0. The caller holds ch.mu.
func (ch *Changes) oldest() uint64 {
	if len(ch.numbers) == 0 {
		return 0
	}
	return ch.numbers[0]
}

// An Undo is for a change that takes something, when its caller has left, or has got no answer.
type Undo struct {
	// Withdraw has Redis refuse the request from now on, and returns what it did before.
	Withdraw func(number, oldest uint64) (n int64, err error)
	// Late gets what the request did, on the goroutine that sends.
	Late func(n int64)
}

// Change is Insist for a request that counts once, however often it is sent: send gets its number, and the oldest one that is not settled.
// Without anyway, Change closes left and calls send no more when the caller leaves. The number is settled then: the next request tells Redis to refuse
// the late copies of this one. A request that is under way may take effect once all the same. With an undo, Change finds out what it did, also if
// the caller gets an error since there is no answer. Until then the number is not settled.
func (ch *Changes) Change(ctx context.Context, limit time.Duration, anyway bool, send Send, undo *Undo) (n int64, answered bool, err error) {
	end := withCaller
	if anyway {
		end = onItsOwn
	}
	return ch.change(ctx, limit, end, send, undo)
}

// ChangeUntil is Change for a caller that waits for as long as Insist goes on, or until ctx ends: limit is only for a client that is closed. When
// ChangeUntil returns, the number is settled: the next request tells Redis to refuse the late copies of this one.
func (ch *Changes) ChangeUntil(ctx context.Context, limit time.Duration, send Send) (n int64, answered bool, err error) {
	return ch.change(ctx, limit, withContext, send, nil)
}

// A Send sends a request with its number, and the oldest one that is not settled. Left is closed when nobody waits for the answer.
type Send func(number, oldest uint64, left <-chan struct{}) (int64, error)

func (ch *Changes) change(ctx context.Context, limit time.Duration, end ending, send Send, undo *Undo) (n int64, answered bool, err error) {
	ch.mu.Lock()
	number := ch.enroll()
	ch.mu.Unlock()
	return ch.insist(ctx, limit, end, number, func(oldest uint64, left <-chan struct{}) (int64, error) { return send(number, oldest, left) }, undo)
}

// An ending says when a change without an answer ends.
type ending uint8

const (
	withCaller  ending = iota // when its caller leaves, which waits until its context ends, and for the time limit at most
	onItsOwn                  // when Redis may soon have forgotten it: it goes on when its caller has left
	withContext               // then, or when the context of its caller ends, which waits without a time limit
)

// Insist calls send until it is answered, and then wakes the waiters of this process. It returns the answer, or answered is false: the
// caller waits until ctx ends, and for limit at most. After that send goes on in the background. In the end Insist gives up.
// An error after a request with an unknown outcome is no answer either: the earlier one may have been done. Then
// answered is false, too, with the error.
func (ch *Changes) Insist(ctx context.Context, limit time.Duration, send func() (int64, error)) (n int64, answered bool, err error) {
	return ch.insist(ctx, limit, onItsOwn, 0, func(uint64, <-chan struct{}) (int64, error) { return send() }, nil)
}

func (ch *Changes) insist(ctx context.Context, limit time.Duration, end ending, number uint64, send func(oldest uint64, left <-chan struct{}) (int64, error), undo *Undo) (n int64, answered bool, err error) {
	type reply struct {
		n     int64
		err   error
		maybe bool // an earlier request may have been done
	}
	began := monotonic.Now()
	soon := began.Add(min(insistence, limit)) // after that Redis may have forgotten the result
	left := make(chan struct{})               // closed under ch.mu
	un := unanswered{host: ch.host, left: left, soon: soon, over: soon}
	if end != withCaller {
		un.over = began.Add(insistence)
	}
	done := make(chan reply, 1) // sent to under ch.mu: so the caller gets the reply, or the undo does
	ch.host.Spawn(func() {
		for {
			ch.mu.Lock()
			oldest, gone := ch.oldest(), un.deserted()
			ch.mu.Unlock()
			if gone {
				ch.undo(undo, number, un, began)
				return
			}
			n, err := send(oldest, left)
			earlier := un.maybe
			passing := un.failed(err)
			if passing && un.again() {
				continue
			}
			doubtful := err != nil && undo != nil && un.maybe
			ch.mu.Lock()
			gone = un.deserted()
			if !doubtful {
				ch.settled(number) // first, so that the caller's next request tells Redis that this one is settled
			}
			if err == nil {
				ch.wake()
			}
			done <- reply{n, err, earlier && err != nil}
			ch.mu.Unlock()
			switch {
			case doubtful:
				ch.undo(undo, number, un, began)
			case passing && end != withCaller && !gone:
				ch.host.Abandoned(false, err)
			case gone && err == nil && undo != nil:
				undo.Late(n)
			}
			return
		}
	})
	var late <-chan time.Time
	if end != withContext {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case r := <-done:
		return r.n, !r.maybe, r.err
	case <-ctx.Done():
	case <-late:
	}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	select {
	case r := <-done: // at the same time
		return r.n, !r.maybe, r.err
	default:
	}
	if end != onItsOwn {
		close(left)
	}
	if end != onItsOwn && undo == nil {
		ch.settled(number)
	}
	return 0, false, nil
}

// undo finds out what a request did that was not answered, or not before its caller left, and settles its number. Without an undo, it is settled
// already.
func (ch *Changes) undo(undo *Undo, number uint64, un unanswered, began monotonic.Time) {
	if undo == nil {
		return
	}
	var n int64
	var err error
	un.left, un.soon, un.over = nil, 0, began.Add(insistence) // nobody waits for it
	for maybe := un.maybe; maybe; {
		ch.mu.Lock()
		oldest := ch.oldest()
		ch.mu.Unlock()
		n, err = undo.Withdraw(number, oldest)
		maybe = un.failed(err) && un.again()
	}
	ch.mu.Lock()
	ch.settled(number)
	ch.mu.Unlock()
	switch {
	case err != nil:
		ch.host.Abandoned(true, err)
	case n != 0:
		undo.Late(n)
	}
}

// An unanswered is a change whose requests have failed so far.
type unanswered struct {
	host  CountHost
	left  <-chan struct{} // closed when the caller has left, and wants no request any more
	soon  monotonic.Time  // until then it is sent again for its caller, also if the client is closed
	over  monotonic.Time  // until then it is sent again without a caller
	down  Outage
	pause time.Duration // before the next request
	maybe bool          // a request may have been done
	last  bool          // the client is closed: no request follows the present one
}

// failed takes the error of a request, or nil, and reports whether that goes away by itself.
func (un *unanswered) failed(err error) (passing bool) {
	if err == nil {
		return false
	}
	unknown, passing := un.host.Fate(err)
	un.maybe = un.maybe || unknown
	un.pause = un.down.Pause(un.host.Backoff, err)
	return passing
}

// deserted reports whether the caller has left, and wants no request any more.
func (un *unanswered) deserted() bool {
	select {
	case <-un.left:
		return true
	default:
		return false
	}
}

// again waits for the pause, and reports whether to send the request again.
func (un *unanswered) again() bool {
	switch next := monotonic.Now().Add(un.pause); {
	case next.Before(un.soon):
		select {
		case <-time.After(un.pause):
			return true
		case <-un.left:
			return false
		}
	case !next.Before(un.over):
		return false
	case un.host.Pause(un.pause):
		return true
	}
	closed := !un.last
	un.last = true
	return closed
}
