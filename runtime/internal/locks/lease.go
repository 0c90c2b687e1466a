package locks

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/runtime/observe"
)

// A Lease is one grant of a key to one call. It ends once: by Unlock, loss or Close.
type Lease struct {
	leaseCore

	grant    anyGrant // the grant of the lease; set before the caller gets it
	token    int64    // 0 if it has none
	at       int32    // its index in the grant; guarded by the lock of that
	unlocked bool     // Unlock was called; guarded by the lock of the grant
}

// An anyGrant is a hold of a process in Redis, which leases enter and leave.
type anyGrant interface {
	// reenter makes l one more lease of it, if outer still is one.
	reenter(outer, l *Lease) bool
	// unlock ends l. The last one frees the hold.
	unlock(l *Lease) error
}

// A leaseCore is the time for which a caller has a grant of any kind.
type leaseCore struct {
	_ noCopy

	client   *clientCore
	key      string
	label    *engine.Label                 // of the lock
	parent   context.Context               // the context of the call
	made     atomic.Pointer[cancelContext] // of its context, see [leaseContext]
	began    monotonic.Time                // when it was granted
	guard    *watchdog.Lease               // set when it begins; nil if it has parts
	cause    atomic.Pointer[error]         // why it ended, nil before
	extra    atomic.Pointer[leaseExtra]    // nil for most leases
	number   kindNumber                    // of its kind
	came     way                           // how it came to its caller
	progress atomic.Int32                  // a leaseProgress
}

// A leaseExtra is what few leases have: a process may hold very many. The zero value is that of a lease without one.
type leaseExtra struct {
	owner  *Owner                // of the caller, or nil
	parts  leaseParts            // its parts, or nil
	within atomic.Pointer[Lease] // the lease that it is a part of, or nil
	call   *origin               // of the call that got it; its content is set before leaseHad, and it is nil without hooks
	over   atomic.Int64          // when it ended, a monotonic.Time; 0 before, or without a hook
}

// A leaseParts is what a lease has that consists of others, of which it needs all, or a majority: a MultiLock or a RedLock.
type leaseParts interface {
	// all returns the parts.
	all() []*Lease
	// part returns the lease of key among the parts, or among the parts of a part, or nil.
	part(c *clientCore, key string) *Lease
	// check returns nil while enough parts are trusted; else the reason why one of the others is not.
	check() error
	// until returns the time from which so many parts are not trusted that the whole is not.
	until() time.Time
	ttl(ctx context.Context) (time.Duration, error)
	extend(ctx context.Context, d time.Duration) error
	// look is called when a part has ended because of cause.
	look(cause error)
	// over is called when the whole has ended, and was not released.
	over()
}

// noExtra is the extra of leases without one. It does not change.
var noExtra leaseExtra

// rare returns the extra of the lease, to read it.
func (t *leaseCore) rare() *leaseExtra {
	if x := t.extra.Load(); x != nil {
		return x
	}
	return &noExtra
}

// more returns the extra of the lease, to change it.
func (t *leaseCore) more() *leaseExtra {
	if t.extra.Load() == nil {
		t.extra.CompareAndSwap(nil, new(leaseExtra))
	}
	return t.extra.Load()
}

// ownedBy sets the owner of the caller, if it has one.
func (t *leaseCore) ownedBy(owner *Owner) {
	if owner != nil {
		t.more().owner = owner
	}
}

// A leaseProgress says what a caller, and the hook for ends, know of a lease.
type leaseProgress = int32

const (
	leaseUnknown  leaseProgress = iota // no caller has it, so its end is not reported
	leaseHad                           // a caller has it
	leaseReported                      // its end was reported
)

// kind returns the kind of its lock.
func (t *leaseCore) kind() string { return countedKinds[t.number] }

// noCopy makes go vet report copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// newLease prepares a lease under parent, for a waiter.
func newLease(c *clientCore, kind, key string, parent context.Context) *Lease {
	l := emptyLease(c)
	l.ownedBy(ownerFrom(parent))
	l.prepare(c, kind, key, parent)
	return l
}

// emptyLease returns a new lease, with room for what hooks learn of its call if there are hooks.
func emptyLease(c *clientCore) *Lease {
	if !c.observed {
		return new(Lease)
	}
	observed := new(struct {
		lease  Lease
		extra  leaseExtra
		origin origin
	})
	observed.extra.call = &observed.origin
	observed.lease.extra.Store(&observed.extra)
	return &observed.lease
}

