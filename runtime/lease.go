package runtime

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// A Lease is one grant of a key to one caller of Lock. It ends once: by [Lease.Unlock], by
// loss, or by closing the [Client]. It is safe for concurrent use.
type Lease struct {
	_ noCopy

	client *Client
	key    string
	ctx    leaseContext
	cancel context.CancelCauseFunc
	owner  *Owner    // that the caller is part of, or nil
	began  time.Time // when it was granted
	hold   *hold     // what it is a lease of; set before the caller gets it
	token  int64     // 0 if it has none

	unlocked bool                  // Unlock was called; guarded by home.mu
	cause    atomic.Pointer[error] // why it ended, nil before
}

// noCopy makes go vet report copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// newLease prepares a lease under parent, to be given to a waiter.
func newLease(c *Client, key string, parent context.Context) *Lease {
	l := &Lease{client: c, key: key, owner: ownerFrom(parent)}
	l.ctx.lease = l
	l.ctx.Context, l.cancel = context.WithCancelCause(parent)
	return l
}

// begin makes l a lease of hd.
func (l *Lease) begin(hd *hold) {
	l.hold = hd
	l.began = time.Now()
}

// end ends l, once, and tells those who are to know.
func (l *Lease) end(cause error) {
	if !l.cause.CompareAndSwap(nil, &cause) {
		l.cancel(*l.cause.Load()) // if whoever was first has not got round to it
		return
	}
	l.cancel(cause)
	if errors.Is(cause, ErrLost) {
		l.client.counts.losses.Add(1)
	}
	if hook := l.client.opts.Hooks.Ended; hook != nil {
		hook(EndEvent{Kind: kindMutex, Key: l.key, Held: time.Since(l.began), Cause: cause})
	}
}

// lost returns the error of a lease that was lost because of cause.
func lost(cause error) error { return fmt.Errorf("%w: %w", ErrLost, cause) }

// ended returns why l ended, or nil.
func (l *Lease) ended() error {
	if cause := l.cause.Load(); cause != nil {
		return *cause
	}
	return nil
}

// Key returns the key as it was given to the Client.
func (l *Lease) Key() string { return l.key }

// Token returns the fencing token if the key was locked with [WithFencing], else 0. It is larger than
// that of every earlier lease of the key, and equal across reentry. Send it with each write, and let
// the resource refuse one that is smaller than the largest it has seen: then a holder that was stopped
// for longer than its lease cannot overwrite what its successor did. Redisson's getToken.
func (l *Lease) Token() int64 { return l.token }

// Context returns a child of the context given to Lock that ends with the lease;
// [context.Cause] then matches [ErrLost], [ErrReleased] or [ErrClosed]. Do the guarded work under
// it. Locking the same key under it, in any goroutine, enters again without a round trip.
//
// The lease itself outlives the cancellation of its parent: it is kept until Unlock, because the
// holder may still be cleaning up.
func (l *Lease) Context() context.Context { return &l.ctx }

// Err returns nil while the lease is trusted, then why it ended: an error that matches
// [ErrLost], [ErrReleased] or [ErrClosed]. It looks at the clock and does not contact Redis, so a
// process that was stopped learns from the first call after it that its time is over.
func (l *Lease) Err() error {
	cause := l.ended()
	if cause == nil {
		if overdue := l.client.watchdog.Check(&l.hold.guard); overdue != nil {
			cause = lost(overdue)
		}
	}
	if cause != nil {
		l.end(cause) // if whoever is about to has not got round to it
	}
	return l.ended()
}

// Until returns when the trust in the lease ends unless it is renewed before. It reads the
// monotonic clock and does not contact Redis.
func (l *Lease) Until() time.Time { return l.hold.guard.Until() }

// TTL asks Redis for how long the key has to live. It fails with [ErrLost] if Redis does not have
// it for this lease. Redisson's remainTimeToLive.
func (l *Lease) TTL(ctx context.Context) (time.Duration, error) {
	type reply struct {
		ttl time.Duration
		err error
	}
	got, err := bounded(ctx, l.client, func() reply {
		b := l.client.rc.B
		replies := l.client.rc.DoMulti(context.Background(),
			b().Hexists().Key(l.key).Field(l.hold.claim.owner).Build(),
			b().Pttl().Key(l.key).Build())
		ours, err := replies[0].AsBool()
		if err != nil {
			return reply{err: err}
		}
		ms, err := replies[1].AsInt64()
		if err == nil && (!ours || ms < 0) {
			err = fmt.Errorf("%w: Redis has no such owner", ErrLost)
		}
		return reply{time.Duration(ms) * time.Millisecond, err}
	})
	if err = cmpOr(err, got.err); err != nil {
		return 0, &Error{Op: "ttl", Key: l.key, Err: refused(err)}
	}
	return got.ttl, nil
}

