//go:build linux

package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A figure is something that is measured in a history.
type figure string

// The figures. Each is the largest of the run.
const (
	double  figure = "double hold" // for how long more was trusted at once than a key has room for
	telling figure = "told"        // from the fault until the holder knew
	unheld  figure = "unheld"      // for how long a key had room for a waiter
	service figure = "served"      // from the end of the fault, or of the dead holder's key, to the next grant
	typical figure = "hand-over"   // median time from Unlock of the long key in one process to the grant in another
	late    figure = "late"        // for how long Lock outlived its context
	giving  figure = "unlock"      // for how long Unlock took
	refusal figure = "refused"     // median time in which a call during the fault was given the server's error
)

// Rules are what a history must keep.
type rules struct {
	room    int // of each key
	lease   time.Duration
	limits  map[figure]time.Duration // the figures that are bounded; double is, by 0, if it is not here
	keeps   bool                     // nobody loses anything, unless the machine kept it from renewing
	holds   bool                     // the holder of the long key when the fault begins goes on, likewise
	loses   bool                     // the holder of the long key when the fault begins learns that it is lost
	spares  bool                     // only processes that the fault is about lose anything, likewise
	stops   bool                     // the fault stops the process that it is about
	forgets bool                     // a release that came just before the fault, or later, may be forgotten: then the key is locked until the lease is over
	away    bool                     // nobody is answered during the fault, which may last for longer than it should
	mutes   bool                     // it may keep Unlock from hearing an answer within its bound, and Close, if a mute connection is found later
	allowed []string                 // errors of Lock that there may be, by their class or a part of their text
}

// Findings are what was found.
type findings struct {
	runs, missed   int // that it is of, and how many of these found a violation
	grants, losses int
	doubles        int // times that more was trusted at once than a key has room for
	figures        map[figure]time.Duration
	paused         time.Duration // the longest time during which the machine did not let a process run
	violations     []string

	pauses []span
}

// add adds what another run of the same fault found, and keeps the worst of both.
func (f *findings) add(other *findings) {
	f.runs += other.runs
	if len(other.violations) > 0 {
		f.missed++
	}
	f.grants += other.grants
	f.losses += other.losses
	f.doubles += other.doubles
	f.paused = max(f.paused, other.paused)
	f.violations = append(f.violations, other.violations...)
	f.pauses = append(f.pauses, other.pauses...)
	for g, d := range other.figures {
		f.figures[g] = max(f.figures[g], d)
	}
}

func (f *findings) violate(format string, args ...any) {
	f.violations = append(f.violations, fmt.Sprintf(format, args...))
}

// note keeps the largest. It leaves out the time during which the machine did not let one of the
// processes run: that is no delay of the lock.
func (f *findings) note(g figure, from, to int64) {
	f.figures[g] = max(f.figures[g], time.Duration(to-from)-f.pausedIn(from, to))
}

// pausedIn returns for how long the machine did not let one of the processes run in that time.
func (f *findings) pausedIn(from, to int64) time.Duration {
	sum := int64(0)
	for _, p := range f.pauses {
		sum += max(0, min(to, p.to)-max(from, p.from))
	}
	return time.Duration(sum)
}

// check looks at the whole history. It does not ask the model.
func (h *history) check(r rules) *findings {
	f := &findings{figures: map[figure]time.Duration{double: 0}, pauses: h.pauses()}
	for _, p := range f.pauses {
		f.paused = max(f.paused, time.Duration(p.to-p.from))
	}
	all := h.settled()
	end := never
	if over := h.marks(closing); len(over) > 0 {
		end = over[0].At
	}
	byKey := map[string][]*attempt{}
	for _, a := range all {
		byKey[a.key] = append(byKey[a.key], a)
	}
	for _, a := range all {
		f.attempt(a, r, h)
	}
	for key, of := range byKey {
		f.exclusion(of, r.room)
		f.tokens(key, of)
		f.waits(of, r.room, end)
	}
	f.telling(all, r, h)
	f.service(byKey, r, h, end)
	f.refusals(all, r, h)
	for _, l := range h.marks(leaked) {
		if r.mutes && muteFor(r.lease) > unlockBound && strings.Contains(l.Err, "close: requests are still unanswered") && !strings.Contains(l.Err, "DATA RACE") {
			continue
		}
		f.violate("process %d left behind: %s", l.Proc, l.Err)
	}
	for g, d := range f.figures {
		limit, bounded := r.limits[g]
		if g == double {
			bounded = true
		}
		if g == double && limit == 0 && f.doubles > 0 {
			d = max(d, 1) // whatever the machine was doing
		}
		if bounded && d > limit {
			f.violate("%s: %v, more than %v", g, d.Round(10*time.Microsecond), limit)
		}
	}
	for g := range r.limits {
		if _, measured := f.figures[g]; !measured {
			f.violate("%s: there was nothing to measure", g)
		}
	}
	slices.Sort(f.violations)
	return f
}

