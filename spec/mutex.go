// Package spec is the transition relations of Mutex.tla and RWMutex.tla in Go, and rules of the other kinds of locks beside them. TLC explores the
// modules, and the relations replay traces.
// The names are those of the module, which defines them.
package spec

import (
	"cmp"
	"slices"
)

// Bounds are the constants of the module. Processes are 0 to Procs-1, numbers 1 to Numbers.
type Bounds struct {
	Procs, Numbers, Lease, Claim, MaxNet, Faults int

	Kinds                          []string
	Lossy, Prompt, Contended, Java bool
}

// An Owner is a process and its number.
type Owner struct{ P, N int }

// The owner of no process.
var (
	None     = Owner{-1, 0}
	Redisson = Owner{-2, 0}
)

// NoSight is the slack of an owner that was never refused.
const NoSight = 99

// A Server is the lock and the wait queue beside it.
type Server struct {
	Owner Owner
	Left  int
	Line  []Owner
	How   string
	Kept  bool
	Since int
}

// A Proc is the knowledge of a process.
type Proc struct {
	St             string
	N, Made, Slack int
	Asking, Doubt  bool
	Trust          int
	Joined         bool // in traces alone: its request went with a release, and so is not done twice
}

// A Message is on its way.
type Message struct {
	Kind     string
	O        Owner
	Age, Arg int
	TTL      int // in traces alone: the lease of its request, if that is more than 0 and not Bounds.Lease
}

// A Gone is a withdrawn owner.
type Gone struct {
	O     Owner
	Doubt bool
	Until int
}

// A State is one value of each variable. Sets are sorted slices. A State is immutable.
type State struct {
	Srv  Server
	Proc []Proc
	Net  []Message
	Gone []Gone
	Copy []Server // one or none
	Lost []Owner
	Fell bool
	Left int
}

// A Step is a possible step of a state: an action, of the module's name, of an owner, or of None.
type Step struct {
	Action string
	Who    Owner
	To     State
}

// Init is the initial state.
func (b Bounds) Init() State {
	s := State{Srv: Server{Owner: None, How: "free", Kept: true, Since: 1}, Left: b.Faults}
	for range b.Procs {
		s.Proc = append(s.Proc, idle())
	}
	return s
}

func idle() Proc { return Proc{St: "idle", Slack: NoSight} }

func (s State) clone() State {
	s.Srv.Line = slices.Clone(s.Srv.Line)
	s.Proc = slices.Clone(s.Proc)
	s.Net = slices.Clone(s.Net)
	s.Gone = slices.Clone(s.Gone)
	s.Lost = slices.Clone(s.Lost)
	return s
}

func (s State) own(p int) Owner { return Owner{p, s.Proc[p].N} }

func (p Proc) claiming() bool { return p.St == "wants" || p.St == "waits" }

func (m Message) request() bool {
	return m.Kind == "acquire" || m.Kind == "renew" || m.Kind == "release"
}

// heard reports whether a message makes a difference in s.
func (s State) heard(m Message) bool {
	switch m.Kind {
	case "released":
		return slices.ContainsFunc(s.Gone, func(g Gone) bool { return g.O == m.O })
	case "granted", "refused":
		return s.own(m.O.P) == m.O && s.Proc[m.O.P].Asking
	case "handed":
		return s.own(m.O.P) == m.O && s.Proc[m.O.P].claiming()
	case "renewed", "notyours":
		return s.own(m.O.P) == m.O && s.Proc[m.O.P].St == "held"
	}
	return true
}

// tidy sorts the sets of s, and removes duplicates and messages that make no difference.
func (s State) tidy(unheard bool) State {
	slices.SortFunc(s.Net, func(a, b Message) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), a.O.compare(b.O), cmp.Compare(a.Age, b.Age), cmp.Compare(a.Arg, b.Arg), cmp.Compare(a.TTL, b.TTL))
	})
	s.Net = slices.Compact(s.Net)
	if unheard {
		s.Net = slices.DeleteFunc(s.Net, func(m Message) bool { return !s.heard(m) })
	}
	slices.SortFunc(s.Gone, func(a, b Gone) int {
		return cmp.Or(a.O.compare(b.O), cmp.Compare(a.Until, b.Until), byDoubt(a, b))
	})
	s.Gone = slices.Compact(s.Gone)
	slices.SortFunc(s.Lost, Owner.compare)
	s.Lost = slices.Compact(s.Lost)
	return s
}

func byDoubt(a, b Gone) int {
	switch {
	case a.Doubt == b.Doubt:
		return 0
	case b.Doubt:
		return -1
	}
	return 1
}