// Extend makes the key live for at least d from now, however the lease was made: a lease of fixed
// length ends later, a renewed one outlives a crash of its holder by that much. It never shortens.
// It fails with [ErrBadOption] for less than 100ms, with what the lease ended with if it has, and with
// [ErrLost] if Redis does not have it for this lease any more, which ends it. With another error
// the outcome is unknown and the lease stays what it was. Redisson's expire.
func (l *Lease) Extend(ctx context.Context, d time.Duration) error {
	fail := func(err error) error { return &Error{Op: "extend", Key: l.key, Err: err} }
	if d < minLease {
		return fail(fmt.Errorf("%w: %v is shorter than %v", ErrBadOption, d, minLease))
	}
	if err := l.Err(); err != nil {
		return fail(err)
	}
	guard := &l.hold.guard
	got, err := bounded(ctx, l.client, func() error {
		sent := time.Now()
		ttl := max(d, guard.Ends().Sub(sent))
		renewed, err := l.client.renew([]*watchdog.Lease{guard}, []time.Duration{ttl})
		switch {
		case err != nil:
			return refused(err)
		case !renewed[0]:
			l.client.watchdog.Lose(guard, watchdog.ErrRefused)
			return lost(watchdog.ErrRefused)
		}
		l.client.watchdog.Extend(guard, sent, ttl)
		return nil
	})
	if err = cmpOr(err, got); err != nil {
		return fail(err)
	}
	return nil
}

// Unlock gives the lease back; the last lease of a reentrant set frees the key. It runs to its
// end even if ctx is cancelled, within [Options.OpTimeout], so a plain defer is right.
//
// It fails with [ErrReleased] the second time, and with [ErrLost] if the lease was lost; a key
// that is still this lease's is freed all the same. With another error the outcome is unknown: the
// Client goes on trying in the background, and the key expires at the latest.
//
// Redisson's unlock.
func (l *Lease) Unlock(context.Context) error {
	if err := l.hold.unlock(l); err != nil {
		return &Error{Op: "unlock", Key: l.key, Err: err}
	}
	return nil
}

// do calls fn under l and unlocks, also if fn panics.
func (l *Lease) do(ctx context.Context, fn func(ctx context.Context) error) (err error) {
	defer func() { err = join(err, l.Unlock(ctx)) }()
	return fn(l.Context())
}

// leaseContext is the context of a lease. It knows its lease, for reentry, and looks at the clock
// when asked for its error.
type leaseContext struct {
	context.Context

	lease *Lease
}

func (x *leaseContext) Err() error {
	if x.Context.Err() == nil {
		_ = x.lease.Err()
	}
	return x.Context.Err()
}

func (x *leaseContext) Value(key any) any {
	switch key := key.(type) {
	case leaseKey:
		if key.client == x.lease.client && key.key == x.lease.key {
			return x.lease
		}
	case tokenKey:
		if x.lease.token != 0 {
			return x.lease.token
		}
	}
	return x.Context.Value(key)
}

// leaseKey asks a context for the innermost lease of a key of a client.
type leaseKey struct {
	client *Client
	key    string
}

// leaseFrom returns the innermost lease of key that ctx is under, or nil.
func leaseFrom(ctx context.Context, c *Client, key string) *Lease {
	l, _ := ctx.Value(leaseKey{c, key}).(*Lease)
	return l
}

// bounded runs send beside the caller, who returns when ctx ends or Options.OpTimeout is over.
func bounded[T any](ctx context.Context, c *Client, send func() T) (T, error) {
	got := make(chan T, 1)
	c.spawn(func() { got <- send() })
	timer := time.NewTimer(c.opts.OpTimeout)
	defer timer.Stop()
	var none T
	select {
	case reply := <-got:
		return reply, nil
	case <-ctx.Done():
		return none, ended(ctx)
	case <-timer.C:
		return none, fmt.Errorf("no answer within %v", c.opts.OpTimeout)
	}
}
