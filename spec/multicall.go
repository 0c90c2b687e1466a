package spec

import (
	"fmt"
	"slices"
	"time"
)

// A multiCall is one call of a MultiLock in a trace: a process of the module, and its members. The state is that of the call, which is its
// first process, and of all others together, which are its second one.
type multiCall struct {
	process string
	members []string
	b       MultiBounds
	s       MultiState
	leases  []any // of each member, until it is released; or nil
	whole   any
	lost    bool          // the whole is lost, and its holder has not unlocked it
	ended   time.Duration // when it became idle

	from, many int    // the first of the members that it tries, and how many; 0 if it tries none
	answers    []bool // so far: whether it got them
	stands     bool   // it has begun to wait for the member that it waits for
	failed     bool   // it does not get that, and ends

	back []any // the leases that it gives back to yield
}

// others is the number of the process that stands for all others.
const others = 1

func newMultiCall(process string, members []string) *multiCall {
	b := MultiBounds{Procs: 2, Members: len(members), Lease: 1}
	return &multiCall{process: process, members: members, b: b, s: b.Init(), leases: make([]any, len(members))}
}

// proc returns its state: that of the module's process, or yields.
func (call *multiCall) proc() MultiProc { return call.s.Proc[0] }

// waits reports whether it waits for a member.
func (call *multiCall) waits() bool {
	return call.proc().St == "waits" && call.stands && !call.failed
}

// gives reports whether it has members that it gives back.
func (call *multiCall) gives() bool {
	return slices.ContainsFunc(call.s.Part[0], func(x MultiPart) bool { return x.St == "back" })
}

// do takes a step of the relation about a member, or about none if that is -1, if the relation permits it.
func (call *multiCall) do(action string, k int) (done bool) {
	s := call.s
	call.b.calls(s, 0, func(a string, _, of int, change func(*MultiState)) {
		if a == action && of == k && !done {
			done = true
			call.s = s.clone()
			change(&call.s)
		}
	})
	return done
}

// refuse has others have a member.
func (call *multiCall) refuse(k int) { call.s.Srv[k].Owner, call.s.Srv[k].Left = others, 1 }

// granted replays that it gets the member that it waits for: from another process if it stands in the wait queue.
func (call *multiCall) granted(k int) {
	x := &call.s.Srv[k]
	if x.Owner, x.Left = -1, 0; !slices.Contains(x.Line, 0) {
		call.do("Stand", k)
	} else {
		x.Owner, x.Left, x.Line = 0, call.b.Lease, without(x.Line, 0)
		call.do("Handed", k)
	}
	call.stands = false
}

// release replays that a member is given back.
func (call *multiCall) release(k int) {
	call.leases[k] = nil
	call.b.releases(call.s, 0, k, func(_ string, _, _ int, change func(*MultiState)) { change(&call.s) })
}

// answered returns why there may be no answer about a member.
func (call *multiCall) answered(k int) (wrong string) {
	switch pr := call.proc(); {
	case pr.St == "yields":
	case call.many > 0 && k != call.from+len(call.answers):
		return fmt.Sprintf("it tries %d members from member %d on, and has %d answers", call.many, call.from, len(call.answers))
	case call.many > 0:
	case !call.waits():
		return "it asks for nothing: it is " + pr.St
	case pr.For != k:
		return fmt.Sprintf("it waits for member %d", pr.For)
	}
	return ""
}

// tried replays a try that goes on, if there is one: it has all answers, or there will be no more of them. Members without an answer count as
// refused. If it was refused no other one, another call of the process had the last one, for which this call has waited. If it ends without
// any answer, it does not know what it got.
func (call *multiCall) tried(ends bool) (wrong string) {
	if call.many == 0 {
		return ""
	}
	from, many, answers := call.from, call.many, call.answers
	call.many, call.answers = 0, nil
	last := from + len(answers) - 1
	waited := len(answers) < many && !slices.Contains(answers, false)
	for i := range many {
		if call.s.Srv[from+i].Owner = -1; i >= len(answers) || !answers[i] || waited && from+i == last {
			call.refuse(from + i)
		}
	}
	switch {
	case len(answers) > 0:
		call.do("Try", -1)
	case !ends:
		return "it has no answer"
	default:
		call.do("TryLost", -1)
	}
	if call.stands, call.failed = false, false; waited && last >= from {
		call.granted(last)
	}
	return ""
}

// yields has it give back what it has, and wait for one member.
func (call *multiCall) yields(k int) {
	call.back, call.leases = call.leases, make([]any, len(call.members))
	call.s = call.b.Init()
	call.s.Proc[0] = MultiProc{"yields", k}
}
