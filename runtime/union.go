package lockrt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// A union is what a lease of several parts is a lease of. It is trusted while at least needs of its parts
// are: all those of a MultiLock, a majority of a RedLock. Each part is renewed, lost and given back by
// itself; the whole only looks at how many there are.
type union struct {
	whole *Lease
	needs int
	most  int    // parts that it may have
	after func() // is called when the whole was given back, and when it is lost; or nil

	// replace gives a part back that has ended before the whole, and may see to another one; or nil, and it stays.
	replace func(u *union, part *Lease)

	// pass gives the parts to somebody else of this process, whose union it returns, or nil, and what is left to be given
	// back. There may be none.
	pass func(parts []*Lease) (heir *union, rest []*Lease)

	mu    sync.Mutex // guards the rest; never held while a part is asked or ended
	parts []*Lease
	ends  time.Time // that the parts were extended to; zero if they were not
	over  bool      // unlocked: nothing joins it any more
	heir  *union    // what joins that, then; or nil
	will  bool      // over, but whether there is an heir is not known yet
	late  []*Lease  // what came meanwhile
}

// unite makes l the lease of all parts together, trusted while needs of them are.
func unite(l *Lease, needs int, parts []*Lease) {
	u := &union{whole: l, needs: needs, most: len(parts), parts: parts}
	u.begin()
}

// begin makes the whole the lease of all parts.
func (u *union) begin() {
	u.whole.hold, u.whole.union, u.whole.began = u, u, monotonic.Now()
	for _, part := range slices.Clone(u.parts) {
		u.watch(part)
	}
}

// watch has a part say that it has ended.
func (u *union) watch(part *Lease) {
	part.within.Store(u)
	if cause := part.ended(); cause != nil {
		u.look(cause)
	}
}

// join makes part one more of the parts, or gives it back if the whole was unlocked, or is not trusted any more: by the clock, too,
// since somebody else may have had it by then.
func (u *union) join(part *Lease) {
	part.stamp(u.whole.token)
	trusted := u.whole.Err() == nil
	u.mu.Lock()
	joins, waits, heir := trusted && !u.over, u.will, u.heir
	switch {
	case joins:
		u.parts = append(u.parts, part)
	case waits:
		u.late = append(u.late, part)
	}
	u.mu.Unlock()
	switch {
	case joins:
		u.watch(part)
	case waits:
	case heir != nil:
		heir.join(part)
	default:
		_ = part.hold.unlock(part)
	}
}

// bearer returns who has the parts by now, u or who they went to, or nil if nobody has.
func (u *union) bearer() *union {
	for u != nil {
		u.mu.Lock()
		over, will, heir := u.over, u.will, u.heir
		u.mu.Unlock()
		switch {
		case will:
			return u
		case over:
			u = heir
		case u.whole.Err() != nil:
			return nil
		default:
			return u
		}
	}
	return nil
}

// all returns the parts.
func (u *union) all() []*Lease {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.parts)
}

