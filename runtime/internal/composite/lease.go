package composite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/locks"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/policy"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// A compositeLease has the parts of a lease that consists of several. It is trusted while at least needs of its parts
// are: all parts of a MultiLock, a majority of a RedLock. Each part is renewed, lost and released by itself; the whole
// only counts them.
type compositeLease struct {
	client *core.Client
	key    string
	whole  *leases.Lease
	needs  int
	most   int    // largest number of its parts
	after  func() // called when the whole was released, and when it is lost; or nil

	// replace releases a part that has ended before the whole, and may get another one; if nil, the part stays.
	replace func(co *compositeLease, part *leases.Lease)

	// pass hands the parts to another waiter of this process. It returns the composite lease of that waiter, or nil,
	// and the parts that are left to release. pass may be nil.
	pass func(parts []*leases.Lease) (successor *compositeLease, rest []*leases.Lease)

	tr *trace.Caller // reports what becomes of the lease of a RedLock, for tests; or nil

	unlocked atomic.Bool // Unlock was called

	mu        sync.Mutex // guards the rest; never held during a call of a part
	parts     []*leases.Lease
	ends      time.Time // the time until which the parts were extended; zero if they were not
	state     compositeState
	successor *compositeLease // gets the parts that join later; or nil
	late      []*leases.Lease // parts that joined while it was passed
}

// A compositeState says how far a composite lease has come.
type compositeState uint8

const (
	compositeHeld    compositeState = iota
	compositePassing                // it is unlocked, and its successor is not known yet
	compositeOver                   // it is unlocked: a part that joins goes to the successor, or is released
)

// compose makes l the lease of key, of all parts together, trusted while needs of them are.
func compose(l *leases.Lease, c *core.Client, key string, needs int, parts []*leases.Lease) {
	co := &compositeLease{client: c, key: key, whole: l, needs: needs, most: len(parts), parts: parts}
	co.begin()
}

// compositeOf returns what l has as the lease of a MultiLock or of a RedLock, or nil.
func compositeOf(l *leases.Lease) *compositeLease {
	co, _ := l.Core().Rare().Parts.(*compositeLease)
	return co
}

// Client returns the client that calls the hooks.
func (co *compositeLease) Client() *core.Client { return co.client }

// Key returns the key of the whole.
func (co *compositeLease) Key() string { return co.key }

// Guarded returns nil: the parts are guarded.
func (co *compositeLease) Guarded() *watchdog.Lease { return nil }

// begin makes the whole the lease of all parts.
func (co *compositeLease) begin() {
	co.whole.Core().Grant, co.whole.Core().More().Parts, co.whole.Core().Began = co, co, monotonic.Now()
	for _, part := range slices.Clone(co.parts) {
		co.watch(part)
	}
}

// watch registers for the end of a part.
func (co *compositeLease) watch(part *leases.Lease) {
	part.Core().More().Within.Store(co.whole)
	if cause := part.Core().Ended(); cause != nil {
		co.PartEnded(cause)
	}
}

// join adds part to the parts. It releases the part if the whole was unlocked, or is not trusted any more: by the
// clock, too, since another holder may have had the lock by then.
func (co *compositeLease) join(part *leases.Lease) {
	stamp(part, co.whole.Core().Token())
	trusted := co.whole.Err() == nil
	co.mu.Lock()
	joins, waits, successor := trusted && co.state == compositeHeld, co.state == compositePassing, co.successor
	switch {
	case joins:
		co.tr.Part(trace.Admits, 0, part.Traced())
		co.parts = append(co.parts, part)
	case waits:
		co.late = append(co.late, part)
	}
	co.mu.Unlock()
	switch {
	case joins:
		co.watch(part)
		co.spend() // the whole may have been lost before the part was one of its parts
	case waits:
	case successor != nil:
		successor.join(part)
	default:
		_ = part.Core().Grant.Unlock(part)
	}
}

// bearer returns the composite lease that has the parts now: co, or the one that they went to. It returns nil if none has them.
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

