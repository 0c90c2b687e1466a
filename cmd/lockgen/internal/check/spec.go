package check

import (
	"slices"
	"strings"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/directive"
)

// reserveSpecs takes the variables that the output of a shared file has for an interface.
func (c *checker) reserveSpecs(iface *directive.Interface) {
	obj := c.pkg.Info.Defs[iface.Spec.Name]
	if obj == nil {
		return
	}
	for method, e := range c.run.entries(obj.Type()) {
		if slices.ContainsFunc(e.effects, (*effect).locks) {
			name := specVar(iface, method)
			c.names.Reserve(name, name+closer)
			c.shared = append(c.shared, name)
		}
	}
}

// specVar is the variable that has the options of a method's lock, unless the name is taken.
func specVar(iface *directive.Interface, method string) string {
	return "lock" + upperFirst(iface.Spec.Name.Name) + upperFirst(method)
}

// closer ends the name of the type that a method's lock has for a result.
const closer = "Result"

// pickSpec takes a name for the variable that has the options of a method's lock. In the output of a test file it is none that the output of the
// package can have: that has numbers where names are taken, which depend on the order there.
func (c *checker) pickSpec(iface *directive.Interface, method string) string {
	name := specVar(iface, method)
	for c.isShared(name) || c.isShared(name+closer) {
		name += "Test"
	}
	return c.names.Pick(name)
}

// isShared reports whether the output of a shared file can have a name for a variable of a lock, or for the type of its result.
func (c *checker) isShared(name string) bool {
	const digits = "0123456789"
	return slices.ContainsFunc(c.shared, func(of string) bool {
		rest, ok := strings.CutPrefix(name, of)
		return ok && strings.Trim(strings.TrimPrefix(strings.TrimLeft(rest, digits), closer), digits) == ""
	})
}
