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
// Each call is a process of [MultiBounds], and takes its steps: it asks for all missing members at once, keeps those before the first refused
// one, gives back those behind it, and waits for the refused one alone; it takes the whole when it has all members; when it ends, or its lease
// does, it gives back all of them. The servers have no state of their own here: a [Check] for each member replays it as a mutex, and a trace
// says what a call is granted.
//
// Beyond the module, a call gives back at once what it gives back, waits without a try if it lacks one member only, and its process joins no
// wait queue for which no call waits. And a call may do what the module leaves out: it may have no answer for some members, because another
// call of its process has one before them, and it may yield to a program with Redisson.
type MultiCheck struct {
	slack time.Duration
	calls map[uint64]*multiCall
	over  map[any]bool       // the leases that have ended: whether they were lost
	had   map[[3]string]bool // by process, key and owner: whether it was granted
	said  []MultiSaid
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
	wrong := c.leftovers(at + 1)
	for n, call := range c.calls {
		switch {
		case wrong != "":
		case call.proc().St != "idle":
			wrong = fmt.Sprintf("call %d has not ended", n)
		case call.gives():
			wrong = fmt.Sprintf("call %d has lost the whole, and keeps members", n)
		}
	}
	if wrong != "" {
		return rejected(c.said, []string{wrong}, multiCall{})
	}
	return nil
}

