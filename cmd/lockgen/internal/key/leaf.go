package key

import (
	"fmt"
	"go/types"
	"slices"
	"strings"

	"github.com/lockgen/lockgen/templates/model"
)

// leaf decides how what was reached is written, or says what to write instead.
func (w *walk) leaf(part Part) error {
	refuse := func(format string, args ...any) error {
		return errorAt(part.Off, part.End, "key path "+w.text+": "+format, args...)
	}
	w.value.Type = w.typ
	if own, err := w.ownKey(part); own || err != nil {
		return err
	}
	if p, ok := w.typ.Underlying().(*types.Pointer); ok {
		if _, twice := p.Elem().Underlying().(*types.Pointer); twice {
			return refuse("%s is a pointer to a pointer; name a value", w.typeName(w.typ))
		}
		w.notNil()
		w.value.Deref = true
		w.typ = p.Elem()
	}
	name := w.typeName(w.typ)
	switch {
	case invalid(w.typ):
		return refuse("its type is not known")
	case isTime(w.typ):
		return refuse("a time.Time has a location and a monotonic clock; use {%s.UnixNano()} or {%s.Unix()}", w.path(), w.path())
	}
	if tp, ok := types.Unalias(w.typ).(*types.TypeParam); ok {
		leaf, ok := typeParamLeaf(tp)
		if !ok {
			return refuse("not every type of %s can be written into a key in one way; constrain it to ~string, or to integers", name)
		}
		w.value.Leaf = leaf
		return nil
	}
	switch t := w.typ.Underlying().(type) {
	case *types.Basic:
		leaf, ok := basicLeaf(t)
		if !ok {
			return refuse("%s", basicRefusal(name, t))
		}
		w.value.Leaf = leaf
		return nil
	case *types.Slice, *types.Array:
		return refuse("%s", listRefusal(name, w.path(), t, w.stringers()))
	case *types.Struct:
		return refuse("%s is a struct; name one of its parts%s", name, w.offer(": "))
	case *types.Map:
		return refuse("%s is a map; use an id of what it stands for", name)
	case *types.Chan:
		return refuse("%s is a channel; use an id", name)
	case *types.Signature:
		return refuse("%s is a function; use its result as a parameter", name)
	case *types.Interface:
		return refuse("%s is an interface; use a type that is always written in one way%s", name, w.offer(", or one of "))
	}
	return refuse("%s can't be written into a key", name)
}

func basicRefusal(name string, t *types.Basic) string {
	switch {
	case t.Info()&types.IsFloat != 0:
		return name + " is a float: NaN and rounding; use an integer, such as cents"
	case t.Info()&types.IsComplex != 0:
		return name + " is a complex number: NaN and rounding; use integers"
	}
	return name + " can't be written into a key"
}

func listRefusal(name, path string, t types.Type, stringers []string) string {
	elem := types.Type(nil)
	switch t := t.(type) {
	case *types.Slice:
		elem = t.Elem()
	case *types.Array:
		elem = t.Elem()
	}
	if b, ok := elem.Underlying().(*types.Basic); ok && b.Kind() == types.Uint8 {
		if len(stringers) > 0 {
			return name + " is not supported yet; use {" + path + "." + stringers[0] + "()}"
		}
		return name + " is not supported yet; use a string, such as its hex form"
	}
	return name + " has several elements, and one lock for each is not supported yet; name one value"
}

func basicLeaf(b *types.Basic) (model.Leaf, bool) {
	switch info := b.Info(); {
	case b.Kind() == types.Invalid || b.Kind() == types.UnsafePointer || info&types.IsUntyped != 0:
		return 0, false
	case info&types.IsString != 0:
		return model.String, true
	case info&types.IsUnsigned != 0:
		return model.Uint, true
	case info&types.IsInteger != 0:
		return model.Int, true
	case info&types.IsBoolean != 0:
		return model.Bool, true
	}
	return 0, false
}

// typeParamLeaf finds the one leaf that fits all types of a type parameter.
func typeParamLeaf(tp *types.TypeParam) (model.Leaf, bool) {
	iface, ok := tp.Constraint().Underlying().(*types.Interface)
	if !ok {
		return 0, false
	}
	return termLeaf(iface)
}

