package check

import (
	"go/types"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/directive"
	"github.com/lockgen/lockgen/templates/model"
)

// service checks an interface that gets a wrapper.
func (c *checker) service(iface *directive.Interface) *model.Service {
	before := c.list.Len()
	obj, typ, n := c.begin(iface)
	if obj == nil {
		return nil
	}
	out := &model.Service{Interface: obj, TypeParams: typeParams(obj), Wrapper: n.typ, Constructor: n.constructor, Keys: n.keys}
	locked := false
	for _, m := range c.methods(iface, obj, typ) {
		locked = locked || m.has(directive.Lock)
		if method := c.serviceMethod(iface, m); method != nil {
			c.use(iface, m, method)
			out.Methods = append(out.Methods, method)
		}
	}
	if !locked && !c.wrong && c.list.Len() == before {
		d := iface.Directive
		c.list.Add(d.Slash, d.End, "no method of %s has a lock: put //lockgen:lock key=... above those that need one", obj.Name())
	}
	if c.list.Len() > before {
		return nil
	}
	return out
}

func (c *checker) serviceMethod(iface *directive.Interface, m *method) *model.Method {
	out := c.signature(iface, m)
	if out != nil && !c.lengths(iface, m) {
		return nil
	}
	if !m.has(directive.Lock) {
		if iface.Directive.RequireAll() && !m.has(directive.NoLock) && !c.wrong {
			from, to := m.pos(iface)
			hint := ""
			if m.field == nil {
				hint = "; for one of another package put it above " + iface.Spec.Name.Name + ", with method=" + m.fn.Name()
			}
			c.list.Add(from, to, "%s has neither lock nor nolock, and require=all asks for one%s", m.fn.Name(), hint)
		}
		return out
	}
	if out == nil {
		return nil
	}
	context, ok := c.contextOf(m)
	if !ok || !c.results(m) {
		return nil
	}
	stream, ok := c.stream(iface, m)
	if !ok {
		return nil
	}
	out.Lock = c.lock(iface, m, context)
	if out.Lock != nil && stream != nil {
		out.Lock.Stream = stream
		if len(stream.Methods) > 0 {
			stream.Closer = c.names.Pick(out.Lock.SpecVar + closer)
		}
	}
	return out
}

// results checks that a method can tell that it wasn't called.
func (c *checker) results(m *method) bool {
	d := m.directives[0]
	skip := m.arg("busy").Is("skip")
	results := m.fn.Signature().Results()
	name := m.fn.Name()
	if results.Len() == 0 {
		if !skip {
			c.list.Add(d.Slash, d.End, "%s returns no error, so a failed lock can't be reported: add an error result, or busy=skip", name)
		}
		return skip
	}
	last := results.At(results.Len() - 1).Type()
	if !isError(last) {
		c.notError(m, last)
		return false
	}
	if skip && results.Len() > 1 {
		c.list.Add(d.Slash, d.End, "busy=skip is for methods that return only an error or nothing: what would %s return?", name)
		return false
	}
	return true
}

func (c *checker) notError(m *method, last types.Type) {
	if _, hidden := c.pkg.Declared["error"]; hidden {
		return // which was noted of the interface
	}
	d, name := m.directives[0], m.fn.Name()
	results := m.fn.Signature().Results()
	for v := range results.Variables() {
		if isError(v.Type()) {
			c.list.Add(d.Slash, d.End, "%s returns its error before other results, so a failed lock can't be reported: make it the last", name)
			return
		}
	}
	if obj, _, _ := types.LookupFieldOrMethod(last, true, nil, "Error"); obj != nil {
		c.list.Add(d.Slash, d.End, "the last result of %s is %s, not error: a nil %s is not a nil error; return error", name, c.typeName(last), c.typeName(last))
		return
	}
	c.list.Add(d.Slash, d.End, "%s returns no error, so a failed lock can't be reported: add an error result", name)
}

func isError(t types.Type) bool { return types.Identical(t, types.Universe.Lookup("error").Type()) }
