package spec

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// An RWSaid is an event of a trace of a read-write lock in real time: what a server did for whom. The actions are:
//
//	Ask      of the module; it asked with a lease, and was granted the lock or not
//	Release  Unlock by one that has the lock, and GiveUp by any other
//	Renew    the holder has the lock for a lease from now, or longer
//	Yield    it keeps out readers for a while, if a Redisson program listens
//	Fault    the server has another state for a reason that is not of the protocol
type RWSaid struct {
	At      time.Duration // since the trace began
	Action  string
	Side    string // read or write
	Owner   string
	Place   string        // of Ask: where it stands, if it waits
	Lasts   time.Duration // of Ask: for how long the line lasts then; 0 if that is unknown
	TTL     time.Duration
	Granted bool                    // of Ask
	Hears   func(place string) bool // messages; it may be nil where nobody is called
	Java    bool                    // a Redisson program listens
	Srv     *RWSeen                 // the state of the server after it; nil if it is unknown
}

// An RWSeen is a read-write lock as a server has it. By are those whose leases have not run out.
type RWSeen struct {
	RW
	Left  time.Duration            // of the lock
	Holds map[string]time.Duration // of the readers: how long each has left
	Known time.Duration            // of the turn: for how long it says what was last
	Lines [2]time.Duration         // for how long the lines last, to read and to write

	// Lapsed are the readers whose leases have run out while the lock goes on for others. The lock has them still, so
	// nobody has written since, and a renewal that arrives late is granted.
	Lapsed []string
}

// An RWCheck replays the trace of one read-write lock, event by event, while it happens.
//
// The module leaves out some steps of the scripts: they forget a turn some time after it is over, and a line that no waiter asks to stand in; a
// call that does not wait asks without a place; a waiter that is called answers for all waiters of its process; and a holder may ask again.
// The check does not replay reading under a write lock.
type RWCheck struct {
	states []RWSeen
	at     time.Duration
	slack  time.Duration
	said   []RWSaid
}

// NewRWCheck returns a check of a trace. slack is how exact its times are.
func NewRWCheck(slack time.Duration) *RWCheck {
	return &RWCheck{states: []RWSeen{{RW: RW{Mode: "free", Turn: NoTurn}}}, slack: slack}
}

// Say replays the next event. It fails if that is none of the protocol.
func (c *RWCheck) Say(e RWSaid) error {
	d := max(0, e.At-c.at)
	c.at += d
	if c.said = append(c.said, e); len(c.said) > mostSaid {
		c.said = c.said[1:]
	}
	if e.Action == "Fault" && e.Srv != nil {
		c.states = []RWSeen{*e.Srv}
		return nil
	}
	after, err := followed(c.said, c.states, e.Srv != nil, func(s RWSeen) []RWSeen { return c.wait(s, d) }, func(s RWSeen) (RWSeen, string) {
		to, wrong := s.step(e)
		if wrong == "" && e.Srv != nil {
			to, wrong = c.agree(to, *e.Srv)
		}
		return to, wrong
	})
	if err == nil {
		c.states = after
	}
	return err
}

func (e RWSaid) String() string {
	s := fmt.Sprintf("%v %s of %s to %s", e.At, e.Action, e.Owner, e.Side)
	if e.Action == "Ask" {
		s += fmt.Sprintf(" at %q, granted %v", e.Place, e.Granted)
	}
	if e.Srv != nil {
		s += fmt.Sprintf(", %v", *e.Srv)
	}
	return s
}

func (s RWSeen) String() string {
	return fmt.Sprintf("%s by %v for %v, in line %v and %v, the turn of %s after %s for %v, called %v",
		s.Mode, s.By, s.Left, s.Readers, s.Writers, s.Turn.Whose, s.Turn.Last, s.Turn.For, s.Turn.Called)
}

// wait returns the states that s may have become d later: what ends at about that moment may have ended, or not.
func (c *RWCheck) wait(s RWSeen, d time.Duration) []RWSeen {
	all := []RWSeen{s}
	each := func(left func(s *RWSeen) time.Duration, ends func(s *RWSeen)) {
		for i, n := 0, len(all); i < n; i++ {
			l := left(&all[i])
			if l > c.slack {
				continue
			}
			over := all[i]
			over.Holds = maps.Clone(over.Holds)
			ends(&over)
			if l > -c.slack {
				all = append(all, over)
			} else {
				all[i] = over
			}
		}
	}
	s = all[0]
	s.Left, s.Known, s.Turn.For, s.Holds = s.Left-d, s.Known-d, s.Turn.For-d, maps.Clone(s.Holds)
	for p := range s.Holds {
		s.Holds[p] -= d
	}
	for i := range s.Lines {
		s.Lines[i] -= d
	}
	all[0] = s
	if s.Mode != "free" {
		each(func(s *RWSeen) time.Duration { return s.Left }, func(s *RWSeen) { s.Mode, s.By, s.Holds, s.Lapsed = "free", nil, nil, nil })
	}
	for _, p := range slices.Sorted(maps.Keys(s.Holds)) {
		each(func(s *RWSeen) time.Duration {
			if left, has := s.Holds[p]; has {
				return left
			}
			return c.slack + 1
		}, func(s *RWSeen) {
			delete(s.Holds, p)
			s.By, s.Lapsed = withoutOwner(s.By, p), append(slices.Clone(s.Lapsed), p)
		})
	}
	if len(s.Readers) > 0 {
		each(func(s *RWSeen) time.Duration { return s.Lines[0] }, func(s *RWSeen) { s.Readers = nil })
	}
	if len(s.Writers) > 0 {
		each(func(s *RWSeen) time.Duration { return s.Lines[1] }, func(s *RWSeen) { s.Writers = nil })
	}
	if s.Turn.On {
		each(func(s *RWSeen) time.Duration { return s.Turn.For }, func(s *RWSeen) { s.Turn.On, s.Turn.For = false, 0 })
	}
	if s.Turn.Whose != "none" {
		each(func(s *RWSeen) time.Duration { return s.Known }, func(s *RWSeen) { s.Turn = NoTurn })
	}
	return all
}

