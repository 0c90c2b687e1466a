package spec

import "slices"

// RedBounds are the constants of RedLock.tla.
type RedBounds struct {
	Procs, Servers, Lease, Restarts, MaxToken int
	Fenced, Renewing, Again, Away             bool
}

// A RedServer is one server: the process that has the lock or -1, for how long, the counter of tokens, and for how long it is away.
type RedServer struct{ Owner, Left, Token, Away int }

// A RedProc is one process: idle, asks, raises or holds, with the token of the whole.
type RedProc struct {
	St    string
	Token int
}

// A RedSlot is one process at one server: the module's slot.
type RedSlot struct {
	St                string // none, asks, yes, no, part or back
	Age, Trust, Token int
	Renew             string // no, sent or done
	Of                int    // the age of the renewal
}

// A RedState is a state of RedLock.tla.
type RedState struct {
	Srv      []RedServer
	Proc     []RedProc
	Slot     [][]RedSlot // by process and server
	Top      int
	Fell     bool
	Restarts int
}

// A RedStep is an action of RedLock.tla, of a process at a server, and the state that it leads to. Without a process or a server, its number is -1.
type RedStep struct {
	Action       string
	Proc, Server int
	To           RedState
}

// noSlot is the module's Nothing.
var noSlot = RedSlot{St: "none", Renew: "no"}

// backSlot is a slot that is being given back.
var backSlot = RedSlot{St: "back", Renew: "no"}

// Init returns the first state.
func (b RedBounds) Init() RedState {
	s := RedState{Srv: make([]RedServer, b.Servers), Proc: make([]RedProc, b.Procs), Slot: make([][]RedSlot, b.Procs), Restarts: b.Restarts}
	for i := range s.Srv {
		s.Srv[i].Owner = -1
	}
	for p := range s.Proc {
		s.Proc[p].St = "idle"
		s.Slot[p] = slices.Repeat([]RedSlot{noSlot}, b.Servers)
	}
	return s
}

func (s RedState) clone() RedState {
	s.Srv, s.Proc, s.Slot = slices.Clone(s.Srv), slices.Clone(s.Proc), slices.Clone(s.Slot)
	for p := range s.Slot {
		s.Slot[p] = slices.Clone(s.Slot[p])
	}
	return s
}

// Key identifies a state.
func (s RedState) Key() string {
	k := make(key, 0, 160)
	for _, x := range s.Srv {
		k.numbers(x.Owner, x.Left, x.Token, x.Away)
	}
	for p, x := range s.Proc {
		k.word(x.St)
		k.numbers(x.Token)
		for _, x := range s.Slot[p] {
			k.word(x.St)
			k.word(x.Renew)
			k.numbers(x.Age, x.Trust, x.Token, x.Of)
		}
	}
	k.numbers(s.Top, s.Restarts)
	k.flags(s.Fell)
	return string(k)
}

// RedMost returns how many of some servers are a majority: the module's Most.
func RedMost(servers int) int { return servers/2 + 1 }

// parts returns the servers of the parts that a process trusts, and the largest of their tokens: the module's Parts and Largest.
func (s RedState) parts(p int) (servers []int, largest int) {
	for i, x := range s.Slot[p] {
		if x.St == "part" && x.Trust > 0 {
			servers, largest = append(servers, i), max(largest, x.Token)
		}
	}
	return servers, largest
}

// majority reports whether a process trusts a majority of parts.
func (s RedState) majority(p int) bool {
	parts, _ := s.parts(p)
	return len(parts) >= RedMost(len(s.Srv))
}

// trusts reports whether a process trusts the whole: the module's Trusts.
func (s RedState) trusts(p int) bool { return s.Proc[p].St == "holds" && s.majority(p) }

// Next returns what can happen next.
func (b RedBounds) Next(s RedState) (all []RedStep) {
	add := func(action string, p, i int, change func(to *RedState)) {
		to := s.clone()
		change(&to)
		all = append(all, RedStep{action, p, i, to})
	}
	add("Tick", -1, -1, b.tick)
	for p := range s.Proc {
		b.wholes(s, p, add)
		for i := range s.Srv {
			b.asks(s, p, i, add)
			b.renews(s, p, i, add)
		}
	}
	for i := range s.Srv {
		if s.Restarts > 0 {
			add("Restart", -1, i, func(to *RedState) {
				to.Restarts--
				to.Srv[i].Owner, to.Srv[i].Left, to.Srv[i].Away = -1, 0, 0
				if b.Away {
					to.Srv[i].Away = b.Lease
				}
			})
		}
	}
	return all
}

// A redAdd adds a step of a process at a server, with its change of the state.
type redAdd func(action string, p, i int, change func(to *RedState))

// tick is one unit of time.
func (b RedBounds) tick(to *RedState) { b.after(to, 1) }

// after has d units of time pass.
func (b RedBounds) after(to *RedState, d int) {
	for i := range to.Srv {
		x := &to.Srv[i]
		if x.Left <= d {
			x.Owner = -1
		}
		x.Left, x.Away = max(0, x.Left-d), max(0, x.Away-d)
	}
	for p := range to.Slot {
		for i := range to.Slot[p] {
			x := &to.Slot[p][i]
			if x.Age += d; x.St != "asks" && x.St != "yes" {
				x.Age = 0
			}
			if x.Of += d; x.Renew == "no" {
				x.Of = 0
			}
			x.Age, x.Of, x.Trust = min(x.Age, b.Lease), min(x.Of, b.Lease), max(0, x.Trust-d)
		}
	}
}

