package leases

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/runtime/observe"
)

// A Lease is one grant of a key to one call. It ends once: by Unlock, loss or Close.
type Lease struct{ core Core }

// Core returns what l has in common with a permit.
func (l *Lease) Core() *Core { return &l.core }

// A Grant is a hold of this process in Redis, which leases enter and leave. It knows what all of its leases have in common: a process may hold
// very many.
type Grant interface {
	// Client returns the client that has it.
	Client() *core.Client
	// Key returns the key of the lock.
	Key() string
	// Guarded returns what the watchdog guards; nil if it has parts, and before it is granted.
	Guarded() *watchdog.Lease
	// Reenter makes l one more lease of it, if outer still is one.
	Reenter(outer, l *Lease) bool
	// Unlock ends l. The last one frees the hold.
	Unlock(l *Lease) error
}

// A Core is what a lease and a permit have in common: the time for which a caller has a grant of any kind.
type Core struct {
	_ noCopy

	Label    *engine.Label                 // of the lock
	Parent   context.Context               // the context of the call
	made     atomic.Pointer[cancelContext] // the context that [Context] wraps
	Began    monotonic.Time                // when it was granted
	cause    atomic.Pointer[error]         // why it ended, nil before
	extra    atomic.Pointer[Extra]         // nil for most leases
	Grant    Grant                         // the grant of the lease; set before the caller gets it
	At       int32                         // its index in the grant; guarded by the lock of the grant
	Unlocked bool                          // Unlock was called; guarded by the lock of the grant
	Spent    bool                          // the lease that it is a part of is lost; guarded by the lock of the grant
	number   core.KindNumber               // of its kind
	Came     way                           // how it came to its caller
}

// An Extra is what few leases have, and a Core only points to: a process may hold very many. The zero value is that of a lease without one.
type Extra struct {
	Owner   *Owner                // of the caller, or nil
	token   int64                 // the fencing token, 0 if it has none
	MaxHold time.Duration         // WithMaxHold of its call, or 0; set before it is granted
	Parts   Parts                 // its parts, or nil
	Within  atomic.Pointer[Lease] // the lease that it is a part of, or nil
	call    *origin               // of the call that got it; its content is set before the progress is leaseHad, and it is nil without hooks
	over    atomic.Int64          // when it ended, a monotonic.Time; 0 before, or without a hook

	progress atomic.Int32 // a leaseProgress; without hooks it stays leaseUnknown
}

// noExtra is the extra of leases without one. It does not change.
var noExtra Extra

// A Parts is what the lease of a MultiLock or of a RedLock consists of: other leases, of which it needs all, or a majority.
type Parts interface {
	// All returns the parts.
	All() []*Lease
	// Part returns the lease of key among the parts, or among the parts of a part, or nil.
	Part(c *core.Client, key string) *Lease
	// Check returns nil while enough parts are trusted; else the reason why one of the others is not.
	Check() error
	// Until returns the time from which so many parts are not trusted that the whole is not.
	Until() time.Time
	// TTL and Extend are as those of a lease, for the whole.
	TTL(ctx context.Context) (time.Duration, error)
	Extend(ctx context.Context, d time.Duration) error
	// PartEnded is called when a part has ended because of cause.
	PartEnded(cause error)
	// WholeEnded is called when the whole has ended, and was not released.
	WholeEnded()
	// Unlocked reports whether the whole was unlocked. The whole has ended for the same reason if a part was unlocked before.
	Unlocked() bool
}

// A leaseProgress says what a caller, and the hook for ends, know of a lease.
type leaseProgress = int32

const (
	leaseUnknown  leaseProgress = iota // no caller has it, so its end is not reported
	leaseHad                           // a caller has it
	leaseReported                      // its end was reported
)

// noCopy makes go vet report copies.
type noCopy struct{}

func (*noCopy) Lock() {}

func (*noCopy) Unlock() {}

// New prepares a lease under parent, for a waiter.
func New(c *core.Client, kind string, parent context.Context) *Lease {
	l := Empty(c)
	l.core.OwnedBy(ownerFrom(parent))
	l.core.Prepare(kind, parent)
	return l
}

