package templates

import (
	"go/types"
	"slices"

	"github.com/dave/jennifer/jen"

	"github.com/lockgen/lockgen/templates/model"
)

// keys writes the type whose methods build the keys of an interface's locks.
func (f *file) keys(name, of string, params []*types.TypeParam, methods []*model.Method) {
	o := f.owner(name, params)
	f.doc(name + " builds the keys that " + of + " locks, for tools and tests.")
	f.Add(o.typeDecl(name, params).Struct())
	for _, m := range methods {
		if m.Lock != nil {
			f.builder(o, m)
		}
	}
}

// builders is the type that builds the keys of a method: that of its interface, or of the one that it is inherited from.
func (o *owner) builders(own string, m *model.Method) *jen.Statement {
	b := m.Lock.Builder
	if b == nil {
		return o.of(own)
	}
	s := jen.Qual(b.Interface.Pkg().Path(), b.Keys)
	if len(b.Args) == 0 {
		return s
	}
	args := make([]jen.Code, len(b.Args))
	for i, arg := range b.Args {
		args[i] = o.code(arg)
	}
	return s.Types(args...)
}

// builderNames are the names that a call of such a builder needs.
func builderNames(m *model.Method) []string {
	if m.Lock == nil || m.Lock.Builder == nil {
		return nil
	}
	names := []string{m.Lock.Builder.Keys}
	for _, arg := range m.Lock.Builder.Args {
		names = append(names, typeNames(arg)...)
	}
	return names
}

// constant reports whether no key of a lock has a placeholder.
func constant(l *model.Lock) bool {
	for range values(l.Keys) {
		return false
	}
	return true
}

// used lists the parameters that the keys of a lock are built from, in their order.
func used(l *model.Lock) []int {
	var list []int
	for v := range values(l.Keys) {
		if v.Func != nil {
			list = append(list, v.Func.Args...)
		} else {
			list = append(list, v.Param)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// values goes through the placeholders of keys.
func values(keys []*model.Key) func(yield func(*model.Value) bool) {
	return func(yield func(*model.Value) bool) {
		for _, k := range keys {
			for _, p := range k.Parts {
				if p.Value != nil && !yield(p.Value) {
					return
				}
			}
		}
	}
}

// builderArguments are those of a call to the builder of a method's keys.
func builderArguments(m *model.Method, fr *frame) []jen.Code {
	var args []jen.Code
	for _, i := range used(m.Lock) {
		arg := jen.Id(fr.params[i])
		if m.Variadic && i == len(m.Params)-1 {
			arg.Op("...")
		}
		args = append(args, arg)
	}
	return args
}

// A shape is what the builder of a lock's keys returns.
type shape int

const (
	oneKey   shape = iota // string
	manyKeys              // [n]string
	listKeys              // []string
)

func shapeOf(l *model.Lock) shape {
	for v := range values(l.Keys) {
		if v.Each != nil {
			return listKeys
		}
	}
	if len(l.Keys) > 1 {
		return manyKeys
	}
	return oneKey
}
