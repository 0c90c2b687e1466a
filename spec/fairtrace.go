package spec

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A FairSaid is an event of a trace of a fair lock in real time: what a server did for whom. The actions are:
//
//	Ask      it asked for the lock, with a place in the queue or without one
//	Release  it gave the lock back, and the places of those that had it after it, or left the queue
//	Leave    owners of a process are withdrawn
//	Renew    the owner has the lock for a lease from now, or longer, if it has it
//	Force    the lock was taken from its owner
//	Java...  a script of Redisson did it for a thread: JavaAsk, JavaRenew, JavaRelease, or JavaLeave, with which a thread stops waiting
//	Fault    the server has another state for a reason that is not of the protocol
type FairSaid struct {
	At     time.Duration // since the trace began
	Action string
	Place  FairPlace     // of Ask, Release, Renew and the actions of Redisson
	Queued bool          // of Ask and JavaAsk: it waits
	Note   string        // of Ask: with which it can be granted the lock by a message, or ""
	TTL    time.Duration // of Ask, Renew and the actions of Redisson: the lease
	Keeps  bool          // of JavaRelease: the thread has the lock more than once
	Tokens int64         // of Ask: how many it wants
	Next   int64         // of Ask: how long the place of a head without a note lasts at most while the lock is free, in ms, if that is longer than two seconds
	With   []FairPlace   // of Release and Leave: the others; of Force: the owners that it may be taken from, or none for any
	Asker  string        // of Leave: the process
	Clock  int64         // of the client, in ms since 1970
	Drawn  []Draw        // fencing tokens, in order
	Named  []string      // the owner with a message that it has the lock, and those that follow it
	Calls  []string      // the owners with Redisson's message that it is their turn
	Hears  func(owner string) bool
	Srv    *FairSeen // the state of the server after it; nil if it is unknown
}

// A FairSeen is a fair lock as a server has it.
type FairSeen struct {
	Fair
	Left  time.Duration // of the lease
	Noted time.Duration // of the notes
}

// A FairCheck replays the trace of one fair lock, event by event, while it happens: who has it and for how long, the order of the queue and
// the time of each place, who gets which message, who follows the owner, and that tokens rise. Threads of Redisson's programs may stand in
// the queue and have the lock. Locks without a lease are not replayed.
type FairCheck struct {
	states []FairSeen
	at     time.Duration
	slack  time.Duration
	last   int64 // token
	said   []FairSaid
}

// NewFairCheck returns a check of a trace. slack is how exact its times are.
func NewFairCheck(slack time.Duration) *FairCheck {
	return &FairCheck{states: []FairSeen{{}}, slack: slack}
}

// Say replays the next event. It fails if that is none of the protocol.
func (c *FairCheck) Say(e FairSaid) error {
	d := max(0, e.At-c.at)
	c.at += d
	if c.said = append(c.said, e); len(c.said) > mostSaid {
		c.said = c.said[1:]
	}
	if e.Action == "Fault" && e.Srv != nil {
		c.states, c.last = []FairSeen{*e.Srv}, 0
		return nil
	}
	for _, t := range e.Drawn {
		if cmp.Or(t.First, t.Last) <= c.last {
			return rejected(c.said, []string{fmt.Sprintf("the token %d was drawn before", c.last)}, c.states[0])
		}
		c.last = t.Last
	}
	after, err := followed(c.said, c.states, e.Srv != nil, func(s FairSeen) []FairSeen { return c.wait(s, d) }, func(s FairSeen) (FairSeen, string) {
		to, wrong := c.step(s, e)
		if wrong == "" && e.Srv != nil {
			to, wrong = c.agree(to, *e.Srv, e.Clock)
		}
		return to, wrong
	})
	if err == nil {
		c.states = after
	}
	return err
}

// wait returns the states that s may have become d later: what ends at about that moment may have ended, or not.
func (c *FairCheck) wait(s FairSeen, d time.Duration) []FairSeen {
	s.Left, s.Noted = s.Left-d, s.Noted-d
	all := []FairSeen{s}
	branch := func(left func(s FairSeen) time.Duration, over func(s *FairSeen)) {
		for i, n := 0, len(all); i < n; i++ {
			l := left(all[i])
			if l > c.slack {
				continue
			}
			ended := all[i]
			over(&ended)
			if l > -c.slack {
				all = append(all, ended)
			} else {
				all[i] = ended
			}
		}
	}
	if s.Owner != "" {
		branch(func(s FairSeen) time.Duration { return s.Left }, func(s *FairSeen) { s.Owner, s.Left = "", 0 })
	}
	if len(s.Notes) > 0 || s.Last != "" {
		branch(func(s FairSeen) time.Duration { return s.Noted }, func(s *FairSeen) { s.Notes, s.Last = nil, "" })
	}
	return all
}

