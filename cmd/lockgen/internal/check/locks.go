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
	obj, typ, n := c.begin(iface)
	if obj == nil {
		return nil
	}
	out := &model.Locks{Interface: obj, TypeParams: typeParams(obj), Type: n.typ, Constructor: n.constructor, Keys: n.keys}
	for _, m := range c.methods(iface, obj, typ) {
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
	multi := isMulti(m)
	for _, name := range []string{"kind", "busy", "lost", "release", "min", "linger", "scope", "max", "ctx"} {
		if arg := d.Arg(name); arg != nil && (name != "max" || !multi) {
			c.list.Add(arg.Pos, arg.End, "option %s is for the locks of a service", arg.Name)
			return nil
		}
	}
	out := c.signature(iface, m)
	if out == nil || !c.lengths(iface, m) || !c.entitySignature(iface, m, out) {
		return nil
	}
	out.Lock = c.lock(iface, m, -1)
	if out.Lock == nil {
		return nil
	}
	if !c.entityKind(m, out.Lock.Keys[0]) {
		return nil
	}
	at, end := d.Key.ValuePos()
	named, list, whole := false, false, false
	for _, part := range out.Lock.Keys[0].Parts {
		if part.Value != nil && part.Value.Each != nil {
			list, whole = true, len(part.Value.Steps) == 0
		}
		named = named || part.Value != nil && (part.Value.Func == nil || len(part.Value.Func.Args) > 0)
	}
	switch {
	case list && !multi:
		c.list.Add(at, end, "a list gives several locks, and an entity has one; return a lockrt.EntityMulti, which has several")
		return nil
	case multi && !whole: // another list may have its elements in another order, and each element has the lock at its place
		name := m.fn.Signature().Params().At(0).Name()
		c.list.Add(at, end, "a lockrt.EntityMulti has a lock for each element of %s, so the key needs {%s...}", name, name)
		return nil
	case named:
		c.unnamed(m, d, out.Lock.Keys[0])
		return out
	}
	c.list.Add(at, end, "the key names no part of the parameter, so all of them would share one lock")
	return nil
}

// entityKinds are the results by which a method says the kind of its lock.
var entityKinds = map[string]model.Kind{
	"EntityMutex": model.Mutex, "EntityRWMutex": model.ReadWrite, "EntityFairMutex": model.Fair, "EntitySemaphore": model.Permit, "EntityMulti": model.Multi,
}

// entityKind takes the kind of lock from the result, and checks what that needs.
func (c *checker) entityKind(m *method, k *model.Key) bool {
	k.Kind = entityKinds[types.Unalias(m.fn.Signature().Results().At(0).Type()).(*types.Named).Obj().Name()]
	d := m.directives[0]
	k.Permits = d.Permits
	a := d.Arg("permits")
	switch {
	case k.Kind == model.Permit && a == nil:
		c.list.Add(d.Slash, d.End, "a semaphore needs permits=, and how many may have one at once")
	case k.Kind != model.Permit && a != nil:
		c.list.Add(a.Pos, a.End, "permits is for a lockrt.EntitySemaphore")
	default:
		return !k.Fence || c.fenced(k.Kind, d.Fence)
	}
	return false
}

// entitySignature checks func(id K) lockrt.EntityMutex[K], or func(a A, b B) lockrt.EntityMutex[K] where K is a struct of an A and a B.
func (c *checker) entitySignature(iface *directive.Interface, m *method, out *model.Method) bool {
	from, to := m.pos(iface)
	sig, name := m.fn.Signature(), m.fn.Name()
	refuse := func(format string, args ...any) bool {
		c.list.Add(from, to, "%s "+format, append([]any{name}, args...)...)
		return false
	}
	multi := isMulti(m)
	if sig.Params().Len() == 0 || sig.Variadic() && !multi {
		return refuse("must take what the lock is of: one parameter, or those that make a struct; several of a kind need a lockrt.EntityMulti")
	}
	for p := range sig.Params().Variables() {
		if isContext(p.Type()) {
			return refuse("takes a context.Context; the methods of what it returns take one")
		}
	}
	first := sig.Params().At(0).Type()
	want := c.typeName(first)
	if sig.Params().Len() > 1 {
		want = "K], where K is a struct with the parameters as its fields, in their order"
	} else {
		want += "]"
	}
	if sig.Results().Len() != 1 {
		return refuse("must return lockrt.EntityMutex[%s, or a lockrt.EntityRWMutex, EntityFairMutex, EntitySemaphore or EntityMulti", want)
	}
	result := sig.Results().At(0).Type()
	if !isEntity(result) {
		return refuse("must return lockrt.EntityMutex[%s, or a lockrt.EntityRWMutex, EntityFairMutex, EntitySemaphore or EntityMulti, not %s", want, c.typeName(result))
	}
	arg := types.Unalias(result).(*types.Named).TypeArgs().At(0)
	if multi {
		slice, ok := first.Underlying().(*types.Slice)
		switch {
		case sig.Params().Len() > 1 || !ok:
			return refuse("must take a list, and nothing else: ids ...%s", c.typeName(arg))
		case !types.Identical(arg, slice.Elem()):
			return refuse("takes a list of %s and returns the locks of %s; they must be the same", c.typeName(slice.Elem()), c.typeName(arg))
		}
		return true
	}
	if sig.Params().Len() > 1 {
		return c.entityFields(m, arg, out, refuse)
	}
	if !types.Identical(arg, first) {
		return refuse("takes %s and returns the lock of %s; they must be the same", c.typeName(first), c.typeName(arg))
	}
	return true
}

// entityFields checks that the parameters make a struct.
func (c *checker) entityFields(m *method, typ types.Type, out *model.Method, refuse func(string, ...any) bool) bool {
	params := m.fn.Signature().Params()
	s, ok := typ.Underlying().(*types.Struct)
	if !ok {
		return refuse("takes several parameters, so what it returns the lock of must be a struct of them, and %s is none", c.typeName(typ))
	}
	// The fields that can be set here; of other packages the rest isn't even read.
	var fields []*types.Var
	for f := range s.Fields() {
		if f.Name() != "_" && (f.Exported() || f.Pkg() == c.pkg.Types) {
			fields = append(fields, f)
		}
	}
	if len(fields) != params.Len() {
		return refuse("takes %d parameters, and the fields of %s that can be set here are %d", params.Len(), c.typeName(typ), len(fields))
	}
	out.Entity = &model.Entity{Type: typ}
	for i, f := range fields {
		p := params.At(i)
		if !types.Identical(f.Type(), p.Type()) {
			return refuse("takes %s as parameter %d, and the field %s of %s is of type %s", c.typeName(p.Type()), i+1, f.Name(), c.typeName(typ), c.typeName(f.Type()))
		}
		out.Entity.Fields = append(out.Entity.Fields, f.Name())
	}
	return true
}

// isMulti reports whether a method returns the locks of several entities.
func isMulti(m *method) bool {
	results := m.fn.Signature().Results()
	return results.Len() == 1 && isNamed(results.At(0).Type(), runtimePath, "EntityMulti")
}

// isEntity reports whether a type is one of the runtime's typed locks.
func isEntity(t types.Type) bool {
	for name := range entityKinds {
		if isNamed(t, runtimePath, name) {
			return true
		}
	}
	return false
}
