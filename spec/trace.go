package spec

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// A Check replays the trace of one lock, event by event, while it happens. It tracks the possible states of the
// protocol: few, since the trace has the time and the server of each event.
//
// The runtime may do some things that the module leaves out: to ask without queueing although it was refused, while it
// does not hear the server; to send a request or a release again while an earlier one is under way; to send each renewal
// twice, over two connections; to end its trust early, for its margin or for a limit; to report that a lease is lost as soon as it knows, by any means, that the server does not
// have it; and to unlock a lock that was handed over by the release that asked for it. The server skips waiters that do
// not listen, as if they were dead.
type Check struct {
	b      Bounds
	states []State
	begun  map[Owner]bool // owners that have asked
	given  map[Owner]bool // owners whose release was sent
	at     time.Duration
	stood  time.Duration // when an owner joined the queue last
	slack  time.Duration
	late   time.Duration
	sent   int    // requests, which it identifies
	said   []Said // the last of them

	// Resends is true in a cluster: its client sends a request once more, without a word, when the connection breaks and the
	// slot has another server, and both may arrive.
	Resends bool

	// Part is true for a part of a RedLock: other servers, whose clocks may be ahead of the clock of this one, raise its counter. So when
	// the server forgets its counter, tokens may fall.
	Part bool

	tokens map[Owner][]int64 // the first of those that were drawn for it, each time
	last   int64             // of all that were drawn
	back   bool              // the clock was set back, so that tokens may fall where the server forgets its counter
}

// lineLives is for how long the queue is kept when no owner joins it.
const lineLives = time.Minute

// secondCopy is the argument of a renewal that the client may send, without a word, when the connection of the first copy
// breaks, as it does when the client is closed. Both copies may arrive. The last renewal of an owner has one.
const secondCopy = 1

// mostSaid is how many events an error quotes.
const mostSaid = 12

// NewCheck returns a check of a trace of some processes, in which a hand-over grants the lock for the time of the
// second argument. slack is the precision of its times of the server: Redis rounds to milliseconds. late is for how
// much longer than the module permits a process may trust in its lease: 0, except where events are recorded late.
func NewCheck(procs int, claim, slack, late time.Duration) *Check {
	day := int(min(int64(24*time.Hour), math.MaxInt)) // in nanoseconds, as all times: with 32 bits a trace lasts 2 s at most
	b := Bounds{Procs: procs, Lease: day, Claim: int(claim), MaxNet: 1 << 30, Lossy: true, Contended: true}
	return &Check{b: b, states: []State{b.Init()}, begun: map[Owner]bool{}, given: map[Owner]bool{}, slack: slack, late: late, tokens: map[Owner][]int64{}}
}

// Say replays the next event. It fails if the protocol does not permit it.
func (c *Check) Say(e Said) error {
	d := max(0, e.At-c.at)
	c.at += d
	if c.said = append(c.said, e); len(c.said) > mostSaid {
		c.said = c.said[1:]
	}
	c.sent++
	if wrong := c.fences(e); wrong != "" {
		return rejected(c.said, []string{wrong}, c.states[0])
	}
	var after []State
	var wrong []string
	for _, s := range c.states {
		for _, s := range c.wait(s, int(d)) {
			steps, why := c.steps(s, e)
			if len(steps) == 0 {
				wrong = append(wrong, why)
			}
			for _, to := range steps {
				to, why := c.agree(to, e)
				if why != "" {
					wrong = append(wrong, why)
				} else {
					to.Gone = nil // see over
					after = append(after, to)
				}
			}
		}
	}
	if len(after) == 0 {
		return rejected(c.said, wrong, c.states[0])
	}
	switch e.Action {
	case "Asks", "Joins":
		c.begun[e.Who] = true
	case "GiveBack":
		c.given[e.Who] = true
	case "RunAcquire":
		c.stood = c.at
	}
	if c.states = distinct(after); len(c.states) > mostStates {
		return fmt.Errorf("the trace may be in more than %d states", mostStates)
	}
	return nil
}

