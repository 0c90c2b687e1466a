package locks

import (
	"context"

	"github.com/lockgen/lockgen/runtime/internal/fleet"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/runtime/observe"
)

// A view implements fleet.Locks for a client.
type view struct{ c *Client }

func (v view) Waiting() bool { return v.c.counts.waiting.Load() > 0 }

func (v view) Leases(key string) (all []*watchdog.Lease) {
	for _, g := range v.c.grantsOf(key) {
		all = append(all, &g.guard)
	}
	if permits, known := v.c.permits.known(key); known {
		all = append(all, permits.Guards()...)
	}
	return all
}

func (p permitHolding) Show() (s fleet.Shown) {
	ct, known := ClientOf(&p.of.own).permits.known(p.Key())
	if n := p.Size(); known && n > 0 {
		ct.mu.Lock()
		defer ct.mu.Unlock()
		s = fleet.Shown{Name: p.of.label.Name(), Since: p.of.began, Holds: n, Queued: ct.Queue.Length(), Ctx: p.of.parent}
	}
	return s
}

// EachWaiting leaves out calls that try once.
func (v view) EachWaiting(key string, f func(call fleet.Call)) {
	if !v.Waiting() {
		return
	}
	c := v.c
	add := func(w *waiter, kind, key string) {
		if w.Once() {
			return
		}
		if w.For.lease != nil {
			kind = w.For.lease.kind()
		}
		call := fleet.Call{
			Kind: observe.Kind(kind), Key: key, Name: w.Call.Label.Name(), Template: w.Call.Label.Template(), Since: w.Call.Since, Ctx: w.Call.Ctx, Number: &w.Number, Waiter: w,
		}
		if w.For.demand != nil {
			call.Permits = w.For.demand.N
		}
		if w.Call.Wait != UntilDone {
			call.Until = w.Call.Since.Add(w.Call.Wait).Std()
		}
		f(call)
	}
	for _, r := range c.resources.some(key) {
		r.mu.Lock()
		r.Queue.Each(func(w *waiter) { add(w, kindMutex, r.key) })
		r.mu.Unlock()
	}
	for _, r := range c.rws.some(key) {
		r.mu.Lock()
		r.Queue.Each(func(w *waiter) { add(w, kindRead, r.key) })
		r.mu.Unlock()
	}
	for _, r := range c.fairs.some(key) {
		r.mu.Lock()
		for _, tk := range r.tickets {
			add(tk.extra.w, kindFair, r.key)
		}
		r.mu.Unlock()
	}
	for _, kind := range counted {
		for _, ct := range c.countersOf(kind).some(key) {
			ct.mu.Lock()
			ct.Queue.Each(func(w *waiter) { add(w, kind, ct.key) })
			ct.mu.Unlock()
		}
	}
	if queues := c.queuesIfAny(); queues != nil {
		queues.EachWaiting(key, add)
	}
}

// EachAbove calls f for the parts of a lease that has some.
func (view) EachAbove(ctx context.Context, f func(l *watchdog.Lease)) {
	var parts func(t *leaseCore)
	parts = func(t *leaseCore) {
		if t.rare().parts == nil {
			if t.guard != nil && t.ended() == nil {
				f(t.guard)
			}
			return
		}
		for _, part := range t.rare().parts.all() {
			parts(&part.leaseCore)
		}
	}
	for {
		l := innermost(ctx)
		if l == nil {
			return
		}
		parts(&l.leaseCore)
		ctx = l.parent
	}
}
