package locks

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/fleet"
	"github.com/lockgen/lockgen/runtime/observe"
)

// An attempt is one call that acquires, as hooks and statistics see it, with its options.
type attempt struct {
	c     *clientCore
	op    string
	kind  string
	key   string
	parts []string // the keys of a MultiLock

	cfg lockConfig
	err error // why the options of the call are unusable

	// If there are hooks:
	id    uint64
	start time.Time
	ctx   context.Context // the context for AcquireEnd

	waiting bool // the call waits for other holders, or did
	blocked *fleet.Blockage
}

// A waitingPart reports that a part of a call has to wait: for which lock, of which client.
type waitingPart func(c *clientCore, kind, key string)

// attempts numbers the calls of this process.
var attempts atomic.Uint64

// begin reads the options and reports the begin of the call.
func (a *attempt) begin(ctx context.Context, base, call []LockOption) {
	if a.cfg, a.err = configure(a.c, base, call); a.err == nil {
		a.err = a.cfg.meaningless(a.kind)
	}
	a.starts(ctx)
}

// starts reports the begin of the call.
func (a *attempt) starts(ctx context.Context) {
	a.ctx = ctx
	if a.silent() || !a.c.observed {
		return
	}
	a.id = attempts.Add(1)
	a.start = now()
	if hook := a.c.opts.Hooks.AcquireStart; hook != nil {
		a.ctx = hook(ctx, a.event())
	}
}

// silent reports whether the call has no hooks: it cannot be made, or is a part of another one.
func (a *attempt) silent() bool { return a.c == nil || a.cfg.part != nil }

// name returns the name for the metrics of the call.
func (a *attempt) name() string {
	return cmp.Or(a.cfg.label.Name(), a.kind)
}

// event returns the event of the call.
func (a *attempt) event() observe.AcquireEvent {
	return observe.AcquireEvent{ID: a.id, Kind: observe.Kind(a.kind), Name: a.name(), Template: a.cfg.label.Template(), Key: a.key, Parts: a.parts, Contended: a.waiting}
}

// waits records that the call has to wait.
func (a *attempt) waits() { a.waitsFor(a.c, a.kind, a.key) }

// waitsFor is waits for a call of which a part, this lock, has to wait.
func (a *attempt) waitsFor(c *clientCore, kind, key string) {
	if c == nil || a.c == nil {
		return
	}
	if !a.silent() {
		a.blocked = c.fleet.Watch(a.blocked, observe.Kind(kind), key)
	}
	if a.waiting {
		return
	}
	a.waiting = true
	if a.kind != kindMulti { // one of its parts waits at a time
		a.c.counts.waiting.Add(1)
	}
	if a.cfg.part != nil {
		a.cfg.part(c, kind, key)
	} else if hook := a.c.opts.Hooks.Waiting; hook != nil {
		hook(a.ctx, a.event())
	}
}

// failed returns err with the operation and key of the call, and the holder that it is known to have waited for.
func (a *attempt) failed(err error) error {
	err = &observe.Error{Op: a.op, Key: a.key, Name: a.cfg.label.Name(), Err: err, Holder: holderOf(a.c, a.kind, a.key, a.blocked, err)}
	a.ends(observe.AcquireEvent{Err: err})
	return err
}

// ends reports how the call ended: with the grant and the token in how, or with its error.
func (a *attempt) ends(how observe.AcquireEvent) {
	if a.waiting && a.kind != kindMulti {
		a.c.counts.waiting.Add(-1)
	}
	if a.silent() {
		return
	}
	a.c.counts.called(a.kind, how.Err)
	if hook := a.c.opts.Hooks.AcquireEnd; hook != nil {
		hook(a.ctx, a.ended(how))
	}
}

// ended returns the event of a call that has ended.
func (a *attempt) ended(how observe.AcquireEvent) observe.AcquireEvent {
	e := a.event()
	e.Waited, e.Outcome, e.Grant, e.Token, e.Err = time.Since(a.start), outcomeOf(how.Err), how.Grant, how.Token, how.Err
	e.HolderTraces = a.blocked.Traces()
	return e
}

// granted ends a call that acquired lease, and returns both results to the caller.
func (a *attempt) granted(lease *Lease, err error) (*Lease, error) {
	if err != nil {
		return nil, a.failed(err)
	}
	a.hands(&lease.leaseCore, lease.token)
	return lease, nil
}

// hands ends a call that got t, and gives t to the caller.
func (a *attempt) hands(t *leaseCore, token int64) {
	how := observe.AcquireEvent{Grant: t.cameBy(), Token: token}
	a.ends(how)
	if !a.silent() && a.id != 0 {
		a.shows(t, how)
	}
}

// shows lets the hooks know t, and what they learn later know the call.
func (a *attempt) shows(t *leaseCore, how observe.AcquireEvent) {
	x := t.more()
	if x.call == nil { // a permit
		x.call = new(origin)
	}
	*x.call = origin{id: a.id, name: a.name(), template: a.cfg.label.Template(), parts: a.parts, ctx: a.ctx}
	if hook := a.c.opts.Hooks.Acquired; hook != nil {
		x.call.work = hook(t.parent, a.ended(how))
	}
	t.given()
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

// counted ends a call that takes permits or waits for a latch.
func (a *attempt) counted(err error) error {
	if err != nil {
		return a.failed(err)
	}
	a.ends(observe.AcquireEvent{Grant: observe.GrantServer})
	return nil
}
