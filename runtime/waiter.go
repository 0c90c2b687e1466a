package lockrt

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// A contest is what a waiter takes part in until it is given what it wants or gives up.
type contest interface {
	// join enters w, and says what w is to do.
	join(w *waiter) entry
	// ask sends one request for w. The answer comes as an event.
	ask(w *waiter)
	// leave takes w out. What it was given meanwhile goes to the next or back to Redis.
	leave(w *waiter)
	// channel is where Redisson announces that asking may be worth it again.
	channel() string
	// hear gets what was said there, before the waiter that listens asks because of it. It
	// does not block.
	hear(payload string)
}

// An entry is what came of joining a contest.
type entry uint8

const (
	toWait     entry = iota // for an event
	toAsk                   // it is on the waiter to ask Redis
	entered                 // it has been given what it wants, since another call of its owner was; there is no event
	turnedAway              // it does not wait, and others are before it: it is not in the contest
)

// A queueing contest is one whose waiters stand in a line for a key in Redis, and are handed what they wait for, or called.
type queueing interface{ queueKey() (key string) }

// A waiter is one call that wants something from a contest.
type waiter struct {
	terms  terms
	limit  time.Duration // WithMaxHold, or 0
	once   bool          // it does not wait
	events eventQueue    // what the contest tells it
	alarm  *time.Timer   // pokes it; made when it is first set
	lease  *Lease        // what it is given
	call   call          // that waits
	place  place         // in the contest
	demand demand        // what it wants of a counter
	rw     *rwTicket     // what it asks with, if for an RWMutex

	asks    atomic.Int32          // requests of it under way
	poked   atomic.Bool           // that is among the events
	follows bool                  // it does not wait but for the answer to an earlier request of this process
	patient bool                  // nothing but an answer can end a request of it
	quorum  bool                  // it asks many servers, one of which may take longer than the others
	number  atomic.Uint64         // by which other processes know it; 0 as long as none does
	broken  atomic.Pointer[error] // why it is ended, since it was in a deadlock; or nil
	attends bool                  // it listens for messages to those in line, until it leaves
}

// A call is what is known of the call of a waiter, for those who look at it from outside. It does not change once the
// waiter has joined a contest.
type call struct {
	ctx   context.Context
	name  string // WithName, or none
	since monotonic.Time
	wait  time.Duration // WithWait
}

var waiters = sync.Pool{New: func() any {
	return &waiter{events: newEventQueue()}
}}

// newWaiter returns a waiter for the call with ctx that is to be given l, or something else than a lease.
func newWaiter(ctx context.Context, l *Lease, cfg lockConfig) *waiter {
	w := waiters.Get().(*waiter)
	w.call = call{ctx, cfg.name, monotonic.Now(), cfg.wait}
	w.terms, w.limit, w.once, w.follows, w.lease = cfg.terms, cfg.maxHold, cfg.wait == 0, cfg.follows, l
	return w
}

// recycle lets another call use w, which is in no contest any more, unless a request still knows it. A
// poke that comes late makes that call ask once too often.
func (w *waiter) recycle() {
	if w.asks.Load() > 0 {
		return
	}
	for ok := true; ok; {
		_, ok = w.nextEvent()
	}
	if w.number.Load() != 0 {
		w.number.Store(0)
		w.broken.Store(nil)
	}
	w.call = call{}
	w.place, w.lease, w.rw, w.patient, w.attends, w.quorum = place{}, nil, nil, false, false, false
	waiters.Put(w)
}

// poke tells w that there is a reason to ask. It does not block.
func (w *waiter) poke() {
	if w.poked.CompareAndSwap(false, true) {
		w.notify(event{kind: reason})
	}
}

// notify adds ev to the events of w. It does not block, whatever the contest does: it is called under the contest's lock.
func (w *waiter) notify(ev event) { w.events.put(ev) }

// nextEvent takes the oldest of the events of w, if there is any.
func (w *waiter) nextEvent() (ev event, ok bool) {
	if ev, ok = w.events.take(); ok && ev.kind == reason {
		w.poked.Store(false)
	}
	return ev, ok
}

// wait has w poked in d.
func (w *waiter) wait(d time.Duration) {
	if w.alarm == nil {
		w.alarm = time.AfterFunc(d, w.poke)
		return
	}
	w.alarm.Reset(d)
}

// calm takes back wait.
func (w *waiter) calm() {
	if w.alarm != nil {
		w.alarm.Stop()
	}
}
