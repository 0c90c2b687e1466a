package survey

import (
	"maps"
	"slices"
)

// A node is a waiter of a lock.
type node struct {
	lock *Lock
	n    int // the number of the waiter
}

func (n node) waiter() Waiter { return n.lock.Waiters[n.n] }

// A Graph has an edge from each waiter to each holder that it waits for.
type Graph struct {
	nodes []node
	under map[string][]node // by the owner of a lease: the waiters that hold it
	stuck map[node]bool     // waiters that cannot go on until another one gives up, since they are in a circle or behind one
}

// Graph returns the graph of waiters and holders.
func (w *World) Graph() *Graph {
	g := &Graph{under: map[string][]node{}, stuck: map[node]bool{}}
	for _, key := range slices.Sorted(maps.Keys(w.Locks)) {
		l := w.Locks[key]
		for i, c := range l.Waiters {
			n := node{l, i}
			g.nodes = append(g.nodes, n)
			g.stuck[n] = true
			for _, ref := range c.Under {
				g.under[ref.Owner] = append(g.under[ref.Owner], n)
			}
		}
	}
	for changed := true; changed; { // remove each waiter that can go on, until nothing changes
		changed = false
		for _, n := range g.nodes {
			if g.stuck[n] && !g.blocked(n) {
				g.stuck[n], changed = false, true
			}
		}
	}
	return g
}

// blockers returns the holders that keep a waiter from its lock. A reader keeps another reader from it only if a writer waits.
func (n node) blockers() []Holder {
	passes := n.waiter().Kind == kindRead && !slices.ContainsFunc(n.lock.Waiters, func(w Waiter) bool { return w.Kind == kindWrite })
	all := []Holder{} // of which JSON makes no null
	for _, h := range n.lock.Holders {
		if !passes || h.kind != kindRead {
			all = append(all, h)
		}
	}
	return all
}

// blocked reports whether no holder that it waits for can go on: all holders of permits, of which each is known, or any holder of a lock.
func (g *Graph) blocked(n node) bool {
	blockers := n.blockers()
	waits := func(h Holder) bool {
		return slices.ContainsFunc(g.under[h.Owner], func(m node) bool { return g.stuck[m] })
	}
	if n.waiter().Kind == "permit" {
		return len(blockers) > 0 && n.lock.unnamed == 0 && !n.lock.uncounted && !slices.ContainsFunc(blockers, func(h Holder) bool { return !waits(h) })
	}
	return slices.ContainsFunc(blockers, waits)
}

// next returns why a stuck waiter is stuck: a holder, and the waiter under its lease.
func (g *Graph) next(n node) (Holder, node, bool) {
	for _, h := range n.blockers() {
		for _, m := range g.under[h.Owner] {
			if g.stuck[m] {
				return h, m, true
			}
		}
	}
	return Holder{}, node{}, false
}

// circles returns each circle once, as its waiters, beginning with the one that has waited longest.
func (g *Graph) circles() (all [][]node) {
	done := map[node]bool{}
	for _, n := range g.nodes {
		if !g.stuck[n] || done[n] {
			continue
		}
		var path []node
		at := n
		for !done[at] && !slices.Contains(path, at) {
			path = append(path, at)
			_, m, ok := g.next(at)
			if !ok {
				break
			}
			at = m
		}
		if i := slices.Index(path, at); i >= 0 {
			circle := path[i:]
			first := 0
			for j, m := range circle {
				if older(m.waiter().Since, circle[first].waiter().Since) < 0 {
					first = j
				}
			}
			all = append(all, slices.Concat(circle[first:], circle[:first]))
		}
		for _, m := range path {
			done[m] = true
		}
	}
	return all
}

// A Circle is a deadlock: each waiter waits for a lock that the next one holds.
type Circle []Link

// A Link is one waiter of a chain, with the holders of its lock.
type Link struct {
	Key     string   `json:"key"` // of the lock that it waits for
	Waiter  Waiter   `json:"waiter"`
	Holders []Holder `json:"holders"`           // of that lock
	Stuck   bool     `json:"stuck,omitempty"`   // it is in a circle, or behind one
	Chains  []Link   `json:"behind,omitempty"`  // the waiters among the holders
	Circle  bool     `json:"circle,omitempty"`  // the waiter is in the chain already: the chain ends here
	Above   bool     `json:"above,omitempty"`   // the waiter is above with its holders: the chain ends here
	Unknown bool     `json:"unknown,omitempty"` // no holder is known
	Many    int      `json:"many,omitempty"`    // as of a Lock
	Others
}

func (g *Graph) link(n node) Link {
	return Link{Key: n.lock.Key, Waiter: n.waiter(), Holders: n.blockers(), Stuck: g.stuck[n], Unknown: len(n.blockers()) == 0, Many: n.lock.Many, Others: n.lock.Others}
}

// Circles returns each deadlock once, beginning with the waiter that has waited longest.
func (g *Graph) Circles() []Circle {
	all := []Circle{}
	for _, c := range g.circles() {
		var circle Circle
		for _, n := range c {
			circle = append(circle, g.link(n))
		}
		all = append(all, circle)
	}
	return all
}

// mostDeep is the largest length of a chain.
const mostDeep = 64

// Chains follows each waiter of l to the end of its chain. Below the first level it follows each waiter once: a graph can have more paths
// than anybody can read.
func (g *Graph) Chains(l *Lock) []Link {
	all, seen := []Link{}, map[node]bool{}
	for i := range l.Waiters {
		all = append(all, g.chain(node{l, i}, nil, seen))
	}
	return all
}

func (g *Graph) chain(n node, path []node, seen map[node]bool) Link {
	l := g.link(n)
	switch {
	case slices.Contains(path, n):
		l.Circle = true
		return l
	case len(path) > 0 && seen[n]:
		l.Above, l.Holders = true, []Holder{}
		return l
	case len(path) >= mostDeep:
		return l
	}
	seen[n] = true
	path = append(slices.Clip(path), n)
	for _, h := range n.blockers() {
		for _, m := range g.under[h.Owner] {
			l.Chains = append(l.Chains, g.chain(m, path, seen))
		}
	}
	return l
}