// step returns what e makes of s, or why it is none of its steps.
func (c *FairCheck) step(s FairSeen, e FairSaid) (to FairSeen, why string) {
	r := s.run(e.Clock, max(0, s.Left), e.Hears)
	tokens := int64(0)
	switch e.Action {
	case "Ask":
		if r.ask(e.Place, e.Queued, e.Note, e.TTL, e.Next) {
			tokens = e.Tokens
		}
	case "Release":
		r.release(e.Place, e.With)
	case "Leave":
		r.withdraw(e.Asker, e.With)
	case "Force":
		var from []string
		for _, p := range e.With {
			from = append(from, p.Owner)
		}
		r.force(from)
	case "Renew":
		if s.Owner == e.Place.Owner {
			r.left = max(r.left, e.TTL)
		}
	case "JavaAsk":
		if r.javaAsk(e.Place, e.Queued) {
			r.left = e.TTL
		}
	case "JavaRenew":
		if s.Owner == e.Place.Owner {
			r.left = e.TTL
		}
	case "JavaRelease":
		if r.javaRelease(e.Place, e.Keeps); e.Keeps {
			r.left = e.TTL
		}
	case "JavaLeave":
		r.javaLeave(e.Place)
	case "Fault":
	default:
		return s, "there is no such action"
	}
	some := false // for an owner without a message, and so it is not known how many
	for _, d := range e.Drawn {
		if d.First == 0 {
			some = true
		} else {
			tokens -= d.Last - d.First + 1
		}
	}
	switch {
	case e.Action == "Fault":
	case !slices.Equal(r.named, e.Named):
		return s, fmt.Sprintf("it was to be granted by a message to %v", r.named)
	case !slices.Equal(r.calls, e.Calls):
		return s, fmt.Sprintf("Redisson's message was to go to %v", r.calls)
	case some && tokens+r.drawn <= 0:
		return s, "no more tokens were to be drawn"
	case !some && tokens+r.drawn != 0:
		return s, fmt.Sprintf("%d more tokens were to be drawn", tokens+r.drawn)
	}
	to = FairSeen{Fair: r.Fair, Left: r.left, Noted: s.Noted}
	if e.Srv == nil {
		to.Noted = forLong // no place lasts longer than the notes
	}
	return to, ""
}

// forLong is longer than any lease.
const forLong = time.Duration(1 << 62)

// agree compares a state with what was seen, and returns that.
func (c *FairCheck) agree(s, seen FairSeen, now int64) (FairSeen, string) {
	switch {
	case s.Owner != seen.Owner:
		return s, fmt.Sprintf("%q may have it", s.Owner)
	case s.Owner != "" && (s.Left-seen.Left).Abs() > c.slack:
		return s, fmt.Sprintf("it may have it for %v", s.Left)
	case !s.equal(seen.Fair, c.slack.Milliseconds()):
		return s, fmt.Sprintf("in the queue may be %s, and %q is the last that was granted it", s.places(now), s.Last)
	}
	return seen, ""
}

func (e FairSaid) String() string {
	s := fmt.Sprintf("%v %s of %s", e.At, e.Action, e.Place.Owner)
	if e.Action == "Ask" || e.Action == "JavaAsk" {
		s += fmt.Sprintf(", queued %v with %q", e.Queued, e.Note)
	}
	if len(e.With) > 0 {
		s += fmt.Sprintf(" with %v", e.With)
	}
	if len(e.Named) > 0 {
		s += fmt.Sprintf(", granted by a message to %v", e.Named)
	}
	if len(e.Calls) > 0 {
		s += fmt.Sprintf(", called %v", e.Calls)
	}
	if e.Srv != nil {
		s += fmt.Sprintf(", %q has it for %v, in the queue %s, and %q is the last that was granted it",
			e.Srv.Owner, e.Srv.Left, e.Srv.places(e.Clock), e.Srv.Last)
	}
	return s
}
