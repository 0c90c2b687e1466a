package templates

import (
	"fmt"
	"go/types"
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/lockgen/lockgen/templates/model"
)

// A way is how to get somewhere: selectors in Go, and the path that messages name.
type way struct {
	at    []string
	path  string
	index string // variable with the index of an element, which messages name too
}

// root is where the way to a value begins: at its parameter, or with what a function makes.
func (b *builder) root(v *model.Value) way {
	if v.Func != nil {
		path := v.Func.Name + "()"
		return way{at: []string{b.local[path]}, path: path}
	}
	return way{at: []string{b.params[v.Param]}, path: b.m.Params[v.Param].Name}
}

// name is the path for a message.
func (b *builder) name(w way) *jen.Statement {
	if w.index == "" {
		return jen.Lit(w.path)
	}
	b.index = true
	list, rest, _ := strings.Cut(w.path, "[]")
	s := gen("At").Call(jen.Lit(list), jen.Id(w.index))
	if rest != "" {
		s.Op("+").Lit(rest)
	}
	return s
}

// on is the way on from w by one step.
func (w way) on(s model.Step, local map[string]string) way {
	w.at, w.path = append(slices.Clone(w.at), s.Name), w.path+"."+s.Name
	if s.Call {
		w.path += "()"
		if name, ok := local[w.path]; ok {
			w.at = []string{name}
		}
	}
	return w
}

// follow is the way to the end of a path.
func (b *builder) follow(v *model.Value, w way) way {
	for _, s := range v.Steps {
		w = w.on(s, b.local)
	}
	return w
}

// check writes the checks of one value, and calls the methods on its path. It does not repeat the checks of another
// value.
func (b *builder) check(v *model.Value, w way) {
	if v.Func != nil {
		b.function(v.Func, w)
		w = b.root(v)
	}
	b.notNil(v.Nil, w)
	for _, s := range v.Steps {
		for _, hop := range s.Hops {
			through := way{at: slices.Concat(w.at, hop.Path), path: w.path + "." + strings.Join(hop.Path, "."), index: w.index}
			b.notNil(hop.Nil, through)
		}
		from := w
		w = w.on(s, b.local)
		if s.Call && len(w.at) > 1 {
			b.call(s, from, w)
			w = from.on(s, b.local)
		}
		b.notNil(s.Nil, w)
	}
	switch {
	case v.Each != nil:
		b.checkList(v, w)
	case v.Empty:
	case v.Leaf == model.String || v.Leaf == model.Raw:
		b.refuse("EmptyKey", w, b.expr(v, w, true).Op("==").Lit(""))
	case v.Leaf == model.Open: // says it when it is written
	case v.CanBeEmpty():
		b.refuse("EmptyKey", w, jen.Len(b.expr(v, w, true)).Op("==").Lit(0))
	}
}

// call writes the call of a method on a path. It is called once: it may cost something, and must not change between the check and the use.
func (b *builder) call(s model.Step, from, to way) {
	base := lowerFirst(s.Name)
	var args []jen.Code
	if s.Buffer {
		// Enough for the usual values, and where the compiler sees that it is not kept it costs nothing.
		args = append(args, jen.Make(jen.Index().Byte(), jen.Lit(0), jen.Lit(64)))
	}
	if s.Buffer || s.Name == "MarshalText" {
		base = "text"
	}
	call := selector(slices.Concat(from.at, []string{s.Name})...).Call(args...)
	if s.On != nil {
		ask := "Ask"
		if s.Fails {
			ask = "AskOrFail"
		}
		call = gen(ask).Call(append([]jen.Code{selector(from.at...), b.types.code(s.On).Dot(s.Name)}, args...)...)
	}
	b.assign(base, call, s.Fails || s.On != nil, to)
}

// function writes the call of a function that makes a key.
func (b *builder) function(fn *model.Func, w way) {
	if b.local[w.path] != "" {
		return
	}
	var args []jen.Code
	for i, at := range fn.Args {
		arg := jen.Id(b.params[at])
		if fn.Variadic && i == len(fn.Args)-1 {
			arg.Op("...")
		}
		args = append(args, arg)
	}
	b.assign("made", jen.Id(fn.Name).Call(args...), fn.Fails, w)
}

// assign puts what a call gives into a variable, which is known by the path to it.
func (b *builder) assign(base string, call *jen.Statement, fails bool, to way) {
	local := b.Pick(base)
	b.local[to.path] = local
	if !fails {
		b.add(jen.Id(local).Op(":=").Add(call))
		return
	}
	if b.err == "" {
		b.err = b.Pick("err")
	}
	b.add(jen.List(jen.Id(local), jen.Id(b.err)).Op(":=").Add(call))
	b.fail(jen.Id(b.err).Op("!=").Nil(), gen("BadKey").Call(jen.Lit(b.m.Lock.SpecName), b.name(to), jen.Id(b.err)))
}

// checkList writes the checks of the length of a list.
func (b *builder) checkList(v *model.Value, w way) {
	if v.Array {
		return
	}
	length := func() *jen.Statement { return jen.Len(b.expr(v, w, true)) }
	if !v.Empty {
		b.refuse("EmptyKey", w, length().Op("==").Lit(0))
	}
	done := fmt.Sprintf("%d of %s", v.Max, w.path)
	if !b.done[done] {
		b.done[done] = true
		b.fail(length().Op(">").Lit(v.Max), gen("ManyKeys").Call(jen.Lit(b.m.Lock.SpecName), b.name(w), length(), jen.Lit(v.Max)))
	}
}

// notNil writes the check that what was reached isn't nil.
func (b *builder) notNil(kind model.Nil, w way) {
	switch kind {
	case model.NilPointer:
		b.refuse("NilKey", w, selector(w.at...).Op("==").Nil())
	case model.NilInside:
		b.refuse("NilKey", w, gen("IsNil").Call(selector(w.at...)))
	}
}

// selector writes names joined by dots.
func selector(names ...string) *jen.Statement {
	s := jen.Id(names[0])
	for _, name := range names[1:] {
		s.Dot(name)
	}
	return s
}

// refuse writes a return with an error of the runtime, if it isn't there yet.
func (b *builder) refuse(with string, w way, cond *jen.Statement) {
	if b.done[with+w.path] {
		return
	}
	b.done[with+w.path] = true
	b.fail(cond, gen(with).Call(jen.Lit(b.m.Lock.SpecName), b.name(w)))
}

// fail writes a return with an error.
func (b *builder) fail(cond, err *jen.Statement) {
	value := jen.Nil()
	switch b.shape {
	case oneKey:
		value = jen.Lit("")
	case manyKeys:
		value = jen.Id(b.keys)
	}
	b.add(jen.If(cond).Block(jen.Return(value, err)))
}

// isTypeParam reports whether a type is a type parameter. A pointer to one can't be gone through, whatever its types are.
func isTypeParam(t types.Type) bool {
	_, ok := types.Unalias(t).(*types.TypeParam)
	return ok
}

// expr is the value itself, or the list. A way can lead to it already.
func (b *builder) expr(v *model.Value, w way, there ...bool) *jen.Statement {
	if len(there) == 0 {
		w = b.follow(v, w)
	}
	s := selector(w.at...)
	switch {
	case v.Array && v.Each == nil:
		return s.Index(jen.Op(":")) // through a pointer too
	case v.Deref && v.Array && !isTypeParam(v.List):
		return s // it can be gone through and has a length as it is
	case v.Deref:
		return jen.Op("*").Add(s)
	}
	return s
}
