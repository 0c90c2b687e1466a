package templates

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/lockgen/lockgen/templates/model"
)

// A builder is one function that builds keys, or a loop in it.
type builder struct {
	*frame
	types typePrinter
	m     *model.Method
	shape shape
	mixed bool // each key says of which lock it is
	buf   string
	keys  string            // the result if there are several
	err   string            // variable for errors, once there was one
	local map[string]string // result of a method in a path, to the variable that has it
	done  map[string]bool   // checks that are written already
	index bool              // an error names the index of an element
	body  []jen.Code
}

// builder writes the function that builds the keys of one method.
func (f *file) builder(o *owner, m *model.Method) {
	part := &model.Method{Name: m.Name}
	index := used(m.Lock)
	for _, i := range index {
		part.Params = append(part.Params, m.Params[i])
		part.Variadic = m.Variadic && i == len(m.Params)-1
	}
	needed := append([]string{"nil", "append", "make", "byte", "string", "len", "true", "error"}, builderNames(m)...)
	for v := range values(m.Lock.Keys) {
		if v.Func != nil {
			needed = append(needed, v.Func.Name)
		}
	}
	fr := f.newFrame(o, part, needed...)
	// Values name parameters by their index in the method.
	names := make([]string, len(m.Params))
	for at, i := range index {
		names[i] = fr.params[at]
	}
	b := &builder{frame: fr, types: o.typePrinter, m: m, shape: shapeOf(m.Lock), mixed: m.Lock.Mixed(), local: map[string]string{}, done: map[string]bool{}}
	results := jen.String()
	switch b.shape {
	case listKeys:
		results = jen.Index().Add(b.element())
	case manyKeys:
		results = jen.Index(jen.Lit(len(m.Lock.Keys))).Add(b.element())
	}
	switch {
	case constant(m.Lock):
	case b.shape == manyKeys && m.Lock.Builder == nil:
		b.keys = fr.Pick("keys")
		b.err = fr.Pick("err")
		results = jen.Params(jen.Id(b.keys).Add(results), jen.Id(b.err).Error())
	default:
		results = jen.Params(results, jen.Error())
	}
	list := o.paramList(part, fr)
	fr.params = names
	if m.Lock.Builder != nil {
		b.add(jen.Return(o.builders("", m).Values().Dot(m.Name).Call(builderArguments(m, fr)...)))
	} else {
		b.build()
	}
	f.doc(fmt.Sprintf("%s builds %s.", m.Name, keyList(m.Lock.Keys)))
	f.Add(jen.Func().Params(o.of(o.name)).Id(m.Name).Params(list...).Add(results).Block(b.body...))
}

// build writes the body: first everything that can be wrong before a list is gone through, then the keys.
func (b *builder) build() {
	keys := b.m.Lock.Keys
	if constant(b.m.Lock) {
		b.add(jen.Return(b.constants()))
		return
	}
	for v := range values(keys) {
		b.check(v, b.root(v))
	}
	if b.shape == listKeys {
		b.keys = b.Pick("keys")
		b.add(jen.Id(b.keys).Op(":=").Make(jen.Index().Add(b.element()), jen.Lit(0), b.count()))
	}
	b.buf = b.Pick("b")
	b.add(jen.Id(b.buf).Op(":=").Make(jen.Index().Byte(), jen.Lit(0), jen.Lit(capacity(keys))))
	fresh := true
	for i, k := range keys {
		if text, ok := literal(k); ok {
			b.result(i, jen.Lit(text))
			continue
		}
		if list := listOf(k); list != nil {
			b.loop(i, k, list)
			fresh = false
			continue
		}
		b.write(k, fresh)
		fresh = false
		b.result(i, jen.String().Call(jen.Id(b.buf)))
	}
	if b.shape != oneKey {
		b.add(jen.Return(jen.Id(b.keys), jen.Nil()))
	}
}

func (b *builder) add(s *jen.Statement) { b.body = append(b.body, s) }

// element is the type of one of several keys.
func (b *builder) element() *jen.Statement {
	if b.mixed {
		return gen("KindKey")
	}
	return jen.String()
}

// fields is one of several keys, as the result has it, without its type.
func (b *builder) fields(k *model.Key, key *jen.Statement) *jen.Statement {
	if !b.mixed {
		return key
	}
	fields := append(kind(k), field("Key", key))
	if k.Fence {
		fields = append(fields, field("Fence", jen.True()))
	}
	return jen.Values(fields...)
}

// result writes what becomes of a key.
func (b *builder) result(i int, key *jen.Statement) {
	if b.mixed {
		key = b.element().Add(b.fields(b.m.Lock.Keys[i], key))
	}
	switch b.shape {
	case oneKey:
		b.add(jen.Return(key, jen.Nil()))
	case manyKeys:
		b.add(jen.Id(b.keys).Index(jen.Lit(i)).Op("=").Add(key))
	case listKeys:
		b.add(jen.Id(b.keys).Op("=").Append(jen.Id(b.keys), key))
	}
}

// listOf is the placeholder of a key that names a list, or nil.
func listOf(k *model.Key) *model.Value {
	for v := range values([]*model.Key{k}) {
		if v.Each != nil {
			return v
		}
	}
	return nil
}

