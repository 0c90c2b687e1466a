package locks

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// released is the outcome of a release.
type released struct {
	protocol.Released
	sent time.Time // before the request
}

// A releaseOp is the release of a ticket, or of its place in the wait queue. The client sends it until Redis has answered, for at most
// Options.OpTimeout; then the ticket is withdrawn in the background.
type releaseOp struct {
	ticket *ticket
	of     *grant // its grant; nil if it was never granted
	placed bool   // Redis may hand the lock over to it even if it refuses the release for good

	limit time.Time // when to go on in the background
	tried bool      // a request may have succeeded without our knowing
	twice bool      // a request was sent again, and may still arrive
	down  engine.Outage

	// Of a mutex:
	start   time.Duration // of Redisson's waiters
	heard   uint64        // how many messages had come on Redisson's channel before, if its waiters may have a start
	plain   bool          // this process knows of no waiter for the key, and free.lua is enough
	pending bool          // it is sent when a request of the ticket is answered
	again   *ticket       // the ticket by which this process wants the key once more, with terms
	terms   engine.Terms

	done  chan error // the outcome, if the ticket was granted
	timer *time.Timer
}

var releaseOps = sync.Pool{New: func() any {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &releaseOp{done: make(chan error, 1), timer: timer}
}}

// releaseOf returns the release of a ticket, and of its grant unless that is nil.
func (r *lineCore) releaseOf(tk *ticket, of *grant) *releaseOp {
	op := releaseOps.Get().(*releaseOp)
	*op = releaseOp{ticket: tk, of: of, placed: tk.placed, done: op.done, timer: op.timer, limit: now().Add(r.c.opts.OpTimeout)}
	r.kind.releasing(op)
	return op
}

func (op *releaseOp) recycle() {
	*op = releaseOp{done: op.done, timer: op.timer}
	releaseOps.Put(op)
}

// outcome returns the outcome for the grant of l, or of no lease if l is nil, at most Options.OpTimeout after its release
// began. After that the release goes on without the caller.
func (op *releaseOp) outcome(l *Lease) (err error) {
	limit := op.ticket.r.c.opts.OpTimeout
	select {
	case err = <-op.done:
	default:
		op.timer.Reset(time.Until(op.limit))
		select {
		case err = <-op.done:
			op.timer.Stop()
		case <-op.timer.C:
			return fmt.Errorf("no answer within %v; the key is given back as soon as Redis answers, or expires", limit)
		}
	}
	op.recycle()
	if l == nil || err != nil {
		return err
	}
	if cause := l.ended(); errors.Is(cause, failure.ErrLost) {
		return cause // by the clock, before the watchdog could report it
	}
	return err
}

// run sends a request for the release by once, on a goroutine of its own.
func (op *releaseOp) run(once func() (protocol.Outcome, error)) {
	op.ticket.r.c.spawn(func() {
		outcome, err := once()
		op.Answered(time.Time{}, protocol.Answer{int64(outcome)}, false, err)
	})
}

// Answered handles the answer to a request for the release of a ticket of any kind. At the end it continues the queue, and
// reports the outcome to the caller that waits for it. The ticket is withdrawn if need be, and if a request of it whose
// reply was lost may still be on its way.
func (op *releaseOp) Answered(sent time.Time, reply protocol.Answer, again bool, err error) {
	op.tried, op.twice = op.tried || again, op.twice || again
	done, withdraw := released{protocol.ReadRelease(reply), sent}, false
	plain := op.plain
	op.plain = false // for the next request
	switch {
	case err == nil && plain && done.Outcome == protocol.Contended:
		op.ticket.r.kind.sendRelease(op, false)
		return
	case err == nil:
		if done.Outcome == protocol.NotOurs && !op.tried { // otherwise by the request whose reply was lost
			err = lost(watchdog.ErrRefused)
		}
	case !passing(err):
		done.Released = protocol.Released{Outcome: protocol.NotOurs}
		err, withdraw = refused(err), op.tried || op.placed
	case op.sendAgain(err):
		return
	default:
		done.Released, withdraw = protocol.Released{Outcome: protocol.NotOurs}, true
	}

	tk := op.ticket
	r, c := tk.r, tk.r.c
	c.subscribers.Disconnect(tk.Number)
	r.mu.Lock()
	if withdraw || tk.OutcomeUnknown {
		r.kind.giveUp(op)
	}
	if tk.State == engine.TicketReleasing {
		tk.To(engine.TicketDone)
	}
	r.kind.proceed(op, done, err)
	r.mu.Unlock()
	switch {
	case op.of == nil:
		op.recycle()
	case !op.of.idle:
		c.held(-1)
		fallthrough
	default:
		op.done <- err // not sooner: the caller of Unlock finds the resource ready
	}
	r.quit()
}

// sendAgain has the release sent again, some time after it failed with err, and reports false if that would be too late.
func (op *releaseOp) sendAgain(err error) bool {
	r := op.ticket.r
	if op.ticket.use == ticketOfHead {
		r.mu.Lock()
		r.Answers.Fails(err)
		r.mu.Unlock()
	}
	op.tried = op.tried || transport.Unknown(err)
	pause := op.down.Pause(r.c.opts.Retry.Pause, err)
	if now().Add(pause).After(op.limit) {
		return false
	}
	r.c.spawn(func() {
		<-time.After(pause)
		r.kind.sendRelease(op, false)
	})
	return true
}
