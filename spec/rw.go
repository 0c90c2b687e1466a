package spec

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An RW is a read-write lock, with the lines and the turn beside it: lock, queue and turn of RWMutex.tla. Names are
// those of the module. A process is a name, which in the queues of traces has a + behind it if it gets no messages. An
// RW is immutable.
type RW struct {
	Mode    string   // free, read or write
	By      []string // in order
	Readers []string // the two lines
	Writers []string
	Turn    Turn
}

// A Turn says whose it is to have the lock.
type Turn struct {
	Whose, Last string
	Called      []string // in order
	On          bool     // it counts, if it is somebody's

	For time.Duration // in traces alone: for how long it counts
}

// NoTurn is what no turn is.
var NoTurn = Turn{Whose: "none", Last: "none"}

// For how long the turn counts: of a waiter that is called and hears it, of one that asks by its timer, and of Redisson's programs.
const (
	graceTurn   = 100 * time.Millisecond
	unheardTurn = 500 * time.Millisecond
	javaTurn    = 5 * time.Millisecond
)

// Counts reports whether it is anybody's.
func (t Turn) Counts() bool { return t.On && (t.Whose == "redisson" || len(t.Called) > 0) }

// A chooser says what comes of calling those in the wait queue.
type chooser struct {
	hears func(place string) bool // a message: else it is dead, unless it asks by its timer
}

func ownerAt(place string) string { return strings.TrimSuffix(place, "+") }

func listed(line []string, owner string) int {
	return slices.IndexFunc(line, func(place string) bool { return ownerAt(place) == owner })
}

func withoutOwner(line []string, owner string) []string {
	return slices.DeleteFunc(slices.Clone(line), func(place string) bool { return ownerAt(place) == owner })
}

func (l RW) line(side string) []string {
	if side == "write" {
		return l.Writers
	}
	return l.Readers
}

func (l RW) with(side string, line []string) RW {
	if side == "write" {
		l.Writers = line
	} else {
		l.Readers = line
	}
	return l
}

func (l RW) out(side, owner string) RW { return l.with(side, withoutOwner(l.line(side), owner)) }

// stands has a waiter stand at a place; a call that does not wait has none.
func (l RW) stands(side, place string) RW {
	line := slices.Clone(l.line(side))
	switch i := listed(line, ownerAt(place)); {
	case place == "":
	case i >= 0:
		line[i] = place
	default:
		line = append(line, place)
	}
	return l.with(side, line)
}

// comes returns for how long the turn of a called waiter counts, or 0 if the waiter is dead.
func (c chooser) comes(place string) time.Duration {
	switch {
	case c.hears(place):
		return graceTurn
	case strings.HasSuffix(place, "+"):
		return unheardTurn
	}
	return 0
}

// A chosen is what came of it: whether others than the asker were called, and whether the asker was.
type chosen struct {
	l            RW
	others, mine bool
}

func (c chooser) callReaders(l RW, asker string) chosen {
	line := l.Readers
	to := chosen{l: l.with("read", nil)}
	t := Turn{Whose: "read", Last: "read", On: true}
	for _, place := range line {
		if ownerAt(place) == asker {
			to.mine = true
		} else if for_ := c.comes(place); for_ > 0 {
			t.Called, t.For = append(t.Called, ownerAt(place)), max(t.For, for_)
		}
	}
	slices.Sort(t.Called)
	if to.others = len(t.Called) > 0; to.others || to.mine {
		to.l.Turn = t
	}
	return to
}

func (c chooser) callWriter(l RW, asker string) chosen {
	for k, place := range l.Writers {
		for_, mine := c.comes(place), ownerAt(place) == asker
		if for_ == 0 && !mine {
			continue
		}
		to := chosen{l: l.with("write", slices.Clone(l.Writers[k+1:])), others: !mine, mine: mine}
		to.l.Turn = Turn{Whose: "write", Last: "write"}
		if !mine {
			to.l.Turn.Called, to.l.Turn.On, to.l.Turn.For = []string{ownerAt(place)}, true, for_
		}
		return to
	}
	return chosen{l: l.with("write", nil)}
}

// choose is CHOOSE: the other side than the last one's is first.
func (c chooser) choose(l RW, asker string) chosen {
	sides := []string{"write", "read"}
	if l.Turn.Last == "write" {
		sides = []string{"read", "write"}
	}
	for _, side := range sides {
		call := c.callWriter
		if side == "read" {
			call = c.callReaders
		}
		to := call(l, asker)
		if to.others || to.mine {
			return to
		}
		l = to.l
	}
	l.Turn = NoTurn
	return chosen{l: l}
}

func (l RW) has(side, owner string) RW {
	l.Mode = side
	l.By = append(slices.Clone(l.By), owner)
	slices.Sort(l.By)
	return l
}

// ask is the table of THE RULE. It returns the lock after a request, and whether the request was granted. place is where the owner waits, if
// it waits. The answer also counts for the called waiters that are alike: those of its process.
func (c chooser) ask(l RW, side, owner, place string, alike func(called string) bool) (to RW, granted bool) {
	t := l.Turn
	switch {
	case l.Mode == "write", l.Mode == "read" && side == "write":
		return l.stands(side, place), false
	case len(l.Readers) == 0 && len(l.Writers) == 0 && t.Whose == "none":
		return l.has(side, owner), true
	case t.Counts() && t.Whose == side && slices.ContainsFunc(t.Called, alike):
		to = l.out(side, owner)
		to.Turn.Called = slices.DeleteFunc(slices.Clone(t.Called), alike)
		return to.has(side, owner), true
	case side == "read" && len(l.Writers) == 0 && (t.Counts() && t.Whose == "read" || !t.Counts() && l.Mode == "read"):
		return l.out(side, owner).has(side, owner), true
	case t.Counts(), l.Mode == "read":
		return l.stands(side, place), false
	}
	got := c.choose(l.stands(side, place), owner)
	if got.others && !got.mine {
		return got.l, false
	}
	return got.l.has(side, owner), true
}

