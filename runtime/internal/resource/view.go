package resource

import (
	"context"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/fleet"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/runtime/observe"
)

// A view implements fleet.Locks for a client.
type view struct{ of *Client }

func (v view) Waiting() bool { return v.of.Counts.Waiting.Load() > 0 }

func (v view) Leases(key string) (all []*watchdog.Lease) {
	v.of.each(key, func(one Registered) { all = append(all, one.Guards()...) })
	return all
}

// EachWaiting leaves out calls that try once.
func (v view) EachWaiting(key string, f func(call fleet.Call)) {
	if !v.Waiting() {
		return
	}
	c := v.of
	add := func(w *Waiter, kind, key string) {
		if w.Once() {
			return
		}
		if w.For.Lease != nil {
			kind = w.For.Lease.Core().Kind()
		}
		call := fleet.Call{
			Kind: observe.Kind(kind), Key: key, Name: w.Call.Label.Name(), Since: w.Call.Since, Ctx: w.Call.Ctx, Number: &w.Number, Waiter: w,
		}
		call.Hooked = fleet.Hooked{Kind: call.Kind, Name: call.Name, Template: w.Call.Label.Template()}
		if whole := w.Call.Label.Whole(); whole != nil {
			call.Hooked = fleet.Hooked{Kind: observe.Kind(whole.Kind), Name: whole.Label.Name(), Template: whole.Label.Template()}
		}
		if w.For.CounterDemand != nil {
			call.Permits = w.For.CounterDemand.N
		}
		if w.Call.Wait != leases.UntilDone {
			call.Until = w.Call.Since.Add(w.Call.Wait)
		}
		f(call)
	}
	c.each(key, func(one Registered) {
		one.EachWaiting(func(w *Waiter, kind string) { add(w, kind, one.references().Key) })
	})
	c.Mu.Lock()
	queues := c.queues
	c.Mu.Unlock()
	if queues != nil {
		queues.EachWaiting(key, add)
	}
}

// EachAbove calls f for the parts of a lease that has some.
func (view) EachAbove(ctx context.Context, f func(l *watchdog.Lease)) {
	var parts func(t *leases.Core)
	parts = func(t *leases.Core) {
		if t.Rare().Parts == nil {
			if t.Guard() != nil && t.Ended() == nil {
				f(t.Guard())
			}
			return
		}
		for _, part := range t.Rare().Parts.All() {
			parts(part.Core())
		}
	}
	for {
		l := leases.Innermost(ctx)
		if l == nil {
			return
		}
		parts(l.Core())
		ctx = l.Core().Parent
	}
}

// DeadlockAfter is the interval with which a client that looks for no deadlocks answers those that do: the default of lockrt.Options.
const DeadlockAfter = 5 * time.Second

// newMember returns the part of c that talks to other processes.
func newMember(c *Client) *fleet.Member {
	cfg := fleet.Config{
		UUID: c.Wire.UUID, Name: c.Settings.Name, Anonymous: c.Settings.Anonymous,
		Net: c.Net, Locks: view{c}, Watchdog: c.Watchdog, Hooks: &c.Settings.Hooks, Later: c.Reports.Later, Logger: c.Settings.Logger,
		Hear: func() { c.Hear() }, Spawn: c.Spawn, Detach: c.Detach, Closing: c.Closing,
		OpTimeout: c.Settings.OpTimeout, Lease: c.Settings.Watchdog, Interval: c.Settings.DeadlockAfter,
	}
	if cfg.Interval <= 0 {
		cfg.Interval, cfg.Answers = DeadlockAfter, true
	}
	if c.Settings.BreakDeadlocks {
		cfg.Break = func(d observe.Deadlock) error { return &observe.DeadlockError{Deadlock: d} }
	}
	return fleet.New(cfg)
}

// Queues are the wait queues of the locks that consist of others. Package composite has them.
type Queues interface {
	// EachWaiting calls f for the calls that wait for the lock of key, or for all if key is empty.
	EachWaiting(key string, f func(w *Waiter, kind, key string))
}

// QueuesOf returns the queues of c. The first call has create make them.
func QueuesOf[Q Queues](c *Client, create func() Q) Q {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.queues == nil {
		c.queues = create()
	}
	return c.queues.(Q) //nolint:forcetypeassert // one package makes them
}
