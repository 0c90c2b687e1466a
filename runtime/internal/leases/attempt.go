package leases

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/fleet"
	"github.com/lockgen/lockgen/runtime/observe"
)

// An Attempt is one call that acquires, as hooks and statistics see it, with its options.
type Attempt struct {
	Client *core.Client
	Op     string
	Kind   string
	Key    string
	Parts  []string // the keys of a MultiLock

	Config Config
	Err    error // why the options of the call are unusable

	// If there are hooks:
	id    uint64
	start time.Time
	ctx   context.Context // the context for AcquireEnd

	waiting bool            // the call waits for other holders, or did
	Blocked *fleet.Blockage // the wait, as other processes learn of it
}

// A WaitingPart reports that a part of a call has to wait: for the lock named key, of that kind and of that client.
type WaitingPart func(c *core.Client, kind, key string)

// A Part is the option that makes a call a part of another one, whose hooks are called in its place, also when it has to wait.
type Part struct {
	Of    engine.Whole
	Waits WaitingPart
}

func (p *Part) applyLock(c *Config) { c.Part = p }

// attempts numbers the calls of this process.
var attempts atomic.Uint64

// Begin reads the options and reports the begin of the call.
func (a *Attempt) Begin(ctx context.Context, base, call []Option) {
	if a.Config, a.Err = Configure(a.Client, base, call); a.Err == nil {
		a.Err = a.Config.Meaningless(a.Kind)
	}
	a.ReportStart(ctx)
}

// ReportStart reports the begin of the call.
func (a *Attempt) ReportStart(ctx context.Context) {
	a.ctx = ctx
	if a.silent() || !a.Client.Observed {
		return
	}
	a.id = attempts.Add(1)
	a.start = core.Now()
	if hook := a.Client.Settings.Hooks.AcquireStart; hook != nil {
		a.ctx = hook(ctx, a.event())
	}
}

// silent reports whether the call has no hooks: it has no client, or is a part of another call.
func (a *Attempt) silent() bool { return a.Client == nil || a.Config.Part != nil }

// name returns the name for the metrics of the call.
func (a *Attempt) name() string {
	return cmp.Or(a.Config.Label.Name(), a.Kind)
}

// event returns the event of the call.
func (a *Attempt) event() observe.AcquireEvent {
	return observe.AcquireEvent{ID: a.id, Kind: observe.Kind(a.Kind), Name: a.name(), Template: a.Config.Label.Template(), Key: a.Key, Parts: a.Parts, Contended: a.waiting}
}

// Waits records that the call has to wait.
func (a *Attempt) Waits() { a.WaitsFor(a.Client, a.Kind, a.Key) }

// WaitsFor is Waits for a call of which a part has to wait, for the lock named key.
func (a *Attempt) WaitsFor(c *core.Client, kind, key string) {
	if c == nil || a.Client == nil {
		return
	}
	if !a.silent() {
		a.Blocked = c.Fleet.Watch(a.Blocked, observe.Kind(kind), key)
	}
	if a.waiting {
		return
	}
	a.waiting = true
	if a.Kind != core.KindMulti { // one of its parts waits at a time
		a.Client.Counts.Waiting.Add(1)
	}
	if a.Config.Part != nil {
		a.Config.Part.Waits(c, kind, key)
	} else if hook := a.Client.Settings.Hooks.Waiting; hook != nil {
		hook(a.ctx, a.event())
	}
}

// Failed ends a call that failed with err. It returns err with the operation and the key of the call, and the holder that the call is known
// to have waited for.
func (a *Attempt) Failed(err error) error {
	err = &observe.Error{Op: a.Op, Key: a.Key, Name: a.Config.Label.Name(), Err: err, Holder: HolderOf(a.Client, a.Kind, a.Key, a.Blocked, err)}
	a.ReportEnd(observe.AcquireEvent{Err: err})
	return err
}

