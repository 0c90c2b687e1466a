package templates

import (
	"fmt"
	"go/types"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/lockgen/lockgen/templates/model"
)

// service writes the wrapper of one interface.
func (f *file) service(s *model.Service) {
	o := f.owner(s.Wrapper, s.TypeParams)
	iface := s.Interface.Name()
	fields := &Names{}
	for _, m := range s.Methods {
		// A field can't have the name of a method.
		fields.Reserve(m.Name)
	}
	next, locks := fields.Pick("next"), fields.Pick("locks")

	f.doc(fmt.Sprintf("%s is %s %s that holds the annotated locks around each call.", s.Wrapper, article(iface), iface))
	f.Add(o.typeDecl(s.Wrapper, s.TypeParams).Struct(
		jen.Id(next).Add(o.of(iface)),
		jen.Id(locks).Op("*").Add(lockrt("Client")),
	))
	f.assertion(o, s.TypeParams, iface, jen.Parens(jen.Op("*").Add(o.of(s.Wrapper))).Call(jen.Nil()))

	fr := f.names.Inner()
	fr.Reserve(o.args...)
	nextArg, locksArg := fr.Pick("next"), fr.Pick("locks")
	f.doc(s.Constructor + " wraps next.")
	fn := jen.Func().Id(s.Constructor)
	if len(s.TypeParams) > 0 {
		fn.Types(o.declared(s.TypeParams)...)
	}
	f.Add(fn.Params(jen.Id(nextArg).Add(o.of(iface)), jen.Id(locksArg).Op("*").Add(lockrt("Client"))).Op("*").Add(o.of(s.Wrapper)).Block(
		jen.Return(jen.Op("&").Add(o.of(s.Wrapper)).Values(
			jen.Id(next).Op(":").Id(nextArg), jen.Id(locks).Op(":").Id(locksArg),
		)),
	))
	f.specs(s.Methods)
	for _, m := range s.Methods {
		if m.Lock == nil {
			f.passThrough(o, m, next)
		} else {
			f.locked(o, s, m, next, locks)
		}
	}
	f.keys(s.Keys, s.Wrapper, s.TypeParams, s.Methods)
}

// article is the one that stands before a name.
func article(name string) string {
	if strings.ContainsAny(strings.ToLower(name[:1]), "aeiou") {
		return "an"
	}
	return "a"
}

// assertion makes the compiler compare the output with the interface as it is now.
func (f *file) assertion(o *owner, params []*types.TypeParam, iface string, value *jen.Statement) {
	f.Line()
	assert := jen.Var().Id("_").Add(o.of(iface)).Op("=").Add(value)
	if len(params) > 0 {
		assert = jen.Func().Id("_").Types(o.declared(params)...).Params().Block(assert)
	}
	f.Add(assert)
}

// specs writes the options of all locks, once for the whole program.
func (f *file) specs(methods []*model.Method) {
	var defs []jen.Code
	for _, m := range methods {
		if m.Lock != nil {
			defs = append(defs, jen.Id(m.Lock.SpecVar).Op("=").Add(spec(m.Lock)))
		}
	}
	f.Line()
	if len(defs) == 1 {
		f.Var().Add(defs[0])
		return
	}
	f.Var().Defs(defs...)
}

// passThrough writes a method that needs no lock. It is written out, so that a method which the interface gets later can't slip through.
func (f *file) passThrough(o *owner, m *model.Method, next string) {
	fr := f.newFrame(o, m)
	recv := fr.Pick("s")
	if len(m.Doc) > 0 {
		f.doc(append(append([]string(nil), m.Doc...), "", "It is not locked.")...)
	} else {
		f.doc(m.Name + " is not locked.")
	}
	call := jen.Id(recv).Dot(next).Dot(m.Name).Call(arguments(m, fr, "")...)
	if len(m.Results) > 0 {
		call = jen.Return(call)
	}
	f.Add(o.method(recv, m, fr).Block(call))
}

// method starts a method of the wrapper.
func (o *owner) method(recv string, m *model.Method, fr *frame) *jen.Statement {
	return jen.Func().Params(jen.Id(recv).Op("*").Add(o.of(o.name))).Id(m.Name).
		Params(o.paramList(m, fr)...).Add(o.resultList(m, fr))
}