// count is how many keys there are.
func (b *builder) count() *jen.Statement {
	single := 0
	var lists []*jen.Statement
	for _, k := range b.m.Lock.Keys {
		if list := listOf(k); list != nil {
			lists = append(lists, jen.Len(b.expr(list, b.root(list))))
		} else {
			single++
		}
	}
	sum := lists[0]
	for _, list := range lists[1:] {
		sum.Op("+").Add(list)
	}
	if single > 0 {
		sum.Op("+").Lit(single)
	}
	return sum
}

// loop writes the keys of the elements of a list.
func (b *builder) loop(i int, k *model.Key, list *model.Value) {
	fails := slices.ContainsFunc(list.Each.Steps, func(s model.Step) bool { return s.Fails }) // and so brings a variable for its error
	if b.err == "" && opens(k) && !fails {
		b.err = b.Pick("err")
		b.add(jen.Var().Id(b.err).Error())
	}
	inner := &builder{
		frame: &frame{Names: b.Inner(), params: b.params},
		types: b.types,
		m:     b.m, shape: b.shape, mixed: b.mixed, buf: b.buf, keys: b.keys, err: b.err,
		local: maps.Clone(b.local), done: maps.Clone(b.done),
	}
	from := b.root(list)
	path := b.follow(list, from).path
	element := inner.Pick(singular(path))
	index := inner.Pick("i")
	at := way{at: []string{element}, path: path + "[]", index: index}
	inner.check(list.Each, at)
	inner.write(k, false, at)
	inner.result(i, jen.String().Call(jen.Id(b.buf)))
	if !inner.index {
		index = "_"
	}
	b.add(jen.For(jen.List(jen.Id(index), jen.Id(element)).Op(":=").Range().Add(b.expr(list, from))).Block(inner.body...))
}

// singular is the name of an element of what has a name in the plural.
func singular(path string) string {
	name := strings.TrimSuffix(path[strings.LastIndex(path, ".")+1:], "()")
	for _, plural := range []struct{ end, one string }{{"ies", "y"}, {"sses", "ss"}, {"shes", "sh"}, {"ches", "ch"}, {"xes", "x"}, {"ss", "ss"}, {"s", ""}} {
		if stem, ok := strings.CutSuffix(name, plural.end); ok && stem != "" && stem+plural.one != name {
			return lowerFirst(stem + plural.one)
		}
	}
	return "v"
}

// constants is the result of a builder that has nothing to build.
func (b *builder) constants() *jen.Statement {
	var all []jen.Code
	for _, k := range b.m.Lock.Keys {
		text, _ := literal(k)
		if b.shape == oneKey {
			return jen.Lit(text)
		}
		all = append(all, b.fields(k, jen.Lit(text)))
	}
	return jen.Index(jen.Lit(len(all))).Add(b.element()).Values(all...)
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

// write appends the parts of one key to the buffer. An element of a list is at the end of a way of its own.
func (b *builder) write(k *model.Key, fresh bool, element ...way) {
	for i, p := range k.Parts {
		buf := jen.Id(b.buf)
		if i == 0 && !fresh {
			buf.Index(jen.Op(":").Lit(0))
		}
		if p.Value != nil && p.Value.Leaf == model.Open {
			b.open(buf, p.Value, element)
			continue
		}
		b.add(jen.Id(b.buf).Op("=").Add(b.part(buf, p, element)))
	}
}

// opens reports whether a key has a value that is found out how to write when the program runs.
func opens(k *model.Key) bool {
	return slices.ContainsFunc(k.Parts, func(p model.Part) bool { return p.Value != nil && p.Value.Leaf == model.Open })
}

// open appends a value of a type parameter.
func (b *builder) open(buf *jen.Statement, v *model.Value, element []way) {
	from := b.root(v)
	if v.Each != nil {
		v, from = v.Each, element[0]
	}
	with := "AppendValue"
	if v.Empty {
		with = "AppendValueOrEmpty"
	}
	assign := "="
	if b.err == "" {
		b.err = b.Pick("err")
		assign = ":="
	}
	b.add(jen.List(jen.Id(b.buf), jen.Id(b.err)).Op(assign).Add(gen(with)).Call(buf, b.expr(v, from)))
	b.fail(jen.Id(b.err).Op("!=").Nil(), gen("BadKey").Call(jen.Lit(b.m.Lock.SpecName), b.name(b.follow(v, from)), jen.Id(b.err)))
}

func (b *builder) part(buf *jen.Statement, p model.Part, element []way) *jen.Statement {
	switch {
	case p.Value != nil && p.Value.Each != nil:
		return gen(p.Value.Each.Leaf.Appender()).Call(buf, b.expr(p.Value.Each, element[0]))
	case p.Value != nil && p.Value.Leaf == model.Raw:
		return jen.Append(buf, b.expr(p.Value, b.root(p.Value)).Op("..."))
	case p.Value != nil:
		return gen(p.Value.Leaf.Appender()).Call(buf, b.expr(p.Value, b.root(p.Value)))
	case len(p.Literal) == 1:
		return jen.Append(buf, jen.LitRune(rune(p.Literal[0])))
	}
	return jen.Append(buf, jen.Lit(p.Literal).Op("..."))
}