// step returns what e makes of s, or why it is none of its steps.
func (s RWSeen) step(e RWSaid) (to RWSeen, why string) {
	c := chooser{hears: e.Hears}
	has := slices.Contains(s.By, e.Owner)
	to = s
	to.Holds = maps.Clone(s.Holds)
	switch e.Action {
	case "Ask":
		granted := has
		if !has {
			process, _, _ := strings.Cut(e.Owner, ":")
			to.RW, granted = c.ask(s.RW, e.Side, e.Owner, e.Place, func(called string) bool { return strings.HasPrefix(called, process+":") })
		}
		if granted != e.Granted {
			return to, fmt.Sprintf("it was to be granted: %v", granted)
		}
		if stood := !granted || s.Mode == "free" && !s.Turn.Counts(); stood && e.Lasts > 0 {
			line := slices.Index([]string{"read", "write"}, e.Side)
			to.Lines[line] = e.Lasts
		}
		if granted {
			to.grant(e)
		}
	case "Release":
		if !has {
			to.RW = c.leave(s.RW, e.Side, e.Owner)
			break
		}
		to.RW = c.unlock(s.RW, e.Side, e.Owner, e.Java)
		delete(to.Holds, e.Owner)
		to.Left = 0
		for _, left := range to.Holds {
			to.Left = max(to.Left, left)
		}
	case "Renew":
		lapsed := e.Side == "read" && slices.Contains(s.Lapsed, e.Owner)
		if !has && !lapsed {
			return to, "the lock is not its own"
		}
		if lapsed {
			to.By, to.Lapsed = append(slices.Clone(s.By), e.Owner), withoutOwner(s.Lapsed, e.Owner)
			slices.Sort(to.By)
		}
		to.grant(e)
	case "Yield":
		if s.Mode == "read" && len(s.Writers) == 0 && e.Java && (s.Turn.Whose == "redisson" || !s.Turn.Counts()) {
			last := s.Turn.Last
			if last == "none" || last == "" {
				last = "read"
			}
			to.Turn = Turn{Whose: "redisson", Last: last, On: true, For: e.TTL}
		}
	case "Fault":
	default:
		return to, "there is no such action"
	}
	if !to.Turn.is(s.Turn) { // written, and kept after it is over
		if to.Known = to.Turn.For; to.Turn.Whose != "redisson" || len(to.Readers)+len(to.Writers) > 0 {
			to.Known += lastKnown
		}
	}
	return to, ""
}

// lastKnown is for how long a turn that is over says whose was the last one.
const lastKnown = 2 * time.Second

// is reports whether two turns are the same.
func (t Turn) is(other Turn) bool {
	return t.Whose == other.Whose && t.Last == other.Last && t.On == other.On && t.For == other.For && slices.Equal(t.Called, other.Called)
}

// grant has the owner of e have the lock for its lease, or for as long as it has it already.
func (s *RWSeen) grant(e RWSaid) {
	s.Left = max(s.Left, e.TTL)
	if e.Side == "read" {
		if s.Holds == nil {
			s.Holds = map[string]time.Duration{}
		}
		s.Holds[e.Owner] = max(s.Holds[e.Owner], e.TTL)
	}
}

// agree compares a state with what was seen, and returns that.
func (c *RWCheck) agree(s, seen RWSeen) (RWSeen, string) {
	off := func(a, b time.Duration) bool { return (a - b).Abs() > c.slack }
	turn, is := s.Turn, seen.Turn
	plain := is.Whose == "redisson" && is.Last == "" // of which no more is said
	switch {
	case s.Mode != seen.Mode || !slices.Equal(s.By, seen.By):
		return s, fmt.Sprintf("%v may have it to %s", s.By, s.Mode)
	case s.Mode != "free" && off(s.Left, seen.Left):
		return s, fmt.Sprintf("it may be held for %v", s.Left)
	case !slices.Equal(s.Readers, seen.Readers) || !slices.Equal(s.Writers, seen.Writers):
		return s, fmt.Sprintf("in line may be %v and %v", s.Readers, s.Writers)
	case turn.Whose != is.Whose, !plain && turn.Last != is.Last, !slices.Equal(turn.Called, is.Called), turn.Counts() != is.Counts():
		return s, fmt.Sprintf("it may be the turn of %s after %s, called %v, which counts: %v", turn.Whose, turn.Last, turn.Called, turn.Counts())
	case is.Counts() && off(turn.For, is.For):
		return s, fmt.Sprintf("the turn may count for %v", turn.For)
	}
	for p, left := range seen.Holds {
		if off(s.Holds[p], left) {
			return s, fmt.Sprintf("%s may have it for %v", p, s.Holds[p])
		}
	}
	return seen, ""
}
