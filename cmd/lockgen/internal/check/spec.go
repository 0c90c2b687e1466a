package check

import (
	"go/ast"
	"slices"
	"strconv"
	"strings"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/directive"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/load"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/output"
)

// A rank says when a file is built. The names in the output of a file do not depend on files of a higher rank.
type rank int

const (
	always    rank = iota // with the package
	sometimes             // with some tags, or on some systems
	tests                 // with the tests of the package
	sometests             // with its tests, with some tags or on some systems
)

// partial reports whether a build can have one file of the rank without another one.
func (r rank) partial() bool { return r == sometimes || r == sometests }

func (c *checker) rank(f *load.File) rank {
	r := always
	if f.BuildLine(c.list.Fset()) != "" || output.Constrained(f.Name) {
		r = sometimes
	}
	if strings.HasSuffix(f.Name, "_test.go") {
		r += tests
	}
	return r
}

// A peer is an annotated interface of the package, also one in a file that is not built now.
type peer struct {
	*directive.Interface
	rank rank
	stem string // of its name
}

// survey finds the peers, and reserves the names of their outputs that are not picked.
func (c *checker) survey() {
	for _, file := range slices.Concat(c.pkg.Shared, c.pkg.Files, c.pkg.Excluded) {
		rank := c.rank(file)
		for _, iface := range file.Directives.Interfaces {
			c.peers = append(c.peers, peer{iface, rank, stem(upperFirst(iface.Spec.Name.Name))})
			n := namesOf(iface)
			c.names.Reserve(n.constructor, n.keys)
			if iface.Directive.Verb == directive.Service {
				c.names.Reserve(n.typ)
			}
		}
	}
}

// The names that nobody chooses begin with these, and end with the last one if they are of the type that a method's lock has for a result.
const (
	specPrefix = "lock"
	typePrefix = "redis"
	closer     = "Result"
)

// pickSpec takes a name for the variable that has the options of a method's lock.
func (c *checker) pickSpec(iface *directive.Interface, method string) string {
	return c.pick(specPrefix, iface, upperFirst(method), c.lockable)
}

// pickType takes a name for the type that implements an interface of locks.
func (c *checker) pickType(iface *directive.Interface) string {
	return c.pick(typePrefix, iface, "", func(p peer) (ends []string, known bool) {
		if p.Directive.Verb == directive.Locks {
			ends = append(ends, "")
		}
		return ends, true
	})
}

// pick takes a name for something of an interface: a prefix, the interface and an end. If an output that is not always built beside this one can have the
// name, the length of the interface's name comes before it, and no other interface has that. ends lists the ends that a peer can have, if they are known.
func (c *checker) pick(prefix string, iface *directive.Interface, end string, ends func(peer) (all []string, known bool)) string {
	name := iface.Spec.Name.Name
	own := c.peers[slices.IndexFunc(c.peers, func(p peer) bool { return p.Interface == iface })].rank
	base := upperFirst(name) + end
	wanted := stem(base)
	contested := func(p peer) bool {
		other := p.Spec.Name.Name
		if other == name || p.rank > own || p.rank == own && !own.partial() || !strings.HasPrefix(wanted, p.stem) {
			return false // of two interfaces with one name a build has one
		}
		all, known := ends(p)
		return !known || slices.ContainsFunc(all, func(end string) bool { return stem(upperFirst(other)+end) == wanted })
	}
	if slices.ContainsFunc(c.peers, contested) {
		base = strconv.Itoa(len(name)) + name + end
	}
	return c.names.Pick(prefix + base)
}

// stem is what a name begins with: numbers, and the end of the type of a result, can follow.
func stem(name string) string {
	for {
		cut := strings.TrimSuffix(strings.TrimRight(name, "0123456789"), closer)
		if cut == name {
			return name
		}
		name = cut
	}
}

// lockable lists the methods of an interface that have a lock, or can have one. It does not know those that another declaration brings, if that may be
// left out of the build.
func (c *checker) lockable(p peer) (methods []string, known bool) {
	if obj := c.pkg.Info.Defs[p.Spec.Name]; obj != nil && !p.rank.partial() {
		for method, e := range c.run.entries(obj.Type()) {
			if slices.ContainsFunc(e.effects, (*effect).locks) {
				methods = append(methods, upperFirst(method))
			}
		}
		return methods, true
	}
	iface, ok := ast.Unparen(p.Spec.Type).(*ast.InterfaceType)
	if !ok {
		return nil, false
	}
	for _, field := range iface.Methods.List {
		if len(field.Names) == 0 {
			return nil, false
		}
		methods = append(methods, upperFirst(field.Names[0].Name))
	}
	return methods, true
}