// prepare initializes t, which has not begun.
func (t *leaseCore) prepare(c *clientCore, kind, key string, parent context.Context) {
	t.client, t.number, t.key, t.parent = c, numberOf(kind), key, parent
}

// begin makes l a lease of g, which guard renews.
func (l *Lease) begin(hd anyGrant, guard *watchdog.Lease) {
	l.grant = hd
	l.guard = guard
	if l.began.IsZero() {
		l.began = monotonic.Now()
	}
}

// end ends t, once, and notifies its composite lease and the hooks.
func (t *leaseCore) end(cause error) {
	why, isLost := &causeReleased, false
	if cause != failure.ErrReleased { //nolint:errorlint // this very one, which is nearly all of them, costs no memory and no comparison of chains
		cause = ofLease(t.key, t.label.Name(), cause)
		other := cause
		why, isLost = &other, errors.Is(cause, failure.ErrLost)
	}
	observed := t.client.opts.Hooks.Ended != nil
	if observed {
		t.more().over.CompareAndSwap(0, int64(monotonic.Now()))
	}
	if !t.cause.CompareAndSwap(nil, why) {
		t.cancel(*t.cause.Load()) // if the caller that ended it first has not cancelled it yet
		return
	}
	if t.client.wholes != nil {
		t.tracesEnd(cause)
	}
	t.cancel(cause)
	if f := t.client.atEnd; f != nil {
		f(t.key)
	}
	if isLost && t.rare().parts == nil {
		t.client.counts.losses.Add(1)
	}
	if observed && why != &causeReleased {
		t.reportLater() // the release reports that when the next holder has the key
	}
	if whole := t.rare().within.Load(); whole != nil {
		whole.rare().parts.look(cause)
	}
	if parts := t.rare().parts; parts != nil && !errors.Is(cause, failure.ErrReleased) {
		parts.over()
	}
}

// lost returns the error of a lease that was lost because of cause.
func lost(cause error) error { return failure.Lost(cause) }

// ended returns why t ended, or nil.
func (t *leaseCore) ended() error {
	if cause := t.cause.Load(); cause != nil {
		return *cause
	}
	return nil
}

// granted returns the leaseCore of l, or nil without a grant.
func (l *Lease) granted() *leaseCore {
	if l == nil || l.client == nil {
		return nil
	}
	return &l.leaseCore
}

func (l *Lease) Key() string { return l.granted().Key() }

func (l *Lease) Token() int64 {
	if l == nil {
		return 0
	}
	return l.token
}

func (l *Lease) Context() context.Context {
	if l.granted() == nil {
		return noLease
	}
	return (*leaseContext)(l)
}

func (l *Lease) Err() error { return l.granted().Err() }

func (l *Lease) Until() time.Time { return l.granted().Until() }

func (l *Lease) Parts() []*Lease {
	if l == nil || l.kind() != kindMulti {
		return nil
	}
	return l.rare().parts.all()
}

func (l *Lease) TTL(ctx context.Context) (time.Duration, error) {
	if l == nil || l.grant == nil {
		return 0, &observe.Error{Op: "ttl", Err: errNoLease}
	}
	if l.rare().parts != nil {
		return l.rare().parts.ttl(present(ctx))
	}
	return answer(ctx, l.client, "ttl", l.key, func() (time.Duration, error) {
		ttl, ours, err := l.client.net.TTL(l.key, l.guard.Owner())
		if err == nil && (!ours || ttl < 0) {
			err = fmt.Errorf("%w: Redis has no such owner", failure.ErrLost)
		}
		return ttl, err
	})
}

// Extend never shortens. If Redis does not have the key for l any more, l is lost; after another error l stays as it was.
func (l *Lease) Extend(ctx context.Context, d time.Duration) error { return l.granted().Extend(ctx, d) }

// entered returns l, a reentry of a grant, if the grant satisfies cfg. A call with WithLease has the grant for that
// long from now on, as in Redisson.
func (l *Lease) entered(ctx context.Context, cfg lockConfig) (*Lease, error) {
	var err error
	switch {
	case cfg.Fenced && l.token == 0:
		err = fmt.Errorf("%w: no fencing token, since the key was locked without WithFencing by the lease that this one enters", failure.ErrBadOption)
	case !cfg.Renew && time.Until(l.guard.Ends()) < cfg.TTL:
		err = l.prolong(ctx, cfg.TTL)
	}
	if err != nil {
		_ = l.grant.unlock(l)
		return nil, err
	}
	return l, nil
}