// attempt checks what one call says of itself.
func (f *findings) attempt(a *attempt, r rules, h *history) {
	stands := r.stops && h.during(a.called, min(a.failed, a.unlocked), a.proc)
	if a.failed != never {
		if a.lockErr != classContext && !r.allows(a.lockErr) {
			f.violate("process %d: Lock %q failed: %s", a.proc, a.key, a.lockErr)
		}
		if a.lockErr == classContext && !stands {
			f.note(late, a.failed-int64(a.late), a.failed)
		}
	}
	if a.granted == never {
		return
	}
	f.grants++
	if a.seen > a.until {
		f.violate("process %d: Lease.Err of %q was nil %v after its trust had ended", a.proc, a.key, time.Duration(a.seen-a.until))
	}
	if a.lost() {
		f.losses++
		at := min(a.told, a.unlock)
		starved := f.pausedIn(at-int64(r.lease), at) > r.lease/20
		if r.keeps && !starved && !(r.away && h.longest() > h.outlived(a, r.lease)) {
			f.violate("process %d lost %q, which it should have kept", a.proc, a.key)
		}
		if r.spares && !starved && !slices.ContainsFunc(h.marks(broken), func(e event) bool { return e.Proc == a.proc }) {
			f.violate("process %d lost %q, though the fault is not about it", a.proc, a.key)
		}
	}
	if a.unlocked != never {
		if a.unlockErr != "" && a.unlockErr != classLost && r.keeps && !(r.mutes && strings.Contains(a.unlockErr, "no answer within")) && !(r.away && h.longest() > unlockBound) {
			f.violate("process %d: Unlock %q failed: %s", a.proc, a.key, a.unlockErr)
		}
		if !stands {
			f.note(giving, a.unlock, a.unlocked)
		}
	}
}

// A change is what somebody takes or wants from some instant on, or no more.
type change struct {
	at          int64
	used        int
	needs, more int // so many more that need so much room
}

