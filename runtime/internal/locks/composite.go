package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/trace"
)

// A compositeLease has the parts of a lease that consists of several. It is trusted while at least needs of its parts
// are: all parts of a MultiLock, a majority of a RedLock. Each part is renewed, lost and released by itself; the whole
// only counts them.
type compositeLease struct {
	whole *Lease
	needs int
	most  int    // largest number of its parts
	after func() // is called when the whole was released, and when it is lost; or nil

	// replace releases a part that has ended before the whole, and may get another one; if nil, the part stays.
	replace func(co *compositeLease, part *Lease)

	// pass hands the parts to another waiter of this process. It returns the composite lease of that waiter, or nil,
	// and the parts that are left to release. pass may be nil.
	pass func(parts []*Lease) (successor *compositeLease, rest []*Lease)

	tr *trace.Caller // reports what becomes of the lease of a RedLock, for tests; or nil

	unlocked atomic.Bool // Unlock was called

	mu        sync.Mutex // guards the rest; never held during a call of a part
	parts     []*Lease
	ends      time.Time // the time until which the parts were extended; zero if they were not
	state     compositeState
	successor *compositeLease // gets the parts that join later; or nil
	late      []*Lease        // parts that joined while it was passed
}

// A compositeState says how far a composite lease has come.
type compositeState uint8

const (
	compositeHeld    compositeState = iota
	compositePassing                // it is unlocked, and its successor is not known yet
	compositeOver                   // it is unlocked: a part that joins goes to the successor, or is released
)

// compose makes l the lease of all parts together, trusted while needs of them are.
func compose(l *Lease, needs int, parts []*Lease) {
	co := &compositeLease{whole: l, needs: needs, most: len(parts), parts: parts}
	co.begin()
}

// begin makes the whole the lease of all parts.
func (co *compositeLease) begin() {
	co.whole.grant, co.whole.more().parts, co.whole.began = co, co, monotonic.Now()
	for _, part := range slices.Clone(co.parts) {
		co.watch(part)
	}
}

// watch registers for the end of a part.
func (co *compositeLease) watch(part *Lease) {
	part.more().within.Store(co.whole)
	if cause := part.ended(); cause != nil {
		co.look(cause)
	}
}

// join adds part to the parts. It releases the part if the whole was unlocked, or is not trusted any more: by the
// clock, too, since another holder may have had the lock by then.
func (co *compositeLease) join(part *Lease) {
	stamp(part, co.whole.token)
	trusted := co.whole.Err() == nil
	co.mu.Lock()
	joins, waits, successor := trusted && co.state == compositeHeld, co.state == compositePassing, co.successor
	switch {
	case joins:
		co.tr.Part(trace.Admits, 0, part.traced())
		co.parts = append(co.parts, part)
	case waits:
		co.late = append(co.late, part)
	}
	co.mu.Unlock()
	switch {
	case joins:
		co.watch(part)
	case waits:
	case successor != nil:
		successor.join(part)
	default:
		_ = part.grant.unlock(part)
	}
}

// bearer returns the composite lease that has the parts now: co, or the one that they went to, or
// nil if none has them.
func (co *compositeLease) bearer() *compositeLease {
	for co != nil {
		co.mu.Lock()
		state, successor := co.state, co.successor
		co.mu.Unlock()
		switch {
		case state == compositePassing:
			return co
		case state == compositeOver:
			co = successor
		case co.whole.Err() != nil:
			return nil
		default:
			return co
		}
	}
	return nil
}

// all returns the parts.
func (co *compositeLease) all() []*Lease {
	co.mu.Lock()
	defer co.mu.Unlock()
	return slices.Clone(co.parts)
}

// part returns the lease of key among the parts, or among the parts of a part, or nil.
func (co *compositeLease) part(c *clientCore, key string) *Lease {
	for _, part := range co.all() {
		if parts := part.rare().parts; parts != nil {
			if inner := parts.part(c, key); inner != nil {
				return inner
			}
		} else if part.client == c && part.key == key {
			return part
		}
	}
	return nil
}

// over reports the end of the whole.
func (co *compositeLease) over() {
	if co.after != nil {
		co.after()
	}
}

// compositeOf returns what l has as the lease of a MultiLock or of a RedLock, or nil.
func compositeOf(l *Lease) *compositeLease {
	co, _ := l.rare().parts.(*compositeLease)
	return co
}

// look ends the whole if too many parts have ended, the last one because of cause. Otherwise it replaces the lost
// parts.
func (co *compositeLease) look(cause error) {
	co.mu.Lock()
	left := 0
	var gone []*Lease
	for _, part := range co.parts {
		switch ended := part.ended(); {
		case ended == nil:
			left++
		case errors.Is(ended, failure.ErrLost):
			gone = append(gone, part)
		}
	}
	enough := left >= co.needs
	if !enough || co.state != compositeHeld || co.replace == nil {
		gone = nil
	}
	co.parts = slices.DeleteFunc(co.parts, func(part *Lease) bool { return slices.Contains(gone, part) })
	co.mu.Unlock()
	if !enough {
		co.whole.end(cause)
		if co.whole.client.opts.Hooks.Ended != nil && !co.unlocked.Load() {
			co.whole.reportLater() // its parts were released one by one
		}
		co.spend()
	}
	for _, part := range gone {
		co.replace(co, part)
	}
}

