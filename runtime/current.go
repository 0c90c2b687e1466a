package lockrt

import (
	"context"
	hexes "encoding/hex"
	"errors"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/force"
)

// A CurrentLease is what a context is under, as code sees it that did not lock: that it is trusted and for how long, its
// token, and a way to keep it for longer. It cannot unlock. The zero value is no lease: its Err matches [ErrBadOption].
//
// It is safe for concurrent use. Only Extend contacts Redis.
type CurrentLease struct{ t *leaseCore }

// LeaseFrom returns the innermost lease that ctx is under, and whether there is one. It is for code below a generated wrapper,
// or below a Do, that is given nothing but a context: it may ask [CurrentLease.Err] before what cannot be undone, and call
// [CurrentLease.Extend] before what takes longer than a lease of fixed length lasts. A context stays under its lease when that
// has ended.
//
// Of a lock with several keys it is the lease of all of them. Permits of a [PermitSemaphore] are leases, too; a [Semaphore] has
// none. It contacts nobody. Redisson's isHeldByCurrentThread is what Err tells.
func LeaseFrom(ctx context.Context) (lease CurrentLease, ok bool) {
	t := leaseCoreFrom(ctx)
	return CurrentLease{t}, t != nil
}

// leaseCoreFrom returns the innermost leaseCore that ctx is under, or nil.
func leaseCoreFrom(ctx context.Context) *leaseCore {
	if ctx == nil {
		return nil
	}
	x, _ := ctx.Value(leaseCoreKey{}).(*leaseContext)
	return (*leaseCore)(x)
}

// Key returns the key as the lock has it: of a [MultiLock] all of them. Of the zero value it is empty.
func (l CurrentLease) Key() string {
	if l.t == nil {
		return ""
	}
	return l.t.key
}

// Err is [Lease.Err]: nil while the lease is trusted.
func (l CurrentLease) Err() error {
	if l.t == nil {
		return &Error{Op: "lease", Err: errNoLease}
	}
	return l.t.Err()
}

// Until is [Lease.Until]: when the trust in the lease ends unless it is renewed before. Of the zero value it is the zero time.
func (l CurrentLease) Until() time.Time {
	if l.t == nil {
		return time.Time{}
	}
	return l.t.Until()
}

// Token is [Lease.Token]: the fencing token, or 0 if there is none. Of a lock with several keys [TokenOf] returns that of each.
func (l CurrentLease) Token() int64 {
	if l.t == nil || l.t.lease == nil {
		return 0
	}
	return l.t.lease.token
}

// Extend is [Lease.Extend]: it makes the lease last for at least d from now, in one round trip.
func (l CurrentLease) Extend(ctx context.Context, d time.Duration) error {
	if l.t == nil {
		return &Error{Op: "extend", Err: errNoLease}
	}
	return l.t.Extend(ctx, d)
}

func init() {
	force.Take = func(ctx, under context.Context) (key string, ended <-chan struct{}, taken bool, err error) {
		t := leaseCoreFrom(under)
		if t == nil {
			return "", nil, false, errNoLease
		}
		taken, err = t.takeAway(ctx)
		return t.key, t.Context().Done(), taken, err
	}
}

// takeAway takes from t what it has in Redis, as somebody does who forces the lock open, and reports whether Redis had it.
func (t *leaseCore) takeAway(ctx context.Context) (taken bool, err error) {
	switch c := t.client; t.kind {
	case kindFair:
		return c.FairMutex(t.key).ForceUnlock(ctx)
	case kindWrite:
		return c.RWMutex(t.key).ForceUnlock(ctx)
	case kindRead:
		return c.RWMutex(t.key).ForceRUnlock(ctx)
	case kindPermit:
		raw := []byte(t.guard.Owner())
		var ids []string
		for ; len(raw) >= idLength; raw = raw[idLength:] {
			ids = append(ids, hexes.EncodeToString(raw[:idLength]))
		}
		err = c.PermitSemaphore(t.key, 0).Release(ctx, ids...)
		if errors.Is(err, ErrLost) {
			return false, nil
		}
		return err == nil, err
	case kindMulti, kindRedLock:
		for _, part := range t.composite.all() {
			had, err := part.takeAway(ctx)
			if err != nil {
				return taken, err
			}
			taken = taken || had
		}
		return taken, nil
	default:
		return c.Mutex(t.key).ForceUnlock(ctx)
	}
}
