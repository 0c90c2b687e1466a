package spec

import (
	"fmt"
	"slices"
	"time"
)

// A MultiSaid is an event of a trace of the MultiLocks of some processes in real time. The actions are those of MultiLock.tla, as far as it
// has them, of a call, which is one of the module's processes:
//
//	Begin   the call begins, with nothing
//	Try     it asks for Many members at once from Member on, and joins no wait queue
//	Has     it gets Member, with a lease
//	Refused it does not get Member
//	Stand   it waits for Member
//	Yield   it gives back what it has, and waits for Member alone: the module does not have this
//	Take    it has all members, and returns a lease
//	End     it gives back what it has, to fail or to begin again: the module's End and Lost
//	Over    a lease has ended: that of a call, or that of a member
//
// and these, of a process and a key:
//
//	Granted the server, or another process, has given the key to an owner
//	Stands  the process asks for the key, and joins the wait queue; not by a release, which may be sent when the call is over
type MultiSaid struct {
	At      time.Duration // since the trace began
	Action  string
	Process string
	Call    uint64
	Members []string // of Begin: their keys, in the order of the call
	Member  int
	Many    int
	Lease   any    // of Has, Take and Over: identifies the lease
	Freed   bool   // of Over: it was released, and not lost
	Key     string // of Granted and Stands
	Owner   string // of Granted, and of Has
}

func (e MultiSaid) String() string {
	at := fmt.Sprintf("%v %s", e.At, e.Action)
	switch e.Action {
	case "Over":
		return fmt.Sprintf("%s of the lease %p, released: %t", at, e.Lease, e.Freed)
	case "Granted", "Stands":
		return fmt.Sprintf("%s of %q to %q", at, e.Key, e.Owner)
	case "Begin":
		return fmt.Sprintf("%s of call %d of process %q, members %q", at, e.Call, e.Process, e.Members)
	case "Try":
		return fmt.Sprintf("%s of call %d, %d members from member %d on", at, e.Call, e.Many, e.Member)
	case "Has":
		return fmt.Sprintf("%s of call %d, member %d, the lease %p of %q", at, e.Call, e.Member, e.Lease, e.Owner)
	case "Take":
		return fmt.Sprintf("%s of call %d, the lease %p", at, e.Call, e.Lease)
	case "Refused", "Stand", "Yield":
		return fmt.Sprintf("%s of call %d, member %d", at, e.Call, e.Member)
	}
	return fmt.Sprintf("%s of call %d", at, e.Call)
}

// A MultiCheck replays the trace of all MultiLocks of some processes, event by event, while it happens. Their members are mutexes of one
// server, which nothing else in these processes locks, and each process has one client.
//
// A call asks for all missing members at once. It keeps those before the first refused one, gives back those behind it, and waits for the
// refused one alone; only a call that lacks one member waits without such a try. No process joins a wait queue for which no call waits. A
// call takes the whole when it has all members. When it ends, or its lease does, it gives back all of them at once.
//
// Two things go beyond the module: a call may lose members while it asks or waits, which it may notice later, and it may yield to a program
// with Redisson. Each member by itself has a [Check].
type MultiCheck struct {
	slack time.Duration
	calls map[uint64]*multiCall
	over  map[any]bool       // the leases that have ended: whether they were lost
	had   map[[3]string]bool // by process, key and owner: whether it was granted
	said  []MultiSaid
}

// A multiCall is one call: the module's proc and part.
type multiCall struct {
	process string
	members []string
	st      string // takes, tries, waits, yields, failed, holds, lost or idle
	is      int    // the member that it waits for, or the first that it tries
	many    int    // that it tries
	said    int    // how many of these it has got, or not
	turned  int    // the first of these that it does not get, or -1
	part    []any  // the lease of each member, or nil
	back    []any  // the leases that it gave back to yield
	whole   any
	ended   time.Duration // when it became idle
}

// NewMultiCheck returns a check of a trace. slack is how long the end of a call may come before the ends of its parts.
func NewMultiCheck(slack time.Duration) *MultiCheck {
	return &MultiCheck{slack: slack, calls: map[uint64]*multiCall{}, over: map[any]bool{}, had: map[[3]string]bool{}}
}

