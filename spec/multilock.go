package spec

import "slices"

// MultiBounds are the constants of MultiLock.tla. The members are numbered from 0 on.
type MultiBounds struct {
	Procs, Members, Lease, Losses int
	Some                          []int // processes that want all members but the first
}

// A MultiServer is the mutex of a member: the process that has it or -1, for how long, and its wait queue.
type MultiServer struct {
	Owner, Left int
	Line        []int
}

// A MultiProc is one process: idle, takes, waits or holds, and the member that it waits for, or -1.
type MultiProc struct {
	St  string
	For int
}

// A MultiPart is what a process has of a member: none, has or back, and for how long it trusts in it.
type MultiPart struct {
	St    string
	Trust int
}

// A MultiState is a state of MultiLock.tla.
type MultiState struct {
	Srv    []MultiServer
	Proc   []MultiProc
	Part   [][]MultiPart // by process and member
	Losses int
}

// A MultiStep is an action of MultiLock.tla, of a process and a member, and the state that it leads to. Without a process or a member, its
// number is -1.
type MultiStep struct {
	Action       string
	Proc, Member int
	To           MultiState
}

var (
	noPart   = MultiPart{St: "none"} // the module's Nothing
	backPart = MultiPart{St: "back"} // of a member that is being given back
	idleCall = MultiProc{"idle", -1}
)

// Init returns the first state.
func (b MultiBounds) Init() MultiState {
	s := MultiState{Proc: slices.Repeat([]MultiProc{idleCall}, b.Procs), Part: make([][]MultiPart, b.Procs), Losses: b.Losses}
	s.Srv = slices.Repeat([]MultiServer{{Owner: -1}}, b.Members)
	for p := range s.Part {
		s.Part[p] = slices.Repeat([]MultiPart{noPart}, b.Members)
	}
	return s
}

func (s MultiState) clone() MultiState {
	s.Srv, s.Proc, s.Part = slices.Clone(s.Srv), slices.Clone(s.Proc), slices.Clone(s.Part)
	for k := range s.Srv {
		s.Srv[k].Line = slices.Clone(s.Srv[k].Line)
	}
	for p := range s.Part {
		s.Part[p] = slices.Clone(s.Part[p])
	}
	return s
}

// Key identifies a state.
func (s MultiState) Key() string {
	k := make(key, 0, 80)
	for _, x := range s.Srv {
		k.numbers(x.Owner, x.Left, len(x.Line))
		k.numbers(x.Line...)
	}
	for p, x := range s.Proc {
		k.word(x.St)
		k.numbers(x.For)
		for _, x := range s.Part[p] {
			k.word(x.St)
			k.numbers(x.Trust)
		}
	}
	k.numbers(s.Losses)
	return string(k)
}

// missing returns the members that a process wants and lacks, in order.
func (b MultiBounds) missing(s MultiState, p int) (members []int) {
	first := 0
	if slices.Contains(b.Some, p) {
		first = 1
	}
	for k := first; k < b.Members; k++ {
		if s.Part[p][k].St != "has" {
			members = append(members, k)
		}
	}
	return members
}

// Next returns what can happen next.
func (b MultiBounds) Next(s MultiState) (all []MultiStep) {
	add := func(action string, p, k int, change func(to *MultiState)) {
		to := s.clone()
		change(&to)
		all = append(all, MultiStep{action, p, k, to})
	}
	add("Tick", -1, -1, func(to *MultiState) { s.tick(to) })
	for p := range s.Proc {
		b.calls(s, p, add)
		for k := range s.Srv {
			b.releases(s, p, k, add)
		}
	}
	for k, x := range s.Srv {
		if s.Losses > 0 && x.Owner != -1 {
			add("Delete", -1, k, func(to *MultiState) {
				to.Losses--
				to.Srv[k].Owner, to.Srv[k].Left = -1, 0
			})
		}
	}
	return all
}

// A multiAdd adds a step of a process and a member, with its change of the state.
type multiAdd func(action string, p, k int, change func(to *MultiState))