func (o Owner) compare(u Owner) int {
	return cmp.Or(cmp.Compare(o.P, u.P), cmp.Compare(o.N, u.N))
}

func (s State) without(m Message) []Message {
	return slices.DeleteFunc(slices.Clone(s.Net), func(x Message) bool { return x == m })
}

// fresh reports whether nothing refers to o.
func (s State) fresh(o Owner) bool {
	known := s.Srv.Owner == o || slices.Contains(s.Srv.Line, o) ||
		slices.ContainsFunc(s.Net, func(m Message) bool { return m.O == o }) ||
		slices.ContainsFunc(s.Gone, func(g Gone) bool { return g.O == o })
	for _, c := range s.Copy {
		known = known || c.Owner == o || slices.Contains(c.Line, o)
	}
	return !known
}

// Next returns all possible steps of s.
func (b Bounds) Next(s State) []Step {
	n := &next{b: b, s: s, who: None}
	n.step("Tick", b.after(s, 1))
	for p := range s.Proc {
		n.who = s.own(p)
		n.process(p)
	}
	for _, m := range s.Net {
		n.who = m.O
		n.arrives(m)
	}
	for _, g := range s.Gone {
		n.who = g.O
		n.giveBack(g)
	}
	n.who = None
	n.racer()
	n.faults()
	return n.steps
}

// next collects possible steps.
type next struct {
	b     Bounds
	s     State
	who   Owner // the owner of the next steps
	steps []Step

	// In traces alone.
	deaf []int // processes that do not listen
	heed bool  // the lock is handed to the first one that listens
}

// add adds a step to a state, without messages that make no difference.
func (n *next) add(action string, to State) { n.step(action, to.tidy(true)) }

func (n *next) step(action string, to State) {
	n.steps = append(n.steps, Step{action, n.who, to})
}

// lease returns the lease of a request or an answer.
func (b Bounds) lease(m Message) int {
	if m.TTL > 0 {
		return m.TTL
	}
	return b.Lease
}

func (n *next) room() bool { return len(n.s.Net) < n.b.MaxNet }

func (n *next) fault(kind string) bool { return n.s.Left > 0 && slices.Contains(n.b.Kinds, kind) }

func (s Server) later(d int) Server {
	s.Left, s.Since = max(0, s.Left-d), min(1, s.Since+d)
	if s.Left == 0 {
		s.Owner, s.How = None, "free"
	}
	return s
}

// after returns the state d ticks later, one or more, without other steps.
func (b Bounds) after(s State, d int) State {
	to := s.clone()
	to.Srv = to.Srv.later(d)
	if len(to.Copy) > 0 {
		to.Copy = []Server{to.Copy[0].later(d)}
	}
	for i, m := range to.Net {
		switch m.Kind {
		case "acquire", "granted", "renew", "renewed", "handed":
			to.Net[i].Age = min(m.Age+d, b.Lease)
		}
	}
	for i, p := range to.Proc {
		to.Proc[i].Trust = max(0, p.Trust-d)
		to.Proc[i].Made = 0
		if p.claiming() && p.Slack == NoSight {
			to.Proc[i].Made = min(p.Made+d, b.Claim)
		}
	}
	for i, g := range to.Gone {
		if g.Until > 0 {
			to.Gone[i].Until = max(0, g.Until-d)
		}
	}
	return to.tidy(false)
}

// process adds the steps of the process p.
func (n *next) process(p int) {
	s, pr := n.s, n.s.Proc[p]
	if pr.St == "idle" && n.room() {
		for number := 1; number <= n.b.Numbers; number++ {
			o := Owner{p, number}
			if !s.fresh(o) {
				continue
			}
			n.begin(o, 0)
			if n.b.Contended {
				n.begin(o, 1)
			}
			break
		}
	}
	if pr.claiming() && !pr.Asking && n.room() {
		sighted := pr.Slack != NoSight
		if pr.St == "wants" && !sighted {
			n.again(p, 0)
		}
		if pr.St == "wants" && (n.b.Contended || sighted) {
			n.again(p, 1)
		}
		if pr.St == "waits" {
			n.again(p, 2)
		}
	}
	if pr.Asking {
		to := s.clone()
		to.Proc[p].Asking, to.Proc[p].Doubt = false, true
		n.add("Unknown", to)
	}
	if pr.claiming() && !pr.Asking {
		n.add("GiveUp", s.abandon(p, false))
	}
	if pr.St == "held" {
		if pr.Trust > 0 && n.room() {
			to := s.clone()
			to.Net = append(to.Net, Message{Kind: "renew", O: s.own(p)})
			n.add("Renew", to)
		}
		if pr.Trust == 0 {
			n.add("RunOut", s.abandon(p, true))
		}
		if !pr.Asking {
			n.add("Unlock", s.abandon(p, false))
		}
	}
	if n.fault("crash") && pr.St != "dead" {
		to := s.clone()
		to.Proc[p] = idle()
		to.Proc[p].St = "dead"
		to.Gone = slices.DeleteFunc(to.Gone, func(g Gone) bool { return g.O.P == p })
		to.Left--
		n.add("Crash", to)
	}
}

