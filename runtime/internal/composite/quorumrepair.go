package composite

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/locks"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/resource"
	"github.com/lockgen/lockgen/runtime/internal/trace"
)

// A lease with a bare majority is lost with any server of that. So servers that have no part in it, since they were
// just getting back another holder's part, or were away, are asked again while it lasts. It does not matter to other
// callers when they grant it: two majorities have a server in common, and that has one holder.

// complete asks the server of m for its part, after a pause and ever less often, until the composite lease that has the
// parts of co has that too, or is done. A brief lease is over before, and one of fixed length does not depend on
// servers any more.
func (e *quorumAcquire) complete(co *compositeLease, m *locks.Mutex, pause time.Duration) {
	if !e.cfg.Renew {
		return
	}
	time.AfterFunc(2*pause, func() { // by then it does not circulate any more, so no bearer is missed
		bearer := co.bearer()
		if bearer == nil {
			return
		}
		m.Client().Base().Spawn(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), e.limit())
			defer cancel()
			part, err := e.recruit(ctx, bearer, m)
			switch {
			case part != nil:
				e.admit(bearer, m, part)
			case errors.Is(err, failure.ErrNotAcquired), err != nil && core.Passing(err) && m.Client().Base().Granting():
				e.complete(bearer, m, min(2*pause, e.seldom()))
			}
		})
	})
}

// seldom is the longest pause between such requests.
func (e *quorumAcquire) seldom() time.Duration { return e.cfg.TTL / 12 }

// recruit asks the server of m, once, for a part of co.
func (e *quorumAcquire) recruit(ctx context.Context, co *compositeLease, m *locks.Mutex) (*leases.Lease, error) {
	opts := e.opts
	if e.cfg.MaxHold > 0 { // it ends with the others
		left := e.cfg.MaxHold - monotonic.Since(co.whole.Core().Began)
		if left <= 0 {
			return nil, nil
		}
		opts = append(slices.Clip(opts), leases.WithMaxHold(left))
	}
	if !slices.Contains(e.open(nil), m) { // co itself has leases of its owner
		return nil, failure.ErrNotAcquired
	}
	server := slices.Index(e.m.parts, m)
	co.tr.Part(trace.AsksAgain, server, nil)
	part, err := m.Acquire(ctx, opts)
	co.tr.Part(trace.Has, server, part.Traced())
	return part, err
}

// admit makes part, of the server of m, join co when that server knows the token of the others. If it does not learn
// it, admit releases the part and asks again.
func (e *quorumAcquire) admit(co *compositeLease, m *locks.Mutex, part *leases.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), e.limit())
	defer cancel()
	var err error
	if part.Core().Token() < co.whole.Core().Token() {
		err = e.writeToken(ctx, part, co.whole.Core().Token())
	}
	if left := time.Until(co.extended()); err == nil && left > e.cfg.TTL {
		err = part.Extend(ctx, left)
	}
	if err == nil {
		co.join(part)
		return
	}
	_ = part.Core().Grant.Unlock(part)
	e.complete(co, m, e.seldom())
}

// replace releases a lost part, and gets another one from its server for co: soon, unless the server loses one after
// the other.
func (e *quorumAcquire) replace(co *compositeLease, part *leases.Lease) {
	m, pause := e.mutexOf(part), resource.LocalPassLimit
	if monotonic.Since(part.Core().Began) < e.seldom() {
		pause = e.seldom()
	}
	m.Client().Base().Spawn(func() {
		_ = part.Core().Grant.Unlock(part)
		e.complete(co, m, pause)
	})
}