// distinct returns some states, each once.
func distinct(some []State) (all []State) {
	if len(some) == 1 {
		return some
	}
	seen := map[string]bool{}
	for _, s := range some {
		if key := s.Key(); !seen[key] {
			seen[key] = true
			all = append(all, s)
		}
	}
	return all
}

// fences returns what is wrong with the tokens of e: they rise in the order of grants at the server, and an owner has only those that were drawn for it there.
func (c *Check) fences(e Said) (wrong string) {
	c.back = c.back || e.Jump < 0
	if c.Part && e.Action == "Fault" {
		c.last = 0
	}
	for _, d := range e.Drawn {
		if d.First <= c.last && !c.back {
			return fmt.Sprintf("the token %d was drawn before", c.last)
		}
		c.last = d.Last
		c.tokens[d.Who] = append(c.tokens[d.Who], d.First)
	}
	if e.Token > 0 && !slices.Contains(c.tokens[e.Who], e.Token) {
		return fmt.Sprintf("the server has drawn %v for it", c.tokens[e.Who])
	}
	return ""
}

// wait returns the states that s may have become d later. The server may be a bit ahead of the trace, or behind it,
// when a lease ends.
func (c *Check) wait(s State, d int) []State {
	if d > 0 {
		left := s.Srv.Left - d
		to := c.b.after(s, d)
		if s.Srv.Owner != None && left <= 0 && left > -int(c.slack) {
			lives := to.clone()
			lives.Srv = s.Srv
			lives.Srv.Left = 1
			return c.ends(lives, to)
		}
		s = to
	}
	return c.ends(s)
}

// ends adds the states in which a lease that is about to end has ended, and the queue that no owner has joined for
// long.
func (c *Check) ends(some ...State) (all []State) {
	for _, s := range some {
		if s.Srv.Owner != None && s.Srv.Left <= int(c.slack) {
			over := s.clone()
			over.Srv.open()
			all = append(all, over)
		}
		all = append(all, s)
	}
	for _, s := range all {
		if len(s.Srv.Line) > 0 && c.at-c.stood >= lineLives {
			s := s.clone()
			s.Srv.Line = nil
			all = append(all, s)
		}
	}
	return all
}

