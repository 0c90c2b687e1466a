package leases

import (
	"context"
	"errors"

	"github.com/lockgen/lockgen/runtime/internal/core"
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
	FromHere       // another goroutine of this process
	FromThere      // another process
	FromItself     // the process had it already
)

// cameBy returns how t came to its caller.
func (t *Core) cameBy() observe.Grant {
	switch t.Came {
	case FromHere:
		return observe.GrantLocal
	case FromThere:
		return observe.GrantRemote
	case FromItself:
		return observe.GrantShared
	default:
		return observe.GrantServer
	}
}

// Given records that the caller has t. If t has ended already, Given calls the hook now.
func (t *Core) Given() {
	t.More().progress.CompareAndSwap(leaseUnknown, leaseHad)
	if t.Ended() != nil {
		t.Report()
	}
}

// Report calls the hook for the end of t, once. The end of a grant that no caller received is not reported: for the
// caller it has never begun.
func (t *Core) Report() {
	hook := t.Client().Settings.Hooks.Ended
	if hook == nil || t.Ended() == nil || !t.Rare().progress.CompareAndSwap(leaseHad, leaseReported) {
		return
	}
	cause, at, call := t.Ended(), monotonic.Time(t.Rare().over.Load()), t.Rare().call
	hook(call.context(), observe.EndEvent{
		ID: call.id, Kind: observe.Kind(t.Kind()), Name: call.name, Template: call.template, Key: t.Key(), Parts: call.parts,
		At: at.Date(), Held: at.Sub(t.Began), Reason: reasonOf(cause), Cause: core.CauseOf(t.Key(), cause),
	})
}

// ReportLater makes another goroutine report the end of t.
func (t *Core) ReportLater() {
	if t.Rare().progress.Load() == leaseHad {
		t.Client().Reports.Later(t.Report, false)
	}
}

// A borne grant knows the lease that has it.
type borne interface {
	// Bearer returns the first of the leases that have it at present, or nil.
	Bearer() *Core
}

// whole returns the composite lease that t is a part of, or t.
func (t *Core) whole() *Core {
	for t != nil {
		whole := t.Rare().Within.Load()
		if whole == nil {
			break
		}
		t = &whole.core
	}
	return t
}

// Renewed counts the outcome of a renewal of l, and reports it to the hook.
func Renewed(c *core.Client, l *watchdog.Lease, err error) {
	if err == nil {
		c.Counts.Renewals.Add(1)
	} else {
		c.Counts.RenewalFailures.Add(1)
	}
	hook := c.Settings.Hooks.Renewed
	if hook == nil {
		return
	}
	c.Started() // either Close waits for this, and for what it starts, or the client is closed already
	defer c.Finished()
	select {
	case <-c.Stopped:
		return
	default:
	}
	var of *Core
	if holding, ok := l.Holding.(borne); ok {
		of = holding.Bearer()
	}
	if err != nil && (of == nil || of.Ended() != nil) {
		return // it has ended meanwhile
	}
	e := observe.RenewEvent{Kind: observe.Kind(l.Kind()), Name: l.Kind(), Key: l.Key(), Until: monotonic.Of(l.Until()).Date(), Err: err}
	c.Reports.Later(func() {
		ctx := context.Background()
		if whole := of.whole(); whole != nil && whole.Rare().progress.Load() != leaseUnknown {
			if err != nil && whole.Rare().progress.Load() == leaseReported {
				return
			}
			call := whole.Rare().call
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

// tracesEnd reports to the tests that a lease has ended.
func (t *Core) tracesEnd(cause error) {
	t.Client().Wholes(trace.Whole{Action: trace.Over, Lease: t, Freed: errors.Is(cause, failure.ErrReleased)})
}

// Traced returns what tests see of the lease of a part of a RedLock, or nil if no test wants to know.
func (l *Lease) Traced() *trace.Part {
	if l == nil || l.core.Grant == nil || l.core.Client().Wholes == nil {
		return nil
	}
	return &trace.Part{Owner: l.core.Guard().Owner(), Token: l.core.Token(), Lease: &l.core}
}
