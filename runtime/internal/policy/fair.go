package policy

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/resource"
)

// A Fair is this process's side of one fair lock. It does not use the queue of the line: Redis decides the order, and knows each
// waiter by a ticket of its own. When Redis hands the lock over to one of them, it names the waiters of this process
// right behind it; these get the lock next, in this order, without a request to Redis.
type Fair struct {
	resource.Exclusive

	Lock protocol.Fair

	// Guarded by Mu:
	Tickets    map[uint64]*FairTicket // of the waiters, by their numbers
	spare      []*FairTicket          // tickets that have had no waiter for a moment
	spareTimer *time.Timer            // withdraws them; nil before the first
	noted      monotonic.Time         // when it was noted last that a waiter is in the queue; zero if never
}

// NewFair returns the resource of the fair lock of key.
func NewFair(c *resource.Client, key string) *Fair {
	r := &Fair{Lock: c.Wire.Fair(key), Tickets: map[uint64]*FairTicket{}}
	r.Client, r.Key, r.Kind = c, key, r
	return r
}

// Channel is the channel of w alone, on which Redisson announces its turn.
func (r *Fair) Channel(w *resource.Waiter) string {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return r.Lock.Channel(r.Owner(w.For.Ticket))
}

// Join makes every waiter ask, with two exceptions: a waiter that tries once while this process has the lock, and a waiter that takes over
// a ticket whose request is under way.
func (r *Fair) Join(w *resource.Waiter) resource.Entry {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if r.EntersAgain(w) {
		return resource.Entered
	}
	if w.Once() && r.Excludes(w) {
		return resource.TurnedAway
	}
	wait := r.Client.Settings.FairWait
	if w.Call.Wait > 0 {
		wait = max(w.Call.Wait, time.Millisecond)
	}
	tk := r.takeSpare(w, wait)
	if tk == nil {
		tk = &FairTicket{Wait: wait, Terms: w.Terms}
		tk.Own.Of, tk.Extra, tk.Use = tk, &tk.Own, resource.TicketApart
		tk.Enroll(&r.LineCore, w.Terms)
	}
	r.waits(tk, w, false)
	if tk.Asking > 0 {
		return resource.ToWait
	}
	return resource.ToAsk
}

func (r *Fair) Name(*resource.Ticket) string { return core.KindFair }

// Queued returns the number of waiters. Each of them asks for itself, outside of the queue of the line.
func (r *Fair) Queued() int { return len(r.Tickets) }

// Ended has the ticket wait no more.
func (r *Fair) Ended(tk *resource.Ticket) { delete(r.Tickets, tk.Number) }

func (r *Fair) Withdrawer() engine.Withdrawer { return r.Client.Withdrawals.Of(core.KindFair, r.Key) }

// Served returns how many of the waiters in the queue of Redis had the present grant, or have it.
func (r *Fair) Served() int {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if r.Grant == nil {
		return 0
	}
	return len(r.First().after)
}

func (r *Fair) Shuts() {
	if r.Grant != nil {
		r.dismiss(r.First())
	}
	r.withdrawSpares(0)
}

// EachWaiting calls f for the waiters: each waits apart from the queue.
func (r *Fair) EachWaiting(f func(w *resource.Waiter, kind string)) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	for _, tk := range r.Tickets {
		f(tk.Extra.Waiter, core.KindFair)
	}
}
