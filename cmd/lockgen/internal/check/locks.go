package check

import (
	"go/types"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/directive"
	"github.com/lockgen/lockgen/templates/model"
)

const runtimePath = "github.com/lockgen/lockgen/runtime"

// locks checks an interface whose methods declare locks of entities.
func (c *checker) locks(iface *directive.Interface) *model.Locks {
	before := c.list.Len()
	obj, typ := c.object(iface)
	if obj == nil {
		return nil
	}
	c.prefix(iface.Directive)
	for _, name := range needed {
		c.predeclared(name, iface.Spec.Name.Pos(), iface.Spec.Name.End())
	}
	n := c.named[iface]
	out := &model.Locks{Interface: obj, TypeParams: typeParams(obj), Type: n.typ, Constructor: n.constructor, Keys: n.keys}
	for _, m := range c.methods(iface, typ) {
		if method := c.entity(iface, m); method != nil {
			c.use(iface, m, method)
			out.Methods = append(out.Methods, method)
		}
	}
	if len(out.Methods) == 0 && !c.wrong && c.list.Len() == before {
		d := iface.Directive
		c.list.Add(d.Slash, d.End, "%s has no methods, so it declares no locks", obj.Name())
	}
	if c.list.Len() > before {
		return nil
	}
	return out
}

// entity checks a method that declares a lock.
func (c *checker) entity(iface *directive.Interface, m *method) *model.Method {
	from, to := m.pos(iface)
	name := m.fn.Name()
	switch {
	case m.has(directive.NoLock):
		d := m.directives[0]
		c.list.Add(d.Slash, d.End, "every method of a locks interface declares a lock; nolock is for services")
		return nil
	case len(m.directives) == 0 && c.wrong:
		return nil
	case len(m.directives) == 0:
		c.list.Add(from, to, "%s declares no lock: put //lockgen:lock key=... above it", name)
		return nil
	case len(m.directives) > 1:
		d := m.directives[1]
		c.list.Add(d.Slash, d.End, "%s declares a second lock; a method of a locks interface declares one", name)
		return nil
	}
	d := m.directives[0]
	for _, name := range []string{"busy", "lost", "release", "min", "scope", "max", "ctx"} {
		if arg := d.Arg(name); arg != nil {
			c.list.Add(arg.Pos, arg.End, "option %s is for the locks of a service", arg.Name)
			return nil
		}
	}
	out := c.signature(iface, m)
	if out == nil || !c.entitySignature(iface, m) {
		return nil
	}
	out.Lock = c.lock(iface, m, -1)
	if out.Lock == nil {
		return nil
	}
	named := false
	for _, part := range out.Lock.Keys[0].Parts {
		if part.Value != nil && part.Value.Each != nil {
			at, end := d.Key.ValuePos()
			c.list.Add(at, end, "a list gives several locks, and an entity has one; lists are for services")
			return nil
		}
		named = named || part.Value != nil && (part.Value.Func == nil || len(part.Value.Func.Args) > 0)
	}
	if named {
		return out
	}
	at, end := d.Key.ValuePos()
	c.list.Add(at, end, "the key names no part of the parameter, so all of them would share one lock")
	return nil
}

// entitySignature checks func(id K) lockrt.EntityMutex[K].
func (c *checker) entitySignature(iface *directive.Interface, m *method) bool {
	from, to := m.pos(iface)
	sig, name := m.fn.Signature(), m.fn.Name()
	result := types.Type(nil)
	if sig.Results().Len() == 1 {
		result = sig.Results().At(0).Type()
	}
	switch {
	case sig.Params().Len() != 1 || sig.Variadic():
		c.list.Add(from, to, "%s must take one parameter, what the lock is of; put several parts into a struct", name)
	case result == nil:
		c.list.Add(from, to, "%s must return lockrt.EntityMutex[%s]", name, c.typeName(sig.Params().At(0).Type()))
	case isNamed(result, runtimePath, "EntityMutex"):
		arg := types.Unalias(result).(*types.Named).TypeArgs().At(0)
		if types.Identical(arg, sig.Params().At(0).Type()) {
			return true
		}
		c.list.Add(from, to, "%s takes %s and returns the lock of %s; they must be the same", name, c.typeName(sig.Params().At(0).Type()), c.typeName(arg))
	default:
		c.list.Add(from, to, "%s must return lockrt.EntityMutex[%s], not %s; other kinds are not supported yet",
			name, c.typeName(sig.Params().At(0).Type()), c.typeName(result))
	}
	return false
}
