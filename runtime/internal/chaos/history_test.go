//go:build linux

package chaos

import (
	"cmp"
	"encoding/json"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// never is an instant that does not come.
const never = int64(math.MaxInt64)

// now reads the clock that all processes of a machine share, in nanoseconds. It does not jump.
func now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // there is no Linux without it
	}
	return t.Nano()
}

// instant returns t by that clock. It compares both clocks until nothing keeps it from reading them at once.
func instant(t time.Time) (at int64) {
	for best := int64(never); best > int64(10*time.Microsecond); {
		before := now()
		left := int64(time.Until(t))
		took := now() - before
		if took < best {
			best, at = took, before+left+took // not before t
		}
	}
	return at
}

// A what says what an event is about.
type what string

// The events of one call of Lock, in this order.
const (
	called   what = "called"   // Lock is about to be called
	failed   what = "failed"   // it returned an error, and nothing is held
	granted  what = "granted"  // it returned a lease
	told     what = "told"     // the lease ended by itself
	unlock   what = "unlock"   // Unlock is about to be called
	unlocked what = "unlocked" // it returned
)

// The events of the processes, and of the fault.
const (
	renewed   what = "renewed"   // a lease of a key that is held for long was
	ready     what = "ready"     // the process has connected
	leaked    what = "leaked"    // it has left something running
	stalled   what = "stalled"   // nothing ran in the process until Until: the machine was busy with something else
	killed    what = "killed"    // the process was killed
	broken    what = "broken"    // the fault begins; Proc says of which process, 0 of the server or of all
	mended    what = "mended"    // the fault is over
	forgotten what = "forgotten" // the server forgot, at some time up to Until, what it had granted for Key, or for all keys
	expired   what = "expired"   // the key of a holder that died is over
	closing   what = "closing"   // the run is over; waiters give up
)

// An event is one line of a history.
type event struct {
	At     int64  `json:"at"`
	What   what   `json:"what"`
	Proc   int    `json:"proc,omitempty"`
	Call   int    `json:"call,omitempty"`   // which call of Lock of the process
	Server int    `json:"server,omitempty"` // renewed: which of several
	Member int    `json:"member,omitempty"` // renewed: which of several
	Key    string `json:"key,omitempty"`
	Units  int    `json:"units,omitempty"` // how much of the key is asked for; 0 to find all of it free, and to take nothing
	Token  int64  `json:"token,omitempty"` // granted: the fencing token
	Until  int64  `json:"until,omitempty"` // told, unlock: the end of the trust, by the process's own clock
	Seen   int64  `json:"seen,omitempty"`  // told, unlock: when Lease.Err was last found to be nil
	Late   int64  `json:"late,omitempty"`  // failed: for how long Lock outlived its context
	Err    string `json:"err,omitempty"`   // failed, told, unlocked: the class of the error
}

// An attempt is one call of a lock and what became of it. Instants that did not come are never.
type attempt struct {
	proc, call int
	key        string
	units      int
	token      int64
	called     int64
	since      int64 // when the process had the key that it was granted, or called; set by settled
	failed     int64
	granted    int64
	told       int64
	until      int64
	seen       int64
	unlock     int64
	unlocked   int64
	killed     int64
	late       time.Duration

	lockErr, toldErr, unlockErr string
}

// trusted returns from when until when the process trusted its lease: from the grant to the call of
// Unlock, the moment it was told, the end of the trust by the clock, or its death.
func (a *attempt) trusted() (from, to int64) {
	return a.granted, max(a.granted, min(a.unlock, a.told, a.until, a.killed))
}

// long reports whether the lease is held for long.
func (a *attempt) long() bool {
	g := a.call / callsMost
	return a.units > 0 && (g == goroutineLong || g == goroutineShared)
}

// needs returns how much of the room has to be free.
func (a *attempt) needs(room int) int {
	if a.units == 0 {
		return room
	}
	return a.units
}

func (a *attempt) lost() bool { return a.toldErr == classLost || a.unlockErr == classLost }

// waited returns from when until when the process wanted the key and did not have it.
func (a *attempt) waited() (from, to int64) {
	return a.called, min(a.granted, a.failed, a.killed)
}

// A held is a key that a process has, or a member of one.
type held struct {
	proc   int
	key    string
	server int
	member int
}

// A history is what happened in one run. It may be written and read at once.
type history struct {
	mu       sync.Mutex
	events   []event
	marked   map[what][]event // those that are not about a call
	attempts map[[2]int]*attempt
	order    []*attempt
	renewals map[held]int64 // when a process last renewed a key that it holds for long, on one of several servers
	begun    map[int]bool   // processes that are ready
	died     map[int]int64  // processes that were killed, and when
	more     chan struct{}  // closed when there is more
	lingers  bool           // a process grants a key that lingers without a request
}

// staleMost is for how long after the server forgot a key a process may grant it that still lingers there: 20 ms, and as
// much longer as the machine does not let the process run.
const staleMost = int64(3 * time.Second)

func newHistory(events ...event) *history {
	h := &history{marked: map[what][]event{}, attempts: map[[2]int]*attempt{}, renewals: map[held]int64{}, begun: map[int]bool{}, died: map[int]int64{}, more: make(chan struct{})}
	for _, e := range events {
		h.add(e)
	}
	return h
}

// add writes one event.
func (h *history) add(e event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
	h.apply(e)
	close(h.more)
	h.more = make(chan struct{})
}

