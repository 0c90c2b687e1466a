package lockrt

import (
	"context"
	"sync"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// observing reports whether there is a hook for calls or for leases.
func observing(h *Hooks) bool {
	return h.AcquireStart != nil || h.Waiting != nil || h.AcquireEnd != nil || h.Acquired != nil || h.Renewed != nil || h.Ended != nil
}

// A way is how a lease came to its caller.
type way uint8

const (
	fromServer way = iota
	fromHere       // another goroutine of this process
	fromThere      // another process
	fromItself     // the process had it already
)

// cameBy returns how t came to its caller.
func (t *leaseCore) cameBy() Grant {
	switch t.came {
	case fromHere:
		return GrantLocal
	case fromThere:
		return GrantRemote
	case fromItself:
		return GrantShared
	default:
		return GrantServer
	}
}

// given records that the caller has t. If t has ended already, given calls the hook now.
func (t *leaseCore) given() {
	t.progress.CompareAndSwap(leaseUnknown, leaseHad)
	if t.ended() != nil {
		t.report()
	}
}

// report calls the hook for the end of t, once. The end of a grant that no caller received is not reported: for the
// caller it has never begun.
func (t *leaseCore) report() {
	hook := t.client.opts.Hooks.Ended
	if hook == nil || t.ended() == nil || !t.progress.CompareAndSwap(leaseHad, leaseReported) {
		return
	}
	cause, at := t.ended(), monotonic.Time(t.over.Load())
	hook(t.call.context(), EndEvent{
		ID: t.call.id, Kind: Kind(t.kind()), Name: t.call.name, Template: t.call.template, Key: t.key, Parts: t.call.parts,
		At: at.Std(), Held: at.Sub(t.began), Reason: reasonOf(cause), Cause: bare(t.key, cause),
	})
}

// reportLater makes another goroutine report the end of t.
func (t *leaseCore) reportLater() {
	if t.progress.Load() == leaseHad {
		t.client.reporter.later(t.report, false)
	}
}

// mostReports is the number of waiting events from which on renewals are omitted.
const mostReports = 10_000

// A reporter calls hooks one after the other, for callers that must not wait for them.
type reporter struct {
	c *Client

	mu      sync.Mutex // guards the rest
	queue   []func()
	running bool
}

// later calls report soon. It omits an optional report when too many wait.
func (r *reporter) later(report func(), optional bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if optional && len(r.queue) >= mostReports {
		return
	}
	r.queue = append(r.queue, report)
	if !r.running {
		r.running = true
		r.c.spawn(r.run)
	}
}

func (r *reporter) run() {
	for {
		r.mu.Lock()
		queue := r.queue
		r.queue = nil
		if len(queue) == 0 {
			r.running = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		for _, report := range queue {
			report()
		}
	}
}

// A borne grant knows the lease that has it.
type borne interface {
	// bearer returns the first of the leases that have it at present, or nil.
	bearer() *leaseCore
}

func (p permitHolding) bearer() *leaseCore { return p.Permit.leaseCore }

// whole returns the composite lease that t is a part of, or t.
func (t *leaseCore) whole() *leaseCore {
	for t != nil {
		co := t.within.Load()
		if co == nil {
			break
		}
		t = &co.whole.leaseCore
	}
	return t
}

// renewed reports the outcome of each renewal.
func (c *Client) renewed(l *watchdog.Lease, err error) {
	if err == nil {
		c.counts.renewals.Add(1)
	} else {
		c.counts.renewalFailures.Add(1)
	}
	hook := c.opts.Hooks.Renewed
	if hook == nil {
		return
	}
	c.started() // either Close waits for this, and for what it starts, or the client is closed already
	defer c.finished()
	select {
	case <-c.stopped:
		return
	default:
	}
	var of *leaseCore
	if holding, ok := l.Holding.(borne); ok {
		of = holding.bearer()
	}
	if err != nil && (of == nil || of.ended() != nil) {
		return // it has ended meanwhile
	}
	e := RenewEvent{Kind: Kind(l.Kind()), Name: l.Kind(), Key: l.Key(), Until: l.Until(), Err: err}
	c.reporter.later(func() {
		ctx := context.Background()
		if whole := of.whole(); whole != nil && whole.progress.Load() != leaseUnknown {
			if err != nil && whole.progress.Load() == leaseReported {
				return
			}
			ctx, e.ID, e.Name, e.Template = whole.call.context(), whole.call.id, whole.call.name, whole.call.template
		}
		hook(ctx, e)
	}, true)
}
