package templates

import (
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Names gives out identifiers, each once. The zero value has given out none.
type Names struct {
	outer *Names
	few   []string        // that are taken: functions have so few that a map would cost more
	taken map[string]bool // instead, when they are more
}

const few = 24

// Reserve takes names without asking whether they are free.
func (n *Names) Reserve(names ...string) {
	if n.taken == nil && len(n.few)+len(names) <= few {
		n.few = append(n.few, names...)
		return
	}
	if n.taken == nil {
		n.taken = make(map[string]bool, len(n.few)+len(names))
		for _, name := range n.few {
			n.taken[name] = true
		}
		n.few = nil
	}
	for _, name := range names {
		n.taken[name] = true
	}
}

// Free reports whether a name is neither taken nor a keyword.
func (n *Names) Free(name string) bool {
	if name == "" || name == "_" || token.IsKeyword(name) {
		return false
	}
	for s := n; s != nil; s = s.outer {
		if s.taken[name] || slices.Contains(s.few, name) {
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

var version = regexp.MustCompile(`^v[0-9]+$`)

// ImportName is the name that a reader expects the package at an import path to have, as goimports does: that of its last element, versions and
// a leading "go-" aside. A package with another name is imported under its name explicitly.
func ImportName(importPath string) string {
	base := path.Base(importPath)
	if dir := path.Dir(importPath); version.MatchString(base) && dir != "." {
		base = path.Base(dir)
	}
	base = strings.TrimPrefix(base, "go-")
	if end := strings.IndexFunc(base, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }); end >= 0 {
		base = base[:end]
	}
	return base
}
