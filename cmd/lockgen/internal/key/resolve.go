package key

import (
	"fmt"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/diag"
	"github.com/lockgen/lockgen/templates/model"
)

// A Scope is what a template can name: the parameters of one method, seen from one package.
type Scope struct {
	Package *types.Package
	Params  *types.Tuple
	Skip    int // index of the parameter that is the context, or -1; it is no value
}

// Resolve finds the values of a template. Its errors are of type *Error.
func (s *Scope) Resolve(t *Template) (*model.Key, error) {
	k := &model.Key{Text: t.Text}
	for _, part := range t.Parts {
		if part.Path == nil {
			k.Parts = literals(k.Parts, part.Literal)
			continue
		}
		v, err := s.value(t, part)
		if err != nil {
			return nil, err
		}
		if part.Tag {
			// Values hold no braces, so these are the only ones in the key.
			k.Parts = literals(append(literals(k.Parts, "{"), model.Part{Value: v}), "}")
		} else {
			k.Parts = append(k.Parts, model.Part{Value: v})
		}
	}
	return k, nil
}

// Made settles how the text that a function returns is written: by its own method for keys, if its type has one. Text is what the directive says.
func (s *Scope) Made(v *model.Value, text string) error {
	w := &walk{scope: s, text: text, value: v, typ: v.Type}
	_, err := w.byMethod(Part{End: len(text)}, true)
	return err
}

// literals appends a literal to parts, as one with the literal that is last.
func literals(parts []model.Part, literal string) []model.Part {
	if last := len(parts) - 1; last >= 0 && parts[last].Value == nil {
		parts[last].Literal += literal
		return parts
	}
	return append(parts, model.Part{Literal: literal})
}

// value follows a path from its parameter to its leaf.
func (s *Scope) value(t *Template, part Part) (*model.Value, error) {
	text := "{" + strings.TrimSuffix(t.Text[part.Off:part.End], "...") + "}"
	first := part.Path[0]
	i, typ, err := s.param(text, first)
	if err != nil {
		return nil, err
	}
	w := &walk{scope: s, text: text, value: &model.Value{Param: i}, typ: typ}
	for _, name := range part.Path[1:] {
		if err := w.step(name); err != nil {
			return nil, err
		}
	}
	end := w.leaf
	if part.Each {
		end = w.each
	}
	if err := end(part); err != nil {
		return nil, err
	}
	return w.value, nil
}

// param finds the parameter that a path starts with.
func (s *Scope) param(text string, name Name) (int, types.Type, error) {
	var names []string
	for i := range s.Params.Len() {
		p := s.Params.At(i)
		switch {
		case p.Name() != name.Text:
		case i == s.Skip:
			return 0, nil, errorAt(name.Off, name.End, "key path %s: %s is the context of the call, which differs from call to call; name a value", text, name.Text)
		default:
			return i, p.Type(), nil
		}
		if p.Name() != "" && p.Name() != "_" && i != s.Skip {
			names = append(names, p.Name())
		}
	}
	hint := diag.Suggest(name.Text, names)
	if hint == "" {
		hint = s.has(names)
	}
	return 0, nil, errorAt(name.Off, name.End, "key path %s: no parameter %s%s", text, name.Text, hint)
}

// has says which parameters there are, for a message.
func (s *Scope) has(names []string) string {
	if len(names) > 0 {
		return "; the parameters are " + strings.Join(names, ", ")
	}
	for i := range s.Params.Len() {
		if i != s.Skip {
			return fmt.Sprintf("; parameter %d has no name: name it to use it in a key", i+1)
		}
	}
	return "; the method has no parameters that a key could use"
}

// A walk is on its way along a path.
type walk struct {
	scope *Scope
	text  string // the placeholder, for messages
	value *model.Value
	typ   types.Type // of what was reached

	element bool // it goes on from an element of a list
}

// step goes on to a field or a method of what was reached.
func (w *walk) step(name Name) error {
	w.notNil()
	// Everything on the way is addressable: parameters, fields behind pointers or of variables, and results, which are put into variables.
	obj, index, _ := types.LookupFieldOrMethod(w.typ, true, w.scope.Package, name.Text)
	if obj == nil {
		return w.missing(name, index)
	}
	hops, err := w.hops(name, index)
	if err != nil {
		return err
	}
	step := model.Step{Name: name.Text, Call: name.Call, Buffer: name.buffer, Hops: hops}
	switch obj := obj.(type) {
	case *types.Var:
		if name.Call {
			return errorAt(name.Off, name.End+2, "key path %s: %s is a field of %s; write it without ()", w.text, name.Text, w.typeName(w.typ))
		}
		w.typ = obj.Type()
	case *types.Func:
		if err := w.call(name, obj); err != nil {
			return err
		}
		if tp, ok := types.Unalias(w.typ).(*types.TypeParam); ok && !scalar(tp) {
			step.On = tp
		}
		results := obj.Signature().Results()
		step.Fails = results.Len() > 1
		w.typ = results.At(0).Type()
	}
	w.value.Steps = append(w.value.Steps, step)
	return nil
}

