package leases

import (
	"context"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
)

// Context is a Lease as a context. It knows its lease, for reentry, and reads the clock when a caller asks for its error. It wraps a
// context of the standard library, which is half of the cost of a lease, so it creates that only when a caller needs it.
type Context Lease

// A cancelContext is a context of the standard library with its cancel function.
type cancelContext struct {
	context.Context
	cancel context.CancelCauseFunc
}

// make returns the context that ends with the lease, always the same one.
func (x *Context) make() context.Context {
	if made := x.core.made.Load(); made != nil {
		return made.Context
	}
	mine, parent := new(cancelContext), x.above()
	if x.core.Ended() != nil {
		parent = context.WithoutCancel(parent) // the parent's own end must not hide the cause
	}
	mine.Context, mine.cancel = context.WithCancelCause(parent)
	if !x.core.made.CompareAndSwap(nil, mine) {
		mine.cancel(nil)
		return x.core.made.Load().Context
	}
	if cause := x.core.Ended(); cause != nil { // it ended before the context existed
		mine.cancel(cause)
	}
	return mine.Context
}

// above returns the context above x: that of the call, or the one that a hook made from it.
func (x *Context) above() context.Context {
	if call := x.core.Rare().call; call != nil && call.work != nil {
		return call.work
	}
	return x.core.Parent
}

// cancel ends the context, if there is one. A later make sees the cause.
func (t *Core) cancel(cause error) {
	if made := t.made.Load(); made != nil {
		made.cancel(cause)
	}
}

func (x *Context) Deadline() (time.Time, bool) { return x.above().Deadline() }

func (x *Context) Done() <-chan struct{} { return x.make().Done() }

func (x *Context) Err() error {
	t := &x.core
	if x.core.made.Load() == nil && t.Err() == nil && x.above().Err() == nil {
		return nil
	}
	ctx := x.make() // this context decides which end was first
	if ctx.Err() == nil {
		_ = t.Err()
	}
	return ctx.Err()
}

func (x *Context) Value(key any) any {
	switch key.(type) {
	case leaseKey:
		if x.core.Kind() != core.KindPermit { // a call under a permit takes one of its own
			return (*Lease)(x)
		}
	case innermostKey:
		return (*Lease)(x)
	case tokenKey:
		if token := x.core.Token(); token != 0 {
			return token
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

// tokenKey is the context key of the fencing token of the innermost lease that has one.
type tokenKey struct{}

// OfContext returns the lease whose context is ctx itself.
func OfContext(ctx context.Context) (l *Lease, ok bool) {
	x, ok := ctx.(*Context)
	return (*Lease)(x), ok
}

// Enterable returns the innermost lease of key in ctx, or nil.
func Enterable(ctx context.Context, c *core.Client, key string) *Lease {
	for {
		l, _ := ctx.Value(leaseKey{}).(*Lease)
		switch {
		case l == nil:
			return nil
		case l.core.Rare().Parts != nil:
			if part := l.core.Rare().Parts.Part(c, key); part != nil {
				return part
			}
		case l.core.Client() == c && l.core.Key() == key:
			return l
		}
		ctx = l.core.Parent
	}
}

// Innermost returns the innermost lease of ctx, which may be that of a permit, or nil.
func Innermost(ctx context.Context) *Lease {
	if ctx == nil {
		return nil
	}
	l, _ := ctx.Value(innermostKey{}).(*Lease)
	return l
}

// Fencing tokens are counted in Redis, under the key that Redisson's fenced lock counts in. The next one is one more
// than the last, or the server's time in microseconds if that is larger: a hybrid logical clock (Kulkarni et al.,
// 2014). So they rise also when the counter has expired, when Redis was restarted empty, and when a replica took over
// that had missed the last writes, as long as its clock is not behind by more than that took. Kleppmann's "How to do
// distributed locking" (2016) describes their use by a resource.

// TokenOf returns the fencing token of the innermost lease of key in ctx that has a token.
func TokenOf(ctx context.Context, key string) (token int64, ok bool) {
	ctx = core.Present(ctx)
	for {
		l, _ := ctx.Value(leaseKey{}).(*Lease)
		if l == nil {
			return 0, false
		}
		if token := l.tokenOf(key); token != 0 {
			return token, true
		}
		ctx = l.core.Parent
	}
}

// tokenOf returns the token of l, or of its part that is a lease of key, or 0.
func (l *Lease) tokenOf(key string) int64 {
	if l.core.Key() == key && l.core.Token() != 0 {
		return l.core.Token()
	}
	if l.core.Rare().Parts != nil {
		for _, part := range l.core.Rare().Parts.All() {
			if token := part.tokenOf(key); token != 0 {
				return token
			}
		}
	}
	return 0
}

// TokenFrom returns the fencing token of the innermost lease in ctx that has a token.
func TokenFrom(ctx context.Context) (token int64, ok bool) {
	token, ok = core.Present(ctx).Value(tokenKey{}).(int64)
	return token, ok
}
