package lockrt

import (
	"context"
	hexes "encoding/hex"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// A Permit is one or more permits of a [PermitSemaphore], granted to one call. It ends once: by Release, by loss, or by closing the
// [Client].
type Permit struct {
	*leaseCore // the leaseCore of own

	own     Lease // the lease that it is as a part of a MultiLock
	counter *counter
	lease   watchdog.Lease

	releasing atomic.Int32 // calls under way that release some of it

	// Guarded by the counter's lock.
	ids   string // of its permits
	state permitState
	lost  error // why it was lost, or nil
}

// A permitState says how far a permit has come.
type permitState uint8

const (
	permitHeld permitState = iota
	permitLost
	permitReleased // by its holder, perhaps after it was lost
)

// A permitHolding is a permit as the watchdog sees it.
type permitHolding struct{ *Permit }

func (permitHolding) Kind() string       { return kindPermit }
func (p permitHolding) Owner() string    { return p.owned() }
func (p permitHolding) Lost(cause error) { p.revoke(cause) }

// fewer reports whether this process has released some of the ids, or is about to.
func (p permitHolding) fewer(ids string) bool { return p.releasing.Load() > 0 || p.owned() != ids }

// owned returns its ids.
func (p *Permit) owned() string {
	p.counter.mu.Lock()
	defer p.counter.mu.Unlock()
	return p.ids
}

// newPermit prepares a permit under parent, for a waiter.
func newPermit(c *Client, key string, parent context.Context) *Permit {
	p := &Permit{}
	p.leaseCore = &p.own.leaseCore
	p.own.grant = p
	p.prepare(c, kindPermit, key, parent)
	return p
}

// reenter is never called: no context is under the lease of a permit, so that each call takes one of its own.
func (p *Permit) reenter(*Lease, *Lease) bool { return false }

func (p *Permit) unlock(*Lease) error { return p.release() }

// granted returns the leaseCore of p, or nil without a grant.
func (p *Permit) granted() *leaseCore {
	if p == nil || p.counter == nil {
		return nil
	}
	return p.leaseCore
}

// Key returns the name of the semaphore.
func (p *Permit) Key() string { return p.granted().Key() }

// Context is [Lease.Context]. Each Acquire under it takes a permit of its own.
func (p *Permit) Context() context.Context { return p.granted().Context() }

// Err is [Lease.Err].
func (p *Permit) Err() error { return p.granted().Err() }

// Until is [Lease.Until].
func (p *Permit) Until() time.Time { return p.granted().Until() }

// Extend is [Lease.Extend].
func (p *Permit) Extend(ctx context.Context, d time.Duration) error {
	return p.granted().Extend(ctx, d)
}

// PermitID returns the id of the first permit in Redis, 32 hexadecimal digits as in Redisson, or "" if
// [PermitSemaphore.Release] released all.
func (p *Permit) PermitID() string {
	if ids := p.PermitIDs(); len(ids) > 0 {
		return ids[0]
	}
	return ""
}

// PermitIDs returns the ids of all permits that it still has.
func (p *Permit) PermitIDs() []string {
	if p.granted() == nil {
		return nil
	}
	raw := p.owned()
	ids := make([]string, 0, len(raw)/idLength)
	for id := range slices.Chunk([]byte(raw), idLength) {
		ids = append(ids, hexes.EncodeToString(id))
	}
	return ids
}

// Release releases the permit. Its context and errors are those of [Lease.Unlock]; Release also releases the rest of a lost
// permit. The Client goes on trying for a minute. Redisson's release.
func (p *Permit) Release(context.Context) error {
	if p == nil || p.counter == nil {
		return &Error{Op: "release", Err: errNoPermit}
	}
	err := p.release()
	p.report()
	if err != nil {
		return &Error{Op: "release", Key: p.key, Name: p.name, Err: bare(p.key, err)}
	}
	return nil
}

func (p *Permit) release() error {
	p.counter.mu.Lock()
	if p.state == permitReleased {
		p.counter.mu.Unlock()
		return ErrReleased
	}
	was, cause, ids := p.state, p.lost, p.ids
	p.state = permitReleased
	delete(p.counter.permits, p)
	p.counter.mu.Unlock()

	if was == permitLost {
		p.end(cause) // in case the caller that lost it has not ended it yet
		if ct, err := p.client.permits.enter(p.key, true); err == nil {
			p.client.spawn(func() {
				defer ct.exit()
				_, _, _ = ct.giveBack(ids) // those that have not expired: no caller works under it any more
			})
		}
		return cause
	}
	p.client.watchdog.Stop(p.guard)
	p.end(ErrReleased) // before another caller can get it
	valid, sent, err := p.counter.giveBack(ids)
	p.client.held(-1)
	p.counter.quit()
	switch cause := p.ended(); {
	case err != nil:
		return err
	case errors.Is(cause, ErrLost):
		return cause // by the clock, before the watchdog could report it
	case valid*idLength < int64(len(ids)) && !sent:
		return lost(watchdog.ErrRefused)
	}
	return nil
}

// revoke ends a permit that Redis has given to another holder, or may soon. In Redis it stays until it expires, as was
// promised, or is released: its holder may still be at work.
func (p *Permit) revoke(cause error) {
	p.counter.mu.Lock()
	if p.state != permitHeld {
		p.counter.mu.Unlock()
		return // its release is under way
	}
	p.state, p.lost = permitLost, lost(cause)
	delete(p.counter.permits, p)
	p.counter.mu.Unlock()
	p.end(p.lost)
	p.client.held(-1)
	p.counter.quit()
}

// A permitLocker locks by acquiring one permit. It is a Locker only for locks that consist of Lockers: the permit is
// renewed, lost and released as a lease is, but others can have one too.
type permitLocker struct{ *PermitSemaphore }

func (s permitLocker) Lock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	p, err := s.Acquire(ctx, opts...)
	if err != nil {
		return nil, err
	}
	return &p.own, nil
}

func (s permitLocker) TryLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return s.Lock(ctx, append(slices.Clip(opts), once)...)
}
