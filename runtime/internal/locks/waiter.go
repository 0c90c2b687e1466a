package locks

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/counting"
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
	// channel is the channel on which Redisson announces a change to w.
	channel(w *waiter) string
	// hear gets the message of the channel, before the waiter that listens asks because of it. It
	// does not block.
	hear(payload string)
	// subject returns the lock that w waits for.
	subject(w *waiter) (kind, key string)
}

// An entry is the result of joining a contest.
type entry = engine.Entry

const (
	toWait     = engine.ToWait
	toAsk      = engine.ToAsk
	entered    = engine.Entered
	turnedAway = engine.TurnedAway
)

// A queueing contest has waiters in a wait queue of Redis, which get hand-overs or messages there.
type queueing interface{ queueKey() (key string) }

// A yielding contest leaves a start to Redisson's waiters.
type yielding interface {
	// startFor returns for how long the request of w has to wait, and whether one of Redisson's waiters has had the start of late.
	startFor(w *waiter) (start time.Duration, foreign bool)
}

// A parking contest frees what a waiter does not need until an event comes.
type parking interface{ park(w *waiter) }

// A wish is what a waiter of a lock or of a counter waits for.
type wish struct {
	lease  *Lease           // the lease for it
	demand *counting.Demand // its demand at a counter, else nil
	ticket *ticket          // its ticket, where each waiter has one
}

// Demand returns the demand of a waiter at a counter.
func (x wish) Demand() *engine.Demand { return &x.demand.Demand }

// Permit returns the permit for a waiter at a counter, or nil.
func (x wish) Permit() *counting.Permit { return x.demand.Permit }

// The waiters of this package wait for a wish.
type waiter = engine.Waiter[wish]

var waiters = sync.Pool{New: func() any {
	return engine.NewWaiter[wish]()
}}

// newWaiter returns a waiter for the call with ctx, which gets l, or something else than a lease.
func newWaiter(ctx context.Context, l *Lease, cfg lockConfig) *waiter {
	w := waiters.Get().(*waiter)
	w.Call = engine.Call{Ctx: ctx, Label: cfg.label, Since: monotonic.Now(), Wait: cfg.wait}
	w.Terms, w.Limit, w.Linger, w.Follows, w.For.lease = cfg.Terms, cfg.maxHold, int32(cfg.linger/time.Microsecond), cfg.follows, l
	return w
}

// recycle lets another call use w, unless a request still knows it.
func recycle(w *waiter) {
	if w.Reset() {
		waiters.Put(w)
	}
}

// errYielded is the outcome of a wait that ends so that another call goes on.
var errYielded = errors.New("given back, for a program with Redisson")