// wholes are the steps of a process about the whole.
func (b RedBounds) wholes(s RedState, p int, add redAdd) {
	pr := s.Proc[p]
	parts, largest := s.parts(p)
	free, busy := false, false
	for _, x := range s.Slot[p] {
		free = free || x.St == "none"
		busy = busy || x.St != "none" && x.St != "asks" && x.St != "back"
	}
	if pr.St == "idle" && free && !busy {
		add("Ballot", p, -1, func(to *RedState) {
			to.Proc[p].St = "asks"
			for i := range to.Slot[p] {
				if to.Slot[p][i].St == "none" {
					to.Slot[p][i].St = "asks"
				}
			}
		})
	}
	if pr.St == "asks" && s.majority(p) {
		add("Elected", p, -1, func(to *RedState) { to.Proc[p] = RedProc{"raises", largest} })
	}
	if pr.St == "raises" && s.majority(p) && !slices.ContainsFunc(parts, func(i int) bool { return s.Slot[p][i].Token < pr.Token }) {
		add("Win", p, -1, func(to *RedState) {
			to.Proc[p].St = "holds"
			to.Fell = to.Fell || b.Fenced && pr.Token <= to.Top
			to.Top = max(to.Top, pr.Token)
		})
	}
	if pr.St != "idle" {
		add("End", p, -1, func(to *RedState) {
			to.Proc[p] = RedProc{St: "idle"}
			for i, x := range to.Slot[p] {
				switch x.St {
				case "yes", "part":
					to.Slot[p][i] = backSlot
				case "no":
					to.Slot[p][i] = noSlot
				}
			}
		})
	}
}

// asks are the steps of a process and a server about a request, its answer, a token and a release.
func (b RedBounds) asks(s RedState, p, i int, add redAdd) {
	pr, x, srv := s.Proc[p], s.Slot[p][i], s.Srv[i]
	back := func(to *RedState) { to.Slot[p][i] = backSlot }
	part := func(to *RedState) {
		to.Slot[p][i].St, to.Slot[p][i].Trust, to.Slot[p][i].Age = "part", b.Lease-x.Age, 0
	}
	answered := x.St == "yes" || x.St == "no"
	timely := x.St == "yes" && x.Age < b.Lease
	settled := func(action string, joins bool) {
		switch {
		case joins:
			add(action, p, i, part)
		case x.St == "yes":
			add(action, p, i, back)
		default:
			add(action, p, i, func(to *RedState) { to.Slot[p][i] = noSlot })
		}
	}
	switch {
	case x.St == "asks" && srv.Away == 0 && (srv.Owner == -1 || srv.Owner == p):
		if b.Fenced && srv.Token >= b.MaxToken {
			break
		}
		add("Run", p, i, func(to *RedState) {
			token := 0
			if b.Fenced {
				token = srv.Token + 1
			}
			to.Srv[i].Owner, to.Srv[i].Left, to.Srv[i].Token = p, max(srv.Left, b.Lease), token
			to.Slot[p][i].St, to.Slot[p][i].Token = "yes", token
		})
	case x.St == "asks" && srv.Away == 0:
		add("Run", p, i, func(to *RedState) { to.Slot[p][i] = RedSlot{St: "no", Renew: "no"} })
	case answered && pr.St == "idle":
		settled("TooLate", false)
	case answered && pr.St == "holds" && timely && s.trusts(p):
		add("Admit", p, i, func(to *RedState) {
			part(to)
			to.Srv[i].Token = max(srv.Token, pr.Token)
		})
	case answered && pr.St == "holds":
		settled("Admit", false)
	case answered:
		settled("Answer", timely)
	case x.St == "none" && b.Again && s.trusts(p):
		add("AskAgain", p, i, func(to *RedState) { to.Slot[p][i].St = "asks" })
	case x.St == "back" && srv.Away == 0:
		add("Release", p, i, func(to *RedState) {
			if srv.Owner == p {
				to.Srv[i].Owner, to.Srv[i].Left = -1, 0
			}
			to.Slot[p][i] = noSlot
		})
	}
	if b.Fenced && pr.St == "raises" && x.St == "part" && srv.Away == 0 && x.Token < pr.Token {
		add("Raise", p, i, func(to *RedState) {
			to.Srv[i].Token = max(srv.Token, pr.Token)
			to.Slot[p][i].Token = pr.Token
		})
	}
}

// renews are the steps of a process and a server about a renewal, and about a part that is trusted no more.
func (b RedBounds) renews(s RedState, p, i int, add redAdd) {
	x, srv := s.Slot[p][i], s.Srv[i]
	if b.Renewing && s.Proc[p].St == "holds" && x.St == "part" && x.Trust > 0 && x.Renew == "no" {
		add("Renew", p, i, func(to *RedState) { to.Slot[p][i].Renew, to.Slot[p][i].Of = "sent", 0 })
	}
	if x.Renew == "sent" && srv.Away == 0 {
		add("RunRenew", p, i, func(to *RedState) {
			if srv.Owner != p {
				to.Slot[p][i] = backSlot
				return
			}
			to.Srv[i].Left = max(srv.Left, b.Lease)
			to.Slot[p][i].Renew = "done"
		})
	}
	if x.Renew == "done" {
		add("Renewed", p, i, func(to *RedState) {
			to.Slot[p][i].Renew, to.Slot[p][i].Of, to.Slot[p][i].Trust = "no", 0, max(x.Trust, b.Lease-x.Of)
		})
	}
	if x.St == "part" && x.Trust == 0 {
		add("PartLost", p, i, func(to *RedState) { to.Slot[p][i] = backSlot })
	}
}
