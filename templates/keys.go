package templates

import (
	"fmt"
	"go/types"
	"maps"
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

// expr is the value itself, or the list. A way can lead to it already.
func (b *builder) expr(v *model.Value, w way, there ...bool) *jen.Statement {
	if len(there) == 0 {
		w = b.follow(v, w)
	}
	s := selector(w.at...)
	switch {
	case v.Array && v.Each == nil:
		return s.Index(jen.Op(":")) // through a pointer too
	case v.Deref && v.Array:
		return s // it can be gone through and has a length as it is
	case v.Deref:
		return jen.Op("*").Add(s)
	}
	return s
}