// Empty returns a new lease that is not prepared, with room for what hooks learn of its call if there are hooks. A lock without a client,
// whose calls fail, has no hooks.
func Empty(c *core.Client) *Lease {
	if c == nil || !c.Observed {
		return new(Lease)
	}
	observed := new(struct {
		lease  Lease
		extra  Extra
		origin origin
	})
	observed.extra.call = &observed.origin
	observed.lease.core.extra.Store(&observed.extra)
	return &observed.lease
}

// Several prepares a lease of each of n parts of a whole under parent, for waiters, in one piece of memory: they are mostly freed together,
// too. next returns one after the other, each under a context that has the owner of parent.
func Several(c *core.Client, kind string, n int, parent context.Context) (next func(under context.Context) *Lease) {
	type part struct {
		lease Lease
		extra Extra // each has one: it is within the whole
	}
	owner := ownerFrom(parent)
	var parts []part
	if c == nil || !c.Observed {
		parts = make([]part, n)
	}
	i := 0
	return func(under context.Context) *Lease {
		var l *Lease
		if parts == nil {
			l = Empty(c)
		} else {
			l = &parts[i].lease
			l.core.extra.Store(&parts[i].extra)
		}
		i++
		l.core.OwnedBy(owner)
		l.core.Prepare(kind, under)
		return l
	}
}

// Prepare initializes t, which has not begun.
func (t *Core) Prepare(kind string, parent context.Context) {
	t.number, t.Parent = core.NumberOf(kind), parent
}

// Kind returns the kind of its lock.
func (t *Core) Kind() string { return core.CountedKinds[t.number] }

// SameKind reports whether t and other are of one kind.
func (t *Core) SameKind(other *Core) bool { return t.number == other.number }

// Rare returns the extra of the lease, to read it.
func (t *Core) Rare() *Extra {
	if x := t.extra.Load(); x != nil {
		return x
	}
	return &noExtra
}

// More returns the extra of the lease, to change it. It makes the extra if there is none.
func (t *Core) More() *Extra {
	if t.extra.Load() == nil {
		t.extra.CompareAndSwap(nil, new(Extra))
	}
	return t.extra.Load()
}

// Token returns the fencing token, or 0 if there is none.
func (t *Core) Token() int64 { return t.Rare().token }

// SetToken sets the fencing token, before the caller gets the lease.
func (t *Core) SetToken(token int64) {
	if token != t.Token() {
		t.More().token = token
	}
}

// OwnedBy sets the owner of the caller, if it has one.
func (t *Core) OwnedBy(owner *Owner) {
	if owner != nil {
		t.More().Owner = owner
	}
}

// Begin makes l a lease of g.
func (l *Lease) Begin(g Grant) {
	l.core.Grant = g
	if l.core.Began.IsZero() {
		l.core.Began = monotonic.Now()
	}
}

// causeReleased is the cause of most ends.
var causeReleased = failure.ErrReleased

// End ends t because of cause, once, and notifies the hooks, and the composite lease that t is a part of.
func (t *Core) End(cause error) {
	c := t.Grant.Client()
	why, isLost := &causeReleased, false
	if cause != failure.ErrReleased { //nolint:errorlint // this very one, which is nearly all of them, costs no memory and no comparison of chains
		cause = core.LeaseError(t.Key(), t.Label.Name(), cause)
		other := cause
		why, isLost = &other, errors.Is(cause, failure.ErrLost)
	}
	observed := c.Settings.Hooks.Ended != nil
	if observed {
		t.More().over.CompareAndSwap(0, int64(monotonic.Now()))
	}
	if !t.cause.CompareAndSwap(nil, why) {
		t.cancel(*t.cause.Load()) // if the caller that ended it first has not cancelled it yet
		return
	}
	if c.Wholes != nil {
		t.tracesEnd(cause)
	}
	t.cancel(cause)
	if f := c.AtEnd; f != nil {
		f(t.Key())
	}
	if isLost && t.Rare().Parts == nil {
		c.Counts.Losses.Add(1)
	}
	if observed && why != &causeReleased {
		t.ReportLater() // the release reports that when the next holder has the key
	}
	if whole := t.Rare().Within.Load(); whole != nil {
		whole.core.Rare().Parts.PartEnded(cause)
	}
	if parts := t.Rare().Parts; parts != nil && !errors.Is(cause, failure.ErrReleased) {
		parts.WholeEnded()
	}
}

