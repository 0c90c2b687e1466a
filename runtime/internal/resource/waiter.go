package resource

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/counting"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// A Contest is the place where a waiter competes until it has what it wants or gives up.
type Contest interface {
	// Join enters w, and returns what w has to do.
	Join(w *Waiter) Entry
	// Ask sends one request for w. The answer comes as an event.
	Ask(w *Waiter)
	// Leave removes w. Its grant, if it got one meanwhile, goes to the next waiter or back to Redis.
	Leave(w *Waiter)
	// Channel is the channel on which Redisson announces a change to w.
	Channel(w *Waiter) string
	// Hear gets the message of the channel, before the waiter that listens asks because of it. It does not block.
	Hear(payload string)
	// Subject returns the lock that w waits for.
	Subject(w *Waiter) (kind, key string)
}

// An Entry is the result of joining a contest.
type Entry = engine.Entry

const (
	ToWait     = engine.ToWait
	ToAsk      = engine.ToAsk
	Entered    = engine.Entered
	TurnedAway = engine.TurnedAway
)

// A queueing contest has waiters in a wait queue of Redis, which get hand-overs or messages there.
type queueing interface{ queueKey() (key string) }

// A yielding contest leaves a start to Redisson's waiters.
type yielding interface {
	// StartFor returns for how long the request of w has to wait, and whether one of Redisson's waiters has had the start of late.
	StartFor(w *Waiter) (start time.Duration, foreign bool)
}

// A parking contest frees what a waiter does not need until an event comes.
type parking interface{ Park(w *Waiter) }

// A Wish is what a waiter of a lock or of a counter waits for.
type Wish struct {
	Lease         *leases.Lease    // the lease for it
	CounterDemand *counting.Demand // its demand at a counter, else nil
	Ticket        *Ticket          // its ticket, where each waiter has one
}

// Demand returns the demand of a waiter at a counter.
func (x Wish) Demand() *engine.Demand { return &x.CounterDemand.Demand }

// MaxHold returns for how long a waiter at a counter may have its permit, or 0 if there is no limit.
func (x Wish) MaxHold() time.Duration { return x.CounterDemand.MaxHold }

// Permit returns the permit for a waiter at a counter, or nil.
func (x Wish) Permit() *counting.Permit { return x.CounterDemand.Permit }

// A Waiter is one call that waits for a Wish.
type Waiter = engine.Waiter[Wish]

var waiters = sync.Pool{New: func() any {
	return engine.NewWaiter[Wish]()
}}

// NewWaiter returns a waiter for the call with ctx and cfg, which gets the lease l. For a call that gets no lease, l is nil.
func NewWaiter(ctx context.Context, l *leases.Lease, cfg *leases.Config) *Waiter {
	return NewWaiterSince(ctx, monotonic.Now(), l, cfg)
}

// NewWaiterSince is NewWaiter for one of several that begin to wait together, at a moment.
func NewWaiterSince(ctx context.Context, since monotonic.Time, l *leases.Lease, cfg *leases.Config) *Waiter {
	w := waiters.Get().(*Waiter)
	w.Call = engine.Call{Ctx: ctx, Label: cfg.Label, Since: since, Wait: cfg.Wait}
	if cfg.Part != nil && !w.Once() {
		w.Call.Label = cfg.Label.In(&cfg.Part.Of)
	}
	w.Terms, w.Linger, w.Follows, w.For.Lease = cfg.Terms, int32(cfg.Linger/time.Microsecond), cfg.Follows, l
	if cfg.MaxHold > 0 && l != nil {
		l.Core().More().MaxHold = cfg.MaxHold
	}
	return w
}

// Recycle lets another call use w, unless a request still knows it.
func Recycle(w *Waiter) {
	if w.Reset() {
		waiters.Put(w)
	}
}

// ErrYielded is the outcome of a wait that ends so that another call goes on in its place.
var ErrYielded = errors.New("given back, for a program with Redisson")
