package resource

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// Released is the outcome of a release.
type Released struct {
	protocol.Released
	Sent time.Time // before the request
}

// A ReleaseWay says how the first request for the release of a mutex is sent. Further ones are sent by release.lua.
type ReleaseWay uint8

const (
	ByRelease   ReleaseWay = iota // by release.lua
	ByFree                        // by free.lua, which is enough: this process knows of no waiter for the key
	AfterAnswer                   // by release.lua, when a request of the ticket is answered
)

// A priorRelease is what may have become of the requests for a release before the last one. A greater one replaces a smaller one.
type priorRelease uint8

const (
	priorNone    priorRelease = iota // there was none, or it has done nothing
	priorUnknown                     // one may have succeeded without our knowing
	priorResent                      // so, and it was sent again, and may still arrive
)

// A ReleaseOp is the release of a ticket, or of its place in the wait queue. The client sends it until Redis has answered, for at most
// Options.OpTimeout; then the ticket is withdrawn in the background.
type ReleaseOp struct {
	Ticket *Ticket
	Of     *Grant // its grant; nil if it was never granted
	Placed bool   // Redis may hand the lock over to it even if it refuses the release for good

	limit time.Time // when to go on in the background
	prior priorRelease
	down  engine.Outage

	// Of a mutex:
	Start time.Duration // of Redisson's waiters
	Heard uint64        // how many messages had come on Redisson's channel before, if its waiters may have a start
	Way   ReleaseWay    // ByFree becomes ByRelease with the first answer
	Again *Ticket       // the ticket by which this process wants the key once more, with terms
	Terms engine.Terms

	done    chan error // the outcome, if the ticket was granted, or errLate, or both
	awaited int        // its place among the awaited releases, counted from 1; 0 if it is none of them; guarded by these
	until   time.Time  // when it gets errLate; guarded by these
}

var releaseOps = sync.Pool{New: func() any { return &ReleaseOp{done: make(chan error, 2)} }}

// errLate says that a release has no outcome in time.
var errLate = errors.New("late")

// ReleaseOf returns the release of a ticket, and of its grant unless that is nil.
func (r *LineCore) ReleaseOf(tk *Ticket, of *Grant) *ReleaseOp {
	op := releaseOps.Get().(*ReleaseOp)
	*op = ReleaseOp{Ticket: tk, Of: of, Placed: tk.Placed, done: op.done, limit: core.Now().Add(r.Client.Settings.OpTimeout)}
	r.Kind.Releasing(op)
	return op
}

// MayArrive reports whether a request may still arrive that was sent before the last one.
func (op *ReleaseOp) MayArrive() bool { return op.prior == priorResent }

// Repeated reports whether a request before the present one may have succeeded.
func (op *ReleaseOp) Repeated() bool { return op.prior != priorNone }

// recycle lets another release use op.
func (op *ReleaseOp) recycle() {
	*op = ReleaseOp{done: op.done}
	releaseOps.Put(op)
}

func (op *ReleaseOp) Key() string { return op.Ticket.Resource.Key }

func (op *ReleaseOp) Append(to *protocol.Texts, _ bool) {
	tk, on := op.Ticket, op.Ticket.Resource
	tk.Traces(trace.GivesBack)
	if op.Way == ByFree {
		on.Client.Wire.Free(to, on.Key, tk.Number)
		return
	}
	r := protocol.Release{Of: tk.onWire(), Start: op.Start}
	if op.Again != nil {
		r.Again, r.Lease = op.Again.onWire(), op.Terms.TTL
		op.Again.Traces(trace.Joins)
	}
	on.Client.Wire.Release(to, on.Key, r)
}

// Outcome returns the outcome for the grant of l, or of no lease if l is nil, at most Options.OpTimeout after its release
// began, or monotonic.Grace after this process stood still at that moment. After that the release goes on without the caller.
func (op *ReleaseOp) Outcome(l *leases.Lease) (err error) {
	c, inTime := op.Ticket.Resource.Client, true
	select {
	case err = <-op.done:
	default:
		c.awaited.add(op) // to wait for one channel costs half of waiting for two
		err = <-op.done
		inTime = c.awaited.remove(op) // else errLate may still come
	}
	switch {
	case err == errLate: //nolint:errorlint // this very one
		return fmt.Errorf("no answer within %v; the key is given back as soon as Redis answers, or expires", c.Settings.OpTimeout)
	case inTime:
		op.recycle()
	}
	if l == nil || err != nil {
		return err
	}
	if cause := l.Core().Ended(); errors.Is(cause, failure.ErrLost) {
		return cause // by the clock, before the watchdog could report it
	}
	return err
}

// Run sends a request for the release by once, on a goroutine of its own.
func (op *ReleaseOp) Run(once func() (protocol.Outcome, bool, error)) {
	op.Ticket.Resource.Client.Spawn(func() {
		outcome, again, err := once()
		op.Answered(time.Time{}, protocol.Answer{int64(outcome)}, again, err)
	})
}