// Ended returns why t ended, or nil.
func (t *Core) Ended() error {
	if cause := t.cause.Load(); cause != nil {
		return *cause
	}
	return nil
}

// granted returns the Core of l, or nil if no call has prepared l. The parts of a MultiLock have contexts before they have grants.
func (l *Lease) granted() *Core {
	if l == nil || l.core.Parent == nil {
		return nil
	}
	return &l.core
}

func (l *Lease) Key() string { return l.granted().Key() }

func (l *Lease) Token() int64 {
	if l == nil {
		return 0
	}
	return l.core.Token()
}

func (l *Lease) Context() context.Context {
	if l.granted() == nil {
		return NoLease
	}
	return (*Context)(l)
}

func (l *Lease) Err() error { return l.granted().Err() }

func (l *Lease) Until() time.Time { return l.granted().Until() }

func (l *Lease) Parts() []*Lease {
	if l == nil || l.core.Kind() != core.KindMulti {
		return nil
	}
	return l.core.Rare().Parts.All()
}

func (l *Lease) TTL(ctx context.Context) (time.Duration, error) {
	if l == nil || l.core.Grant == nil {
		return 0, &observe.Error{Op: "ttl", Err: core.ErrNoLease}
	}
	if l.core.Rare().Parts != nil {
		return l.core.Rare().Parts.TTL(core.Present(ctx))
	}
	return core.Answer(ctx, l.core.Client(), "ttl", l.core.Key(), l.core.ttl)
}

// Extend never shortens. If Redis does not have the key for l any more, l is lost; after another error l stays as it was.
func (l *Lease) Extend(ctx context.Context, d time.Duration) error { return l.granted().Extend(ctx, d) }

// Entered returns l, a reentry of a grant, if the grant satisfies cfg. A call with WithLease has the grant for that
// long from now on, as in Redisson.
func (l *Lease) Entered(ctx context.Context, cfg *Config) (*Lease, error) {
	var err error
	switch {
	case cfg.Fenced && l.core.Token() == 0:
		err = fmt.Errorf("%w: no fencing token, since the key was locked without WithFencing by the lease that this one enters", failure.ErrBadOption)
	case !cfg.Renew && time.Until(l.core.Guard().Ends()) < cfg.TTL:
		err = core.CauseOf(l.core.Key(), l.core.prolong(ctx, cfg.TTL))
	}
	if err != nil {
		_ = l.core.Grant.Unlock(l)
		return nil, err
	}
	return l, nil
}

// Joined is Entered for a call that asked Redis, and may have entered a grant of its owner instead. A grant of its own need not be prolonged.
func (l *Lease) Joined(ctx context.Context, cfg *Config) (*Lease, error) {
	if cfg.Fenced && l.core.Token() == 0 || l.core.Rare().Owner != nil && l.core.Came == FromItself {
		return l.Entered(ctx, cfg)
	}
	return l, nil
}

// Unlock gives back the grant of l, if no other lease has it. Its context is for values alone: the call ends within OpTimeout. A lost lease frees
// the key, too, if Redis still has it for the lease.
func (l *Lease) Unlock(context.Context) error {
	if l == nil || l.core.Grant == nil {
		return &observe.Error{Op: "unlock", Err: core.ErrNoLease}
	}
	err := l.core.Grant.Unlock(l)
	l.core.Report()
	if err != nil {
		return &observe.Error{Op: "unlock", Key: l.core.Key(), Name: l.core.Label.Name(), Err: failure.OfRelease(core.CauseOf(l.core.Key(), err))}
	}
	return nil
}

// Do calls fn under the context of l and unlocks, also if fn panics.
func (l *Lease) Do(ctx context.Context, fn func(ctx context.Context) error) (err error) {
	defer func() {
		if l.core.Came == FromItself {
			_ = l.Err() // so that l learns of a loss: no answer to a release tells it
		}
		err = failure.AfterWork(ctx, err, l.Unlock(ctx))
	}()
	if l.core.Client().Settings.ProfileLabels {
		under, end := Profiled(l.Context(), l.core.ProfileLabel())
		defer end()
		return fn(under)
	}
	return fn(l.Context())
}
