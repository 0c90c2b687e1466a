package composite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/fleet"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/locks"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/resource"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/observe"
)

// A MultiLock locks its members as one, all or none: lockrt.MultiLock. A call locks its members in the order of their keys; neighbouring
// mutexes of one client take one round trip together.
type MultiLock struct {
	members []locks.Locker  // in the order of their keys
	c       *locks.Client   // the client that calls the hooks; nil if all members are of other modules
	opts    []leases.Option // the options of the member of that client
	keys    []string        // of the members
	key     string          // all keys
	wait    time.Duration   // the shortest wait of the members, or UntilDone
	err     error           // why they cannot be locked
}

var _ locks.Locker = (*MultiLock)(nil)

// NewMultiLock returns the lock of all lockers: the members of a MultiLock among them take its place, and the same lock counts once.
func NewMultiLock(lockers ...locks.Locker) *MultiLock {
	m := &MultiLock{wait: leases.UntilDone, members: make([]locks.Locker, 0, len(lockers))}
	for i, locker := range lockers {
		whole, ok := locker.(*MultiLock)
		switch {
		case IsNil(locker):
			m.refuse("", fmt.Errorf("%w: lock %d of a MultiLock is nil", failure.ErrBadOption, i))
		case ok:
			m.members = append(m.members, whole.members...)
			m.err = core.FirstError(m.err, whole.err)
		default:
			m.members = append(m.members, locker)
		}
	}
	slices.SortStableFunc(m.members, inOrder)
	m.members = m.distinct()
	m.keys = make([]string, len(m.members))
	for i, l := range m.members {
		m.keys[i] = l.Key()
		c, opts := first(l)
		if m.c == nil && c != nil {
			m.c, m.opts = c, opts
		}
		wait, said, err := budget(opts)
		switch {
		case err != nil:
			m.refuse(l.Key(), err)
		case said && wait != leases.UntilDone && (m.wait == leases.UntilDone || wait < m.wait):
			m.wait = wait
		}
	}
	m.key = strings.Join(m.keys, ", ")
	return m
}

// refuse records why m cannot be locked, unless there is a reason already.
func (m *MultiLock) refuse(key string, err error) {
	if m.err == nil {
		m.err = &observe.Error{Op: "lock", Key: key, Err: err}
	}
}

func (m *MultiLock) Key() string { return core.OrZero(m).key }

func (m *MultiLock) Lock(ctx context.Context, opts ...leases.Option) (*leases.Lease, error) {
	switch {
	case m != nil && m.err != nil:
		return nil, m.err
	case m == nil || len(m.members) == 0:
		return nil, &observe.Error{Op: "lock", Key: m.Key(), Err: core.ErrNoLock}
	}
	ctx = core.Present(ctx)
	a := leases.Attempt{Client: m.c.Core(), Op: "lock", Kind: core.KindMulti, Key: m.key, Parts: m.keys}
	a.Config.Label = leases.LabelOf(m.opts, opts)
	a.ReportStart(ctx)
	whole, err := m.take(ctx, opts, a.Config.Label, a.WaitsFor)
	if err != nil {
		addHolder(a.Blocked, err)
		a.ReportEnd(observe.AcquireEvent{Err: err})
		return nil, err
	}
	a.Acquired(whole.Core(), 0)
	return whole, nil
}

// take locks all members, and tries again when one of them was lost meanwhile.
func (m *MultiLock) take(ctx context.Context, opts []leases.Option, label *engine.Label, waiting leases.WaitingPart) (*leases.Lease, error) {
	start := core.Now()
	wait, said, err := budget(opts)
	switch {
	case err != nil:
		return nil, &observe.Error{Op: "lock", Key: m.key, Err: err}
	case !said:
		wait = m.wait
	}
	if err := m.check(opts); err != nil {
		return nil, err
	}
	part := &leases.Part{Of: engine.Whole{Kind: core.KindMulti, Label: label}, Waits: waiting}
	for tr := m.tracer(); ; {
		if ctx.Err() != nil {
			return nil, &observe.Error{Op: "lock", Key: m.key, Err: core.Ended(ctx)}
		}
		tr.Begins(m.keys)
		parts, last, err := m.all(ctx, tr, append(slices.Clip(opts), part), wait, start)
		now := monotonic.Now() // one look at the clock for all
		lost := slices.IndexFunc(parts, func(part *leases.Lease) bool {
			return !part.Core().TrustedAt(now) && errors.Is(part.Err(), failure.ErrLost)
		})
		if err == nil && lost >= 0 { // while the answer to a try for others was late
			err = &observe.Error{Op: "lock", Key: m.key, Err: parts[lost].Err()}
		}
		if err == nil {
			c := m.c.Core() // which has the begin of the call
			if c == nil {
				c = parts[0].Core().Client()
			}
			whole := leases.New(c, core.KindMulti, last.Context())
			whole.Core().Label = label // a part may end at any moment, and the whole with it
			tr.Takes(whole.Core())
			compose(whole, c, m.key, len(parts), parts)
			return whole, nil
		}
		tr.Says(trace.Ends)
		if err == resource.ErrYielded { //nolint:errorlint // this very one
			continue
		}
		again := wait == leases.UntilDone || time.Since(start) < wait
		undo(ctx, parts)
		if lost < 0 || !again || ctx.Err() != nil {
			return nil, err
		}
	}
}

