package lockrt

import (
	"context"
	"crypto/rand"
	hexes "encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// A PermitSemaphore grants permits that are leases: each is renewed while its holder lives, comes back
// when it has died, and tells its holder when it is lost. It names a key and holds no state. Redisson's
// RPermitExpirableSemaphore, whose permits nothing renews.
//
// Redis keeps with each permit when it expires. Redisson takes that time from its clients, this library from
// the server, so that the clocks of its clients do not matter. Those of Java programs that use the same
// semaphore do: one that is ahead of the server by more than two thirds of the watchdog time takes back
// permits that are held, which their holders learn at the next renewal.
//
// Goroutines of one process are served in the order in which they asked; processes race for what
// was given back.
type PermitSemaphore struct {
	c       *Client
	key     string
	permits int
	opts    []LockOption
}

// PermitSemaphore returns the semaphore named key. It does not contact Redis: make one for each use or
// keep one. If it does not exist, the first that acquires creates it with that many permits; with 0
// only [PermitSemaphore.TrySetPermits] and [PermitSemaphore.SetPermits] do, as in Redisson. An unusable key,
// number or option is reported by what uses it. Redisson's getPermitExpirableSemaphore.
func (c *Client) PermitSemaphore(key string, permits int, opts ...LockOption) *PermitSemaphore {
	return &PermitSemaphore{c: c.made(), key: key, permits: permits, opts: opts}
}

// Key returns the name of the semaphore, which is its key in Redis.
func (s *PermitSemaphore) Key() string { return orZero(s).key }

// Acquire takes one permit and waits until there is one, ctx ends or [WithWait] runs out. ctx becomes the
// parent of [Permit.Context]. With [WithLease] it is not renewed. After an error nothing is taken. It
// fails like [Mutex.Lock]. Redisson's acquire and tryAcquire(waitTime, leaseTime, unit).
func (s *PermitSemaphore) Acquire(ctx context.Context, opts ...LockOption) (*Permit, error) {
	return s.acquire(ctx, "acquire", 1, opts)
}

// TryAcquire takes one permit if there is one now, and fails with [ErrNotAcquired] if not, or if others
// of this process wait already. Redisson's tryAcquire.
func (s *PermitSemaphore) TryAcquire(ctx context.Context, opts ...LockOption) (*Permit, error) {
	return s.TryAcquireN(ctx, 1, opts...)
}

// AcquireN is Acquire of n permits, all at once, that are given back, renewed and lost together, unless
// [PermitSemaphore.Release] gives back some of them before. It fails with
// [ErrBadOption] for n < 1; a semaphore that has fewer in all makes it wait for as long. Redisson's acquire(permits).
func (s *PermitSemaphore) AcquireN(ctx context.Context, n int, opts ...LockOption) (*Permit, error) {
	return s.acquire(ctx, "acquire", n, opts)
}

// TryAcquireN is TryAcquire of n permits. Redisson's tryAcquire(permits).
func (s *PermitSemaphore) TryAcquireN(ctx context.Context, n int, opts ...LockOption) (*Permit, error) {
	return s.acquire(ctx, "try acquire", n, append(slices.Clip(opts), once))
}

// Do acquires one permit, calls fn with its context and gives it back, also if fn panics. Its error
// joins fn's own, the loss of the permit if it was lost while fn ran, even if fn returned nil, and a
// failure to give back.
func (s *PermitSemaphore) Do(ctx context.Context, fn func(ctx context.Context, permit *Permit) error, opts ...LockOption) (err error) {
	if fn == nil {
		return noFunction("do", s.Key())
	}
	p, err := s.Acquire(ctx, opts...)
	if err != nil {
		return err
	}
	defer func() { err = afterLoss(ctx, err, p.Release(ctx)) }()
	if s.c.opts.ProfileLabels {
		under, end := profiled(p.Context(), p.label())
		defer end()
		return fn(under, p)
	}
	return fn(p.Context(), p)
}

// Release gives permits back by their ids, whoever has them: all of them, or none and an error that matches
// [ErrLost] if one of them expired, was given back or never was. A [Permit] of this Client that has
// some of them goes on with the others, and is lost if it has no others. One of another process is lost, and its others
// stay until they expire or their holder releases them. It runs to its end like [Permit.Release]. Redisson's release
// and tryRelease by id.
func (s *PermitSemaphore) Release(ctx context.Context, ids ...string) error {
	s = orZero(s)
	raw, err := rawIDs(ids)
	if err != nil {
		return &Error{Op: "release", Key: s.key, Err: err}
	}
	if raw == "" {
		return nil
	}
	_, err = s.c.change(ctx, "release", kindPermit, s.key, true, func(ctx context.Context, ct *counter) (int64, error) {
		touched := ct.holding(raw)
		for _, p := range touched {
			p.releasing.Add(1)
		}
		defer func() {
			for _, p := range touched {
				p.releasing.Add(-1)
			}
		}()
		permits := s.c.wire.PermitSemaphore(s.key)
		valid, err := ct.once(ctx, true, func(r protocol.Request) (int64, error) {
			n, err := s.c.net.Run(permits.ReleaseAll(r, raw)).Int()
			if err == nil {
				ct.wake()
			}
			return n, err
		})
		if err == nil && valid == 0 {
			err = fmt.Errorf("%w: not all of the permits are there any more; none was given back", ErrLost)
		}
		if err == nil {
			ct.took(touched, raw)
		}
		return valid, err
	})
	return err
}

// UpdateLease has the permit with that id end in d from now, sooner or later than it would, or never with
// [UntilDone], and reports whether there is such a permit. A [Permit] of this Client that has this one id is trusted
// for as long, and one that is renewed goes on being renewed; use [Permit.Extend] for those. A holder elsewhere that
// asks for its [PermitSemaphore.TTL] trusts it for longer from then on. Redisson's updateLeaseTime.
func (s *PermitSemaphore) UpdateLease(ctx context.Context, id string, d time.Duration) (bool, error) {
	s = orZero(s)
	if d != UntilDone && d < minLease {
		return false, &Error{Op: "update lease", Key: s.key, Err: tooShort("lease", d)}
	}
	left, err := s.lease(ctx, "update lease", id, &d)
	return err == nil && left != protocol.NoPermit, err
}

// TTL asks Redis for how long the permit with that id lasts if it is not renewed, negative if for ever. It fails
// with [ErrLost] if it expired, was given back or never was. A [Permit] of this Client that has this one id and a
// fixed length is trusted for as long from then on, if somebody has prolonged it. Redisson's getLeaseTime.
func (s *PermitSemaphore) TTL(ctx context.Context, id string) (time.Duration, error) {
	s = orZero(s)
	left, err := s.lease(ctx, "ttl", id, nil)
	switch {
	case err != nil:
		return 0, err
	case left == protocol.NoPermit:
		return 0, &Error{Op: "ttl", Key: s.key, Err: fmt.Errorf("%w: Redis has no such permit", ErrLost)}
	}
	return time.Duration(left) * time.Millisecond, nil
}

// Available asks Redis how many permits are available: 0 if the semaphore does not exist, or as many as it
// will be created with; less than 0 if more are taken than there are in all. Redisson's availablePermits.
func (s *PermitSemaphore) Available(ctx context.Context) (int, error) {
	s = orZero(s)
	free, _, err := s.count(ctx, "available")
	return free, err
}

// Acquired asks Redis how many permits are taken. Redisson's acquiredPermits.
func (s *PermitSemaphore) Acquired(ctx context.Context) (int, error) {
	s = orZero(s)
	_, taken, err := s.count(ctx, "acquired")
	return taken, err
}

// Total asks Redis how many permits there are, taken or not. Redisson's getPermits.
func (s *PermitSemaphore) Total(ctx context.Context) (int, error) {
	s = orZero(s)
	free, taken, err := s.count(ctx, "total")
	return free + taken, err
}

// TrySetPermits creates the semaphore with n permits and reports whether it did; one that exists stays what it
// is. After ttl it is gone, with the permits that are taken; 0 is for ever. Redisson's trySetPermits.
func (s *PermitSemaphore) TrySetPermits(ctx context.Context, n int, ttl time.Duration) (bool, error) {
	s = orZero(s)
	return trySetPermits(ctx, s.c, kindPermit, s.key, n, ttl)
}

// SetPermits sets how many permits there are in all, taken or not. If more are taken, none is available
// until enough came back. Redisson's setPermits.
func (s *PermitSemaphore) SetPermits(ctx context.Context, n int) error {
	s = orZero(s)
	if err := enough(n, 0); err != nil {
		return &Error{Op: "set permits", Key: s.key, Err: err}
	}
	_, err := s.c.change(ctx, "set permits", kindPermit, s.key, false, func(ctx context.Context, ct *counter) (int64, error) {
		return ct.insist(ctx, false, func() {}, func() (int64, error) {
			permits := s.c.wire.PermitSemaphore(s.key)
			return s.c.net.Run(permits.SetTotal(n)).Int()
		})
	})
	return err
}

// Resize changes how many permits there are by delta, and reports whether the semaphore existed; one that did not exist has
// delta then. With an error the outcome is unknown. Redisson's addPermits.
func (s *PermitSemaphore) Resize(ctx context.Context, delta int) (bool, error) {
	s = orZero(s)
	return resize(ctx, s.c, kindPermit, s.key, delta)
}

func (s *PermitSemaphore) acquire(ctx context.Context, op string, n int, opts []LockOption) (*Permit, error) {
	s, ctx = orZero(s), present(ctx)
	a := attempt{c: s.c, op: op, kind: kindPermit, key: s.key}
	a.begin(ctx, s.opts, opts)
	if err := cmpOr(enough(n, 1), enough(s.permits, 0)); err != nil {
		return nil, a.failed(err)
	}
	w, err := a.count(ctx, func(w *waiter) {
		w.demand = demand{n: n, create: s.permits, permit: newPermit(s.c, s.key, ctx), ids: newIDs(n)}
	})
	if err != nil {
		return nil, a.failed(err)
	}
	a.hands(w.demand.permit.leaseCore, 0)
	return w.demand.permit, nil
}

// lease asks how long a permit lasts in milliseconds, after setting that unless set is nil. What this process has of it is
// trusted for as long.
func (s *PermitSemaphore) lease(ctx context.Context, op, id string, set *time.Duration) (int64, error) {
	raw, err := rawIDs([]string{id})
	if err != nil {
		return 0, &Error{Op: op, Key: s.key, Err: err}
	}
	got, err := s.question(ctx, op, func() ([]int64, error) {
		sent := now()
		permits := s.c.wire.PermitSemaphore(s.key)
		cmd := permits.Lease(raw)
		if set != nil {
			cmd = permits.SetLease(raw, *set)
		}
		left, err := s.c.net.Run(cmd).Int()
		switch {
		case err == nil:
			s.lasts(raw, sent, left, set != nil)
		case set != nil && transport.Unknown(err):
			left = set.Milliseconds()
			if *set == UntilDone {
				left = -1
			}
			s.lasts(raw, sent, left, true)
		}
		return []int64{left}, err
	})
	if err != nil {
		return 0, err
	}
	return got[0], nil
}

// lasts has the permit of this process that has the one id be trusted for as long as it lasts, counted from sent: longer if it
// is not renewed, or less if it was set to less. Others that were taken together with it end when they end.
func (s *PermitSemaphore) lasts(id string, sent time.Time, left int64, set bool) {
	if left == protocol.NoPermit {
		return
	}
	ttl := time.Duration(left) * time.Millisecond
	if left < 0 {
		ttl = forEver
	}
	s.c.mu.Lock()
	ct := s.c.counters[kindPermit+" "+s.key]
	s.c.mu.Unlock()
	if ct == nil {
		return
	}
	for _, p := range ct.holding(id) {
		if set {
			s.c.watchdog.Shorten(p.guard, sent, ttl)
		}
		if !p.guard.Renew && p.owned() == id {
			s.c.watchdog.Extend(p.guard, sent, ttl)
		}
	}
}

// forEver is how long a permit lasts that does not expire.
const forEver = 100 * 365 * 24 * time.Hour

func (s *PermitSemaphore) count(ctx context.Context, op string) (free, taken int, err error) {
	got, err := s.question(ctx, op, func() ([]int64, error) {
		permits := s.c.wire.PermitSemaphore(s.key)
		return s.c.net.Run(permits.Count(s.permits)).Ints()
	})
	if err != nil {
		return 0, 0, err
	}
	return protocol.ReadPermitCount(got)
}

func (s *PermitSemaphore) question(ctx context.Context, op string, ask func() ([]int64, error)) ([]int64, error) {
	type reply struct {
		n   []int64
		err error
	}
	if err := s.c.checkKey(s.key); err != nil {
		return nil, &Error{Op: op, Key: s.key, Err: err}
	}
	got, err := bounded(ctx, s.c, func() reply {
		n, err := ask()
		return reply{n, err}
	})
	if err = cmpOr(err, got.err); err != nil {
		return nil, &Error{Op: op, Key: s.key, Err: refused(err)}
	}
	return got.n, nil
}

// A Permit is one or more permits of a [PermitSemaphore] that one caller was granted. It ends once: by
// [Permit.Release], by loss, or by closing the [Client]. Its context, Err, Until and Extend are those
// of a [Lease]. It is safe for concurrent use.
type Permit struct {
	*leaseCore // that of own

	own     Lease // what it is as a part of a MultiLock
	counter *counter
	lease   watchdog.Lease

	releasing atomic.Int32 // calls under way that give back some of it

	// Guarded by the counter's lock.
	ids      string // of those that it has
	released bool
	over     bool  // released or lost
	lost     error // why it was lost, or nil
}

// A permitHolding is a permit as the watchdog sees it.
type permitHolding struct{ *Permit }

func (permitHolding) Kind() string       { return kindPermit }
func (p permitHolding) Owner() string    { return p.owned() }
func (p permitHolding) Lost(cause error) { p.revoke(cause) }

// fewer reports whether some of the ids were given back here, or are about to be.
func (p permitHolding) fewer(ids string) bool { return p.releasing.Load() > 0 || p.owned() != ids }

// owned returns the ids that it has.
func (p *Permit) owned() string {
	p.counter.mu.Lock()
	defer p.counter.mu.Unlock()
	return p.ids
}

// newPermit prepares a permit under parent, to be given to a waiter.
func newPermit(c *Client, key string, parent context.Context) *Permit {
	p := &Permit{}
	p.leaseCore = &p.own.leaseCore
	p.own.grant = p
	p.prepare(c, kindPermit, key, parent)
	return p
}

// reenter is never asked: no context is under the lease of a permit, so that each call takes one of its own.
func (p *Permit) reenter(*Lease, *Lease) bool { return false }

func (p *Permit) unlock(*Lease) error { return p.release() }

// granted returns the leaseCore of p, or nil if it is that of no grant.
func (p *Permit) granted() *leaseCore {
	if p == nil || p.counter == nil {
		return nil
	}
	return p.leaseCore
}

// Key returns the name of the semaphore.
func (p *Permit) Key() string { return p.granted().Key() }

// Context is that of a lease: see [Lease.Context]. Each Acquire under it takes a permit of its own.
func (p *Permit) Context() context.Context { return p.granted().Context() }

// Err is that of a lease: see [Lease.Err].
func (p *Permit) Err() error { return p.granted().Err() }

// Until is that of a lease: see [Lease.Until].
func (p *Permit) Until() time.Time { return p.granted().Until() }

// Extend is that of a lease: see [Lease.Extend].
func (p *Permit) Extend(ctx context.Context, d time.Duration) error {
	return p.granted().Extend(ctx, d)
}

// PermitID returns the id of the first permit in Redis, 32 hexadecimal digits, as Redisson shows it; it is empty if
// [PermitSemaphore.Release] gave back all.
func (p *Permit) PermitID() string {
	if ids := p.PermitIDs(); len(ids) > 0 {
		return ids[0]
	}
	return ""
}

// PermitIDs returns the ids of all the permits that it has, without those that [PermitSemaphore.Release] gave back before.
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

// Release gives the permit back. Its context is for values alone, as that of [Lease.Unlock]: the call does not end with it, but
// within [Options.OpTimeout], so a plain defer is right.
//
// It fails with [ErrReleased] the second time, and with [ErrLost] if the permit was lost; what is still
// there of it is given back all the same. With another error the outcome is unknown: the Client goes on
// trying in the background for a minute, and the permit expires at the latest. Redisson's release.
func (p *Permit) Release(context.Context) error {
	if p == nil || p.counter == nil {
		return &Error{Op: "release", Err: errNoPermit}
	}
	err := p.release()
	p.report()
	if err != nil {
		return failedAt("release", p.key, err)
	}
	return nil
}

func (p *Permit) release() error {
	p.counter.mu.Lock()
	if p.released {
		p.counter.mu.Unlock()
		return ErrReleased
	}
	was, cause, ids := p.over, p.lost, p.ids
	p.released, p.over = true, true
	delete(p.counter.permits, p)
	p.counter.mu.Unlock()

	if was {
		p.end(cause) // if whoever lost it has not got round to it
		if ct, err := p.client.enterCounter(kindPermit, p.key, true); err == nil {
			p.client.spawn(func() {
				defer ct.exit()
				_, _, _ = ct.giveBack(ids) // what has not expired: nobody works under it any more
			})
		}
		return cause
	}
	p.client.watchdog.Stop(p.guard)
	p.end(ErrReleased) // before anybody else can get it
	valid, sent, err := p.counter.giveBack(ids)
	p.client.held(-1)
	p.counter.quit()
	switch cause := p.ended(); {
	case err != nil:
		return err
	case errors.Is(cause, ErrLost):
		return cause // by the clock, before the watchdog could say so
	case valid*idLength < int64(len(ids)) && !sent:
		return lost(watchdog.ErrRefused)
	}
	return nil
}

// revoke ends a permit that Redis has given to somebody else, or may soon. What Redis still has of it stays until it
// expires, as was promised, or is released: whoever has it may still be at work.
func (p *Permit) revoke(cause error) {
	p.counter.mu.Lock()
	if p.over {
		p.counter.mu.Unlock()
		return // it is being given back
	}
	p.over, p.lost = true, lost(cause)
	delete(p.counter.permits, p)
	p.counter.mu.Unlock()
	p.end(p.lost)
	p.client.held(-1)
	p.counter.quit()
}

// A permitLocker locks by taking one permit. It is a Locker only for what is built of Lockers: the permit is
// renewed, lost and given back as a lease is, but others can have one too.
type permitLocker struct{ *PermitSemaphore }

var _ Locker = permitLocker{}

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

// permitCounter is the counting of a PermitSemaphore.
type permitCounter struct{ counter *counter }

func newPermitCounter(ct *counter) counting { return permitCounter{ct} }

func (s permitCounter) channel() string { return protocol.CountChannel(s.counter.key) }

func (s permitCounter) ask(b *batchRequest, wanted bool) (int, time.Duration, error) {
	var grants func(int64) bool // nil: what was taken is to be given back
	var wants []protocol.Permits
	if wanted {
		grants = takesSome
		for i, demand := range b.demands {
			wants = append(wants, protocol.Permits{IDs: demand.ids, Lease: b.waiters[i].terms.ttl})
		}
	}
	var reply protocol.PermitVerdict
	permits := s.counter.c.wire.PermitSemaphore(s.counter.key)
	numbers, err := s.counter.c.net.RunGrant(permits.AcquirePermits(s.counter.asked(b), wants), grants).Ints()
	if err == nil {
		reply, err = protocol.ReadPermits(numbers)
	}
	if err == nil && reply.Served == protocol.Outdated {
		err = protocol.ErrOutdated
	}
	if err != nil {
		return 0, 0, err
	}
	next := pollCounted
	if reply.Next >= 0 {
		next = min(next, reply.Next)
	}
	return int(reply.Served), next, nil
}

func (s permitCounter) grant(w *waiter, sent time.Time) bool {
	ct := s.counter
	if !time.Now().Before(sent.Add(w.terms.ttl - watchdog.Margin(w.terms.ttl))) {
		w.demand.ids = newIDs(w.demand.n) // those are given back
		return false
	}
	p := w.demand.permit
	p.counter, p.ids, p.began, p.name = ct, w.demand.ids, monotonic.Now(), w.call.name // nobody else knows it yet
	p.lease = watchdog.Lease{
		Holding: permitHolding{p},
		TTL:     w.terms.ttl,
		Renew:   w.terms.renew,
		// What changes all the time, because others take and give back, is not worth watching.
		Unwatched: true,
	}
	p.guard = &p.lease
	ct.permits[p] = struct{}{}
	ct.stay()
	ct.c.held(1)
	if !w.terms.polling {
		ct.c.hearFor(ct.key) // that the server may have lost it
	}
	ct.c.watchdog.Start(p.guard, sent, w.terms.ttl)
	if w.limit > 0 {
		ct.c.watchdog.Limit(p.guard, p.began.Add(w.limit).Std())
	}
	return true
}

func (s permitCounter) undo(w demand) {
	if w.permit.counter != nil && w.permit.owned() == w.ids { // it was given
		_ = w.permit.release()
		return
	}
	_, _, _ = s.counter.giveBack(w.ids)
}

// giveBack gives permits back until Redis has answered, and wakes who waits for them here. It returns how many had not
// expired, and whether an earlier try, whose reply was lost, may have done it.
func (ct *counter) giveBack(ids string) (valid int64, sent bool, err error) {
	type outcome struct {
		valid int64
		sent  bool
	}
	var tries bool // of the goroutine that sends
	done := make(chan outcome, 1)
	permits := ct.c.wire.PermitSemaphore(ct.key)
	_, err = ct.insist(context.Background(), true, func() {}, func() (int64, error) {
		valid, err := ct.c.net.Run(permits.Release(ids)).Int()
		if err == nil {
			done <- outcome{valid, tries}
			ct.wake()
		}
		tries = tries || transport.Unknown(err)
		return valid, err
	})
	if err != nil {
		return 0, false, err
	}
	o := <-done
	return o.valid, o.sent, nil
}

// holding returns the permits of this process that have some of the ids.
func (ct *counter) holding(ids string) []*Permit {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	var some []*Permit
	for p := range ct.permits {
		if len(without(p.ids, ids)) < len(p.ids) {
			some = append(some, p)
		}
	}
	return some
}

// took has permits of this process go on without the ids, which were given back, and ends those that have no others.
func (ct *counter) took(from []*Permit, ids string) {
	for _, p := range from {
		ct.mu.Lock()
		left := without(p.ids, ids)
		if left != "" {
			p.ids = left
		}
		ct.mu.Unlock()
		if left == "" {
			ct.c.watchdog.Lose(p.guard, watchdog.ErrRefused)
		}
	}
}

// without returns the ids that are not among some.
func without(ids, some string) string {
	gone := map[string]bool{}
	for id := range slices.Chunk([]byte(some), idLength) {
		gone[string(id)] = true
	}
	var left []byte
	for id := range slices.Chunk([]byte(ids), idLength) {
		if !gone[string(id)] {
			left = append(left, id...)
		}
	}
	return string(left)
}

// idLength is how many bytes the id of a permit has in Redis.
const idLength = 16

// newIDs returns ids for n permits that nobody else has.
func newIDs(n int) string {
	raw := make([]byte, n*idLength)
	_, _ = rand.Read(raw) // never fails: it ends the process instead
	return string(raw)
}

// rawIDs returns ids as Redis has them, each once.
func rawIDs(ids []string) (string, error) {
	var raw strings.Builder
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		b, err := hexes.DecodeString(id)
		if err != nil || len(b) != idLength {
			return "", fmt.Errorf("%w: the permit id %q is not 32 hexadecimal digits", ErrBadOption, id)
		}
		raw.Write(b)
	}
	return raw.String(), nil
}