// leftovers returns which member is still kept by a call that ended before a time: the module's InvNone. It forgets calls that keep none.
func (c *MultiCheck) leftovers(before time.Duration) (wrong string) {
	for n, call := range c.calls {
		switch {
		case call.proc().St != "idle" || call.ended >= before:
		case !call.gives():
			delete(c.calls, n)
		case !call.lost: // else the holder may unlock it later
			i := slices.IndexFunc(call.s.Part[0], func(x MultiPart) bool { return x.St == "back" })
			return fmt.Sprintf("call %d has ended, and keeps %q", n, call.members[i])
		}
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
		return c.begins(e)
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
	over := call.proc().St == "idle"
	if e.Action != "Has" && e.Action != "Refused" {
		if wrong := call.tried(e.Action == "End"); wrong != "" {
			return wrong
		}
		c.settle(call)
	}
	switch e.Action {
	case "Try", "Stand":
		return c.asks(call, e)
	case "Has":
		return c.gets(call, e)
	case "Refused":
		return c.refused(call, e)
	case "Yield":
		if !call.waits() || call.proc().For != e.Member {
			return "it does not wait for that"
		}
		call.yields(e.Member)
		return ""
	case "Take":
		if call.proc().St == "yields" {
			call.s.Proc[0].St = "takes"
		}
		if !call.do("Take", -1) {
			return "it has not got all members"
		}
		call.whole = e.Lease
		return ""
	case "End":
		switch {
		case call.proc().St == "holds" || call.lost:
			return "it holds the whole, which has a lease"
		case !over:
			_ = call.do("Lost", -1) || call.do("End", -1)
			call.ended = e.At
			c.settle(call)
		}
		return ""
	}
	return "there is no such action"
}

// begins returns why a call may not begin.
func (c *MultiCheck) begins(e MultiSaid) (wrong string) {
	if len(e.Members) == 0 || !slices.IsSorted(e.Members) || len(slices.Compact(slices.Clone(e.Members))) < len(e.Members) {
		return "its members are not in the order of their keys, each once"
	}
	before := c.calls[e.Call]
	call := newMultiCall(e.Process, e.Members)
	switch {
	case before == nil:
	case before.proc().St != "idle":
		return "it has begun before"
	case before.gives():
		return "it has members from before"
	}
	call.do("Begin", -1)
	c.calls[e.Call] = call
	return ""
}

// asks returns why a call may not ask for members.
func (c *MultiCheck) asks(call *multiCall, e MultiSaid) (wrong string) {
	missing := call.b.missing(call.s, 0)
	switch pr := call.proc(); {
	case pr.St == "yields" && e.Action == "Try":
		if c.has(call.leases[e.Member]) {
			return "it has that member"
		}
		return ""
	case pr.St == "waits" && !call.stands && e.Action == "Stand": // it was refused one of several
		if i := slices.IndexFunc(call.s.Part[0], func(x MultiPart) bool { return x.St == "back" }); i >= 0 {
			return fmt.Sprintf("it keeps %q behind the refused %q", call.members[i], call.members[pr.For])
		}
		if e.Member != pr.For {
			return fmt.Sprintf("the first member that it lacks is %d", pr.For)
		}
		call.stands = true
		return ""
	case pr.St != "takes":
		return "it is " + pr.St
	case len(missing) == 0 || e.Member != missing[0]:
		return fmt.Sprintf("the members that it lacks are %v", missing)
	case e.Action == "Stand" && len(missing) == 1:
		call.refuse(e.Member)
		call.do("Try", -1)
		call.stands = true
		return ""
	case e.Action == "Try" && len(missing) > 1 && e.Many == len(missing):
		call.from, call.many, call.answers = e.Member, e.Many, nil
		return ""
	}
	return fmt.Sprintf("it lacks %d members; a call tries all of them at once, and waits for the refused one", len(missing))
}

// gets returns why a call may not get a member.
func (c *MultiCheck) gets(call *multiCall, e MultiSaid) (wrong string) {
	switch {
	case !c.had[[3]string{call.process, call.members[e.Member], e.Owner}]:
		return fmt.Sprintf("nobody has granted %q to %q", call.members[e.Member], e.Owner)
	case e.Lease == nil || slices.Contains(call.leases, e.Lease):
		return "it has that lease"
	}
	if wrong = call.answered(e.Member); wrong != "" {
		return wrong
	}
	switch pr := call.proc(); {
	case pr.St == "yields" && slices.ContainsFunc(call.back, c.has):
		return "it keeps members from before it yielded"
	case pr.St == "yields":
		call.s.Part[0][e.Member] = MultiPart{"has", call.b.Lease}
	case call.many > 0:
		call.answers = append(call.answers, true)
	default:
		call.granted(e.Member)
	}
	call.leases[e.Member] = e.Lease
	return c.told(call)
}

// refused returns why a call may not be refused a member.
func (c *MultiCheck) refused(call *multiCall, e MultiSaid) (wrong string) {
	if wrong = call.answered(e.Member); wrong != "" {
		return wrong
	}
	if call.failed = call.waits(); call.many > 0 {
		call.answers = append(call.answers, false)
	}
	return c.told(call)
}

// told replays a try once it has all answers, and what becomes of the leases of a call.
func (c *MultiCheck) told(call *multiCall) (wrong string) {
	if call.many > 0 && len(call.answers) == call.many {
		wrong = call.tried(false)
	}
	c.settle(call)
	return wrong
}

// settle replays the ends of leases that a call has, or gives back.
func (c *MultiCheck) settle(call *multiCall) {
	for k, x := range call.s.Part[0] {
		switch over := !c.has(call.leases[k]); {
		case x.St == "back" && over:
			call.release(k)
		case x.St == "has" && over:
			call.s.Srv[k] = MultiServer{Owner: others, Left: 1}
		}
	}
}

// stands returns why a process may not join the wait queue of a key.
func (c *MultiCheck) stands(e MultiSaid) (wrong string) {
	wrong = "no call of the process waits for it"
	for _, call := range c.calls {
		switch k := slices.Index(call.members, e.Key); {
		case k < 0 || call.process != e.Process || call.proc().For != k:
		case call.waits():
			call.refuse(k)
			call.do("Stand", k)
			wrong = ""
		case call.proc().St == "yields":
			wrong = ""
		}
	}
	return wrong
}

// ends returns why a lease may not end.
func (c *MultiCheck) ends(e MultiSaid) (wrong string) {
	c.over[e.Lease] = !e.Freed
	for n, call := range c.calls {
		if e.Lease == call.whole && call.proc().St == "holds" {
			action := "End"
			if call.ended = e.At; !e.Freed {
				action, call.lost = "Lost", true
			}
			if !call.do(action, -1) {
				return fmt.Sprintf("call %d has lost no member", n)
			}
			c.settle(call)
			return ""
		}
		i := slices.Index(call.leases, e.Lease)
		if i < 0 {
			continue
		}
		if e.Freed && slices.Contains(call.answers, false) { // the rest is not answered
			if wrong = call.tried(false); wrong != "" {
				return wrong
			}
		}
		if e.Freed && call.proc().St != "yields" && call.s.Part[0][i].St != "back" {
			return fmt.Sprintf("call %d needs member %d, and gives it back", n, i)
		}
		c.settle(call)
		return ""
	}
	return ""
}