// part returns the lease of key that is a part, or a part of one, or nil.
func (u *union) part(c *Client, key string) *Lease {
	for _, part := range u.all() {
		if part.union != nil {
			if inner := part.union.part(c, key); inner != nil {
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
func (u *union) look(cause error) {
	u.mu.Lock()
	left := 0
	var gone []*Lease
	for _, part := range u.parts {
		switch ended := part.ended(); {
		case ended == nil:
			left++
		case errors.Is(ended, ErrLost):
			gone = append(gone, part)
		}
	}
	enough := left >= u.needs
	if !enough || u.over || u.replace == nil {
		gone = nil
	}
	u.parts = slices.DeleteFunc(u.parts, func(part *Lease) bool { return slices.Contains(gone, part) })
	u.mu.Unlock()
	if !enough {
		u.whole.end(cause)
		if u.whole.client.opts.Hooks.Ended != nil && !u.whole.unlocked.Load() {
			u.whole.reportLater() // its parts were given back one by one
		}
		u.spend()
	}
	for _, part := range gone {
		u.replace(u, part)
	}
}

// spend has what is left of a whole that is lost not renewed any more, if it would have been replaced. Others need it, and who lost
// it may never call Unlock.
func (u *union) spend() {
	if u.replace == nil || !errors.Is(u.whole.ended(), ErrLost) {
		return
	}
	for _, part := range u.all() {
		if hd, ok := part.hold.(*hold); ok {
			hd.expire(part)
		}
	}
}

// check returns nil while enough parts are trusted, by the clock too, then why one of the others is not.
func (u *union) check() (cause error) {
	left := 0
	for _, part := range u.all() {
		if err := part.Err(); err == nil {
			left++
		} else {
			cause = err
		}
	}
	if left < u.needs {
		return cause
	}
	return nil
}

// until returns when so many parts are not trusted any more that the whole is not.
func (u *union) until() time.Time {
	parts := u.all()
	ends := make([]time.Time, len(parts))
	for i, part := range parts {
		ends[i] = part.Until()
	}
	slices.SortFunc(ends, func(a, b time.Time) int { return b.Compare(a) })
	return ends[u.needs-1]
}

func (u *union) ttl(ctx context.Context) (time.Duration, error) {
	parts := u.all()
	ttls, err := most(parts, len(parts), func(part *Lease) (time.Duration, error) { return part.TTL(ctx) })
	if len(ttls) < u.needs {
		return 0, err
	}
	slices.Sort(ttls)
	return ttls[len(ttls)-u.needs], nil
}

func (u *union) extend(ctx context.Context, d time.Duration) error {
	ends := now().Add(d)
	_, err := most(u.all(), u.needs, func(part *Lease) (struct{}, error) { return struct{}{}, part.Extend(ctx, d) })
	if err == nil {
		u.mu.Lock()
		defer u.mu.Unlock()
		if ends.After(u.ends) {
			u.ends = ends
		}
	}
	return err
}

// extended returns what the parts were extended to.
func (u *union) extended() time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ends
}

// reenter is never asked: who enters again enters the parts.
func (u *union) reenter(*Lease, *Lease) bool { return false }

// unlock ends l and all its parts, whatever becomes of each. It waits until so many are given back that, with those it never had,
// somebody else can have a whole; the others are given back in the background.
func (u *union) unlock(l *Lease) error {
	if l.unlocked.Swap(true) {
		return ErrReleased
	}
	u.mu.Lock()
	u.over, u.will = true, u.pass != nil
	parts := slices.Clone(u.parts)
	u.mu.Unlock()

	l.end(ErrReleased)
	if u.pass != nil {
		var heir *union
		if !errors.Is(l.ended(), ErrLost) {
			heir, parts = u.pass(parts)
		}
		u.mu.Lock()
		u.heir, u.will = heir, false
		late := u.late
		u.mu.Unlock()
		for _, part := range late {
			u.join(part)
		}
		if heir != nil {
			for _, part := range parts {
				heir.replace(heir, part)
			}
			return nil
		}
	}
	missed, err := giveBack(parts, max(1, u.needs-(u.most-len(parts))))
	if u.after != nil {
		u.after()
	}
	switch cause := l.ended(); {
	case errors.Is(cause, ErrLost):
		return join(cause, err)
	case err == nil && len(parts)-missed < u.needs:
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

// release unlocks all parts and returns what went wrong.
func release(parts []*Lease) error {
	_, err := giveBack(parts, len(parts))
	return err
}

// giveBack unlocks all parts, the mutexes of one client in one round trip, and others beside each other. When needs of them were
// unlocked it waits for the others for a moment. It returns how many it knows to have been lost, and what went wrong unless needs
// were unlocked.
func giveBack(parts []*Lease, needs int) (lost int, errs error) {
	if len(parts) == 1 {
		errs = unlocked(parts[0], parts[0].hold.unlock(parts[0]))
		if errors.Is(errs, ErrLost) {
			lost = 1
		}
		return lost, errs
	}
	start := now()
	var groups [][]*Lease
	for _, part := range slices.Backward(parts) {
		_, mutex := part.hold.(*hold)
		i := slices.IndexFunc(groups, func(group []*Lease) bool {
			_, mutexes := group[0].hold.(*hold)
			return mutex && mutexes && group[0].client == part.client
		})
		if i < 0 {
			groups = append(groups, nil)
			i = len(groups) - 1
		}
		groups[i] = append(groups[i], part)
	}
	outcomes := make(chan error, len(parts))
	for i, group := range groups {
		if i == len(groups)-1 && needs == len(parts) {
			releaseGroup(group, outcomes) // it is waited for anyway
			break
		}
		group[0].client.spawn(func() { releaseGroup(group, outcomes) })
	}
	var enough <-chan time.Time // when those that are still under way are not waited for any more
	for i := range parts {
		select {
		case err := <-outcomes:
			switch {
			case err == nil:
				needs--
			case errors.Is(err, ErrLost):
				lost++
				fallthrough
			default:
				errs = join(errs, err)
			}
		case <-enough:
			return lost, nil
		}
		if needs == 0 && enough == nil && i < len(parts)-1 {
			// A process that locks again at once is refused by who has not got it back.
			enough = time.After(max(5*time.Millisecond, 2*now().Sub(start)))
		}
	}
	if needs <= 0 {
		return lost, nil
	}
	return lost, errs
}

// releaseGroup unlocks one lease, or several that are mutexes of one client, and tells the outcome of each.
func releaseGroup(group []*Lease, outcomes chan<- error) {
	tell := func(l *Lease, err error) { outcomes <- unlocked(l, err) }
	if len(group) == 1 {
		tell(group[0], group[0].hold.unlock(group[0]))
		return
	}
	c := group[0].client
	givings := make([]*giving, len(group))
	frees := make([]transport.Request, 0, len(group))
	for i, l := range group {
		hd := l.hold.(*hold) //nolint:forcetypeassert // what a group of several is made of
		g, err := hd.end(l)
		switch {
		case g == nil:
			tell(l, err)
		case g.simple():
			frees = append(frees, g)
		default:
			hd.home.free(g)
		}
		givings[i] = g
	}
	c.frees.SubmitAll(frees, c.net.Prompt())
	for i, l := range group {
		if givings[i] != nil {
			tell(l, givings[i].outcome(l))
		}
	}
}

// unlocked reports that l is given back, and says in err what went wrong.
func unlocked(l *Lease, err error) error {
	l.report()
	switch {
	case err == nil:
		return nil
	case l.kind == kindPermit:
		return failedAt("release", l.key, err)
	}
	return failedAt("unlock", l.key, err)
}

// undoPatience is for how long a call that fails waits until what it had got is given back.
const undoPatience = 100 * time.Millisecond

// undo gives back what a call was granted that fails. What that takes longer than [undoPatience], or the call may
// last, goes on in the background.
func undo(ctx context.Context, parts []*Lease) {
	if len(parts) == 0 {
		return
	}
	done := make(chan struct{})
	parts[0].client.spawn(func() {
		defer close(done)
		_ = release(parts) // what failed is withdrawn, or expires
	})
	timer := time.NewTimer(undoPatience)
	defer timer.Stop()
	select {
	case <-done:
	case <-ctx.Done():
	case <-timer.C:
	}
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