// ReportEnd reports how the call ended: with the grant and the token in how, or with its error.
func (a *Attempt) ReportEnd(how observe.AcquireEvent) {
	if a.waiting && a.Kind != core.KindMulti {
		a.Client.Counts.Waiting.Add(-1)
	}
	if a.silent() {
		return
	}
	a.Client.Counts.Called(a.Kind, how.Err)
	if hook := a.Client.Settings.Hooks.AcquireEnd; hook != nil {
		hook(a.ctx, a.endEvent(how))
	}
}

// endEvent returns the event of a call that has ended.
func (a *Attempt) endEvent(how observe.AcquireEvent) observe.AcquireEvent {
	e := a.event()
	e.Waited, e.Outcome, e.Grant, e.Token, e.Err = time.Since(a.start), core.OutcomeOf(how.Err), how.Grant, how.Token, how.Err
	e.HolderTraces = a.Blocked.Traces()
	return e
}

// Granted ends a call that acquired lease, or failed with err, and returns its results.
func (a *Attempt) Granted(lease *Lease, err error) (*Lease, error) {
	if err != nil {
		return nil, a.Failed(err)
	}
	a.Acquired(&lease.core, lease.core.Token())
	return lease, nil
}

// Acquired ends a call that acquired t.
func (a *Attempt) Acquired(t *Core, token int64) {
	how := observe.AcquireEvent{Grant: t.cameBy(), Token: token}
	a.ReportEnd(how)
	if !a.silent() && a.id != 0 {
		a.reportAcquired(t, how)
	}
}

// reportAcquired calls the hook with t, and records the call for the hooks that are called for t later.
func (a *Attempt) reportAcquired(t *Core, how observe.AcquireEvent) {
	x := t.More()
	if x.call == nil { // a permit
		x.call = new(origin)
	}
	*x.call = origin{id: a.id, name: a.name(), template: a.Config.Label.Template(), parts: a.Parts, ctx: a.ctx}
	if hook := a.Client.Settings.Hooks.Acquired; hook != nil {
		x.call.work = hook(t.Parent, a.endEvent(how))
	}
	t.Given()
}

// An origin is what hooks learn about the call that got a lease, when something happens to the lease.
type origin struct {
	id       uint64
	name     string
	template string
	parts    []string
	ctx      context.Context // as AcquireStart returned it
	work     context.Context // as Acquired returned it, or nil
}

// context returns the context of hooks during a lease.
func (o *origin) context() context.Context {
	if o.work != nil {
		return o.work
	}
	return o.ctx
}

// Counted ends a call that takes permits or waits for a latch.
func (a *Attempt) Counted(err error) error {
	if err != nil {
		return a.Failed(err)
	}
	a.ReportEnd(observe.AcquireEvent{Grant: observe.GrantServer})
	return nil
}

// A HeldError is the error of a context that ended while another holder had the lock. It matches the errors that Err matches, and no
// others.
type HeldError struct{ Err error }

func (e *HeldError) Error() string { return e.Err.Error() + "; somebody else had it" }

func (e *HeldError) Unwrap() error { return e.Err }

// HeldByOthers reports whether a call failed with err because another holder had the lock.
func HeldByOthers(err error) bool {
	var held *HeldError
	return errors.Is(err, failure.ErrNotAcquired) || errors.As(err, &held)
}

// HolderOf returns the holder of a lock that a call did not get because of err, or nil if it is unknown. b is what the
// call has learned of others.
func HolderOf(c *core.Client, kind, key string, b *fleet.Blockage, err error) *observe.Holder {
	if c.Made() == nil || !HeldByOthers(err) || !fleet.HasHolder(observe.Kind(kind)) {
		return nil
	}
	if h := c.Above.OwnHolder(kind, key); h != nil {
		return h
	}
	if h := b.Holder(observe.Kind(kind), key); h != nil {
		return h
	}
	return c.Fleet.LastHolder(observe.Kind(kind), key)
}