// arguments are those of the call that goes on to the wrapped service. The context is replaced by the lock's if there is one.
func arguments(m *model.Method, fr *frame, held string) []jen.Code {
	var args []jen.Code
	for i := range m.Params {
		arg := jen.Id(fr.params[i])
		if held != "" && i == m.Lock.Context {
			arg = jen.Id(held).Dot("Context").Call()
		}
		if m.Variadic && i == len(m.Params)-1 {
			arg.Op("...")
		}
		args = append(args, arg)
	}
	return args
}

// locked writes a method that holds locks around the call.
func (f *file) locked(o *owner, s *model.Service, m *model.Method, next, locks string) {
	fr := f.newFrame(o, m, "nil")
	fr.nameResults(m.Results)
	recv := fr.Pick("s")
	reports := len(m.Results) > 0
	errName := "err"
	if reports {
		errName = fr.results[len(fr.results)-1]
	} else {
		errName = fr.Pick("err")
	}
	fail := func() *jen.Statement {
		if !reports {
			return jen.Return()
		}
		var list []jen.Code
		for _, name := range fr.results {
			list = append(list, jen.Id(name))
		}
		return jen.Return(list...)
	}
	failed := func() *jen.Statement { return jen.Id(errName).Op("!=").Nil() }

	var body []jen.Code
	shape := shapeOf(m.Lock)
	keys := o.of(s.Keys).Values().Dot(m.Name).Call(builderArguments(m, fr)...)
	if constant(m.Lock) && shape == oneKey {
		// The builder of such a key can't fail, its result goes straight into the call.
	} else {
		base := "key"
		if shape != oneKey {
			base = "keys"
		}
		local := fr.Pick(base)
		if constant(m.Lock) {
			body = append(body, jen.Id(local).Op(":=").Add(keys))
		} else {
			body = append(body, jen.List(jen.Id(local), jen.Id(errName)).Op(":=").Add(keys), jen.If(failed()).Block(fail()))
		}
		keys = jen.Id(local)
		switch shape {
		case manyKeys:
			keys.Index(jen.Op(":")).Op("...")
		case listKeys:
			keys.Op("...")
		}
	}
	held := fr.Pick("held")
	ctx := jen.Qual("context", "Background").Call()
	if m.Lock.Context >= 0 {
		ctx = jen.Id(fr.params[m.Lock.Context])
	}
	body = append(body, jen.List(jen.Id(held), jen.Id(errName)).Op(":=").
		Id(recv).Dot(locks).Dot("Acquire").Call(ctx, jen.Op("&").Id(m.Lock.SpecVar), keys))
	if m.Lock.Skip && reports {
		body = append(body, jen.If(jen.Qual("errors", "Is").Call(jen.Id(errName), lockrt("ErrNotAcquired"))).Block(jen.Return(jen.Nil())))
	}
	call := jen.Id(recv).Dot(next).Dot(m.Name).Call(arguments(m, fr, held)...)
	if reports {
		call = jen.Return(call)
	}
	body = append(body,
		jen.If(failed()).Block(fail()),
		jen.Defer().Id(held).Dot("Release").Call(jen.Op("&").Id(errName)),
		call,
	)
	f.doc(lockedDoc(m)...)
	f.Add(o.method(recv, m, fr).Block(body...))
}

// lockedDoc is the doc of a method with what it holds.
func lockedDoc(m *model.Method) []string {
	subject := "It"
	var lines []string
	if len(m.Doc) > 0 {
		lines = append(append(lines, m.Doc...), "")
	} else {
		subject = m.Name
	}
	holds := subject + " holds " + keyList(m.Lock.Keys)
	if shapeOf(m.Lock) == listKeys {
		holds += ", one lock for each element"
	}
	holds += "."
	if m.Lock.Skip {
		it := "it"
		if shapeOf(m.Lock) != oneKey {
			it = "one of them"
		}
		if len(m.Results) > 0 {
			holds += fmt.Sprintf(" When somebody else holds %s, %s does nothing and returns nil.", it, m.Name)
		} else {
			holds += fmt.Sprintf(" When somebody else holds %s, or it can't be found out, %s does nothing.", it, m.Name)
		}
	}
	return append(lines, holds)
}

// keyList names keys: a, b and c.
func keyList(keys []*model.Key) string {
	var texts []string
	for _, k := range keys {
		texts = append(texts, k.Text)
	}
	last := len(texts) - 1
	if last == 0 {
		return texts[0]
	}
	return strings.Join(texts[:last], ", ") + " and " + texts[last]
}