// tick is one unit of time after s.
func (s MultiState) tick(to *MultiState) {
	for k, x := range s.Srv {
		if x.Owner != -1 && s.Part[x.Owner][k].St == "has" && s.Part[x.Owner][k].Trust > 0 {
			continue // it is renewed
		}
		if to.Srv[k].Left = max(0, x.Left-1); x.Left <= 1 {
			to.Srv[k].Owner = -1
		}
	}
	for p := range s.Part {
		for k, x := range s.Part[p] {
			if x.St != "has" || s.Srv[k].Owner != p {
				to.Part[p][k].Trust = max(0, x.Trust-1)
			}
		}
	}
}

// calls are the steps of the call of a process.
func (b MultiBounds) calls(s MultiState, p int, add multiAdd) {
	pr, rest := s.Proc[p], b.missing(s, p)
	grant := func(to *MultiState, k int) { to.Srv[k].Owner, to.Srv[k].Left = p, b.Lease }
	has := MultiPart{"has", b.Lease}
	ends := func(to *MultiState) {
		for k, x := range s.Part[p] {
			if x.St == "has" || pr.St == "waits" && pr.For == k {
				to.Part[p][k] = backPart
			}
		}
		to.Proc[p] = idleCall
	}
	switch pr.St {
	case "idle":
		if !slices.ContainsFunc(s.Part[p], func(x MultiPart) bool { return x.St != "none" }) {
			add("Begin", p, -1, func(to *MultiState) { to.Proc[p].St = "takes" })
		}
		return
	case "takes":
		if len(rest) == 0 {
			add("Take", p, -1, func(to *MultiState) { to.Proc[p].St = "holds" })
			break
		}
		add("Try", p, -1, func(to *MultiState) {
			for _, k := range rest {
				switch refused := to.Proc[p].St == "waits"; {
				case s.Srv[k].Owner == -1 && refused: // it is behind the refused one
					grant(to, k)
					to.Part[p][k] = backPart
				case s.Srv[k].Owner == -1:
					grant(to, k)
					to.Part[p][k] = has
				case !refused:
					to.Proc[p] = MultiProc{"waits", k}
				}
			}
		})
		add("TryLost", p, -1, func(to *MultiState) {
			for k := range to.Part[p] {
				if k == 0 && slices.Contains(b.Some, p) {
					continue
				}
				if to.Part[p][k] = backPart; s.Srv[k].Owner == -1 {
					grant(to, k)
				}
			}
			to.Proc[p] = idleCall
		})
	case "waits":
		k := pr.For
		x := s.Srv[k]
		gets := func(to *MultiState, trust int) {
			to.Part[p][k], to.Proc[p] = MultiPart{"has", trust}, MultiProc{"takes", -1}
		}
		switch {
		case s.Part[p][k].St != "none":
		case x.Owner == -1:
			add("Stand", p, k, func(to *MultiState) {
				grant(to, k)
				to.Srv[k].Line = without(x.Line, p)
				gets(to, b.Lease)
			})
		case !slices.Contains(x.Line, p):
			add("Stand", p, k, func(to *MultiState) { to.Srv[k].Line = append(to.Srv[k].Line, p) })
		}
		if x.Owner == p && s.Part[p][k].St == "none" {
			add("Handed", p, k, func(to *MultiState) { gets(to, x.Left) })
		}
	}
	for k, x := range s.Part[p] {
		if x.St == "has" && (x.Trust == 0 || s.Srv[k].Owner != p) {
			add("Lost", p, -1, ends)
			break
		}
	}
	add("End", p, -1, ends)
}

// without returns a wait queue without a process.
func without(line []int, p int) []int {
	return slices.DeleteFunc(slices.Clone(line), func(x int) bool { return x == p })
}

// releases are the steps of a process that gives back a member.
func (b MultiBounds) releases(s MultiState, p, k int, add multiAdd) {
	if s.Part[p][k].St != "back" {
		return
	}
	add("Release", p, k, func(to *MultiState) {
		to.Part[p][k] = noPart
		x := &to.Srv[k]
		x.Line = without(x.Line, p)
		switch {
		case x.Owner != p:
		case len(x.Line) == 0:
			x.Owner, x.Left = -1, 0
		default:
			x.Owner, x.Left, x.Line = x.Line[0], b.Lease, x.Line[1:]
		}
	})
}
