package locks

import (
	"errors"
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// release unlocks all parts and returns the errors.
func release(parts []*Lease) error {
	_, err := giveBack(parts, len(parts))
	return err
}

// giveBack unlocks all parts, the mutexes of one client in one round trip, and others in parallel. When needs of them
// are unlocked, it waits for the others for a moment. It returns the number of parts that it knows to have been lost,
// and the errors unless needs were unlocked.
func giveBack(parts []*Lease, needs int) (lost int, errs error) {
	if len(parts) == 1 {
		errs = unlocked(parts[0], parts[0].grant.unlock(parts[0]))
		if errors.Is(errs, failure.ErrLost) {
			lost = 1
		}
		return lost, errs
	}
	start := now()
	var groups [][]*Lease
	for _, part := range slices.Backward(parts) {
		_, _, mutex := mutexGrant(part.grant)
		i := slices.IndexFunc(groups, func(group []*Lease) bool {
			_, _, mutexes := mutexGrant(group[0].grant)
			return mutex && mutexes && group[0].client == part.client
		})
		if i < 0 {
			room := 1
			if mutex {
				room = len(parts)
			}
			groups = append(groups, make([]*Lease, 0, room))
			i = len(groups) - 1
		}
		groups[i] = append(groups[i], part)
	}
	outcomes := make(chan error, len(parts))
	for i, group := range groups {
		if i == len(groups)-1 && needs == len(parts) {
			releaseGroup(group, outcomes) // the caller waits for it anyway
			break
		}
		group[0].client.spawn(func() { releaseGroup(group, outcomes) })
	}
	var enough <-chan time.Time // fires when the remaining releases are not waited for any more
	for i := range parts {
		select {
		case err := <-outcomes:
			switch {
			case err == nil:
				needs--
			case errors.Is(err, failure.ErrLost):
				lost++
				fallthrough
			default:
				errs = failure.Join(errs, err)
			}
		case <-enough:
			return lost, nil
		}
		if needs == 0 && enough == nil && i < len(parts)-1 {
			// A server that has not got its part back refuses a process that locks again at once.
			enough = time.After(max(5*time.Millisecond, 2*now().Sub(start)))
		}
	}
	if needs <= 0 {
		return lost, nil
	}
	return lost, errs
}

// releaseGroup unlocks one lease, or several that are mutexes of one client, and sends the outcome of each.
func releaseGroup(group []*Lease, outcomes chan<- error) {
	tell := func(l *Lease, err error) { outcomes <- unlocked(l, err) }
	if len(group) == 1 {
		tell(group[0], group[0].grant.unlock(group[0]))
		return
	}
	c := group[0].grant.(*grant).on().c //nolint:forcetypeassert // a group of several consists of these
	ops := make([]*releaseOp, len(group))
	frees := make([]transport.Request, 0, len(group))
	for i, l := range group {
		g := l.grant.(*grant) //nolint:forcetypeassert // a group of several consists of these
		op, err := g.end(l)
		switch {
		case op == nil:
			tell(l, err)
		case op.pending: // the answer to a request has it sent, and may have come already
		case op.plain:
			frees = append(frees, op)
		default:
			g.on().kind.sendRelease(op, true)
		}
		ops[i] = op
	}
	c.frees.SubmitAll(frees, c.net.Prompt())
	for i, l := range group {
		if ops[i] != nil {
			tell(l, ops[i].outcome(l))
		}
	}
}

// unlocked reports that l is released, and adds its operation and key to err.
func unlocked(l *Lease, err error) error {
	l.report()
	if l.kind() == kindPermit {
		return failedAt("release", l.key, err)
	}
	return failedAt("unlock", l.key, err)
}