// Say replays the next event. It fails if that is none of the protocol.
func (c *MultiCheck) Say(e MultiSaid) error {
	if c.said = append(c.said, e); len(c.said) > mostSaid {
		c.said = c.said[1:]
	}
	wrong := c.leftovers(e.At - c.slack)
	if wrong == "" {
		wrong = c.step(e)
	}
	if wrong == "" {
		return nil
	}
	var before multiCall
	if call := c.calls[e.Call]; call != nil {
		before = *call
	}
	return rejected(c.said, []string{wrong}, before)
}

// Done replays that nothing else happens.
func (c *MultiCheck) Done(at time.Duration) error {
	if err := c.Say(MultiSaid{At: at, Action: "Done"}); err != nil {
		return err
	}
	if wrong := c.leftovers(at + 1); wrong != "" {
		return rejected(c.said, []string{wrong}, multiCall{})
	}
	for n, call := range c.calls {
		switch {
		case call.st != "lost":
			return rejected(c.said, []string{fmt.Sprintf("call %d has not ended", n)}, *call)
		case slices.ContainsFunc(call.part, c.has):
			return rejected(c.said, []string{fmt.Sprintf("call %d has lost the whole, and keeps members", n)}, *call)
		}
	}
	return nil
}

// leftovers returns which member is still kept by a call that ended before a time: the module's InvNone. It forgets the other ones.
func (c *MultiCheck) leftovers(before time.Duration) (wrong string) {
	for n, call := range c.calls {
		if call.st != "idle" || call.ended >= before {
			continue
		}
		if i := slices.IndexFunc(call.part, c.has); i >= 0 {
			return fmt.Sprintf("call %d has ended, and keeps %q", n, call.members[i])
		}
		delete(c.calls, n)
	}
	return ""
}

// has reports whether a lease is there and has not ended.
func (c *MultiCheck) has(lease any) bool {
	_, over := c.over[lease]
	return lease != nil && !over
}

// step returns why e is none of the protocol, or "".
func (c *MultiCheck) step(e MultiSaid) (wrong string) {
	call := c.calls[e.Call]
	switch e.Action {
	case "Done":
		return ""
	case "Granted":
		c.had[[3]string{e.Process, e.Key, e.Owner}] = true
		return ""
	case "Stands":
		return c.stands(e)
	case "Over":
		return c.ends(e)
	case "Begin":
		switch {
		case call != nil && call.st != "idle":
			return "it has begun before"
		case call != nil && slices.ContainsFunc(call.part, c.has):
			return "it has members from before"
		case len(e.Members) == 0 || !slices.IsSorted(e.Members) || len(slices.Compact(slices.Clone(e.Members))) < len(e.Members):
			return "its members are not in the order of their keys, each once"
		}
		c.calls[e.Call] = &multiCall{process: e.Process, members: e.Members, st: "takes", turned: -1, part: make([]any, len(e.Members))}
		return ""
	}
	if call == nil {
		if e.Action == "End" {
			return "" // a call that yields says so before and after it gives back its members
		}
		return "no such call has begun"
	}
	if e.Member < 0 || e.Many < 0 || e.Member+max(1, e.Many) > len(call.members) {
		return "it has no such member"
	}
	switch e.Action {
	case "Try", "Stand":
		return c.asks(call, e)
	case "Has":
		return c.gets(call, e)
	case "Refused":
		return call.refused(e)
	case "Yield":
		if call.st != "waits" || call.is != e.Member {
			return "it does not wait for that"
		}
		call.st, call.back, call.part = "yields", call.part, make([]any, len(call.part))
		return ""
	case "Take":
		if call.st != "takes" && call.st != "yields" || call.missing() {
			return "it has not got all members"
		}
		call.st, call.whole = "holds", e.Lease
		return ""
	case "End":
		if call.st == "holds" || call.st == "lost" {
			return "it holds the whole, which has a lease"
		}
		if call.st != "idle" {
			call.st, call.ended = "idle", e.At
		}
		return ""
	}
	return "there is no such action"
}

// missing reports whether it lacks a member.
func (call *multiCall) missing() bool { return slices.Contains(call.part, nil) }