// All returns the parts.
func (co *compositeLease) All() []*leases.Lease {
	co.mu.Lock()
	defer co.mu.Unlock()
	return slices.Clone(co.parts)
}

// Part returns the lease of key among the parts, or among the parts of a part, or nil.
func (co *compositeLease) Part(c *core.Client, key string) *leases.Lease {
	for _, part := range co.All() {
		if parts := part.Core().Rare().Parts; parts != nil {
			if inner := parts.Part(c, key); inner != nil {
				return inner
			}
		} else if part.Core().Client() == c && part.Core().Key() == key {
			return part
		}
	}
	return nil
}

// WholeEnded reports the end of the whole.
func (co *compositeLease) WholeEnded() {
	if co.after != nil {
		co.after()
	}
}

// PartEnded ends the whole if too many parts have ended, the last one because of cause, or if somebody took the last one by force: the whole would get
// it back. Otherwise it replaces the lost parts.
func (co *compositeLease) PartEnded(cause error) {
	if co.whole.Core().Ended() == failure.ErrReleased { //nolint:errorlint // this very one
		return // each part ends after that, and there is nothing left to end or to replace
	}
	co.mu.Lock()
	left := 0
	var gone []*leases.Lease
	for _, part := range co.parts {
		switch ended := part.Core().Ended(); {
		case ended == nil:
			left++
		case errors.Is(ended, failure.ErrLost):
			gone = append(gone, part)
		}
	}
	enough := left >= co.needs && !errors.Is(cause, watchdog.ErrForced)
	if !enough || co.state != compositeHeld || co.replace == nil {
		gone = nil
	}
	co.parts = slices.DeleteFunc(co.parts, func(part *leases.Lease) bool { return slices.Contains(gone, part) })
	co.mu.Unlock()
	if !enough {
		co.whole.Core().End(cause)
		if co.client.Settings.Hooks.Ended != nil && !co.unlocked.Load() {
			co.whole.Core().ReportLater() // its parts were released one by one
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
	if co.replace == nil || !errors.Is(co.whole.Core().Ended(), failure.ErrLost) {
		return
	}
	for _, part := range co.All() {
		if g, _, ok := policy.MutexGrant(part.Core().Grant); ok {
			g.Expire(part)
		}
	}
}

// Check returns nil while enough parts are trusted, by the clock too; else the reason why one of the others is not.
func (co *compositeLease) Check() (cause error) {
	if co.wholly() {
		return nil
	}
	left := 0
	for _, part := range co.All() {
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

// wholly reports whether all parts are trusted, and enough of them: the short way to what Check does, with one look at the clock.
func (co *compositeLease) wholly() bool {
	at := monotonic.Now()
	co.mu.Lock()
	defer co.mu.Unlock()
	for _, part := range co.parts {
		if !part.Core().TrustedAt(at) {
			return false
		}
	}
	return len(co.parts) >= co.needs
}

// Until returns the time from which so many parts are not trusted that the whole is not. A part whose client was closed has ended before: no more is
// to be said of it, unless the whole has ended.
func (co *compositeLease) Until() time.Time {
	parts := co.All()
	hasEnded := func(part *leases.Lease) bool { return part.Core().Ended() != nil }
	if lasting := slices.DeleteFunc(slices.Clone(parts), hasEnded); len(lasting) >= co.needs {
		parts = lasting
	}
	ends := make([]time.Time, len(parts))
	for i, part := range parts {
		ends[i] = part.Until()
	}
	slices.SortFunc(ends, func(a, b time.Time) int { return b.Compare(a) })
	return ends[co.needs-1]
}

func (co *compositeLease) TTL(ctx context.Context) (time.Duration, error) {
	parts := co.All()
	ttls, err := forParts(parts, len(parts), func(part *leases.Lease) (time.Duration, error) { return part.TTL(ctx) })
	if len(ttls) < co.needs {
		return 0, co.ofParts(err)
	}
	slices.Sort(ttls)
	return ttls[len(ttls)-co.needs], nil
}

func (co *compositeLease) Extend(ctx context.Context, d time.Duration) error {
	ends := core.Now().Add(d)
	_, err := forParts(co.All(), co.needs, func(part *leases.Lease) (struct{}, error) { return struct{}{}, part.Extend(ctx, d) })
	if err == nil {
		co.mu.Lock()
		defer co.mu.Unlock()
		if ends.After(co.ends) {
			co.ends = ends
		}
	}
	return co.ofParts(err)
}

// ofParts returns the error of requests for the parts: it matches [failure.ErrLost] only if the whole is lost.
func (co *compositeLease) ofParts(err error) error {
	if err != nil && co.Check() == nil {
		return failure.OfPart(err)
	}
	return err
}

// extended returns the time until which the parts were extended.
func (co *compositeLease) extended() time.Time {
	co.mu.Lock()
	defer co.mu.Unlock()
	return co.ends
}

func (co *compositeLease) Unlocked() bool { return co.unlocked.Load() }

// Reenter is never called: a caller that re-enters the whole re-enters the parts.
func (co *compositeLease) Reenter(*leases.Lease, *leases.Lease) bool { return false }

// Unlock ends l and all its parts, whatever the result for each. It waits until so many are released that, together
// with those it never had, another caller can hold a whole; it releases the others in the background.
func (co *compositeLease) Unlock(l *leases.Lease) error {
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

	l.Core().End(failure.ErrReleased)
	if co.pass != nil {
		var successor *compositeLease
		if !errors.Is(l.Core().Ended(), failure.ErrLost) {
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
	missed, err := locks.UnlockAll(parts, max(1, co.needs-(co.most-len(parts))))
	if co.after != nil {
		co.after()
	}
	switch cause := l.Core().Ended(); {
	case errors.Is(cause, failure.ErrLost):
		return failure.Join(cause, err)
	case len(parts)-missed >= co.needs:
		return failure.OfPart(err) // a majority was held until now; the others may not be free yet
	case err == nil:
		return failure.Lost(fmt.Errorf("%d of its %d parts were lost", missed, len(parts)))
	}
	return err
}

// forParts calls do for all parts at once. It returns the results when needs of them have succeeded; if fewer have, also
// the errors.
func forParts[T any](parts []*leases.Lease, needs int, do func(part *leases.Lease) (T, error)) (done []T, errs error) {
	type outcome struct {
		value T
		err   error
	}
	outcomes := make(chan outcome, len(parts))
	for _, part := range parts {
		part.Core().Client().Spawn(func() {
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

// stamp gives a lease the token of its composite lease, for reentries.
func stamp(l *leases.Lease, token int64) {
	if g, _, ok := policy.MutexGrant(l.Core().Grant); ok && token > 0 {
		g.Resource().Mu.Lock()
		defer g.Resource().Mu.Unlock()
		if token != l.Core().Token() && g.Ticket.Extra != nil {
			g.Ticket.Extra.Tokens = engine.Tokens{} // the others are smaller
		}
		g.TokenPending = false
		l.Core().SetToken(token)
	}
}

// undoPatience is how long a failing call waits until its grants are released.
const undoPatience = 100 * time.Millisecond

// undo releases the grants of a failing call. A release that takes longer than [undoPatience], or than the call may
// last, continues in the background.
func undo(ctx context.Context, parts []*leases.Lease) {
	if len(parts) == 0 {
		return
	}
	for _, l := range parts {
		if g, _, ok := policy.MutexGrant(l.Core().Grant); ok {
			g.PreventLinger(l) // others want them, and may not ask for it
		}
	}
	done := make(chan struct{})
	parts[0].Core().Client().Spawn(func() {
		defer close(done)
		_ = locks.Release(parts) // a failed release is withdrawn, or the key expires
	})
	timer := time.NewTimer(undoPatience)
	defer timer.Stop()
	select {
	case <-done:
	case <-ctx.Done():
	case <-timer.C:
	}
}
