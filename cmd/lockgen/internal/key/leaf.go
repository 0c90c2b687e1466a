package key

import (
	"errors"
	"fmt"
	"go/types"
	"slices"
	"strings"

	"github.com/lockgen/lockgen/templates/model"
)

// each goes on to the elements of the list that was reached.
func (w *walk) each(part Part) error {
	refuse := func(format string, args ...any) error {
		return errorAt(part.Off, part.End, "key path {%s...}: "+format, append([]any{w.path()}, args...)...)
	}
	if invalid(w.typ) {
		return unknown(refuse("its type is not known"))
	}
	if p, ok := w.typ.Underlying().(*types.Pointer); ok {
		w.notNil()
		w.value.Deref = true
		w.typ = p.Elem()
	}
	var elem types.Type
	switch t := Core(w.typ).(type) {
	case *types.Slice:
		elem = t.Elem()
	case *types.Array:
		if t.Len() == 0 {
			return refuse("%s has no elements, so it gives no lock", w.typeName(w.typ))
		}
		w.value.Array, elem = true, t.Elem()
	case *types.Map:
		return refuse("%s is a map; take a list of ids", w.typeName(w.typ))
	default:
		return refuse("%s has no elements; write %s", w.typeName(w.typ), w.text)
	}
	if model.IsByte(elem) {
		return refuse("%s is one value; write %s", w.typeName(w.typ), w.text)
	}
	w.value.List = w.typ
	inner := &walk{scope: w.scope, text: "{" + w.path() + "...}", value: &model.Value{}, typ: elem, element: true}
	if err := inner.leaf(part); err != nil {
		return err
	}
	w.value.Each, w.value.Leaf, w.value.Type = inner.value, inner.value.Leaf, elem
	return nil
}