// termLeaf finds the one leaf that fits a type, or all types of a constraint. Each of these is in every part that the constraint is made of,
// so one part whose types agree is enough.
func termLeaf(t types.Type) (model.Leaf, bool) {
	switch u := t.Underlying().(type) {
	case *types.Basic:
		return basicLeaf(u)
	case *types.Interface:
		for part := range u.EmbeddedTypes() {
			if leaf, ok := termLeaf(part); ok {
				return leaf, true
			}
		}
	case *types.Union:
		leaf, ok := termLeaf(u.Term(0).Type())
		for term := range u.Terms() {
			other, known := termLeaf(term.Type())
			ok = ok && known && other == leaf
		}
		return leaf, ok
	}
	return 0, false
}

// ownKey goes on to the method that a type brings for keys, if it has one: LockKey() string.
func (w *walk) ownKey(part Part) (bool, error) {
	method := func(name string) *types.Func {
		// As if it were addressable: a method that can't be called on a copy is an error of the step, not a type without a key of its own.
		obj, _, _ := types.LookupFieldOrMethod(w.typ, true, w.scope.Package, name)
		fn, _ := obj.(*types.Func)
		return fn
	}
	if method("AppendLockKey") != nil {
		return false, errorAt(part.Off, part.End, "key path %s: the AppendLockKey of %s is not supported yet; give it a LockKey() string", w.text, w.typeName(w.typ))
	}
	fn := method("LockKey")
	if fn == nil {
		return false, nil
	}
	if sig := fn.Signature(); sig.Params().Len() != 0 || sig.Results().Len() != 1 || !types.Identical(sig.Results().At(0).Type(), types.Typ[types.String]) {
		return false, errorAt(part.Off, part.End, "key path %s: the LockKey of %s must be a LockKey() string", w.text, w.typeName(w.typ))
	}
	w.value.Leaf = model.String
	return true, w.step(Name{Text: "LockKey", Call: true, Off: part.Off, End: part.End})
}

func isTime(t types.Type) bool {
	n, ok := types.Unalias(t).(*types.Named)
	return ok && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == "time" && n.Obj().Name() == "Time"
}

func invalid(t types.Type) bool {
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Kind() == types.Invalid
}

func (w *walk) path() string { return strings.Trim(w.text, "{}") }

// names lists the fields and methods that a path could go on with, promoted ones too.
func (w *walk) names() []string { return slices.Concat(w.fields(), w.methods(nil)) }

// offer lists them for a message, those that end in something a key can have, behind a lead.
func (w *walk) offer(lead string, args ...any) string {
	fields, methods := w.fields(), w.methods(func(t types.Type) bool {
		_, ok := t.Underlying().(*types.Basic)
		return ok
	})
	for i := range methods {
		methods[i] += "()"
	}
	all := slices.Concat(fields, methods)
	if len(all) == 0 {
		return ""
	}
	const most = 8
	if len(all) > most {
		all = append(all[:most], "...")
	}
	return fmt.Sprintf(lead, args...) + strings.Join(all, ", ")
}

func (w *walk) fields() []string {
	t := w.typ
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	s, ok := t.Underlying().(*types.Struct)
	if !ok {
		return nil
	}
	var names []string
	for f := range s.Fields() {
		if f.Name() != "_" && (f.Exported() || f.Pkg() == w.scope.Package) {
			names = append(names, f.Name())
		}
	}
	return names
}

// methods lists the methods without arguments and with one result.
func (w *walk) methods(result func(types.Type) bool) []string {
	t := w.typ
	if _, ok := t.Underlying().(*types.Interface); !ok {
		if _, ok := t.Underlying().(*types.Pointer); !ok {
			t = types.NewPointer(t)
		}
	}
	set := types.NewMethodSet(t)
	var names []string
	for sel := range set.Methods() {
		fn, ok := sel.Obj().(*types.Func)
		if !ok || (!fn.Exported() && fn.Pkg() != w.scope.Package) {
			continue
		}
		sig := fn.Signature()
		if sig.Params().Len() == 0 && sig.Results().Len() == 1 && (result == nil || result(sig.Results().At(0).Type())) {
			names = append(names, fn.Name())
		}
	}
	return names
}

// stringers lists the methods that give a string.
func (w *walk) stringers() []string {
	return w.methods(func(t types.Type) bool {
		b, ok := t.Underlying().(*types.Basic)
		return ok && b.Kind() == types.String
	})
}
