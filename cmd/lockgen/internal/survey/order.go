package survey

import (
	"go/token"
	"slices"
	"strings"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/diag"
)

// A step says that a lock is taken by a holder of another one.
type step struct {
	from, to string    // identities of shapes
	after    bool      // declared by after=; else both are locks of one method, and keys are taken in their order
	pos, end token.Pos // where that is said
	use      string    // the method
}

// steps lists what the directives say about the order of locks, each pair of shapes once: what is declared before what follows from the keys.
func (s *Survey) steps() []step {
	var all []step
	seen := map[[2]string]bool{}
	add := func(st step) {
		if pair := [2]string{st.from, st.to}; !seen[pair] {
			seen[pair] = true
			all = append(all, st)
		}
	}
	for _, k := range s.keys {
		for _, before := range s.after(k) {
			add(step{before, k.identity(), true, k.Directive.After.Pos, k.Directive.After.End, k.use.Name})
		}
	}
	for _, use := range s.uses {
		for i, a := range use.Keys {
			for _, b := range use.Keys[i+1:] {
				from, to := key{a, shapeOf(a.Key), use}.identity(), key{b, shapeOf(b.Key), use}.identity()
				if from == to {
					continue
				}
				// The runtime takes the keys of one call in the order of their bytes.
				p, _, _ := strings.Cut(from, "{}")
				q, _, _ := strings.Cut(to, "{}")
				open := strings.HasPrefix(p, q) || strings.HasPrefix(q, p)
				if open || p < q {
					add(step{from, to, false, use.Pos, use.Pos, use.Name})
				}
				if open || p > q {
					add(step{to, from, false, use.Pos, use.Pos, use.Name})
				}
			}
		}
	}
	return all
}

// after lists the shapes that a key says it is taken under.
func (s *Survey) after(k key) []string {
	if k.Directive.After == nil {
		return nil
	}
	var all []string
	for text := range strings.FieldsSeq(k.Directive.After.Value) {
		if before, ok := s.before(k, text); ok {
			all = append(all, before)
		}
	}
	return all
}

// before is the identity that after= of a key names. A function is one of the package.
func (s *Survey) before(k key, text string) (id string, ok bool) {
	id, ok = named(text)
	if strings.Contains(id, "@") {
		made := id + madeIn + k.Package
		if slices.Contains(s.shapes(), made) {
			return made, ok
		}
	}
	return id, ok
}

// order checks what after= says: that there are such locks, and that no two of them can be waited for in a circle. Locks of one method alone
// can't, since they are taken in the order of their keys; so a circle has at least one declared step.
func (s *Survey) order() {
	shapes := s.shapes()
	for _, k := range s.keys {
		if k.Directive.After == nil {
			continue
		}
		at, end := k.Directive.After.ValuePos()
		for text := range strings.FieldsSeq(k.Directive.After.Value) {
			before, ok := s.before(k, text)
			switch {
			case !ok:
				s.list.Add(at, end, "after=%s: write the key of the lock that is held before, such as order:{}", text)
			case !slices.Contains(shapes, before):
				s.list.Warn(at, end, "after=%s: no lock of this run has that key%s", text, diag.Suggest(before, texts(shapes)))
			}
		}
	}
	steps := s.steps()
	var seen []string
	for _, st := range steps {
		if !st.after {
			continue
		}
		back, ok := way(steps, st.to, st.from)
		if !ok {
			continue
		}
		circle := append([]step{st}, back...)
		if id := identity(circle); !slices.Contains(seen, id) {
			seen = append(seen, id)
			s.circle(circle)
		}
	}
}

// way finds the shortest way from one shape to another.
func way(steps []step, from, to string) ([]step, bool) {
	if from == to {
		return nil, true
	}
	cameBy := map[string]step{}
	queue := []string{from}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, st := range steps {
			if _, seen := cameBy[st.to]; st.from != at || seen || st.to == from {
				continue
			}
			cameBy[st.to] = st
			if st.to != to {
				queue = append(queue, st.to)
				continue
			}
			var path []step
			for at := to; at != from; at = cameBy[at].from {
				path = append(path, cameBy[at])
			}
			slices.Reverse(path)
			return path, true
		}
	}
	return nil, false
}

// identity is the same for a circle wherever it begins.
func identity(circle []step) string {
	var nodes []string
	for _, st := range circle {
		nodes = append(nodes, st.from)
	}
	slices.Sort(nodes)
	return strings.Join(nodes, " ")
}

// circle notes that locks can wait for each other.
func (s *Survey) circle(circle []step) {
	st := circle[0]
	if len(circle) == 1 {
		s.list.Add(st.pos, st.end, "lock order: %s is taken under another %s, so two calls can wait for each other; lock both by one method, which takes them in one order",
			shown(st.to), shown(st.from))
		return
	}
	path := shown(st.from)
	for _, st := range circle {
		path += " -> " + shown(st.to) + " (" + st.use + ", " + s.place(st.pos) + ")"
	}
	s.list.Add(st.pos, st.end, "lock order: these locks can wait for each other: %s", path)
}