func (n *next) begin(o Owner, line int) {
	to := n.s.clone()
	pr := &to.Proc[o.P]
	pr.St, pr.N, pr.Asking = "wants", o.N, true
	if line > 0 {
		pr.St = "waits"
	}
	to.Lost = slices.DeleteFunc(to.Lost, func(l Owner) bool { return l.P == o.P })
	to.Net = append(to.Net, Message{Kind: "acquire", O: o, Arg: line})
	n.who = o
	n.add("Begin", to)
}

func (n *next) again(p, line int) {
	to := n.s.clone()
	to.Proc[p].Asking = true
	if line > 0 {
		to.Proc[p].St = "waits"
	}
	to.Net = append(to.Net, Message{Kind: "acquire", O: n.s.own(p), Arg: line})
	n.add("Again", to)
}

func (s State) abandon(p int, doubt bool) State {
	to := s.clone()
	to.Gone = append(to.Gone, Gone{s.own(p), s.Proc[p].Doubt || doubt, -1})
	to.Proc[p] = idle()
	return to
}

func (n *next) giveBack(g Gone) {
	said := slices.ContainsFunc(n.s.Net, func(m Message) bool { return m.O == g.O && (m.Kind == "release" || m.Kind == "released") })
	if !n.room() || said {
		return
	}
	last := 0
	if g.Until == 0 {
		last = 1
	}
	to := n.s.clone()
	to.Net = append(to.Net, Message{Kind: "release", O: g.O, Arg: last})
	n.add("GiveBack", to)
}

// arrives adds the steps of a message.
func (n *next) arrives(m Message) {
	if m.request() {
		n.run(m, false)
		if n.fault("repeat") {
			n.run(m, true)
		}
	} else {
		n.answer(m)
	}
	if n.b.Lossy || n.fault("lose") {
		to := n.s.clone()
		to.Net = n.s.without(m)
		if !n.b.Lossy {
			to.Left--
		}
		n.step("Lose", to)
	}
}

// answer adds the steps of a process that receives an answer.
func (n *next) answer(m Message) {
	s := n.s
	to := s.clone()
	to.Net = s.without(m)
	if m.Kind == "released" {
		for i, g := range s.Gone {
			if g.O != m.O {
				continue
			}
			to := to.clone()
			switch {
			case !g.Doubt || m.Arg == 1:
				to.Gone = slices.Delete(to.Gone, i, i+1)
			case g.Until == -1:
				to.Gone[i].Until = n.b.Lease
			}
			n.add("GivenBack", to)
		}
		return
	}
	p := m.O.P
	pr, is := &to.Proc[p], s.Proc[p]
	if s.own(p) != m.O {
		return
	}
	switch {
	case (m.Kind == "granted" || m.Kind == "refused") && is.Asking && is.St == "held":
		pr.Asking = false
		n.add("Settled", to)
	case m.Kind == "granted" && is.Asking && is.claiming():
		pr.Asking = false
		if lease := n.b.lease(m); m.Age < lease {
			pr.St, pr.Trust, pr.Made, pr.Slack = "held", lease-m.Age, 0, NoSight
		}
		n.add("Granted", to)
	case m.Kind == "refused" && is.Asking && is.claiming():
		pr.Asking, pr.Slack, pr.Made = false, m.Arg, 0
		n.add("Refused", to)
	case m.Kind == "handed" && is.claiming():
		from := is.Slack + m.Age
		if is.Slack == NoSight {
			from = is.Made
		}
		if from = max(0, from); from < n.b.Claim {
			pr.St, pr.Trust, pr.Made, pr.Slack = "held", n.b.Claim-from, 0, NoSight
		}
		n.add("Handed", to)
	case m.Kind == "renewed" && is.St == "held":
		pr.Trust = max(is.Trust, n.b.lease(m)-m.Age)
		n.add("Renewed", to)
	case m.Kind == "notyours" && is.St == "held":
		gone := s.abandon(p, is.Asking)
		gone.Net = s.without(m)
		n.add("Lost", gone)
	}
}
