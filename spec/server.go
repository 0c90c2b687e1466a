package spec

import "slices"

// forgetful reports whether the counter of tokens can be lost.
func (b Bounds) forgetful() bool {
	return slices.Contains(b.Kinds, "flush") || slices.Contains(b.Kinds, "failover")
}

// drawn records that a token was drawn.
func (b Bounds) drawn(to *State) {
	to.Fell = to.Fell || !to.Srv.Kept && to.Srv.Since < 1
	if b.forgetful() {
		to.Srv.Kept, to.Srv.Since = true, 0
	}
}

func (s *Server) open() { s.Owner, s.Left, s.How = None, 0, "free" }

func unlisted(line []Owner, o Owner) []Owner {
	return slices.DeleteFunc(slices.Clone(line), func(x Owner) bool { return x == o })
}

// run adds the steps of the server for a request, which is done again later if it is kept.
func (n *next) run(m Message, kept bool) {
	s, action := n.s, map[string]string{"acquire": "RunAcquire", "renew": "RunRenew", "release": "RunRelease"}[m.Kind]
	to := s.clone()
	if kept {
		action, to.Left = "Twice", to.Left-1
	} else {
		to.Net = s.without(m)
	}
	add := func(to State, more ...Message) {
		to.Net = append(slices.Clone(to.Net), more...)
		n.add(action, to)
	}
	switch {
	case m.Kind == "acquire" && n.b.Prompt && m.Age >= n.b.Lease:
	case m.Kind == "acquire" && (s.Srv.Owner == None || s.Srv.Owner == m.O):
		n.b.drawn(&to)
		to.Srv.Owner, to.Srv.Left, to.Srv.How = m.O, max(s.Srv.Left, n.b.lease(m)), "asked"
		if m.Arg == 2 {
			to.Srv.Line = unlisted(to.Srv.Line, m.O)
		}
		add(to, Message{"granted", m.O, m.Age, 0, m.TTL})
	case m.Kind == "acquire":
		if m.Arg > 0 && !slices.Contains(to.Srv.Line, m.O) {
			to.Srv.Line = append(to.Srv.Line, m.O)
		}
		add(to, Message{Kind: "refused", O: m.O, Arg: m.Age})
	case m.Kind == "renew" && s.Srv.Owner == m.O:
		to.Srv.Left, to.Srv.How = max(s.Srv.Left, n.b.lease(m)), "asked"
		add(to, Message{"renewed", m.O, m.Age, 0, m.TTL})
	case m.Kind == "renew":
		add(to, Message{Kind: "notyours", O: m.O})
	case s.Srv.Owner == m.O: // release
		done, dead := Message{Kind: "released", O: m.O, Arg: m.Arg}, true
		for k, o := range s.Srv.Line {
			if n.heed && !dead {
				break
			}
			deaf := slices.Contains(n.deaf, o.P)
			dead = dead && (s.Proc[o.P].St == "dead" || deaf)
			if n.heed && deaf {
				continue
			}
			to := to.clone()
			n.b.drawn(&to)
			to.Srv.Owner, to.Srv.Left, to.Srv.How, to.Srv.Line = o, n.b.Claim, "handed", to.Srv.Line[k+1:]
			add(to, done, Message{Kind: "handed", O: o})
		}
		if dead {
			to := to.clone()
			to.Srv.open()
			to.Srv.Line = nil
			add(to, done)
		}
		if n.b.Java {
			to := to.clone()
			to.Srv.open()
			add(to, done)
		}
	default:
		to.Srv.Line = unlisted(to.Srv.Line, m.O)
		add(to, Message{Kind: "released", O: m.O, Arg: m.Arg})
	}
}

func (n *next) racer() {
	if n.b.Java && n.s.Srv.Owner == None {
		to := n.s.clone()
		to.Srv.Owner, to.Srv.Left, to.Srv.How = Redisson, n.b.Lease, "asked"
		n.step("JavaTakes", to)
	}
	if n.s.Srv.Owner == Redisson {
		to := n.s.clone()
		to.Srv.open()
		n.step("JavaFrees", to)
	}
}

// forget records lost grants when the server becomes now.
func (s *State) forget(before, now Server) {
	if o := before.Owner; o != None && o != Redisson && (now.Owner != o || now.Left < before.Left) {
		s.Lost = append(s.Lost, o)
	}
}

func (n *next) faults() {
	s := n.s
	if n.fault("flush") && s.Srv.Since == 1 {
		to := s.clone()
		to.Srv = Server{Owner: None, How: "free", Since: 1}
		to.forget(s.Srv, to.Srv)
		to.Left--
		n.step("Flush", to.tidy(false))
	}
	if n.fault("failover") {
		if same := len(s.Copy) > 0 && s.Copy[0].equal(s.Srv); !same {
			to := s.clone()
			to.Copy = []Server{to.Srv}
			n.step("Replicate", to)
		}
		if len(s.Copy) > 0 && s.Srv.Since == 1 {
			to := s.clone()
			to.Srv, to.Copy = s.Copy[0], nil
			to.Srv.Kept, to.Srv.Since = false, 1
			to.forget(s.Srv, to.Srv)
			to.Left--
			n.step("Failover", to.tidy(false))
		}
	}
	if n.fault("ahead") {
		n.jump("Ahead", 1)
	}
	if n.fault("back") && s.Srv.Left < 2*n.b.Lease {
		n.jump("Back", -1)
	}
}

func (s Server) equal(o Server) bool {
	return s.Owner == o.Owner && s.Left == o.Left && slices.Equal(s.Line, o.Line) && s.How == o.How && s.Kept == o.Kept && s.Since == o.Since
}

func (n *next) jump(action string, by int) {
	s := n.s
	to := s.clone()
	to.Left--
	if s.Srv.Owner != None {
		to.Srv.Left = max(0, s.Srv.Left-by)
	}
	if to.Srv.Left == 0 {
		to.Srv.Owner, to.Srv.How = None, "free"
	}
	to.Srv.Since = min(1, s.Srv.Since+by)
	if by > 0 {
		to.forget(s.Srv, to.Srv)
	}
	for i, p := range to.Proc {
		if p.Slack != NoSight {
			to.Proc[i].Slack -= by
		}
	}
	for i, m := range to.Net {
		switch m.Kind {
		case "refused":
			to.Net[i].Arg -= by
		case "handed":
			to.Net[i].Age += by
		}
	}
	n.step(action, to.tidy(false))
}