// asks returns why a call may not ask for members.
func (c *MultiCheck) asks(call *multiCall, e MultiSaid) (wrong string) {
	if call.st == "yields" && e.Action == "Try" {
		if c.has(call.part[e.Member]) {
			return "it has that member"
		}
		call.is, call.many, call.said = e.Member, e.Many, 0
		return ""
	}
	refused := call.st == "tries" && call.turned >= 0
	early := call.st == "tries" && !refused && call.said > 0 // another call of the process had the next member
	if call.st != "takes" && !refused && !early {
		return "it is " + call.st
	}
	first := slices.Index(call.part, nil)
	if refused {
		first = call.turned
		for i := call.turned; i < len(call.part); i++ {
			if c.has(call.part[i]) {
				return fmt.Sprintf("it keeps %q behind the refused %q", call.members[i], call.members[call.turned])
			}
			call.part[i] = nil
		}
	}
	switch missing := len(call.members) - first; {
	case first < 0 || e.Member != first:
		return fmt.Sprintf("the first member that it lacks is %d", first)
	case e.Action == "Try" && (refused || e.Many != missing || missing < 2):
		return fmt.Sprintf("it lacks %d members; a call tries all of them at once, and waits for the refused one", missing)
	case e.Action == "Stand" && missing > 1 && !refused:
		return fmt.Sprintf("it lacks %d members, and has not tried to get them", missing)
	}
	call.st, call.is, call.many, call.said, call.turned = "tries", e.Member, e.Many, 0, -1
	if e.Action == "Stand" {
		call.st = "waits"
	}
	return ""
}

// gets returns why a call may not get a member.
func (c *MultiCheck) gets(call *multiCall, e MultiSaid) (wrong string) {
	switch {
	case !c.had[[3]string{call.process, call.members[e.Member], e.Owner}]:
		return fmt.Sprintf("nobody has granted %q to %q", call.members[e.Member], e.Owner)
	case e.Lease == nil || slices.Contains(call.part, e.Lease):
		return "it has that lease"
	}
	if wrong := call.answered(e); wrong != "" {
		return wrong
	}
	if slices.ContainsFunc(call.back, c.has) {
		return "it keeps members from before it yielded"
	}
	call.part[e.Member] = e.Lease
	if call.st == "waits" || call.st == "tries" && call.said == call.many && call.turned < 0 {
		call.st = "takes"
	}
	return ""
}

// answered counts an answer: of the members that a call tries, in their order.
func (call *multiCall) answered(e MultiSaid) (wrong string) {
	switch call.st {
	case "waits":
		if e.Member != call.is {
			return fmt.Sprintf("it waits for member %d", call.is)
		}
	case "tries":
		if e.Member != call.is+call.said || call.said == call.many {
			return fmt.Sprintf("it tries %d members from member %d on, and has %d answers", call.many, call.is, call.said)
		}
	case "yields":
	default:
		return "it asks for nothing: it is " + call.st
	}
	call.said++
	return ""
}

// refused returns why a call may not be refused a member.
func (call *multiCall) refused(e MultiSaid) (wrong string) {
	if wrong := call.answered(e); wrong != "" {
		return wrong
	}
	switch {
	case call.st == "waits":
		call.st = "failed" // it ends
	case call.st == "tries" && call.turned < 0:
		call.turned = e.Member
	}
	return ""
}

// stands returns why a process may not join the wait queue of a key.
func (c *MultiCheck) stands(e MultiSaid) (wrong string) {
	for _, call := range c.calls {
		if call.process == e.Process && (call.st == "waits" || call.st == "yields") && call.members[call.is] == e.Key {
			return ""
		}
	}
	return "no call of the process waits for it"
}

// ends returns why a lease may not end.
func (c *MultiCheck) ends(e MultiSaid) (wrong string) {
	c.over[e.Lease] = !e.Freed
	for n, call := range c.calls {
		if e.Lease == call.whole {
			if call.st = "lost"; e.Freed {
				call.st, call.ended = "idle", e.At
			}
			return ""
		}
		i := slices.Index(call.part, e.Lease)
		behind := call.st == "tries" && call.turned >= 0 && i > call.turned
		switch {
		case i < 0:
		case e.Freed && !behind && slices.Contains([]string{"takes", "tries", "waits", "failed", "holds"}, call.st):
			return fmt.Sprintf("call %d needs member %d, and gives it back", n, i)
		default:
			return ""
		}
	}
	return ""
}