// unlock releases what an owner has. If it was the last one, and a Redisson program listens, that has its turn.
func (c chooser) unlock(l RW, side, owner string, java bool) RW {
	if l.By = withoutOwner(l.By, owner); len(l.By) > 0 {
		return l
	}
	l.Mode = "free"
	if java && (side == "read" || len(l.Readers) == 0) {
		l.Turn = Turn{Whose: "redisson", Last: side, On: true, For: javaTurn}
		return l
	}
	l.Turn.Last = side
	return c.choose(l, "").l
}

// leave takes one that waits, or does not any more, out of its line and out of the turn.
func (c chooser) leave(l RW, side, owner string) RW {
	stood := listed(l.line(side), owner) >= 0
	called := l.Turn.Counts() && slices.Contains(l.Turn.Called, owner)
	to := l.out(side, owner)
	if called {
		to.Turn.Called = withoutOwner(l.Turn.Called, owner)
	}
	switch {
	case !stood && !called:
		return l
	case l.Mode == "free" && !to.Turn.Counts():
		return c.choose(to, "").l
	case l.Mode == "read" && side == "write" && len(to.Writers) == 0:
		return c.callReaders(to, "").l
	}
	return to
}

// RWBounds are the constants of RWMutex.tla. The readers are r1, r2, ..., the writers w1, w2, ...
type RWBounds struct {
	Readers, Writers, Deaths int
	Known, Java              bool
}

// An RWState is one value of each variable of the module.
type RWState struct {
	RW
	Proc   map[string]string // idle, waits, has or dead
	Deaths int
}

// javas is the owner of the lock while a Redisson program has it.
const javas = "redisson"

// Init is the state in which all begins.
func (b RWBounds) Init() RWState {
	s := RWState{RW: RW{Mode: "free", Turn: NoTurn}, Proc: map[string]string{}, Deaths: b.Deaths}
	for i := range b.Readers {
		s.Proc[fmt.Sprintf("r%d", i+1)] = "idle"
	}
	for i := range b.Writers {
		s.Proc[fmt.Sprintf("w%d", i+1)] = "idle"
	}
	return s
}

func (s RWState) to(l RW) RWState {
	s.RW, s.Proc = l, maps.Clone(s.Proc)
	return s
}

func (s RWState) set(p, st string) RWState {
	s = s.to(s.RW)
	s.Proc[p] = st
	return s
}

func sideOf(p string) string {
	if strings.HasPrefix(p, "w") {
		return "write"
	}
	return "read"
}

// Next returns what may become of s.
func (b RWBounds) Next(s RWState) (all []RWState) {
	c := chooser{hears: func(p string) bool { return s.Proc[p] != "dead" || !b.Known }}
	for p, st := range s.Proc {
		side := sideOf(p)
		if st == "idle" || st == "waits" {
			to, granted := c.ask(s.RW, side, p, p, func(called string) bool { return called == p })
			next := s.to(to)
			next.Proc[p] = "waits"
			if granted {
				next.Proc[p] = "has"
			}
			all = append(all, next)
		}
		if st == "has" {
			idle := s.set(p, "idle")
			all = append(all, idle.to(c.unlock(s.RW, side, p, false)))
			if b.Java {
				all = append(all, idle.to(c.unlock(s.RW, side, p, true)))
			}
		}
		if st == "waits" {
			all = append(all, s.set(p, "idle").to(c.leave(s.RW, side, p)))
		}
		if st != "dead" && s.Deaths > 0 {
			next := s.set(p, "dead")
			next.Deaths--
			all = append(all, next)
		}
	}
	if s.Turn.On {
		next := s.to(s.RW)
		next.Turn.On = false
		all = append(all, next)
	}
	live := slices.DeleteFunc(slices.Clone(s.By), func(p string) bool { return s.Proc[p] == "dead" })
	if len(live) < len(s.By) {
		next := s.to(s.RW)
		if next.By = live; len(live) == 0 {
			next.Mode = "free"
		}
		all = append(all, next)
	}
	if b.Java && s.Mode == "free" {
		all = append(all, s.to(s.has("write", javas)))
	}
	if slices.Equal(s.By, []string{javas}) {
		next := s.to(s.RW)
		next.Mode, next.By = "free", nil
		all = append(all, next)
	}
	return all
}

// Key tells states apart.
func (s RWState) Key() string {
	var b strings.Builder
	word := func(some ...string) {
		for _, w := range some {
			b.WriteString(w)
			b.WriteByte(' ')
		}
		b.WriteByte(';')
	}
	word(s.Mode)
	word(s.By...)
	word(s.Readers...)
	word(s.Writers...)
	word(s.Turn.Whose, s.Turn.Last, strconv.FormatBool(s.Turn.On))
	word(s.Turn.Called...)
	for _, p := range slices.Sorted(maps.Keys(s.Proc)) {
		word(p, s.Proc[p])
	}
	word(strconv.Itoa(s.Deaths))
	return b.String()
}