// call checks that a method can stand in a path.
func (w *walk) call(name Name, fn *types.Func) error {
	sig := fn.Signature()
	switch {
	case !name.Call:
		return errorAt(name.Off, name.End, "key path %s: %s is a method of %s; write %s()", w.text, name.Text, w.typeName(w.typ), name.Text)
	case sig.Params().Len() > 0 && !name.buffer:
		return errorAt(name.Off, name.End, "key path %s: %s takes arguments; a path can call only methods without", w.text, name.Text)
	case sig.Results().Len() != 1 && !withError(sig.Results()):
		return errorAt(name.Off, name.End, "key path %s: %s has %s; a path can call only methods with one, or one and an error", w.text, name.Text, count(sig.Results().Len(), "result"))
	}
	return nil
}

// withError reports whether results are a value and an error.
func withError(results *types.Tuple) bool {
	return results.Len() == 2 && types.Identical(results.At(1).Type(), types.Universe.Lookup("error").Type())
}

// count writes a number of things.
func count(n int, what string) string {
	switch n {
	case 0:
		return "no " + what + "s"
	case 1:
		return "one " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// notNil has what was reached checked if it can be nil and is gone through.
func (w *walk) notNil() {
	kind := nilOf(w.typ)
	if n := len(w.value.Steps); n > 0 {
		w.value.Steps[n-1].Nil = max(w.value.Steps[n-1].Nil, kind)
	} else {
		w.value.Nil = max(w.value.Nil, kind)
	}
}

// nilOf says how a value of a type can be nil.
func nilOf(t types.Type) model.Nil {
	if tp, ok := types.Unalias(t).(*types.TypeParam); ok && scalar(tp) {
		return model.NeverNil
	}
	switch t.Underlying().(type) {
	case *types.Pointer, *types.Signature:
		return model.NilPointer
	case *types.Interface:
		return model.NilInside
	}
	return model.NeverNil
}

// hops finds the embedded pointers that a promoted field or method is reached through.
func (w *walk) hops(name Name, index []int) ([]model.Hop, error) {
	var hops []model.Hop
	var path []string
	typ := w.typ
	reachable := true
	for _, i := range index[:len(index)-1] {
		if p, ok := typ.Underlying().(*types.Pointer); ok {
			typ = p.Elem()
		}
		s, ok := typ.Underlying().(*types.Struct)
		if !ok {
			break
		}
		f := s.Field(i)
		path = append(path, f.Name())
		reachable = reachable && (f.Exported() || f.Pkg() == w.scope.Package)
		typ = f.Type()
		if kind := nilOf(typ); kind != model.NeverNil {
			if !reachable {
				return nil, errorAt(name.Off, name.End,
					"key path %s: %s is promoted through %s, which can be nil and can't be checked from here; add a method that returns it", w.text, name.Text, strings.Join(path, "."))
			}
			hops = append(hops, model.Hop{Path: slices.Clone(path), Nil: kind})
		}
	}
	return hops, nil
}

// missing explains a name that isn't there.
func (w *walk) missing(name Name, index []int) error {
	on := w.typeName(w.typ)
	switch {
	case index != nil:
		return errorAt(name.Off, name.End, "key path %s: %s of %s is ambiguous: several embedded fields have one", w.text, name.Text, on)
	case invalid(w.typ):
		return unknown(errorAt(name.Off, name.End, "key path %s: the type of what has %s is not known", w.text, name.Text))
	}
	if pkg := w.home(); pkg != nil && pkg != w.scope.Package && !token.IsExported(name.Text) {
		return errorAt(name.Off, name.End, "key path %s: %s can't be named outside of package %s%s", w.text, name.Text, pkg.Path(), w.offer("; %s has ", on))
	}
	if hint := diag.Suggest(name.Text, w.names()); hint != "" {
		return errorAt(name.Off, name.End, "key path %s: %s has no field or method %s%s", w.text, on, name.Text, hint)
	}
	return errorAt(name.Off, name.End, "key path %s: %s has no field or method %s%s", w.text, on, name.Text, w.offer("; it has "))
}

// home returns the package of the named type that was reached, or nil.
func (w *walk) home() *types.Package {
	t := types.Unalias(w.typ)
	if p, ok := t.(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	if n, ok := t.(*types.Named); ok {
		return n.Obj().Pkg()
	}
	return nil
}

func (w *walk) typeName(t types.Type) string {
	return types.TypeString(t, func(p *types.Package) string {
		if p == w.scope.Package {
			return ""
		}
		return p.Name()
	})
}