// joined is entered for a call that asked Redis, and may have been granted the key together with others of its owner. A
// grant on its own terms need not be prolonged.
func (l *Lease) joined(ctx context.Context, cfg lockConfig) (*Lease, error) {
	if cfg.Fenced && l.token == 0 || l.rare().owner != nil && l.guard != nil && l.guard.TTL < cfg.TTL {
		return l.entered(ctx, cfg)
	}
	return l, nil
}

// Unlock gives back the grant of l, if no other lease has it. Its context is for values alone: the call ends within OpTimeout. A lost lease frees
// the key, too, if Redis still has it for the lease.
func (l *Lease) Unlock(context.Context) error {
	if l == nil || l.grant == nil {
		return &observe.Error{Op: "unlock", Err: errNoLease}
	}
	err := l.grant.unlock(l)
	l.report()
	if err != nil {
		return &observe.Error{Op: "unlock", Key: l.key, Name: l.label.Name(), Err: bare(l.key, err)}
	}
	return nil
}

// Do calls fn under the context of l and unlocks, also if fn panics.
func (l *Lease) Do(ctx context.Context, fn func(ctx context.Context) error) (err error) {
	defer func() { err = failure.AfterLoss(ctx, err, l.Unlock(ctx)) }()
	if l.client.opts.ProfileLabels {
		under, end := Profiled(l.Context(), l.profileLabel())
		defer end()
		return fn(under)
	}
	return fn(l.Context())
}

// causeReleased is the cause of most ends.
var causeReleased = failure.ErrReleased

// leaseContext is a Lease as a context. It knows its lease, for reentry, and reads the clock
// when a caller asks for its error. It creates the context of the standard library that it wraps
// only when a caller needs it: that context is half of the cost of a lease.
type leaseContext Lease

// A cancelContext is a context of the standard library with its cancel function.
type cancelContext struct {
	context.Context
	cancel context.CancelCauseFunc
}

// make returns the context that ends with the lease, always the same one.
func (x *leaseContext) make() context.Context {
	if made := x.made.Load(); made != nil {
		return made.Context
	}
	mine, parent := new(cancelContext), x.above()
	if x.ended() != nil {
		parent = context.WithoutCancel(parent) // the parent's own end must not hide the cause
	}
	mine.Context, mine.cancel = context.WithCancelCause(parent)
	if !x.made.CompareAndSwap(nil, mine) {
		mine.cancel(nil)
		return x.made.Load().Context
	}
	if cause := x.ended(); cause != nil { // it ended before the context existed
		mine.cancel(cause)
	}
	return mine.Context
}

// cancel ends the context, if there is one. A later make sees the cause.
func (t *leaseCore) cancel(cause error) {
	if made := t.made.Load(); made != nil {
		made.cancel(cause)
	}
}

// above returns the context above x: that of the call, or the one that a hook made from it.
func (x *leaseContext) above() context.Context {
	if call := x.rare().call; call != nil && call.work != nil {
		return call.work
	}
	return x.parent
}

func (x *leaseContext) Deadline() (time.Time, bool) { return x.above().Deadline() }

func (x *leaseContext) Done() <-chan struct{} { return x.make().Done() }

func (x *leaseContext) Err() error {
	t := &x.leaseCore
	if x.made.Load() == nil && t.Err() == nil && x.above().Err() == nil {
		return nil
	}
	ctx := x.make() // this context decides which end was first
	if ctx.Err() == nil {
		_ = t.Err()
	}
	return ctx.Err()
}

func (x *leaseContext) Value(key any) any {
	switch key.(type) {
	case leaseKey:
		if x.kind() != kindPermit { // a call under a permit takes one of its own
			return (*Lease)(x)
		}
	case innermostKey:
		return (*Lease)(x)
	case tokenKey:
		if x.token != 0 {
			return x.token
		}
	case *int: // the standard library asks with such a key for the context that ends, to read its cause
		return x.make().Value(key)
	}
	return x.above().Value(key)
}

// leaseKey is the context key of the innermost lease that a call can enter again.
type leaseKey struct{}

// innermostKey is the context key of the innermost lease of any kind, also of a permit.
type innermostKey struct{}

// leaseFrom returns the innermost lease of key in ctx, or nil.
func leaseFrom(ctx context.Context, c *clientCore, key string) *Lease {
	for {
		l, _ := ctx.Value(leaseKey{}).(*Lease)
		switch {
		case l == nil:
			return nil
		case l.rare().parts != nil:
			if part := l.rare().parts.part(c, key); part != nil {
				return part
			}
		case l.client == c && l.key == key:
			return l
		}
		ctx = l.parent
	}
}
