package lockrt

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
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

// A releaser is what the releases of one kind of lock differ in: the resource of a mutex, or a ticket of another kind.
type releaser interface {
	// sendRelease sends a request for op, whose Answered gets the answer. It does not block.
	sendRelease(op *releaseOp)
	// giveUp has the ticket of op withdrawn. The caller holds the lock of the resource.
	giveUp(op *releaseOp)
	// proceed continues the queue, with the outcome of op. The caller holds the lock of the resource.
	proceed(op *releaseOp, done released, err error)
}

// A releaseOp is the release of a ticket of any kind, or of its place in the wait queue. The resource is busy until then.
// The ticket is released until Redis has answered, at most for Options.OpTimeout, and after that withdrawn in the
// background.
type releaseOp struct {
	by     releaser
	on     *referenced        // the resource, whose reference for the ticket ends
	core   *engine.TicketCore // the ticket
	of     *grantCore         // its grant; nil if it was never granted
	placed bool               // Redis may hand the lock over to it even if it refuses the release for good

	limit time.Time // when to go on in the background
	tried bool      // a request may have succeeded without our knowing
	twice bool      // a request was sent again, and may still arrive
	down  engine.Outage

	// Of a mutex:
	r      *resource
	ticket *ticket
	start  time.Duration // of Redisson's waiters
	heard  uint64        // how many messages had come on Redisson's channel before, if its waiters may have a start
	plain  bool          // the ticket has no known waiters
	again  *ticket       // the ticket by which this process wants the key once more, with terms
	terms  engine.Terms

	done  chan error // the outcome, if the ticket was granted
	timer *time.Timer
}

var releaseOps = sync.Pool{New: func() any {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &releaseOp{done: make(chan error, 1), timer: timer}
}}

// releaseOf returns the release of a ticket of the resource on, and of its grant unless that is nil.
func releaseOf(by releaser, on *referenced, core *engine.TicketCore, of *grantCore) *releaseOp {
	op := releaseOps.Get().(*releaseOp)
	*op = releaseOp{by: by, on: on, core: core, of: of, done: op.done, timer: op.timer, limit: now().Add(on.c.opts.OpTimeout)}
	return op
}

// newReleaseOp returns the release of a ticket of a mutex, and of its grant unless that is nil.
func newReleaseOp(r *resource, tk *ticket, of *grant) *releaseOp {
	handed := tk.UnclaimedGrant // the key came from another process of this library
	var core *grantCore
	if of != nil {
		core, handed = &of.grantCore, of.handed
	}
	op := releaseOf(r, &r.referenced, &tk.TicketCore, core)
	op.r, op.ticket, op.placed, op.start = r, tk, tk.Standing, tk.startAfter(handed)
	if _, known := r.c.starts.Last(r.key); known || op.start > 0 {
		op.heard, _ = r.c.net.Heard(r.channel(nil))
	}
	return op
}

func (op *releaseOp) recycle() {
	*op = releaseOp{done: op.done, timer: op.timer}
	releaseOps.Put(op)
}

// outcome returns the outcome for the grant of l, or of no lease if l is nil, at most Options.OpTimeout after its release
// began. After that the release goes on without the caller.
func (op *releaseOp) outcome(l *Lease) (err error) {
	limit := op.on.c.opts.OpTimeout
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
	if cause := l.ended(); errors.Is(cause, ErrLost) {
		return cause // by the clock, before the watchdog could report it
	}
	return err
}

// free sends the release of a ticket of a mutex, after which again is the ticket of the queue if there is one.
func (r *resource) free(op *releaseOp) {
	switch {
	case op.ticket.rare().settled != nil:
		r.c.spawn(func() {
			op.ticket.OutcomeUnknown = <-op.ticket.extra.settled || op.ticket.OutcomeUnknown // or that request could take the lock again, in vain
			r.c.traces(trace.Unlocks, r.key, op.ticket.Number)
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

func (op *releaseOp) Key() string { return op.r.key }

func (op *releaseOp) Append(keys, args []string, _ bool) (allKeys, allArgs []string) {
	wire := &op.r.c.wire
	op.r.c.traces(trace.GivesBack, op.r.key, op.ticket.Number)
	if op.plain {
		return wire.Free(keys, args, op.r.key, op.ticket.Number)
	}
	r := protocol.Release{Of: op.ticket.onWire(), Start: op.start}
	if op.again != nil {
		r.Again, r.Lease = op.again.onWire(), op.terms.TTL
		op.r.c.traces(trace.Joins, op.r.key, op.again.Number)
	}
	return wire.Release(keys, args, op.r.key, r)
}

// run sends a request for the release by once, on a goroutine of its own.
func (op *releaseOp) run(once func() (protocol.Outcome, error)) {
	op.on.c.spawn(func() {
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
		op.by.sendRelease(op)
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

	on, c := op.on, op.on.c
	c.subscribers.Disconnect(op.core.Number)
	on.mu.Lock()
	if withdraw || op.core.OutcomeUnknown {
		op.by.giveUp(op)
	}
	if op.core.State == engine.TicketReleasing {
		op.core.To(engine.TicketDone)
	}
	op.by.proceed(op, done, err)
	on.mu.Unlock()
	switch {
	case op.of == nil:
		op.recycle()
	case !op.of.idle:
		c.held(-1)
		fallthrough
	default:
		op.done <- err // not sooner: the caller of Unlock finds the resource ready
	}
	on.quit()
}

// sendAgain has the release sent again, some time after it failed with err, and reports false if that would be too late.
func (op *releaseOp) sendAgain(err error) bool {
	if op.r != nil {
		op.on.mu.Lock()
		op.r.Answers.Fails(err)
		op.on.mu.Unlock()
	}
	op.tried = op.tried || transport.Unknown(err)
	pause := op.down.Pause(op.on.c.opts.Retry.pause, err)
	if now().Add(pause).After(op.limit) {
		return false
	}
	op.on.c.spawn(func() {
		<-time.After(pause)
		op.by.sendRelease(op)
	})
	return true
}

func (r *resource) sendRelease(op *releaseOp) { r.c.releases.Submit(op, false) }

func (r *resource) giveUp(op *releaseOp) { r.withdraw(op.ticket) }

func (r *resource) proceed(op *releaseOp, done released, err error) {
	r.Busy--
	r.Answers.Changes()
	r.leaves(op, done.Released)
	if op.again != nil && op.twice {
		op.again.OutcomeUnknown = true
	}
	if op.again != nil && r.ticket == op.again {
		r.resume(op.again, op.terms, done, err)
	} else {
		r.Prompt(r) // again was handed over already, if it was in the wait queue
	}
}

// withdraw makes sure that Redis does not keep the key for a ticket that nobody wants any more. It does not block.
// The caller holds r.mu.
func (r *resource) withdraw(tk *ticket) {
	tk.To(engine.TicketWithdrawing)
	r.c.withdrawals.Add(withdrawer{r.c, kindMutex, r.key}, &engine.Withdrawal{Number: tk.Number, Tokens: int(tk.inLine), Watch: tk.ttl})
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

// suffices reports whether a hand-over for ttl, no earlier than at from, grants what t demands. If not, the ticket asks.
func (c *Client) suffices(t engine.Terms, from time.Time, ttl time.Duration, token int64) bool {
	return c.opts.Replicas == 0 && !c.net.ClockUnknown() && t.MetBy(from, ttl, token)
}
