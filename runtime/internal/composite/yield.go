package composite

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/locks"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/resource"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/observe"
)

// A program with Redisson locks the members of its MultiLock in the order in which it lists them, and keeps its locks
// for seconds while it waits for the next one. If it lists them in another order than this library, it and a call of
// this library wait for each other until the program gives up, and the call wins each time. So a call that waits for a
// member which such a program holds releases its own members after a while, and waits for that member alone. When it is
// granted, the call tries the others, and waits for none of them: a holder of several members waits only in the order
// of the keys.

// yieldAfter is how long a call keeps members while it waits for one that a program with Redisson holds.
const yieldAfter = 500 * time.Millisecond

// behind locks l, a member behind kept others that the call holds, and keeps these meanwhile: they were extended last at since, and then at extended.
// It fails with ErrYielded if a program with Redisson holds l for long.
func (m *MultiLock) behind(under context.Context, l locks.Locker, kept []*leases.Lease, opts []leases.Option, since time.Time) (part *leases.Lease, extended time.Time, err error) {
	if len(kept) == 0 {
		part, err = l.Lock(under, opts...)
		return part, since, err
	}
	ctx, cancel := context.WithCancel(under)
	keepEnded := m.keep(ctx, kept, opts, since)
	yields := make(chan struct{})
	looksEnded := func() {}
	if _, clients, _ := describe(l); len(clients) > 0 {
		looksEnded = repeat(ctx, yieldAfter, yieldAfter, func() bool {
			if !isJavas(ctx, l) {
				return true
			}
			close(yields)
			return false
		})
		opts = append(slices.Clip(opts), leases.OptionFunc(func(c *leases.Config) { c.Yields = yields }))
	}
	defer func() {
		cancel()
		looksEnded()
		extended = keepEnded()
	}()
	part, err = l.Lock(under, opts...)
	return part, since, err
}

// repeat calls do after the first pause, and then after each interval, until it returns false or ctx has ended. There is no goroutine before the first
// call of do. After the end of ctx, wait waits until do has returned.
func repeat(ctx context.Context, first, interval time.Duration, do func() (again bool)) (wait func()) {
	over := make(chan struct{})
	timer := time.AfterFunc(first, func() {
		defer close(over)
		for do() {
			select {
			case <-time.After(interval):
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		if !timer.Stop() {
			<-over
		}
	}
}

// isJavas reports whether a program with Redisson holds l.
func isJavas(ctx context.Context, l locks.Locker) bool {
	var s observe.MemberStanding
	if err := inspectMember(ctx, &s, l); err != nil {
		return false
	}
	foreign := func(owner string) bool {
		_, library := protocol.ClientOf(owner)
		return owner != "" && !library
	}
	switch {
	case s.Lock != nil:
		return s.Lock.Java
	case s.RW != nil:
		return foreign(s.RW.Writer) || slices.ContainsFunc(s.RW.Readers, foreign)
	}
	return false
}

// yield releases kept, waits for the member behind them alone and then tries the others. It returns the leases in the
// order of the members, and the one whose context ends with the first loss. With an error it returns the leases that the caller has to release, if it has
// not released all; the error is ErrYielded if another one of the members was refused then. Tries end at end, as those of tryTogether.
func (m *MultiLock) yield(ctx context.Context, tr *trace.Caller, kept []*leases.Lease, end time.Time, opts []leases.Option, left func() leases.Option) (parts []*leases.Lease, last *leases.Lease, err error) {
	at := len(kept)
	tr.Asks(trace.Yields, at, 1)
	undo(ctx, kept)
	parts = make([]*leases.Lease, len(m.members))
	last, err = m.members[at].Lock(ctx, append(slices.Clip(opts), left())...)
	tracesPart(tr, 0, last)
	if err != nil {
		return nil, nil, err
	}
	parts[at] = last
	for i := 0; i < len(m.members) && err == nil; {
		if i == at {
			i++
			continue
		}
		until := len(m.members)
		if i < at {
			until = at
		}
		var got []*leases.Lease
		if mutexes := neighbours(m.members[i:until]); len(mutexes) > 1 {
			tr.Asks(trace.Tries, i, len(mutexes))
			got, _, err = tryTogether(ctx, last.Context(), tr, mutexes, end, false, opts)
		} else {
			var part *leases.Lease
			tr.Asks(trace.Tries, i, 1)
			if part, err = m.members[i].Lock(last.Context(), append(slices.Clip(opts), leases.WithWait(0))...); err == nil {
				got = []*leases.Lease{part}
			}
			tracesPart(tr, 0, part)
		}
		i += copy(parts[i:], got)
		if len(got) > 0 {
			last = got[len(got)-1]
		}
	}
	if err == nil {
		return parts, last, m.lengthen(ctx, parts, opts)
	}
	tr.Says(trace.Ends)
	undo(ctx, slices.DeleteFunc(parts, func(part *leases.Lease) bool { return part == nil }))
	if ctx.Err() != nil {
		return nil, nil, endedAt(ctx, m.key, err)
	}
	if errors.Is(err, failure.ErrNotAcquired) || errors.Is(last.Err(), failure.ErrLost) {
		return nil, nil, resource.ErrYielded
	}
	return nil, nil, err
}