// leaf decides how what was reached is written, or says what to write instead.
func (w *walk) leaf(part Part) error {
	refuse := func(format string, args ...any) error {
		return errorAt(part.Off, part.End, "key path "+w.text+": "+format, args...)
	}
	w.value.Type = w.typ
	if open, err := w.open(part); open || err != nil {
		return err
	}
	if own, err := w.byMethod(part, true); own || err != nil {
		return err
	}
	target := w.typ
	if p, ok := target.Underlying().(*types.Pointer); ok {
		if _, twice := p.Elem().Underlying().(*types.Pointer); twice {
			return refuse("%s is a pointer to a pointer; name a value", w.typeName(target))
		}
		target = p.Elem()
		if err := w.defined(part, types.NewPointer(target)); err != nil {
			return err
		}
	}
	if invalid(target) {
		return unknown(refuse("its type is not known"))
	}
	for _, form := range model.Forms {
		switch {
		case form.Own:
		case form.Method != "":
			if text, err := w.by(form, part); text || err != nil {
				return err
			}
		case form.Takes(target):
			w.notNil()
			w.value.Leaf, w.value.Deref = form.Leaf, target != w.typ
			_, w.value.Array = target.Underlying().(*types.Array)
			return nil
		}
	}
	name := w.typeName(target)
	if w.element {
		return w.badElement(part)
	}
	if _, ok := types.Unalias(target).(*types.TypeParam); ok {
		return refuse("not every type of %s can be written into a key; constrain it to ~string, integers, or a type with a LockKey() string", name)
	}
	switch t := target.Underlying().(type) {
	case *types.Basic:
		return refuse("%s", basicRefusal(name, t))
	case *types.Slice, *types.Array:
		return refuse("%s has several elements; write {%s...} for one lock each, or name one value", name, w.path())
	case *types.Struct:
		w.typ = target
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

// defined refuses a pointer type that is defined, such as type P *ID, if what it points to is written by a method: P has none of the methods of *ID.
func (w *walk) defined(part Part, plain types.Type) error {
	if _, ok := types.Unalias(w.typ).(*types.Named); !ok {
		return nil
	}
	on := &walk{scope: w.scope, text: w.text, value: &model.Value{}, typ: plain, element: w.element}
	if err := on.leaf(part); err != nil || len(on.value.Steps) == 0 {
		return err
	}
	return errorAt(part.Off, part.End, "key path %s: %s lacks the method %s, by which %s is written; use %s",
		w.text, w.typeName(w.typ), on.value.Steps[0].Name, w.typeName(plain), w.typeName(plain))
}

// badElement refuses a list for the type of its elements.
func (w *walk) badElement(part Part) error {
	t := w.typ
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	name := w.typeName(t)
	return errorAt(part.Off, part.End, "key path %s: an element is of type %s, which can't be written into a key; take a list of ids, or give %s a LockKey() string", w.text, name, name)
}

// open ends at a value of a type parameter, or at a pointer to one, that is written as its type argument says: a type of its own can have methods for
// keys whatever its constraint asks for, and have them from what it embeds, so that is found out when the program runs.
func (w *walk) open(part Part) (bool, error) {
	target := w.typ
	if p, ok := target.Underlying().(*types.Pointer); ok {
		target = p.Elem()
	}
	tp, ok := types.Unalias(target).(*types.TypeParam)
	if !ok {
		return false, nil
	}
	on := &walk{scope: w.scope, text: w.text, value: &model.Value{}, typ: target, element: w.element}
	own, err := on.byMethod(part, true)
	if err != nil {
		return false, err
	}
	if !own && !scalar(tp) {
		if own, err = on.byMethod(part, false); !own {
			return false, err
		}
		for _, set := range typeSets(tp.Constraint()) {
			for _, t := range set {
				named := &walk{scope: w.scope, text: w.text, value: &model.Value{}, typ: t}
				if _, err := named.byMethod(part, false); err != nil {
					return false, err
				}
			}
		}
	}
	if target != w.typ {
		w.notNil()
		w.value.Deref = true
	}
	w.value.Leaf = model.Open
	return true, nil
}

// Core is the one type that all types of a type parameter have underneath, and of other types what they have.
func Core(t types.Type) types.Type {
	tp, ok := types.Unalias(t).(*types.TypeParam)
	if !ok {
		return t.Underlying()
	}
	for _, set := range typeSets(tp.Constraint()) {
		one := set[0].Underlying()
		if !slices.ContainsFunc(set, func(t types.Type) bool { return !types.Identical(one, t.Underlying()) }) {
			return one
		}
	}
	return nil
}

// typeSets lists the sets of types that a constraint is the intersection of. One that says something is enough: there are fewer types, not others.
func typeSets(t types.Type) [][]types.Type {
	switch u := t.Underlying().(type) {
	case *types.Interface:
		var sets [][]types.Type
		for part := range u.EmbeddedTypes() {
			sets = append(sets, typeSets(part)...)
		}
		return sets
	case *types.Union:
		var all []types.Type
		for term := range u.Terms() {
			sets := typeSets(term.Type())
			if len(sets) == 0 {
				return nil
			}
			all = append(all, sets[0]...)
		}
		return [][]types.Type{all}
	}
	return [][]types.Type{{t}}
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

// scalar reports whether all types of a type parameter are written by their kind.
func scalar(tp *types.TypeParam) bool {
	return slices.ContainsFunc(typeSets(tp.Constraint()), func(set []types.Type) bool {
		return !slices.ContainsFunc(set, func(t types.Type) bool { return !model.HasKind(t) })
	})
}

// byMethod goes on to the method by which a type writes itself, if it has one: one that it brings for keys, or one for texts.
func (w *walk) byMethod(part Part, own bool) (bool, error) {
	for _, form := range model.Forms {
		if form.Method == "" || form.Own != own {
			continue
		}
		if done, err := w.by(form, part); done || err != nil {
			return done, err
		}
	}
	return false, nil
}

// by goes on to the method of a form, if what was reached has it.
func (w *walk) by(form model.Form, part Part) (bool, error) {
	fn := w.method(form.Method)
	switch {
	case fn == nil:
		return false, nil
	case types.Identical(fn.Signature(), form.Signature):
	case form.Own:
		return false, errorAt(part.Off, part.End, "key path %s: the %s of %s must be a method %v", w.text, form.Method, w.typeName(w.typ), form)
	default:
		return false, nil
	}
	if !form.Own && isTime(receiver(fn)) {
		if w.element {
			return false, w.badElement(part)
		}
		return false, errorAt(part.Off, part.End, "key path %s: a time.Time has a location and a monotonic clock; use {%s.UnixNano()} or {%s.Unix()}", w.text, w.path(), w.path())
	}
	w.value.Leaf = form.Leaf
	return true, w.step(Name{Text: form.Method, Call: true, Off: part.Off, End: part.End, buffer: form.Buffer()})
}

// method finds a method of what was reached.
func (w *walk) method(name string) *types.Func {
	obj, _, _ := types.LookupFieldOrMethod(w.typ, true, w.scope.Package, name)
	fn, _ := obj.(*types.Func)
	return fn
}

// receiver is the type that a method is declared for.
func receiver(fn *types.Func) types.Type {
	t := fn.Signature().Recv().Type()
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		return p.Elem()
	}
	return t
}

func isTime(t types.Type) bool {
	n, ok := types.Unalias(t).(*types.Named)
	return ok && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == "time" && n.Obj().Name() == "Time"
}

// unknown marks an error.
func unknown(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		e.Unknown = true
	}
	return err
}

func invalid(t types.Type) bool {
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Kind() == types.Invalid
}

func (w *walk) path() string { return strings.TrimSuffix(strings.Trim(w.text, "{}"), "...") }

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

// methods lists the methods that a path can call.
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
		if sig.Params().Len() == 0 && (sig.Results().Len() == 1 || withError(sig.Results())) && (result == nil || result(sig.Results().At(0).Type())) {
			names = append(names, fn.Name())
		}
	}
	return names
}
