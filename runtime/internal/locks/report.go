package locks

import (
	"context"
	"errors"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/runtime/observe"
)

// A way is how a lease came to its caller.
type way uint8

const (
	fromServer way = iota
	fromHere       // another goroutine of this process
	fromThere      // another process
	fromItself     // the process had it already
)

// cameBy returns how t came to its caller.
func (t *leaseCore) cameBy() observe.Grant {
	switch t.came {
	case fromHere:
		return observe.GrantLocal
	case fromThere:
		return observe.GrantRemote
	case fromItself:
		return observe.GrantShared
	default:
		return observe.GrantServer
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
	cause, at, call := t.ended(), monotonic.Time(t.rare().over.Load()), t.rare().call
	hook(call.context(), observe.EndEvent{
		ID: call.id, Kind: observe.Kind(t.kind()), Name: call.name, Template: call.template, Key: t.key, Parts: call.parts,
		At: at.Std(), Held: at.Sub(t.began), Reason: reasonOf(cause), Cause: bare(t.key, cause),
	})
}

// reportLater makes another goroutine report the end of t.
func (t *leaseCore) reportLater() {
	if t.progress.Load() == leaseHad {
		t.client.reports.Later(t.report, false)
	}
}

// A borne grant knows the lease that has it.
type borne interface {
	// bearer returns the first of the leases that have it at present, or nil.
	bearer() *leaseCore
}

// whole returns the composite lease that t is a part of, or t.
func (t *leaseCore) whole() *leaseCore {
	for t != nil {
		whole := t.rare().within.Load()
		if whole == nil {
			break
		}
		t = &whole.leaseCore
	}
	return t
}

// renewed reports the outcome of each renewal.
func renewed(c *clientCore, l *watchdog.Lease, err error) {
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
	e := observe.RenewEvent{Kind: observe.Kind(l.Kind()), Name: l.Kind(), Key: l.Key(), Until: l.Until(), Err: err}
	c.reports.Later(func() {
		ctx := context.Background()
		if whole := of.whole(); whole != nil && whole.progress.Load() != leaseUnknown {
			if err != nil && whole.progress.Load() == leaseReported {
				return
			}
			call := whole.rare().call
			ctx, e.ID, e.Name, e.Template = call.context(), call.id, call.name, call.template
		}
		hook(ctx, e)
	}, true)
}

// reasonOf returns the reason for which a lease ended with cause.
func reasonOf(cause error) observe.EndReason {
	switch {
	case cause == failure.ErrReleased: //nolint:errorlint // this very one, which is nearly all of them
		return observe.EndReleased
	case !errors.Is(cause, failure.ErrLost) && errors.Is(cause, failure.ErrReleased):
		return observe.EndReleased
	case !errors.Is(cause, failure.ErrLost) && errors.Is(cause, failure.ErrClosed):
		return observe.EndClosed
	case errors.Is(cause, watchdog.ErrRefused):
		return observe.EndTaken
	case errors.Is(cause, watchdog.ErrElapsed):
		return observe.EndElapsed
	case errors.Is(cause, watchdog.ErrTooLong):
		return observe.EndMaxHold
	}
	if _, ok := errors.AsType[*watchdog.UnconfirmedError](cause); ok {
		return observe.EndUnconfirmed
	}
	return observe.EndOther
}

// tracesEnd says that a lease has ended.
func (t *leaseCore) tracesEnd(cause error) {
	t.client.wholes(trace.Whole{Action: trace.Over, Lease: t, Freed: errors.Is(cause, failure.ErrReleased)})
}

// traced returns what tests see of the lease of a part of a RedLock, or nil if none wants to.
func (l *Lease) traced() *trace.Part {
	if l == nil || l.client.wholes == nil {
		return nil
	}
	return &trace.Part{Owner: l.guard.Owner(), Token: l.token, Lease: &l.leaseCore}
}