func (m *MultiLock) TryLock(ctx context.Context, opts ...leases.Option) (*leases.Lease, error) {
	return m.Lock(ctx, append(slices.Clip(opts), leases.Once)...)
}

// all locks the members in order, each under the context of the one before: so the last context ends with the first
// loss, and locking any of the keys under it enters again. It returns the leases and the one with the last context.
// After an error it returns the leases that it has, which the caller has to release; with the error ErrYielded the
// caller may try again.
func (m *MultiLock) all(ctx context.Context, tr *trace.Caller, opts []leases.Option, wait time.Duration, start time.Time) (parts []*leases.Lease, last *leases.Lease, err error) {
	under := ctx
	var extended time.Time // when the first members were granted, or all were extended last
	add := func(more ...*leases.Lease) {
		if len(parts) == 0 {
			extended = core.Now()
		}
		if parts == nil {
			parts = more
		} else {
			parts = append(parts, more...)
		}
		if len(more) > 0 {
			last = more[len(more)-1]
			under = last.Context()
		}
	}
	left := func() leases.Option {
		if wait == leases.UntilDone {
			return leases.WithWait(leases.UntilDone)
		}
		return leases.WithWait(max(0, wait-time.Since(start)))
	}
	var end time.Time // of a try whose answer does not come; zero without a bound
	if wait > 0 && wait <= math.MaxInt64-resource.LastAnswer {
		end = start.Add(wait + resource.LastAnswer)
	}
	waited := 0 // number of members that were granted before the last ones
	for len(parts) < len(m.members) {
		rest := m.members[len(parts):]
		waited = len(parts)
		if mutexes := neighbours(rest); len(mutexes) > 1 {
			tr.Asks(trace.Tries, len(parts), len(mutexes))
			got, again, err := tryTogether(ctx, under, tr, mutexes, end, wait == leases.UntilDone, opts)
			add(got...)
			switch {
			case err == nil:
				continue
			case ctx.Err() != nil:
				return parts, nil, endedAt(ctx, m.key, err) // even if another error came first
			case !again || wait == 0 || errors.Is(err, failure.ErrUnavailable) && overdue(wait, start):
				return parts, nil, err
			}
			rest = m.members[len(parts):]
			waited = len(parts)
		}
		more := opts
		if wait != leases.UntilDone {
			more = append(slices.Clip(opts), left())
		}
		tr.Asks(trace.Stands, len(parts), 1)
		part, kept, err := m.behind(under, rest[0], parts, more, extended)
		extended = kept
		switch {
		case errors.Is(err, resource.ErrYielded):
			return m.yield(ctx, tr, parts, end, opts, left)
		case err != nil:
			tracesPart(tr, 0, nil)
			return parts, nil, err
		}
		tracesPart(tr, 0, part)
		add(part)
	}
	return parts, last, m.lengthen(ctx, parts[:waited], opts)
}

// overdue reports whether a wait from start on is over.
func overdue(wait time.Duration, start time.Time) bool {
	return wait != leases.UntilDone && time.Since(start) >= wait
}

// lengthen extends the leases of the first members, if their length is fixed: they have to last as long as others that were granted later.
// It fails if one of them is lost, and leaves one that it cannot extend as it is: the whole lease knows until when it is trusted.
func (m *MultiLock) lengthen(ctx context.Context, parts []*leases.Lease, opts []leases.Option) error {
	if err := extend(ctx, m.fixed(parts, opts)); errors.Is(err, failure.ErrLost) {
		return err
	}
	return nil
}

