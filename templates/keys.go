package templates

import (
	"fmt"
	"go/types"
	"slices"
	"strings"

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

// constant says whether no key of a lock has a placeholder.
func constant(l *model.Lock) bool { return len(used(l)) == 0 }

// used lists the parameters that the keys of a lock are built from, in their order.
func used(l *model.Lock) []int {
	var list []int
	for v := range values(l.Keys) {
		list = append(list, v.Param)
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
		args = append(args, jen.Id(fr.params[i]))
	}
	return args
}

// A builder is one function that builds keys.
type builder struct {
	*frame
	m     *model.Method
	buf   string
	keys  string            // the result if there are several
	err   string            // the error then
	fixed bool              // it can't fail
	local map[string]string // result of a method in a path, to the variable that has it
	done  map[string]bool   // checks that are written already
	body  []jen.Code
}

// builder writes the function that builds the keys of one method.
func (f *file) builder(o *owner, m *model.Method) {
	part := &model.Method{Name: m.Name}
	index := used(m.Lock)
	for _, i := range index {
		part.Params = append(part.Params, m.Params[i])
	}
	fr := f.newFrame(o, part, "nil", "append", "make", "byte", "string")
	// Values name parameters by their index in the method.
	names := make([]string, len(m.Params))
	for at, i := range index {
		names[i] = fr.params[at]
	}
	b := &builder{frame: fr, m: m, fixed: constant(m.Lock), local: map[string]string{}, done: map[string]bool{}}
	n := len(m.Lock.Keys)
	results := jen.String()
	switch {
	case n > 1:
		results = jen.Index(jen.Lit(n)).String()
		if !b.fixed {
			b.keys, b.err = fr.Pick("keys"), fr.Pick("err")
			results = jen.Params(jen.Id(b.keys).Add(results), jen.Id(b.err).Error())
		}
	case !b.fixed:
		results = jen.Params(results, jen.Error())
	}
	list := o.paramList(part, fr)
	fr.params = names
	b.build()
	f.doc(fmt.Sprintf("%s builds %s.", m.Name, keyList(m.Lock.Keys)))
	f.Add(jen.Func().Params(o.of(o.name)).Id(m.Name).Params(list...).Add(results).Block(b.body...))
}

// build writes the body: first everything that can be wrong, then the keys.
func (b *builder) build() {
	keys := b.m.Lock.Keys
	if b.fixed {
		b.body = append(b.body, jen.Return(b.constants()))
		return
	}
	for v := range values(keys) {
		b.check(v)
	}
	b.buf = b.Pick("b")
	b.body = append(b.body, jen.Id(b.buf).Op(":=").Make(jen.Index().Byte(), jen.Lit(0), jen.Lit(capacity(keys))))
	fresh := true
	for i, k := range keys {
		if text, ok := literal(k); ok {
			b.body = append(b.body, jen.Id(b.keys).Index(jen.Lit(i)).Op("=").Lit(text))
			continue
		}
		b.write(k, fresh)
		fresh = false
		built := jen.String().Call(jen.Id(b.buf))
		if b.keys == "" {
			b.body = append(b.body, jen.Return(built, jen.Nil()))
		} else {
			b.body = append(b.body, jen.Id(b.keys).Index(jen.Lit(i)).Op("=").Add(built))
		}
	}
	if b.keys != "" {
		b.body = append(b.body, jen.Return(jen.Id(b.keys), jen.Nil()))
	}
}

// constants is the result of a builder that has nothing to build.
func (b *builder) constants() *jen.Statement {
	var texts []jen.Code
	for _, k := range b.m.Lock.Keys {
		text, _ := literal(k)
		texts = append(texts, jen.Lit(text))
	}
	if len(texts) == 1 {
		return jen.Add(texts[0])
	}
	return jen.Index(jen.Lit(len(texts))).String().Values(texts...)
}

// literal is the text of a key without placeholders.
func literal(k *model.Key) (string, bool) {
	var text strings.Builder
	for _, p := range k.Parts {
		if p.Value != nil {
			return "", false
		}
		text.WriteString(p.Literal)
	}
	return text.String(), true
}

// capacity is enough for the usual values; longer ones make the buffer grow.
func capacity(keys []*model.Key) int {
	const perValue, step = 24, 64
	most := 0
	for _, k := range keys {
		n := 0
		for _, p := range k.Parts {
			n += len(p.Literal)
			if p.Value != nil {
				n += perValue
			}
		}
		most = max(most, n)
	}
	return (most + step - 1) / step * step
}

// write appends the parts of one key to the buffer.
func (b *builder) write(k *model.Key, fresh bool) {
	for i, p := range k.Parts {
		buf := jen.Id(b.buf)
		if i == 0 && !fresh {
			buf.Index(jen.Op(":").Lit(0))
		}
		b.body = append(b.body, jen.Id(b.buf).Op("=").Add(b.part(buf, p)))
	}
}

func (b *builder) part(buf *jen.Statement, p model.Part) *jen.Statement {
	switch {
	case p.Value != nil:
		return lockrt(appenders[p.Value.Leaf]).Call(buf, b.expr(p.Value))
	case len(p.Literal) == 1:
		return jen.Append(buf, jen.LitRune(rune(p.Literal[0])))
	}
	return jen.Append(buf, jen.Lit(p.Literal).Op("..."))
}

var appenders = map[model.Leaf]string{
	model.String: "AppendString",
	model.Int:    "AppendInt",
	model.Uint:   "AppendUint",
	model.Bool:   "AppendBool",
}

// check writes the checks of one value, and calls the methods on its path. What was checked for another value isn't checked again.
func (b *builder) check(v *model.Value) {
	at, path := []string{b.params[v.Param]}, b.m.Params[v.Param].Name
	if v.Nil {
		b.refuse("NilKey", path, selector(at...).Op("==").Nil())
	}
	for _, s := range v.Steps {
		for _, hop := range s.Hops {
			b.refuse("NilKey", path+"."+strings.Join(hop, "."), selector(slices.Concat(at, hop)...).Op("==").Nil())
		}
		at, path = append(at, s.Name), path+"."+s.Name
		if s.Call {
			// Called once: it may cost something, and must not change between the check and the use.
			path += "()"
			local, ok := b.local[path]
			if !ok {
				local = b.Pick(lowerFirst(s.Name))
				b.local[path] = local
				b.body = append(b.body, jen.Id(local).Op(":=").Add(selector(at...)).Call())
			}
			at = []string{local}
		}
		if s.Nil {
			b.refuse("NilKey", path, selector(at...).Op("==").Nil())
		}
	}
	if v.Leaf == model.String {
		b.refuse("EmptyKey", path, leaf(v, at).Op("==").Lit(""))
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

// leaf is the value at the end of a path.
func leaf(v *model.Value, at []string) *jen.Statement {
	if v.Deref {
		return jen.Op("*").Add(selector(at...))
	}
	return selector(at...)
}

// refuse writes a return with an error of the runtime, if it isn't there yet.
func (b *builder) refuse(with, path string, cond *jen.Statement) {
	if b.done[with+path] {
		return
	}
	b.done[with+path] = true
	value := jen.Lit("")
	if b.keys != "" {
		value = jen.Id(b.keys)
	}
	b.body = append(b.body, jen.If(cond).Block(
		jen.Return(value, lockrt(with).Call(jen.Lit(b.m.Lock.SpecName), jen.Lit(path))),
	))
}

// expr is the value itself.
func (b *builder) expr(v *model.Value) *jen.Statement {
	at, path := []string{b.params[v.Param]}, b.m.Params[v.Param].Name
	for _, s := range v.Steps {
		at, path = append(at, s.Name), path+"."+s.Name
		if s.Call {
			path += "()"
			at = []string{b.local[path]}
		}
	}
	return leaf(v, at)
}
