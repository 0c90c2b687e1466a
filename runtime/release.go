package lockrt

import (
	"errors"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// released is the outcome of a release.
type released struct {
	protocol.Released
	sent time.Time // before the request
}

// A releaseOp is the release of a ticket.
type releaseOp struct {
	r      *resource
	ticket *ticket
	of     *grant  // the grant of the ticket; nil if it was never granted
	plain  bool    // the ticket has no known waiters
	again  *ticket // the ticket by which this process wants the key once more, with terms
	terms  terms

	limit time.Time // when to go on in the background
	tried bool      // a try may have succeeded without our knowing
	twice bool      // a request was sent again, and may still arrive
	down  outage

	done  chan error // the outcome, if the ticket was granted
	timer *time.Timer
}

var releaseOps = sync.Pool{New: func() any {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &releaseOp{done: make(chan error, 1), timer: timer}
}}

func newReleaseOp(r *resource, tk *ticket, of *grant) *releaseOp {
	op := releaseOps.Get().(*releaseOp)
	*op = releaseOp{r: r, ticket: tk, of: of, done: op.done, timer: op.timer, limit: now().Add(r.c.opts.OpTimeout)}
	return op
}

func (op *releaseOp) recycle() {
	*op = releaseOp{done: op.done, timer: op.timer}
	releaseOps.Put(op)
}

// outcome returns the outcome for the grant of l, at most Options.OpTimeout after its release began.
func (op *releaseOp) outcome(l *Lease) error {
	err := op.wait(op.limit, op.r.c.opts.OpTimeout)
	if cause := l.ended(); err == nil && errors.Is(cause, ErrLost) {
		return cause // by the clock, before the watchdog could report it
	}
	return err
}

// wait returns the outcome, when limit is over at the latest. After that the release goes on
// without the caller.
func (op *releaseOp) wait(over time.Time, limit time.Duration) error {
	select {
	case err := <-op.done:
		op.recycle()
		return err
	default:
	}
	op.timer.Reset(time.Until(over))
	select {
	case err := <-op.done:
		op.timer.Stop()
		op.recycle()
		return err
	case <-op.timer.C:
		return unanswered(limit)
	}
}

// free releases a ticket, or removes it from the wait queue, and then continues the local queue, with again as its
// ticket if there is one. The resource is busy until then, and the caller's stay ends. free tries until Redis has
// answered, at most for Options.OpTimeout; after that it goes on in the background.
func (r *resource) free(op *releaseOp) {
	switch {
	case op.ticket.rare().settled != nil:
		r.c.spawn(func() {
			op.ticket.outcomeUnknown = <-op.ticket.extra.settled || op.ticket.outcomeUnknown // or that request could take the lock again, in vain
			r.c.traces(trace.Unlocks, r.key, op.ticket.n)
			r.c.releases.Submit(op, false)
		})
	case op.simple():
		r.c.frees.Submit(op, r.c.net.Prompt())
	default:
		r.c.releases.Submit(op, r.c.net.Prompt())
	}
}

// simple reports whether the release is of nothing but the key, at once.
func (op *releaseOp) simple() bool { return op.plain && op.ticket.rare().settled == nil }

// handed reports whether the key came from another process of this library.
func (op *releaseOp) handed() bool {
	if op.of == nil {
		return op.ticket.unclaimedGrant
	}
	return op.of.handed
}

func (op *releaseOp) Key() string { return op.r.key }

func (op *releaseOp) Append(keys, args []string, _ bool) (allKeys, allArgs []string) {
	wire := &op.r.c.wire
	op.r.c.traces(trace.GivesBack, op.r.key, op.ticket.n)
	if op.plain {
		return wire.Free(keys, args, op.r.key, op.ticket.n)
	}
	r := protocol.Release{Of: op.ticket.onWire(), Start: op.ticket.startAfter(op.handed())}
	if op.again != nil {
		r.Again, r.Lease = op.again.onWire(), op.terms.ttl
		op.r.c.traces(trace.Joins, op.r.key, op.again.n)
	}
	return wire.Release(keys, args, op.r.key, r)
}

func (op *releaseOp) Answered(sent time.Time, reply protocol.Answer, again bool, err error) {
	op.tried, op.twice = op.tried || again, op.twice || again
	if op.plain {
		op.plain = false // for the next try
		if err == nil && protocol.ReadRelease(reply).Outcome == protocol.Contended {
			op.r.c.releases.Submit(op, false)
			return
		}
	}
	r, tk := op.r, op.ticket
	if err == nil && tk.outcomeUnknown {
		// A request of this ticket whose reply was lost may still be on its way.
		r.lockAndWithdraw(tk)
	}
	switch {
	case err == nil:
		done := released{protocol.ReadRelease(reply), sent}
		if done.Outcome == protocol.NotOurs && !op.tried { // otherwise by the try whose reply was lost
			err = lost(watchdog.ErrRefused)
		}
		op.finish(done, err)
		return
	case !passing(err):
		if tk.standing || tk.outcomeUnknown {
			r.lockAndWithdraw(tk) // or its place in the wait queue would be handed the lock
		}
		op.finish(released{protocol.Released{Outcome: protocol.NotOurs}, sent}, refused(err))
		return
	}
	r.mu.Lock()
	r.answers.fails(err)
	r.mu.Unlock()
	op.tried = op.tried || transport.Unknown(err)
	pause := op.down.pause(r.c.opts.Retry, err)
	if now().Add(pause).After(op.limit) {
		r.lockAndWithdraw(tk)
		op.finish(released{protocol.Released{Outcome: protocol.NotOurs}, sent}, err)
		return
	}
	r.c.spawn(func() {
		<-time.After(pause)
		r.c.releases.Submit(op, false)
	})
}

// finish continues the queue and reports the outcome to the caller that waits for it.
func (op *releaseOp) finish(done released, err error) {
	r, again := op.r, op.again
	r.c.disconnect(op.ticket.n)
	var rest func()
	r.mu.Lock()
	if op.ticket.state == ticketReleasing {
		op.ticket.to(ticketDone)
	}
	r.busy--
	r.answers.changes()
	if again != nil && op.twice {
		again.outcomeUnknown = true
	}
	if again == nil || r.ticket != again {
		r.promptHead() // it was handed over already, if it was in the wait queue
	} else {
		rest = r.resume(again, op.terms, done, err)
	}
	r.mu.Unlock()
	if rest != nil {
		r.c.spawn(rest)
	}
	if op.of != nil && !op.of.idle {
		r.c.held(-1)
	}
	if op.of != nil {
		op.done <- err
	} else {
		op.recycle()
	}
	r.quit()
}

// withdraw makes sure that Redis does not keep the key for a ticket that nobody wants any more. It does not block.
// The caller holds r.mu.
func (r *resource) withdraw(tk *ticket) {
	tk.to(ticketWithdrawing)
	r.c.withdrawals.add(lockWithdrawer{r.key}, &withdrawal{n: tk.n, tokens: int(tk.inLine), watch: tk.ttl})
}

// lockAndWithdraw is withdraw for a caller that does not hold r.mu.
func (r *resource) lockAndWithdraw(tk *ticket) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.withdraw(tk)
}

// releaseOnce releases a ticket, alone.
func (c *Client) releaseOnce(key string, tk *ticket) error {
	return lockWithdrawer{key}.withdraw(c, []*withdrawal{{n: tk.n, tokens: int(tk.inLine)}})
}

// pause waits for d and reports false if the client was closed meanwhile.
func (c *Client) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.stopped:
		return false
	}
}
