package check

import (
	"go/types"
	"slices"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/diag"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/directive"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/key"
	"github.com/lockgen/lockgen/templates/model"
)

// function resolves key=@name, a function of the package that makes the key from parameters of the method. One of another package can be called
// only by that one's builders.
func (c *checker) function(m *method, d *directive.Directive, name string, builder *model.Builder) *model.Key {
	from, to := d.Key.ValuePos()
	refuse := func(format string, args ...any) *model.Key {
		c.list.Add(from, to, "key=@%s: "+format, append([]any{name}, args...)...)
		return nil
	}
	pkg := m.effect.owner.pkg
	obj := pkg.Scope().Lookup(name)
	fn, ok := obj.(*types.Func)
	switch {
	case pkg != c.pkg.Types && (builder == nil || builder.Interface.Pkg() != pkg):
		return refuse("%s of %s would need this function of another package: put //lockgen:service above %s, so that there is a builder of the key, or say above %s what it is to hold, with method=%s",
			m.fn.Name(), m.iface, m.effect.owner.name, m.iface, m.fn.Name())
	case obj == nil && pkg != c.pkg.Types:
		if fn = c.run.function(m.effect.owner, name); fn == nil {
			return refuse("package %s has no function %s", pkg.Name(), name)
		}
	case obj == nil:
		return refuse("package %s has no function %s%s", c.pkg.Name, name, diag.Suggest(name, c.functions()))
	case !ok:
		return refuse("%s is not a function", name)
	case fn.Signature().TypeParams().Len() > 0:
		return refuse("%s has type parameters; write one for the types that %s has", name, m.fn.Name())
	}
	if node := c.declarations()[name]; pkg == c.pkg.Types && len(node) > 0 && c.said(node[0]) && c.compiler(node[0]) {
		return nil
	}
	sig := fn.Signature()
	v := &model.Value{Func: &model.Func{Name: name, Variadic: sig.Variadic()}}
	for i := range sig.Params().Len() {
		at, wrong := c.argument(m, fn, i)
		if wrong != "" {
			return refuse("%s", wrong)
		}
		v.Func.Args = append(v.Func.Args, at)
	}
	results := sig.Results()
	v.Func.Fails = results.Len() == 2 && isError(results.At(1).Type())
	if results.Len() != 1 && !v.Func.Fails {
		return refuse("%s must return a string, or a string and an error", name)
	}
	v.Type = results.At(0).Type()
	basic, ok := v.Type.Underlying().(*types.Basic)
	switch {
	case ok && basic.Kind() == types.Invalid:
		return refuse("the result of %s is of a type that is not known", name)
	case isNamed(v.Type, runtimePath, "Key"):
		v.Leaf = model.Raw
	case !ok || basic.Kind() != types.String:
		return refuse("%s returns %s; it must return a string, which is escaped, or a lockrt.Key, which is taken as it is", name, c.typeName(v.Type))
	default:
		scope := &key.Scope{Package: pkg}
		if err := scope.Made(v, d.Key.Value); err != nil {
			c.list.Add(from, to, "%v", err)
			return nil
		}
	}
	return &model.Key{Text: d.Key.Value, Parts: []model.Part{{Value: v}}}
}

// argument finds the parameter of a method that a function of keys is called with, by its name.
func (c *checker) argument(m *method, fn *types.Func, i int) (at int, wrong string) {
	want := fn.Signature().Params().At(i)
	if want.Name() == "" || want.Name() == "_" {
		return 0, fn.Name() + " has a parameter without a name; it gets the parameter of " + m.fn.Name() + " that has the same name"
	}
	params := m.params()
	var names []string
	for at := range params.Len() {
		p := params.At(at)
		switch {
		case p.Name() != want.Name():
			names = append(names, p.Name())
		case want.Type() != types.Typ[types.Invalid] && !types.AssignableTo(p.Type(), want.Type()):
			return 0, want.Name() + " is of type " + c.typeName(want.Type()) + " in " + fn.Name() + " and of type " + c.typeName(p.Type()) + " in " + m.fn.Name()
		default:
			return at, ""
		}
	}
	return 0, m.fn.Name() + " has no parameter " + want.Name() + ", which " + fn.Name() + " takes" + diag.Suggest(want.Name(), names)
}

// functions lists what could be meant by the name of one.
func (c *checker) functions() []string {
	var names []string
	for name := range c.pkg.Declared {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
