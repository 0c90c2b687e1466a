package locks

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/policy"
	"github.com/lockgen/lockgen/runtime/internal/resource"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// Release unlocks all parts and returns the errors.
func Release(parts []*leases.Lease) error {
	_, err := UnlockAll(parts, len(parts))
	return err
}

// UnlockAll unlocks all parts, the mutexes of one client in one round trip, and others in parallel. When needs of them
// are unlocked, it waits for the others for a moment. It returns the number of parts that it knows to have been lost,
// and the errors unless needs were unlocked.
func UnlockAll(parts []*leases.Lease, needs int) (lost int, errs error) {
	if len(parts) == 1 {
		errs = unlocked(parts[0], parts[0].Core().Grant.Unlock(parts[0]))
		if errors.Is(errs, failure.ErrLost) {
			lost = 1
		}
		return lost, errs
	}
	count := func(err error) {
		switch {
		case err == nil:
			needs--
		case errors.Is(err, failure.ErrLost):
			lost++
			fallthrough
		default:
			errs = failure.Join(errs, err)
		}
	}
	if len(parts) > 0 && needs == len(parts) && alike(parts) { // as a rule: there is nothing beside it to wait for
		releaseGroup(parts, count)
		return lost, errs
	}
	start := core.Now()
	groups := grouped(parts)
	outcomes := make(chan error, len(parts))
	tell := func(err error) { outcomes <- err }
	for i, group := range slices.Backward(groups) {
		if i == 0 && needs == len(parts) {
			releaseGroup(group, tell) // the caller waits for it anyway
			break
		}
		group[0].Core().Client().Spawn(func() { releaseGroup(group, tell) })
	}
	var enough <-chan time.Time // fires when the remaining releases are not waited for any more
	for i := range parts {
		select {
		case err := <-outcomes:
			count(err)
		case <-enough:
			return lost, nil
		}
		if needs == 0 && enough == nil && i < len(parts)-1 {
			// A server that has not got its part back refuses a process that locks again at once.
			enough = time.After(max(5*time.Millisecond, 2*core.Now().Sub(start)))
		}
	}
	if needs <= 0 {
		return lost, nil
	}
	return lost, errs
}

// grouped returns the parts in groups that are released together: the mutexes of one client, and each other part.
func grouped(parts []*leases.Lease) (groups [][]*leases.Lease) {
	for _, part := range parts {
		_, _, mutex := policy.MutexGrant(part.Core().Grant)
		i := slices.IndexFunc(groups, func(group []*leases.Lease) bool { return mutex && alike([]*leases.Lease{group[0], part}) })
		if i < 0 {
			room := 1
			if mutex {
				room = len(parts)
			}
			groups = append(groups, make([]*leases.Lease, 0, room))
			i = len(groups) - 1
		}
		groups[i] = append(groups[i], part)
	}
	return groups
}

// alike reports whether all parts are mutexes of one client.
func alike(parts []*leases.Lease) bool {
	for _, part := range parts {
		if _, _, mutex := policy.MutexGrant(part.Core().Grant); !mutex || part.Core().Client() != parts[0].Core().Client() {
			return false
		}
	}
	return true
}

// A releaseList has the releases of one call of releaseGroup, and is kept to be used again. Nothing else knows them then.
type releaseList struct {
	ops   []*resource.ReleaseOp // of each lease; nil if there is none
	frees []transport.Request   // those that go together
}

var releaseLists = sync.Pool{New: func() any { return new(releaseList) }}

func (x *releaseList) recycle() {
	clear(x.ops)
	clear(x.frees)
	x.ops, x.frees = x.ops[:0], x.frees[:0]
	releaseLists.Put(x)
}

// releaseGroup unlocks one lease, or several that are mutexes of one client, the last one first, and calls tell with the outcome of each.
func releaseGroup(group []*leases.Lease, tell func(err error)) {
	if len(group) == 1 {
		tell(unlocked(group[0], group[0].Core().Grant.Unlock(group[0])))
		return
	}
	c := group[0].Core().Grant.(*resource.Grant).Resource().Client //nolint:forcetypeassert // a group of several consists of these
	list := releaseLists.Get().(*releaseList)
	defer list.recycle()
	for _, l := range slices.Backward(group) {
		g := l.Core().Grant.(*resource.Grant) //nolint:forcetypeassert // a group of several consists of these
		op, err := g.End(l)
		switch {
		case op == nil:
			tell(unlocked(l, err))
		case op.Way == resource.AfterAnswer: // which may have come already
		case op.Way == resource.ByFree:
			list.frees = append(list.frees, op)
		default:
			g.Resource().Kind.SendRelease(op, true)
		}
		list.ops = append(list.ops, op)
	}
	c.Frees.SubmitAll(list.frees, true)
	for i, op := range list.ops {
		if l := group[len(group)-1-i]; op != nil {
			tell(unlocked(l, op.Outcome(l)))
		}
	}
}

// unlocked reports that l is released, and adds its operation and key to err.
func unlocked(l *leases.Lease, err error) error {
	l.Core().Report()
	if l.Core().Kind() == core.KindPermit {
		return core.FailedAt("release", l.Core().Key(), err)
	}
	return core.FailedAt("unlock", l.Core().Key(), err)
}