func (h *history) apply(e event) {
	switch e.What {
	case renewed:
		h.renewals[held{e.Proc, e.Key, e.Server, e.Member}] = e.At
	case ready:
		h.begun[e.Proc] = true
	case killed:
		h.died[e.Proc] = e.At
		for _, a := range h.order {
			if a.proc == e.Proc {
				a.killed = e.At
			}
		}
	}
	if e.Call == 0 {
		h.marked[e.What] = append(h.marked[e.What], e)
		return
	}
	id := [2]int{e.Proc, e.Call}
	a := h.attempts[id]
	if a == nil {
		a = &attempt{
			proc: e.Proc, call: e.Call, key: e.Key, units: e.Units,
			called: never, failed: never, granted: never, told: never, until: never, unlock: never, unlocked: never, killed: never,
		}
		if at, dead := h.died[e.Proc]; dead { // its earlier lines are read later
			a.killed = at
		}
		h.attempts[id] = a
		h.order = append(h.order, a)
	}
	switch e.What {
	case called:
		a.called = e.At
	case failed:
		a.failed, a.lockErr, a.late = e.At, e.Err, time.Duration(e.Late)
	case granted:
		a.granted, a.token = e.At, e.Token
	case told:
		a.told, a.toldErr, a.until, a.seen = e.At, e.Err, e.Until, e.Seen
	case unlock:
		a.unlock = e.At
		a.until, a.seen = min(a.until, e.Until), max(a.seen, e.Seen)
	case unlocked:
		a.unlocked, a.unlockErr = e.At, e.Err
	}
}

// pace is the shortest time between two looks at a history. A look goes through all calls, and in the tests that run beside the processes
// would wait for it.
const pace = 10 * time.Millisecond

// await returns when holds does, which is asked after new events, and false if it does not within patience. The time during which the
// machine did not let one of the processes run does not count.
func (h *history) await(patience time.Duration, holds func(all []*attempt) bool) bool {
	return h.awaitFrom(now(), patience, holds)
}

func (h *history) awaitFrom(since int64, patience time.Duration, holds func(all []*attempt) bool) bool {
	began := time.Now()
	over, next := time.NewTimer(patience), time.NewTicker(pace)
	defer over.Stop()
	defer next.Stop()
	for {
		h.mu.Lock()
		met, more := holds(h.order), h.more
		h.mu.Unlock()
		if met {
			return true
		}
		for waits := true; waits; {
			select {
			case <-more:
				waits = false
			case <-over.C:
				took := time.Since(began)
				f := &findings{pauses: h.pauses()}
				left := patience - took + f.pausedIn(since, since+int64(took))
				if left <= 0 {
					return false
				}
				over.Reset(left)
			}
		}
		<-next.C
	}
}

// marks returns what was said of one kind that is not about a call.
func (h *history) marks(w what) []event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.marked[w]
}

// settled returns the attempts by the time at which they were called.
func (h *history) settled() []*attempt {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := slices.Clone(h.order)
	slices.SortStableFunc(all, func(a, b *attempt) int { return cmp.Compare(a.called, b.called) })
	for i, a := range all {
		a.since = a.called
		if h.lingers {
			h.linger(a, all[:i])
		}
	}
	return all
}

// linger finds that a process granted a key that lingered since before the server forgot it. Such a grant is
// one of the process's lease of that time, of which it has the next token.
func (h *history) linger(a *attempt, before []*attempt) {
	for _, f := range h.marked[forgotten] {
		if f.Key != "" && f.Key != a.key || a.called <= f.Until || a.called > f.Until+staleMost {
			continue
		}
		for _, b := range before {
			if b.proc == a.proc && b.key == a.key && b.granted != never && b.token != 0 && b.token+1 == a.token && b.since <= f.Until {
				a.since = b.since
				return
			}
		}
	}
}

// A span is a time, from one instant to another.
type span struct{ from, to int64 }

// pauses returns the times during which one of the processes did not run, though nobody had stopped it.
func (h *history) pauses() []span {
	var all []span
	for _, e := range h.marks(stalled) {
		if e.Proc == 0 || !h.during(e.At, e.Until, e.Proc) {
			all = append(all, span{e.At, e.Until})
		}
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var merged []span
	for _, s := range all {
		if n := len(merged); n > 0 && s.from <= merged[n-1].to {
			merged[n-1].to = max(merged[n-1].to, s.to)
			continue
		}
		merged = append(merged, s)
	}
	return merged
}

// during reports whether a fault of the process was between from and to.
func (h *history) during(from, to int64, proc int) bool {
	ends := h.marks(mended)
	for i, b := range h.marks(broken) {
		e := never
		if i < len(ends) {
			e = ends[i].At
		}
		if b.Proc == proc && from < e && b.At < to {
			return true
		}
	}
	return false
}

// longest returns how long the longest fault lasted.
func (h *history) longest() (d time.Duration) {
	begins := h.marks(broken)
	for i, e := range h.marks(mended) {
		d = max(d, time.Duration(e.At-begins[i].At))
	}
	return d
}

// save writes the history to a file, one event a line, in the order of the clock.
func (h *history) save(path string) error {
	h.mu.Lock()
	events := slices.Clone(h.events)
	h.mu.Unlock()
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.At, b.At) })
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(f)
	for _, e := range events {
		if err := enc.Encode(e); err != nil {
			_ = f.Close()
			return err
		}
	}
	return f.Close()
}