// sweep calls see with what was taken, and the most that a waiter needed, after each instant at which it
// changed; 0 if nobody waited.
func sweep(all []change, see func(at int64, used, needs int)) {
	slices.SortFunc(all, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	used, waits := 0, map[int]int{}
	for i, c := range all {
		used += c.used
		if waits[c.needs] += c.more; waits[c.needs] == 0 {
			delete(waits, c.needs)
		}
		if i+1 < len(all) && all[i+1].at == c.at {
			continue
		}
		most := 0
		for n := range waits {
			most = max(most, n)
		}
		see(c.at, used, most)
	}
}

// exclusion finds what was trusted beyond the room.
func (f *findings) exclusion(all []*attempt, room int) {
	var holds []change
	for _, a := range all {
		if from, to := a.trusted(); a.granted != never && from < to {
			holds = append(holds, change{at: from, used: a.units}, change{at: to, used: -a.units})
		}
	}
	since := int64(0)
	sweep(holds, func(at int64, used, _ int) {
		switch {
		case used > room && since == 0:
			since = at
			f.doubles++
		case used <= room && since != 0:
			f.note(double, since, at)
			since = 0
		}
	})
}

// tokens finds a lease that has no larger token than one that was granted before it was asked for.
func (f *findings) tokens(key string, all []*attempt) {
	type grant struct{ at, token int64 }
	var grants []grant
	for _, a := range all {
		if a.granted != never && a.token != 0 {
			grants = append(grants, grant{a.granted, a.token})
		}
	}
	slices.SortFunc(grants, func(a, b grant) int { return cmp.Compare(a.at, b.at) })
	before, largest := 0, int64(0)
	seen := map[int64]bool{}
	asked := slices.Clone(all)
	slices.SortStableFunc(asked, func(a, b *attempt) int { return cmp.Compare(a.since, b.since) })
	for _, a := range asked {
		if a.granted == never || a.token == 0 {
			continue
		}
		for before < len(grants) && grants[before].at < a.since {
			largest = max(largest, grants[before].token)
			before++
		}
		switch {
		case a.token <= largest:
			f.violate("%q: token %d was given after %d", key, a.token, largest)
		case seen[a.token]:
			f.violate("%q: token %d was given twice", key, a.token)
		}
		seen[a.token] = true
	}
}

// waits measures for how long there was room for a waiter, and how long it takes to go
// from one process to another.
func (f *findings) waits(all []*attempt, room int, end int64) {
	var both []change
	span := func(from, to int64, c change) {
		if to = min(to, end); from < to {
			c.at = from
			both = append(both, c, change{to, -c.used, c.needs, -c.more})
		}
	}
	var holds []*attempt
	for _, a := range all {
		from, to := a.waited()
		span(from, to, change{needs: a.needs(room), more: 1})
		if a.granted != never {
			from, to = a.trusted()
			span(from, to, change{used: a.units})
			holds = append(holds, a)
		}
	}
	since := int64(0)
	sweep(both, func(at int64, used, needs int) {
		switch idle := needs > 0 && used+needs <= room; {
		case idle && since == 0:
			since = at
		case !idle && since != 0:
			if at < end {
				f.note(unheld, since, at)
			}
			since = 0
		}
	})

	var took []int64
	for _, next := range holds {
		if next.key != longKey {
			continue
		}
		var last *attempt // of those in the way, the one that was so until the end
		left := int64(0)
		for _, a := range holds {
			_, to := a.trusted()
			if a.granted < next.granted && to <= next.granted && to > left && a.units > 0 && a.units+next.needs(room) > room {
				last, left = a, to
			}
		}
		if last != nil && next.proc != last.proc && next.called < last.granted && left == last.unlock && last.unlockErr == "" {
			took = append(took, next.granted-left-int64(f.pausedIn(left, next.granted)))
		}
	}
	if len(took) > 0 {
		slices.Sort(took)
		f.figures[typical] = max(f.figures[typical], time.Duration(took[len(took)/2]))
	}
}

// telling measures how long after the fault the losses were told.
func (f *findings) telling(all []*attempt, r rules, h *history) {
	faults := h.marks(broken)
	for _, a := range all {
		if a.told == never || a.toldErr != classLost || r.stops && h.during(a.granted, a.told, a.proc) {
			continue
		}
		for _, b := range slices.Backward(faults) {
			if b.At < a.told {
				f.note(telling, b.At, a.told)
				break
			}
		}
	}
	if !r.loses && !r.holds {
		return
	}
	for i, b := range faults {
		found := false
		for _, a := range all {
			_, to := a.trusted()
			if !a.long() || a.key != longKey && a.key != sharedKey || a.granted >= b.At || to <= b.At || b.Proc != 0 && a.proc != b.Proc || b.Key != "" && a.key != b.Key {
				continue
			}
			found = found || a.key == longKey
			at := min(a.told, a.unlock)
			switch starved := at != never && f.pausedIn(at-int64(r.lease), at) > r.lease/20; {
			case r.holds && a.lost() && a.key == longKey && !starved && h.longest() <= h.outlived(a, r.lease):
				f.violate("fault %d: process %d lost %q, which it should have kept", i+1, a.proc, a.key)
			case r.loses && !a.lost():
				f.violate("fault %d: process %d was never told that it had lost %q", i+1, a.proc, a.key)
			}
		}
		if !found && f.pausedIn(b.At-int64(r.lease), b.At) <= r.lease/20 { // else the holder may have lost it a moment before
			f.violate("fault %d: nobody held %q", i+1, longKey)
		}
	}
}

// service measures how long after the end of a fault the waiters were served.
func (f *findings) service(byKey map[string][]*attempt, r rules, h *history, end int64) {
	ends := h.marks(expired)
	if len(ends) == 0 {
		ends = h.marks(mended)
	}
	for i, e := range ends {
		began := int64(0)
		if begins := h.marks(broken); i < len(begins) {
			began = begins[i].At
		}
		for key, all := range byKey {
			if e.Key != "" && e.Key != key {
				continue
			}
			used, needs, soon := 0, 0, false
			from, next := e.At, never
			for _, a := range all {
				if r.forgets && a.unlock <= e.At && (a.unlocked > began-int64(50*ms) || a.unlockErr != "") {
					from = max(from, a.until+int64(r.lease/10)) // for so much less than it has a process trusts a lease
				}
				if from, to := a.waited(); from <= e.At && to > e.At {
					needs = max(needs, a.needs(r.room))
				}
				if granted, to := a.trusted(); a.granted != never && granted <= e.At && to > e.At {
					if r.loses && a.lost() { // it learns a moment later that the fault took it
						from = max(from, to)
					} else {
						used += a.units
					}
				}
				switch {
				case a.granted == never:
				case a.granted > e.At:
					next = min(next, a.granted)
				case a.granted > began:
					soon = true
				}
			}
			if soon {
				f.note(service, e.At, e.At) // before it was known to be over
			}
			if needs > 0 && used+needs <= r.room && e.At < end && from < end {
				if next == never {
					f.violate("%q: nobody was granted it after the fault, though somebody waited", key)
					continue
				}
				f.note(service, from, max(from, next))
			}
		}
	}
}

// refusals measures how long calls took that were given the error of the fault.
func (f *findings) refusals(all []*attempt, r rules, h *history) {
	if len(r.allowed) == 0 {
		return
	}
	var took []int64
	for _, a := range all {
		if a.failed != never && h.during(a.called, a.called+1, 0) && r.allows(a.lockErr) {
			took = append(took, a.failed-a.called-int64(f.pausedIn(a.called, a.failed)))
		}
	}
	if len(took) > 0 {
		slices.Sort(took)
		f.figures[refusal] = time.Duration(took[len(took)/2])
	}
}

// allows reports whether Lock may fail so.
func (r rules) allows(err string) bool {
	return slices.ContainsFunc(r.allowed, func(s string) bool { return strings.Contains(err, s) })
}
