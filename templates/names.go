package templates

import (
	"go/token"
	"strconv"
)

// Names gives out identifiers, each once. The zero value has given out none.
type Names struct {
	outer *Names
	taken map[string]bool
}

// Reserve takes names without asking whether they are free.
func (n *Names) Reserve(names ...string) {
	if n.taken == nil {
		n.taken = map[string]bool{}
	}
	for _, name := range names {
		n.taken[name] = true
	}
}

// Free says whether a name is neither taken nor a keyword.
func (n *Names) Free(name string) bool {
	if name == "" || name == "_" || token.IsKeyword(name) {
		return false
	}
	for s := n; s != nil; s = s.outer {
		if s.taken[name] {
			return false
		}
	}
	return true
}

// Pick takes a name: base, or if that isn't free base with the first number that makes it so.
func (n *Names) Pick(base string) string {
	name := base
	for i := 1; !n.Free(name); i++ {
		name = base + strconv.Itoa(i)
	}
	n.Reserve(name)
	return name
}

// Inner returns names of a scope inside of this one: what is taken here is taken there, and not the other way round.
func (n *Names) Inner() *Names { return &Names{outer: n} }