// spend stops the renewal of the rest of a lost whole, if its parts would have been replaced. Other processes need the
// servers, and the holder that lost it may never call Unlock.
func (co *compositeLease) spend() {
	if co.replace == nil || !errors.Is(co.whole.ended(), failure.ErrLost) {
		return
	}
	for _, part := range co.all() {
		if g, _, ok := mutexGrant(part.grant); ok {
			g.expire(part)
		}
	}
}

// check returns nil while enough parts are trusted, by the clock too; else the reason why one of the others is not.
func (co *compositeLease) check() (cause error) {
	left := 0
	for _, part := range co.all() {
		if err := part.Err(); err == nil {
			left++
		} else {
			cause = err
		}
	}
	if left < co.needs {
		return cause
	}
	return nil
}

// until returns the time from which so many parts are not trusted that the whole is not.
func (co *compositeLease) until() time.Time {
	parts := co.all()
	ends := make([]time.Time, len(parts))
	for i, part := range parts {
		ends[i] = part.Until()
	}
	slices.SortFunc(ends, func(a, b time.Time) int { return b.Compare(a) })
	return ends[co.needs-1]
}

func (co *compositeLease) ttl(ctx context.Context) (time.Duration, error) {
	parts := co.all()
	ttls, err := most(parts, len(parts), func(part *Lease) (time.Duration, error) { return part.TTL(ctx) })
	if len(ttls) < co.needs {
		return 0, err
	}
	slices.Sort(ttls)
	return ttls[len(ttls)-co.needs], nil
}

func (co *compositeLease) extend(ctx context.Context, d time.Duration) error {
	ends := now().Add(d)
	_, err := most(co.all(), co.needs, func(part *Lease) (struct{}, error) { return struct{}{}, part.Extend(ctx, d) })
	if err == nil {
		co.mu.Lock()
		defer co.mu.Unlock()
		if ends.After(co.ends) {
			co.ends = ends
		}
	}
	return err
}

// extended returns the time until which the parts were extended.
func (co *compositeLease) extended() time.Time {
	co.mu.Lock()
	defer co.mu.Unlock()
	return co.ends
}

// reenter is never called: a caller that re-enters the whole re-enters the parts.
func (co *compositeLease) reenter(*Lease, *Lease) bool { return false }

// unlock ends l and all its parts, whatever the result for each. It waits until so many are released that, together
// with those it never had, another caller can hold a whole; it releases the others in the background.
func (co *compositeLease) unlock(l *Lease) error {
	if co.unlocked.Swap(true) {
		return failure.ErrReleased
	}
	co.mu.Lock()
	co.state = compositeOver
	if co.pass != nil {
		co.state = compositePassing
		co.tr.Says(trace.Frees)
	}
	parts := slices.Clone(co.parts)
	co.mu.Unlock()

	l.end(failure.ErrReleased)
	if co.pass != nil {
		var successor *compositeLease
		if !errors.Is(l.ended(), failure.ErrLost) {
			successor, parts = co.pass(parts)
		}
		co.mu.Lock()
		if co.successor, co.state = successor, compositeOver; successor == nil {
			co.tr.Says(trace.Ends)
		}
		late := co.late
		co.mu.Unlock()
		for _, part := range late {
			co.join(part)
		}
		if successor != nil {
			for _, part := range parts {
				successor.replace(successor, part)
			}
			return nil
		}
	}
	missed, err := giveBack(parts, max(1, co.needs-(co.most-len(parts))))
	if co.after != nil {
		co.after()
	}
	switch cause := l.ended(); {
	case errors.Is(cause, failure.ErrLost):
		return failure.Join(cause, err)
	case err == nil && len(parts)-missed < co.needs:
		return lost(fmt.Errorf("%d of its %d parts were", missed, len(parts)))
	}
	return err
}

// most calls do for all parts at once. It returns the results when needs of them have succeeded; if fewer have, also
// the errors.
func most[T any](parts []*Lease, needs int, do func(part *Lease) (T, error)) (done []T, errs error) {
	type outcome struct {
		value T
		err   error
	}
	outcomes := make(chan outcome, len(parts))
	for _, part := range parts {
		part.client.spawn(func() {
			value, err := do(part)
			outcomes <- outcome{value, err}
		})
	}
	for range parts {
		if o := <-outcomes; o.err != nil {
			errs = errors.Join(errs, o.err)
		} else {
			done = append(done, o.value)
		}
		if len(done) == needs {
			return done, nil
		}
	}
	return done, errs
}

// budget returns the wait time in opts, and whether they have one.
func budget(opts []LockOption) (wait time.Duration, said bool, err error) {
	if len(opts) == 0 {
		return UntilDone, false, nil
	}
	cfg := lockConfig{wait: UntilDone}
	cfg.apply(opts)
	switch {
	case cfg.bad != nil:
		return 0, true, cfg.bad
	case cfg.wait == UntilDone:
		return UntilDone, cfg.said&saidWait != 0, nil
	case cfg.wait < 0 && cfg.wait != UntilDone:
		return 0, true, fmt.Errorf("%w: a wait of %v is negative", failure.ErrBadOption, cfg.wait)
	}
	return cfg.wait, true, nil
}

// stamp gives a lease the token of its composite lease, for reentries.
func stamp(l *Lease, token int64) {
	if g, _, ok := mutexGrant(l.grant); ok && token > 0 {
		g.on().mu.Lock()
		defer g.on().mu.Unlock()
		if token != l.token && g.ticket.extra != nil {
			g.ticket.extra.tokens = engine.Tokens{} // the others are smaller
		}
		l.token, g.tokenPending = token, false
	}
}
