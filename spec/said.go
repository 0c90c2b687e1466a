package spec

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Said is an event of a trace in real time, as the runtime or an observer of the server reports it. The actions are
// those of the module, and these:
//
//	Asks      Begin, or Again if the owner is known
//	Joins     likewise, by the request that releases the owner before it
//	Sent      the request leaves now: its age counts from here
//	SentAgain a request without an answer is sent once more
//	Prolongs  Renew by a holder, who may unlock before it is sent
//	Fault     the server has another state for a reason outside the protocol, or its clock was set
type Said struct {
	At     time.Duration // since the trace began
	Action string
	Who    Owner
	Line   int           // of Asks, SentAgain and RunAcquire: the argument of Again; less than 0 if it is unknown
	Trust  time.Duration // of Granted, Handed and Renewed: for how long at most the process trusts in it
	TTL    time.Duration // of RunAcquire and RunRenew: the lease
	Java   bool          // of RunRelease: another client listens, as Redisson's waiters do
	Heed   bool          // likewise: the listeners are known: all processes except those in Deaf
	Deaf   []int
	Srv    *Seen         // the state of the server after it; nil if it is unknown
	Jump   time.Duration // of Fault: by how much the clock was set
	Token  int64         // of Granted and Handed: the first of its fencing tokens, or 0
	Drawn  []Draw        // of RunAcquire and RunRelease: the tokens that were drawn, in order
}

// A Draw is of fencing tokens, one after the other, for an owner.
type Draw struct {
	Who         Owner
	First, Last int64 // First is 0 if it is not known how many they are
}

// Seen is the lock as the server has it.
type Seen struct {
	Owner Owner
	Left  time.Duration
	Line  []Owner
}

func (e Said) String() string {
	s := fmt.Sprintf("%v %s of %d:%d", e.At, e.Action, e.Who.P, e.Who.N)
	if e.Trust > 0 {
		s += fmt.Sprintf(", trusted for %v", e.Trust)
	}
	if e.Token > 0 {
		s += fmt.Sprintf(", with the token %d", e.Token)
	}
	if e.Srv != nil {
		s += fmt.Sprintf(", %d:%d has it for %v, in line %v", e.Srv.Owner.P, e.Srv.Owner.N, e.Srv.Left, e.Srv.Line)
	}
	return s
}

// followed returns the states in which a trace may be after its last event, said to be in one of states before: what step makes of each
// of them, and of those that it came to by itself, by wait. If the server is known, they are all what was seen of it.
func followed[E fmt.Stringer, S any](said []E, states []S, known bool, wait func(S) []S, step func(S) (to S, wrong string)) (after []S, err error) {
	var wrong []string
	for _, before := range states {
		for _, s := range wait(before) {
			if to, why := step(s); why != "" {
				wrong = append(wrong, why)
			} else {
				after = append(after, to)
			}
		}
	}
	switch {
	case len(after) == 0:
		return nil, rejected(said, wrong, states[0])
	case known:
		after = after[:1]
	case len(after) > mostStates:
		return nil, fmt.Errorf("the trace may be in more than %d states", mostStates)
	}
	return after, nil
}

// rejected returns the error of a trace whose last event leaves the protocol, for some of the reasons in wrong.
func rejected[E fmt.Stringer, S any](said []E, wrong []string, before S) error {
	var b strings.Builder
	last := len(said) - 1
	slices.Sort(wrong)
	fmt.Fprintf(&b, "%v leaves the protocol: %s\nbefore it:", said[last], strings.Join(slices.Compact(wrong), "; "))
	for _, e := range said[:last] {
		fmt.Fprintf(&b, "\n  %v", e)
	}
	return fmt.Errorf("%s\nin the state %+v", b.String(), before)
}
