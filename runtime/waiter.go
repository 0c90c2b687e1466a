package lockrt

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// A contest is the place where a waiter competes until it has what it wants or gives up.
type contest interface {
	// join enters w, and returns what w has to do.
	join(w *waiter) entry
	// ask sends one request for w. The answer comes as an event.
	ask(w *waiter)
	// leave removes w. Its grant, if it got one meanwhile, goes to the next waiter or back to
	// Redis.
	leave(w *waiter)
	// channel is the channel on which Redisson announces a change.
	channel() string
	// hear gets the message of the channel, before the waiter that listens asks because of it. It
	// does not block.
	hear(payload string)
}

// An entry is the result of joining a contest.
type entry uint8

const (
	toWait     entry = iota // w waits for an event
	toAsk                   // w has the turn to ask Redis
	entered                 // w has what it wants, since another call of its owner has it; there is no event
	turnedAway              // w tries once, and others are before it: it is not in the contest
)

// A queueing contest has waiters in a wait queue of Redis, which get hand-overs or messages there.
type queueing interface{ queueKey() (key string) }

// A waiter is one call that waits in a contest.
type waiter struct {
	terms  engine.Terms
	limit  time.Duration     // WithMaxHold, or 0
	events engine.EventQueue // from the contest
	alarm  monotonic.Time    // when it is poked; 0 if that was never set, or cancelled
	lease  *Lease            // the lease for it
	call   call              // the waiting call
	place  place             // its place in the contest
	demand *demand           // its demand at a counter, else nil
	rw     *rwTicket         // its ticket, for an RWMutex

	suspicion suspicion // its place among the suspects

	linger  int32                 // WithLinger, in microseconds
	asks    atomic.Int32          // number of its requests under way
	poked   atomic.Bool           // a poke is among the events
	alarmed int32                 // its place among the alarms, counted from 1; 0 if it is none of them
	follows bool                  // it waits only for the answer to an earlier request of this process
	patient bool                  // only an answer can end a request of it
	quorum  bool                  // it asks many servers, one of which may take longer than the others
	attends bool                  // it listens for messages to the wait queue, until it leaves
	number  atomic.Uint64         // its number for other processes; 0 as long as it has none
	broken  atomic.Pointer[error] // why it ends, since it was in a deadlock; or nil
}

// A call describes the call of a waiter, for readers from outside. It does not change once the waiter has joined a
// contest.
type call struct {
	ctx   context.Context
	name  string // WithName, or none
	of    string // the template of the key in generated code, or none
	since monotonic.Time
	wait  time.Duration // WithWait
}

var waiters = sync.Pool{New: func() any {
	return &waiter{events: engine.NewEventQueue()}
}}

// newWaiter returns a waiter for the call with ctx, which gets l, or something else than a lease.
func newWaiter(ctx context.Context, l *Lease, cfg lockConfig) *waiter {
	w := waiters.Get().(*waiter)
	w.call = call{ctx, cfg.name, cfg.template, monotonic.Now(), cfg.wait}
	w.terms, w.limit, w.linger, w.follows, w.lease = cfg.Terms, cfg.maxHold, int32(cfg.linger/time.Microsecond), cfg.follows, l
	return w
}

// once reports whether the waiter tries once.
func (w *waiter) once() bool { return w.call.wait == 0 }

// recycle lets another call use w, which is in no contest any more, unless a request still knows
// it. A late poke makes that call ask once too often.
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
		w.notify(engine.Event{Kind: engine.Reason})
	}
}

// notify adds ev to the events of w. It does not block: the contest calls it under its lock.
func (w *waiter) notify(ev engine.Event) { w.events.Put(ev) }

// nextEvent takes the oldest of the events of w, if there is one.
func (w *waiter) nextEvent() (ev engine.Event, ok bool) {
	if ev, ok = w.events.Take(); ok && ev.Kind == engine.Reason {
		w.poked.Store(false)
	}
	return ev, ok
}
