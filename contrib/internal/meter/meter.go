// Package meter turns the hooks of a client into the instruments that metrics libraries have. The modules beside it use it, one for each
// library; it is not for import.
package meter

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// Labels identify a series of an instrument. The labels that an instrument does not have are empty.
type Labels struct {
	Kind      string
	Name      string
	Outcome   string // of an acquire duration: lockrt.Outcome
	Contended bool   // of an acquire duration
	Cause     string // of a hold duration: lockrt.EndReason
	Result    string // of renewals: "ok" or "failed"
	Reason    string // of losses: lockrt.EndReason
	Broken    bool   // of deadlocks: the call was ended
	From      string // of hand-overs: "local" or "remote"
}

// An Observe records a duration in seconds.
type Observe func(ctx context.Context, seconds float64)

// An Add adds to a count.
type Add func(ctx context.Context, n int64)

// Instruments make series. The Meter calls each function once for the same labels.
type Instruments struct {
	AcquireDuration func(Labels) Observe
	HoldDuration    func(Labels) Observe
	Held            func(Labels) Add
	Waiting         func(Labels) Add
	Renewals        func(Labels) Add
	Losses          func(Labels) Add
	HandOvers       func(Labels) Add
	Deadlocks       func(Labels) Add
}

// MostNames is how many names have series of their own. Later names share one, with the name [Other]. There should be
// few names; a program that makes names from keys must not fill the memory of its monitoring.
const (
	MostNames = 1000
	Other     = "other"
)

// A Meter writes the events of hooks to instruments. It is safe for concurrent use, by several clients too.
type Meter struct {
	to  Instruments
	age *age

	mu    sync.Mutex // guards changes
	names map[string]bool
	locks atomic.Pointer[map[string][]*lock] // by name, one of each kind: Go finds a string in less time than a struct of two
	early [128]atomic.Pointer[lock]          // by index of kind and name: the first one of each place, which is found without the map
}

// A lock has the series of one kind and name. A series is made at its first use.
type lock struct {
	of        Labels
	acquires  [len(outcomes)][2]series[Observe] // the second is for contended acquisitions
	holds     [len(reasons)]series[Observe]
	losses    [len(reasons)]series[Add]
	renewals  [2]series[Add] // the second is for failures
	handOvers [2]series[Add] // the second is for those from another process
	deadlocks [2]series[Add] // the second is for calls that were ended
	held      series[Add]
	waiting   series[Add]
	begun     begun
}

// leases reports whether calls get leases or permits of the lock.
func (l *lock) leases() bool {
	return l.of.Kind != string(lockrt.KindSemaphore) && l.of.Kind != string(lockrt.KindLatch)
}

// The values of labels. An event with another value counts as the first one.
var (
	outcomes = [...]lockrt.Outcome{lockrt.OutcomeError, lockrt.OutcomeAcquired, lockrt.OutcomeBusy, lockrt.OutcomeCancelled, lockrt.OutcomeLost}
	reasons  = [...]lockrt.EndReason{lockrt.EndOther, lockrt.EndReleased, lockrt.EndClosed, lockrt.EndTaken, lockrt.EndElapsed, lockrt.EndMaxHold, lockrt.EndUnconfirmed}
	grants   = [...]lockrt.Grant{lockrt.GrantLocal, lockrt.GrantRemote}
	results  = [...]string{"ok", "failed"}
)

// New returns a Meter that writes to instruments.
func New(to Instruments) *Meter {
	m := &Meter{to: to, age: newAge(), names: map[string]bool{}}
	m.locks.Store(&map[string][]*lock{})
	return m
}

// Hooks returns hooks that write to the instruments and then call next.
func (m *Meter) Hooks(next lockrt.Hooks) lockrt.Hooks {
	hooks := next
	hooks.Waiting = func(ctx context.Context, e lockrt.AcquireEvent) {
		l := m.lock(e.Kind, e.Name)
		l.waiting.get(m, m.to.Waiting, &l.of)(ctx, 1)
		if next.Waiting != nil {
			next.Waiting(ctx, e)
		}
	}
	hooks.AcquireEnd = func(ctx context.Context, e lockrt.AcquireEvent) {
		m.acquired(ctx, &e)
		if next.AcquireEnd != nil {
			next.AcquireEnd(ctx, e)
		}
	}
	hooks.Acquired = func(ctx context.Context, e lockrt.AcquireEvent) context.Context {
		l := m.lock(e.Kind, e.Name)
		l.held.get(m, m.to.Held, &l.of)(ctx, 1)
		m.age.begin(&l.begun)
		if next.Acquired != nil {
			return next.Acquired(ctx, e)
		}
		return ctx
	}
	hooks.Renewed = func(ctx context.Context, e lockrt.RenewEvent) {
		m.renewed(ctx, &e)
		if next.Renewed != nil {
			next.Renewed(ctx, e)
		}
	}
	hooks.Deadlock = func(ctx context.Context, e lockrt.DeadlockEvent) {
		l, i := m.lock(e.Kind, e.Name), 0
		if e.Broken {
			i = 1
		}
		m.deadlock(l, i)(ctx, 1)
		if next.Deadlock != nil {
			next.Deadlock(ctx, e)
		}
	}
	hooks.Ended = func(ctx context.Context, e lockrt.EndEvent) {
		m.ended(ctx, &e)
		if next.Ended != nil {
			next.Ended(ctx, e)
		}
	}
	return hooks
}

