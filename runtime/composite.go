package lockrt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// A compositeLease is what a lease of several parts is a lease of. It is trusted while at least needs of its parts
// are: all those of a MultiLock, a majority of a RedLock. Each part is renewed, lost and given back by
// itself; the whole only looks at how many there are.
type compositeLease struct {
	whole *Lease
	needs int
	most  int    // parts that it may have
	after func() // is called when the whole was given back, and when it is lost; or nil

	// replace gives a part back that has ended before the whole, and may see to another one; or nil, and it stays.
	replace func(co *compositeLease, part *Lease)

	// pass gives the parts to somebody else of this process, whose composite lease it returns, or nil, and what is left to be given
	// back. There may be none.
	pass func(parts []*Lease) (successor *compositeLease, rest []*Lease)

	mu               sync.Mutex // guards the rest; never held while a part is asked or ended
	parts            []*Lease
	ends             time.Time       // that the parts were extended to; zero if they were not
	over             bool            // unlocked: nothing joins it any more
	successor        *compositeLease // what joins that, then; or nil
	successorPending bool            // over, but whether there is a successor is not known yet
	late             []*Lease        // what came meanwhile
}

// compose makes l the lease of all parts together, trusted while needs of them are.
func compose(l *Lease, needs int, parts []*Lease) {
	co := &compositeLease{whole: l, needs: needs, most: len(parts), parts: parts}
	co.begin()
}

// begin makes the whole the lease of all parts.
func (co *compositeLease) begin() {
	co.whole.grant, co.whole.composite, co.whole.began = co, co, monotonic.Now()
	for _, part := range slices.Clone(co.parts) {
		co.watch(part)
	}
}

// watch has a part say that it has ended.
func (co *compositeLease) watch(part *Lease) {
	part.within.Store(co)
	if cause := part.ended(); cause != nil {
		co.look(cause)
	}
}

// join makes part one more of the parts, or gives it back if the whole was unlocked, or is not trusted any more: by the clock, too,
// since somebody else may have had it by then.
func (co *compositeLease) join(part *Lease) {
	part.stamp(co.whole.token)
	trusted := co.whole.Err() == nil
	co.mu.Lock()
	joins, waits, successor := trusted && !co.over, co.successorPending, co.successor
	switch {
	case joins:
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

// bearer returns who has the parts by now, u or who they went to, or nil if nobody has.
func (co *compositeLease) bearer() *compositeLease {
	for co != nil {
		co.mu.Lock()
		over, will, successor := co.over, co.successorPending, co.successor
		co.mu.Unlock()
		switch {
		case will:
			return co
		case over:
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

// part returns the lease of key that is a part, or a part of one, or nil.
func (co *compositeLease) part(c *Client, key string) *Lease {
	for _, part := range co.all() {
		if part.composite != nil {
			if inner := part.composite.part(c, key); inner != nil {
				return inner
			}
		} else if part.client == c && part.key == key {
			return part
		}
	}
	return nil
}

// look ends the whole if too many parts have ended, of which the last one did because of cause. Otherwise it has those replaced
// that are lost.
func (co *compositeLease) look(cause error) {
	co.mu.Lock()
	left := 0
	var gone []*Lease
	for _, part := range co.parts {
		switch ended := part.ended(); {
		case ended == nil:
			left++
		case errors.Is(ended, ErrLost):
			gone = append(gone, part)
		}
	}
	enough := left >= co.needs
	if !enough || co.over || co.replace == nil {
		gone = nil
	}
	co.parts = slices.DeleteFunc(co.parts, func(part *Lease) bool { return slices.Contains(gone, part) })
	co.mu.Unlock()
	if !enough {
		co.whole.end(cause)
		if co.whole.client.opts.Hooks.Ended != nil && !co.whole.unlocked.Load() {
			co.whole.reportLater() // its parts were given back one by one
		}
		co.spend()
	}
	for _, part := range gone {
		co.replace(co, part)
	}
}

// spend has what is left of a whole that is lost not renewed any more, if it would have been replaced. Others need it, and who lost
// it may never call Unlock.
func (co *compositeLease) spend() {
	if co.replace == nil || !errors.Is(co.whole.ended(), ErrLost) {
		return
	}
	for _, part := range co.all() {
		if g, ok := part.grant.(*grant); ok {
			g.expire(part)
		}
	}
}

// check returns nil while enough parts are trusted, by the clock too, then why one of the others is not.
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

// until returns when so many parts are not trusted any more that the whole is not.
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

// extended returns what the parts were extended to.
func (co *compositeLease) extended() time.Time {
	co.mu.Lock()
	defer co.mu.Unlock()
	return co.ends
}

// reenter is never asked: who enters again enters the parts.
func (co *compositeLease) reenter(*Lease, *Lease) bool { return false }

// unlock ends l and all its parts, whatever becomes of each. It waits until so many are given back that, with those it never had,
// somebody else can have a whole; the others are given back in the background.
func (co *compositeLease) unlock(l *Lease) error {
	if l.unlocked.Swap(true) {
		return ErrReleased
	}
	co.mu.Lock()
	co.over, co.successorPending = true, co.pass != nil
	parts := slices.Clone(co.parts)
	co.mu.Unlock()

	l.end(ErrReleased)
	if co.pass != nil {
		var successor *compositeLease
		if !errors.Is(l.ended(), ErrLost) {
			successor, parts = co.pass(parts)
		}
		co.mu.Lock()
		co.successor, co.successorPending = successor, false
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
	case errors.Is(cause, ErrLost):
		return join(cause, err)
	case err == nil && len(parts)-missed < co.needs:
		return lost(fmt.Errorf("%d of its %d parts were", missed, len(parts)))
	}
	return err
}

// most does the same with all parts at once. It returns what came of it when that has succeeded with needs of
// them; if it has with fewer, also the errors.
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

// budget returns for how long the call with opts may wait, and whether they say so.
func budget(opts []LockOption) (wait time.Duration, said bool, err error) {
	cfg := lockConfig{wait: UntilDone}
	cfg.apply(opts)
	switch {
	case cfg.bad != nil:
		return 0, true, cfg.bad
	case cfg.wait == UntilDone:
		return UntilDone, cfg.said&saidWait != 0, nil
	case cfg.wait < 0 && cfg.wait != UntilDone:
		return 0, true, fmt.Errorf("%w: a wait of %v is negative", ErrBadOption, cfg.wait)
	}
	return cfg.wait, true, nil
}
