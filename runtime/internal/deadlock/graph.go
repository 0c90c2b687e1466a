package deadlock

import "slices"

// A graph is what the paths of a round have shown.
type graph struct {
	calls map[ID]*node
	picky bool // a call waits for any of its holders
}

// A node is a call, and whom it waits for: by their owners, the calls that wait under the leases.
type node struct {
	Call

	any  []string
	via  []string // in the order in which they were found
	next map[string][]ID
}

// add adds a path that has come back.
func (g *graph) add(p *probe) {
	if g.calls == nil {
		g.calls = map[ID]*node{}
	}
	g.node(p.To)
	for i := range p.Path {
		s := &p.Path[i]
		n := g.node(&s.Call)
		if s.Any != nil {
			n.any, g.picky = s.Any, true
		}
		to := p.To.ID
		if i+1 < len(p.Path) {
			to = p.Path[i+1].ID
		}
		if n.next[s.Via] == nil {
			n.via = append(n.via, s.Via)
		}
		if !slices.Contains(n.next[s.Via], to) {
			n.next[s.Via] = append(n.next[s.Via], to)
		}
	}
}

func (g *graph) node(c *Call) *node {
	n := g.calls[c.ID]
	if n == nil {
		n = &node{Call: *c, next: map[string][]ID{}}
		g.calls[c.ID] = n
	}
	return n
}

// stuck returns the calls that cannot go on unless one of them is ended.
func (g *graph) stuck() map[ID]bool {
	stuck := map[ID]bool{}
	for id := range g.calls {
		stuck[id] = true
	}
	for changed := true; changed; { // a call that may go on lets others, until nothing changes
		changed = false
		for id, n := range g.calls {
			waits := func(owner string) bool {
				return slices.ContainsFunc(n.next[owner], func(to ID) bool { return stuck[to] })
			}
			blocked := slices.ContainsFunc(n.via, waits)
			if n.any != nil {
				blocked = !slices.ContainsFunc(n.any, func(owner string) bool { return !waits(owner) })
			}
			if stuck[id] && !blocked {
				stuck[id], changed = false, true
			}
		}
	}
	return stuck
}

// reach returns the calls that can be reached from one through calls that are stuck, in the order in which they are met.
func (g *graph) reach(from ID, stuck map[ID]bool) []ID {
	var order []ID
	var walk func(id ID)
	walk = func(id ID) {
		n := g.calls[id]
		for _, owner := range n.via {
			for _, to := range n.next[owner] {
				if stuck[to] && !slices.Contains(order, to) {
					order = append(order, to)
					walk(to)
				}
			}
		}
	}
	walk(from)
	return order
}

// circle returns the deadlock in which a call is, and all calls because of which it is one; none if it is in none.
func (g *graph) circle(id ID) (c Circle, behind []ID) {
	stuck := g.stuck()
	if !stuck[id] {
		return Circle{}, nil
	}
	behind = g.reach(id, stuck)
	if !slices.Contains(behind, id) {
		return Circle{}, nil
	}
	for _, to := range behind {
		if to == id || slices.Contains(g.reach(to, stuck), id) {
			c.Calls = append(c.Calls, g.calls[to].Call)
		}
	}
	first := slices.MinFunc(c.Calls, func(a, b Call) int { return a.compare(&b) })
	at := slices.IndexFunc(c.Calls, func(call Call) bool { return call.ID == first.ID })
	c.Calls = slices.Concat(c.Calls[at:], c.Calls[:at])
	return c, behind
}

// checks returns what each process is to be asked of calls.
func (g *graph) checks(of []ID) map[string][]checked {
	under := map[ID][]Lease{}
	for _, id := range of {
		n := g.calls[id]
		for _, owner := range n.via {
			for _, to := range n.next[owner] {
				if slices.Contains(of, to) {
					under[to] = append(under[to], Lease{n.Key, owner})
				}
			}
		}
	}
	all := map[string][]checked{}
	for _, id := range of {
		n := g.calls[id]
		all[id.Process] = append(all[id.Process], checked{id.Number, n.Key, under[id], n.any})
	}
	return all
}

// mostSteps bounds the search for a circle. There may be more of them than anybody can look at.
const mostSteps = 1000

// complete returns a circle through the origin of p and the last edge of p, all of p if that can be, or nil if none is known that
// passes no call twice. No call of it waits for any of its holders.
func (g *graph) complete(p *probe) *probe {
	origin, last := p.origin().ID, p.last()
	if p.To.ID == origin {
		return p
	}
	whole := map[ID]bool{}
	for _, s := range p.Path[1:] {
		whole[s.ID] = true
	}
	path := g.way(p.To.ID, whole, origin)
	if path != nil {
		path = slices.Concat(p.Path, path)
	} else if path = g.way(p.To.ID, map[ID]bool{}, origin, last.ID); path != nil {
		path = append(path, *last)
		at := slices.IndexFunc(path, func(s step) bool { return s.ID == origin })
		path = slices.Concat(path[at:], path[:at])
	} else {
		return nil
	}
	return &probe{Round: p.Round, Path: path, To: p.origin()}
}

// way returns the steps from a call to others, in their order, that pass none twice and none of those that are passed already.
func (g *graph) way(from ID, passed map[ID]bool, to ...ID) (path []step) {
	steps := 0
	var walk func(at ID, to []ID) bool
	walk = func(at ID, to []ID) bool {
		n := g.calls[at]
		if steps++; passed[at] || n.any != nil || steps > mostSteps {
			return false
		}
		if at == to[0] {
			if to = to[1:]; len(to) == 0 {
				return true
			}
		} else if slices.Contains(to, at) {
			return false
		}
		passed[at] = true
		for _, owner := range n.via {
			path = append(path, step{Call: n.Call, Via: owner})
			for _, next := range n.next[owner] {
				if walk(next, to) {
					return true
				}
			}
			path = path[:len(path)-1]
		}
		delete(passed, at)
		return false
	}
	if !walk(from, to) {
		return nil
	}
	return path
}