func (m *Meter) acquired(ctx context.Context, e *lockrt.AcquireEvent) {
	l, contended := m.lock(e.Kind, e.Name), 0
	if e.Contended {
		contended = 1
		l.waiting.get(m, m.to.Waiting, &l.of)(ctx, -1)
	}
	if i := slices.Index(grants[:], e.Grant); i >= 0 {
		l.handOvers[i].get(m, m.to.HandOvers, &l.of, func(of *Labels) { of.From = string(e.Grant) })(ctx, 1)
	}
	i := max(0, slices.Index(outcomes[:], e.Outcome))
	l.acquires[i][contended].get(m, m.to.AcquireDuration, &l.of, func(of *Labels) {
		of.Outcome, of.Contended = string(outcomes[i]), e.Contended
	})(ctx, e.Waited.Seconds())
}

func (m *Meter) renewed(ctx context.Context, e *lockrt.RenewEvent) {
	l, i := m.lock(e.Kind, e.Name), 0
	if e.Err != nil {
		i = 1
	}
	m.renewal(l, i)(ctx, 1)
}

func (m *Meter) ended(ctx context.Context, e *lockrt.EndEvent) {
	l, i := m.lock(e.Kind, e.Name), max(0, slices.Index(reasons[:], e.Reason))
	l.held.get(m, m.to.Held, &l.of)(ctx, -1)
	m.age.end(&l.begun, e)
	if isLoss(reasons[i]) {
		m.loss(l, i)(ctx, 1)
	}
	l.holds[i].get(m, m.to.HoldDuration, &l.of, func(of *Labels) { of.Cause = string(reasons[i]) })(ctx, e.Held.Seconds())
}

// lock returns the series of one kind and name.
func (m *Meter) lock(kind lockrt.Kind, name string) *lock {
	if l := m.early[place(kind, name)].Load(); l != nil && l.of.Name == name && l.of.Kind == string(kind) {
		return l
	}
	return m.find(kind, name)
}

// place returns the index in early of the locks of a kind and name. Names differ most often at their ends.
func place(kind lockrt.Kind, name string) uint8 {
	i := uint8(len(kind)) + 31*uint8(len(name))
	if n := len(name); n > 1 {
		i += 7*name[n-1] + 67*name[n-2]
	}
	return i % 128
}

// find is lock without early.
func (m *Meter) find(kind lockrt.Kind, name string) *lock {
	l := ofKind((*m.locks.Load())[name], kind)
	if l == nil {
		var fresh bool
		if l, fresh = m.add(kind, strings.ToValidUTF8(name, "\uFFFD")); fresh { // metrics libraries refuse or drop other text
			m.zero(l)
		}
	}
	if l.of.Name == name {
		m.early[place(kind, name)].CompareAndSwap(nil, l)
	}
	return l
}

// all returns the series of all kinds and names.
func (m *Meter) all() iter.Seq[*lock] {
	return func(yield func(*lock) bool) {
		for _, kinds := range *m.locks.Load() {
			for _, l := range kinds {
				if !yield(l) {
					return
				}
			}
		}
	}
}

// ofKind returns the one of a kind, or nil.
func ofKind(all []*lock, kind lockrt.Kind) *lock {
	for _, l := range all {
		if l.of.Kind == string(kind) {
			return l
		}
	}
	return nil
}

// add makes the series of one kind and name, unless another goroutine has made them meanwhile.
func (m *Meter) add(kind lockrt.Kind, name string) (l *lock, fresh bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := *m.locks.Load()
	if !m.names[name] && len(m.names) >= MostNames {
		name = Other
	} else {
		m.names[name] = true
	}
	if l := ofKind(all[name], kind); l != nil {
		return l, false
	}
	next := maps.Clone(all)
	l = &lock{of: Labels{Kind: string(kind), Name: name}}
	next[name] = append(slices.Clone(all[name]), l)
	m.locks.Store(&next)
	return l, true
}

// zero makes the series of what should never happen, which begin at 0. A series that begins at 1 has no increase in
// Prometheus, and an alert would miss the first loss.
func (m *Meter) zero(l *lock) {
	if !l.leases() {
		return
	}
	ctx := context.Background()
	for i, reason := range reasons {
		if isLoss(reason) {
			m.loss(l, i)(ctx, 0)
		}
	}
	m.renewal(l, 1)(ctx, 0)
	for i := range l.deadlocks {
		m.deadlock(l, i)(ctx, 0)
	}
}

// isLoss reports whether a lease that ended for this reason was lost.
func isLoss(reason lockrt.EndReason) bool {
	return reason != lockrt.EndReleased && reason != lockrt.EndClosed
}

// loss, renewal and deadlock return a counter of l, for the index of its label.
func (m *Meter) loss(l *lock, i int) Add {
	return l.losses[i].get(m, m.to.Losses, &l.of, func(of *Labels) { of.Reason = string(reasons[i]) })
}

func (m *Meter) renewal(l *lock, i int) Add {
	return l.renewals[i].get(m, m.to.Renewals, &l.of, func(of *Labels) { of.Result = results[i] })
}

func (m *Meter) deadlock(l *lock, i int) Add {
	return l.deadlocks[i].get(m, m.to.Deadlocks, &l.of, func(of *Labels) { of.Broken = i == 1 })
}

// A series is made at its first use. To look it up takes no lock and no memory.
type series[V any] struct{ made atomic.Pointer[V] }

// get returns the series. It makes the series from the labels of a lock and its own.
func (s *series[V]) get(m *Meter, to func(Labels) V, of *Labels, own ...func(*Labels)) V {
	if v := s.made.Load(); v != nil {
		return *v
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if v := s.made.Load(); v != nil {
		return *v
	}
	labels := *of
	for _, add := range own {
		add(&labels)
	}
	v := to(labels)
	s.made.Store(&v)
	return v
}