// keep extends the leases of the first members while the call waits for another one, if their length is fixed: the call would have to begin again
// if they ended. It extends them as often as the watchdog renews others, until ctx has ended; since is when they were extended last. wait is that of
// [repeat], and returns when they were extended last by then.
func (m *MultiLock) keep(ctx context.Context, parts []*leases.Lease, opts []leases.Option, since time.Time) (wait func() (extended time.Time)) {
	fixed := m.fixed(parts, opts)
	if len(fixed) == 0 {
		return func() time.Time { return since }
	}
	interval := slices.Min(slices.Collect(maps.Values(fixed))) / 3
	ended := repeat(ctx, max(0, interval-time.Since(since)), interval, func() bool {
		at := core.Now()
		err := extend(ctx, fixed)
		if err == nil { // otherwise one of them was not extended, or that is not known
			since = at
		}
		return !errors.Is(err, failure.ErrLost)
	})
	return func() time.Time {
		ended()
		return since
	}
}

// fixed returns the first members' leases of fixed length, and how long each of them is.
func (m *MultiLock) fixed(parts []*leases.Lease, opts []leases.Option) map[*leases.Lease]time.Duration {
	fixed := map[*leases.Lease]time.Duration{}
	for i, part := range parts {
		if d := length(m.members[i], part, opts); d > 0 {
			fixed[part] = d
		}
	}
	return fixed
}

// extend extends leases, all at once. Its error matches [failure.ErrLost] if one of them is lost.
func extend(ctx context.Context, fixed map[*leases.Lease]time.Duration) error {
	_, err := forParts(slices.Collect(maps.Keys(fixed)), len(fixed), func(part *leases.Lease) (struct{}, error) {
		err := part.Extend(ctx, fixed[part])
		return struct{}{}, core.FirstError(part.Err(), err)
	})
	return err
}

// length returns the fixed length of a part, the lease of l, that a call with opts wants. It returns 0 for a part that is renewed, and for one
// that has entered a lease of fixed length and wants none.
func length(l locks.Locker, part *leases.Lease, opts []leases.Option) time.Duration {
	d := fixedFor(part)
	if _, clients, base := describe(l); d > 0 && len(clients) > 0 {
		cfg, err := leases.Configure(clients[0].Core(), base, opts)
		if err != nil || cfg.Renew {
			return 0
		}
		return cfg.TTL
	}
	return d
}

// fixedFor returns the length of a lease that is not renewed, else 0. The lease of a RedLock has no guard of its own: its parts have.
func fixedFor(l *leases.Lease) (d time.Duration) {
	if co := compositeOf(l); co != nil {
		for _, part := range co.All() {
			d = max(d, fixedFor(part))
		}
	} else if g := l.Core().Guard(); g != nil && !g.Renew {
		d = g.TTL
	}
	return d
}

// addHolder adds a holder to err, the error of the member that the call did not get: the holder that b, of the call as a whole, has learned
// of.
func addHolder(b *fleet.Blockage, err error) {
	of := (*observe.Error)(nil)
	if !errors.As(err, &of) || of.Holder != nil && (of.Holder.Own || !of.Holder.Since.IsZero()) || !leases.HeldByOthers(of.Err) {
		return
	}
	if h := b.Holder("", of.Key); h != nil {
		of.Holder = h
	}
}

// endedAt returns the error of a call for several locks whose context has ended, when err was that of one of them.
func endedAt(ctx context.Context, whole string, err error) error {
	of := (*observe.Error)(nil)
	if !leases.HeldByOthers(err) || !errors.As(err, &of) {
		return &observe.Error{Op: "lock", Key: whole, Err: resource.EndedBy(ctx, err)}
	}
	if errors.Is(err, ctx.Err()) {
		return err
	}
	return &observe.Error{Op: "lock", Key: of.Key, Holder: of.Holder, Err: resource.EndedBy(ctx, err)}
}

// budget returns the wait time in opts, and whether they have one.
func budget(opts []leases.Option) (wait time.Duration, said bool, err error) {
	if len(opts) == 0 {
		return leases.UntilDone, false, nil
	}
	cfg := leases.Config{Wait: leases.UntilDone}
	cfg.Apply(opts)
	switch {
	case cfg.Bad != nil:
		return 0, true, cfg.Bad
	case cfg.Wait == leases.UntilDone:
		return leases.UntilDone, cfg.Said&leases.SaidWait != 0, nil
	case cfg.Wait < 0 && cfg.Wait != leases.UntilDone:
		return 0, true, fmt.Errorf("%w: a wait of %v is negative", failure.ErrBadOption, cfg.Wait)
	}
	return cfg.Wait, true, nil
}