// steps returns the states after e, or why e is none of the steps of s.
func (c *Check) steps(s State, e Said) (some []State, why string) {
	n := &next{b: c.b, s: s, who: e.Who}
	switch e.Action {
	case "Fault":
		return []State{c.fault(s, e)}, ""
	case "RunAcquire", "RunRenew", "RunRelease":
		return c.served(s, e)
	case "JavaTakes", "JavaFrees":
		return java(s, e)
	}
	p := e.Who.P
	pr := s.Proc[p]
	own := s.own(p) == e.Who
	why = fmt.Sprintf("the process is %s with %d", pr.St, pr.N)
	switch e.Action {
	case "Asks", "Joins":
		line := e.Line
		if e.Action == "Joins" {
			if line = 1; pr.St == "waits" {
				line = 2
			}
		}
		switch {
		case !c.begun[e.Who] && pr.St == "idle" && s.fresh(e.Who) && line < 2:
			n.begin(e.Who, line)
		case c.begun[e.Who] && own && pr.claiming() && (!pr.Asking || pr.Joined) && (line == 2) == (pr.St == "waits"):
			n.again(p, line)
		case c.begun[e.Who] && e.Action == "Joins" && (c.over(s, e.Who) || own && pr.St == "held" && pr.Joined):
			return []State{s}, "" // the release was sent again; the first one was done, as it handed over this lock: it counts once
		}
		for _, step := range n.steps {
			step.To.Proc[p].Joined = e.Action == "Joins"
			i := slices.Index(step.To.Net, Message{Kind: "acquire", O: e.Who, Arg: line})
			step.To.Net[i].TTL = -c.sent
		}
	case "Sent":
		return []State{sent(s, e.Who)}, ""
	case "SentAgain":
		if why = "it has not asked"; c.begun[e.Who] {
			to := s.clone()
			to.Net = append(to.Net, Message{Kind: "acquire", O: e.Who, Arg: e.Line, TTL: -c.sent})
			return []State{to.tidy(true)}, ""
		}
	case "Unknown":
		if c.over(s, e.Who) {
			return []State{s}, "" // it was handed over before, and has ended
		}
		if own && pr.Asking {
			to := s.clone()
			to.Proc[p].Asking, to.Proc[p].Doubt = false, true
			n.add("Unknown", to)
		}
	case "Granted", "Handed", "Refused", "Settled", "Renewed":
		return c.answered(s, e)
	case "Renew", "Prolongs":
		late := e.Action == "Prolongs" && c.over(s, e.Who)
		if own && pr.St == "held" || late {
			to := s.clone()
			to.Net = slices.DeleteFunc(to.Net, func(m Message) bool { return m.Kind == "renew" && m.O == e.Who && m.Arg == secondCopy })
			to.Net = append(to.Net, Message{Kind: "renew", O: e.Who, TTL: -c.sent}, Message{Kind: "renew", O: e.Who, Arg: secondCopy, TTL: -c.sent})
			n.add("Renew", to)
		}
	case "Lost":
		told := slices.ContainsFunc(s.Net, func(m Message) bool { return m.Kind == "notyours" && m.O == e.Who })
		if own && pr.St == "held" && (told || s.Srv.Owner != e.Who) {
			n.add("Lost", s.abandon(p, pr.Asking))
		}
		why += ", and the server has it"
	case "RunOut":
		if own && pr.St == "held" {
			n.add("RunOut", s.abandon(p, true))
		}
	case "Unlock":
		if own && pr.St == "held" && (!pr.Asking || pr.Joined) {
			n.add("Unlock", s.abandon(p, false))
		}
	case "GiveUp":
		switch {
		case !c.begun[e.Who]:
			return []State{s}, "" // before it asked
		case own && pr.claiming() && !pr.Asking:
			n.add("GiveUp", s.abandon(p, false))
		}
	case "GiveBack":
		if c.over(s, e.Who) {
			return []State{s}, ""
		}
	}
	for _, step := range n.steps {
		some = append(some, step.To)
	}
	return some, why
}

// java is what a program with Redisson does: it takes a free lock, has what it has for a lease from now, or frees it.
func java(s State, e Said) (some []State, why string) {
	if s.Srv.Owner != Redisson && (e.Action == "JavaFrees" || s.Srv.Owner != None) {
		return nil, fmt.Sprintf("%d:%d may have it", s.Srv.Owner.P, s.Srv.Owner.N)
	}
	to := s.clone()
	if to.Srv.Owner, to.Srv.Left, to.Srv.How = Redisson, int(e.TTL), "asked"; e.Action == "JavaFrees" {
		to.Srv.open()
	}
	return []State{to}, ""
}

// over reports whether o is withdrawn in s: it has asked, and its process has it no more. The states of a trace do not list these owners, nor
// their releases, which may arrive at any time: there are ever more of them.
func (c *Check) over(s State, o Owner) bool {
	return c.begun[o] && (s.own(o.P) != o || s.Proc[o.P].St == "idle")
}

// answered returns the states after an answer. The trust is at most that of the module.
func (c *Check) answered(s State, e Said) (some []State, why string) {
	why = "there is no such answer"
	if e.Action == "Settled" && c.over(s, e.Who) {
		return []State{s}, "" // it was handed over before, and has ended
	}
	for _, kind := range map[string][]string{"Granted": {"granted"}, "Handed": {"handed"}, "Refused": {"refused"},
		"Settled": {"granted", "refused"}, "Renewed": {"renewed"}}[e.Action] {
		m, rest, ok := s.pick(kind, e.Who, func(Message) bool { return true })
		if !ok {
			continue
		}
		s := s.clone()
		m.TTL++ // so that it is none of the rest
		s.Net = append(slices.Clone(rest), m)
		n := &next{b: c.b, s: s, who: e.Who}
		n.answer(m)
		for _, step := range n.steps {
			pr := step.To.Proc[e.Who.P]
			switch grants := e.Action == "Granted" || e.Action == "Handed" || e.Action == "Renewed"; {
			case step.Action != e.Action:
			case grants && (pr.St != "held" || int(e.Trust) > pr.Trust+int(c.late)):
				why = fmt.Sprintf("it may be trusted for %v", time.Duration(pr.Trust))
			default:
				some = append(some, step.To)
			}
		}
	}
	return some, why
}