// Answered handles the answer to a request for the release of a ticket of any kind. At the end it continues the queue, and
// reports the outcome to the caller that waits for it. The ticket is withdrawn if need be, and if a request of it whose
// reply was lost may still be on its way.
func (op *ReleaseOp) Answered(sent time.Time, reply protocol.Answer, again bool, err error) {
	if again {
		op.prior = priorResent
	}
	done, withdraw := Released{protocol.ReadRelease(reply), sent}, false
	freed := op.Way == ByFree
	if freed {
		op.Way = ByRelease // for the next request
	}
	switch {
	case err == nil && freed && done.Outcome == protocol.Contended:
		op.Ticket.Resource.Kind.SendRelease(op, false)
		return
	case err == nil:
		if done.Outcome == protocol.NotOurs && !op.Repeated() { // otherwise by the request whose reply was lost
			err = failure.Lost(watchdog.ErrRefused)
		}
	case !core.Passing(err):
		done.Released = protocol.Released{Outcome: protocol.NotOurs}
		err, withdraw = op.Ticket.Resource.Client.Net.Refused(err), op.Repeated() || op.Placed
	case op.sendAgain(err):
		return
	default:
		done.Released, withdraw = protocol.Released{Outcome: protocol.NotOurs}, true
	}

	tk := op.Ticket
	r, c := tk.Resource, tk.Resource.Client
	c.Subscribers.Disconnect(tk.Number)
	r.Mu.Lock()
	if withdraw || tk.OutcomeUnknown {
		r.Kind.GiveUp(op)
	}
	if tk.State == engine.TicketReleasing {
		tk.To(engine.TicketDone)
	}
	r.Kind.Proceed(op, done, err)
	r.Mu.Unlock()
	switch {
	case op.Of == nil:
		op.recycle()
	case !op.Of.Idle:
		c.Held(-1)
		fallthrough
	default:
		op.done <- err // not sooner: the caller of Unlock finds the resource ready
	}
	r.Quit()
}

// sendAgain has the release sent again, some time after it failed with err, and reports false if that would be too late.
func (op *ReleaseOp) sendAgain(err error) bool {
	r := op.Ticket.Resource
	if op.Ticket.Use == ticketOfHead {
		r.Mu.Lock()
		r.Answers.Fails(err)
		r.Mu.Unlock()
	}
	if transport.Unknown(err) {
		op.prior = max(op.prior, priorUnknown)
	}
	pause := op.down.Pause(r.Client.Settings.Retry.Pause, err)
	if core.Now().Add(pause).After(op.limit) {
		return false
	}
	r.Client.Spawn(func() {
		<-time.After(pause)
		r.Kind.SendRelease(op, false)
	})
	return true
}

// awaitedReleases are the releases of a client that callers wait for. One timer for all costs less than one for each. The zero value has none.
type awaitedReleases struct {
	mu      sync.Mutex // guards the rest
	all     []*ReleaseOp
	timer   *time.Timer // made when first needed
	armed   time.Time   // when it comes; zero when it is not set
	resumed time.Time   // when this process went on that had stood still, the last time that the timer came too late; zero for never
}

// add has op get errLate at its limit, unless it is removed before.
func (a *awaitedReleases) add(op *ReleaseOp) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, op)
	op.awaited, op.until = len(a.all), op.limit
	if !op.limit.After(a.resumed) { // as those that were awaited then: a caller may wait for several releases, one after the other
		op.until = a.resumed.Add(monotonic.Grace)
	}
	if a.armed.IsZero() || op.until.Before(a.armed) { // usually it is armed for a release that began before op, and may be over
		a.arm(op.until)
	}
}

// remove reports whether op was among them, and so gets no errLate.
func (a *awaitedReleases) remove(op *ReleaseOp) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if op.awaited == 0 {
		return false
	}
	a.drop(op)
	return true
}

// drop removes op. The caller holds a.mu.
func (a *awaitedReleases) drop(op *ReleaseOp) {
	last := len(a.all) - 1
	a.all[op.awaited-1] = a.all[last]
	a.all[last].awaited = op.awaited
	a.all[last] = nil
	a.all = a.all[:last]
	op.awaited = 0
}

// arm sets the timer, to come at once if that time is over. The caller holds a.mu.
func (a *awaitedReleases) arm(at time.Time) {
	after := max(0, time.Until(at))
	a.armed = core.Now().Add(after)
	if a.timer == nil {
		a.timer = time.AfterFunc(after, a.come)
	} else {
		a.timer.Reset(after)
	}
}

// come sends errLate to the releases whose limit is over, and sets the timer for the others. If this process stood still, answers may have
// come that nobody has read yet: then each of these releases gets some more time, once.
func (a *awaitedReleases) come() {
	a.mu.Lock()
	defer a.mu.Unlock()
	var next time.Time
	now := core.Now()
	stood := monotonic.StoodStill(a.armed)
	if stood {
		a.resumed = now
	}
	a.armed = time.Time{}
	for _, op := range slices.Backward(a.all) { // so that drop moves none that comes later
		if !op.until.After(now) {
			if !stood || !op.until.Equal(op.limit) {
				a.drop(op)
				op.done <- errLate
				continue
			}
			op.until = a.resumed.Add(monotonic.Grace)
		}
		if next.IsZero() || op.until.Before(next) {
			next = op.until
		}
	}
	if !next.IsZero() {
		a.arm(next)
	}
}