// served returns the states that a request can lead to on the server.
func (c *Check) served(s State, e Said) (some []State, why string) {
	kind := map[string]string{"RunAcquire": "acquire", "RunRenew": "renew", "RunRelease": "release"}[e.Action]
	m, rest, ok := s.pick(kind, e.Who, func(m Message) bool { return kind != "acquire" || e.Line < 0 || m.Arg == e.Line })
	if kind == "release" && c.given[e.Who] {
		m, rest, ok = Message{Kind: kind, O: e.Who}, s.Net, true
	}
	if !ok && c.Resends && c.begun[e.Who] {
		m, rest, ok = Message{Kind: kind, O: e.Who, Arg: max(0, e.Line)}, s.Net, true
	}
	if !ok {
		return nil, "nobody has asked for it"
	}
	m.TTL = max(1, int(e.TTL))
	s = s.clone()
	s.Net = append(slices.Clone(rest), m)
	n := &next{b: c.b, s: s, who: e.Who, deaf: e.Deaf, heed: e.Heed}
	n.b.Java = e.Java
	n.run(m, false)
	for _, step := range n.steps {
		some = append(some, step.To)
	}
	if kind == "acquire" && s.Proc[e.Who.P].Joined && s.Srv.Owner == None { // it is left to Redisson's waiters
		to := s.clone()
		to.Net = append(slices.Clone(rest), Message{Kind: "refused", O: e.Who, Arg: m.Age})
		to.Srv.Line = append(unlisted(to.Srv.Line, e.Who), e.Who)
		some = append(some, to.tidy(true))
	}
	return some, ""
}

// fault gives the server another state.
func (c *Check) fault(s State, e Said) State {
	if e.Jump != 0 {
		n := &next{b: c.b, s: s}
		n.jump("Fault", int(e.Jump))
		s = n.steps[0].To
	}
	if e.Srv == nil {
		return s
	}
	to := s.clone()
	to.Srv.Owner, to.Srv.Left, to.Srv.Line = e.Srv.Owner, int(e.Srv.Left), slices.Clone(e.Srv.Line)
	switch to.Srv.How = "asked"; {
	case to.Srv.Owner == None:
		to.Srv.open()
	case to.Srv.Owner == s.Srv.Owner:
		to.Srv.How = s.Srv.How
	}
	to.forget(s.Srv, to.Srv)
	return to.tidy(true)
}

// agree compares a state with the observed one, and adopts the observed rest of the lease.
func (c *Check) agree(s State, e Said) (State, string) {
	if e.Srv == nil || e.Action == "Fault" {
		return s, ""
	}
	line := s.Srv.Line
	for len(line) > len(e.Srv.Line) && slices.Contains(e.Deaf, line[0].P) {
		line = line[1:]
	}
	left := time.Duration(s.Srv.Left)
	switch {
	case s.Srv.Owner != e.Srv.Owner:
		return s, fmt.Sprintf("%d:%d may have it", s.Srv.Owner.P, s.Srv.Owner.N)
	case !slices.Equal(line, e.Srv.Line):
		return s, fmt.Sprintf("in line may be %v", s.Srv.Line)
	case left-e.Srv.Left > c.slack || e.Srv.Left-left > c.slack:
		return s, fmt.Sprintf("it may have it for %v", left)
	}
	s = s.clone()
	s.Srv.Line = slices.Clone(line)
	s.Srv.Left = int(e.Srv.Left)
	return s, ""
}
