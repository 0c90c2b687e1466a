package templates

import (
	"fmt"
	"go/types"
	"slices"

	"github.com/dave/jennifer/jen"

	"github.com/lockgen/lockgen/templates/model"
)

// A wrapper is the names in the wrapper of one service.
type wrapper struct {
	*owner
	service               *model.Service
	next, fallback, locks string // fields
}

// service writes the wrapper of one interface.
func (f *file) service(s *model.Service) {
	w := &wrapper{owner: f.owner(s.Wrapper, s.TypeParams), service: s}
	iface := s.Interface.Name()
	fields := &Names{}
	for _, m := range s.Methods {
		// A field can't have the name of a method.
		fields.Reserve(m.Name)
	}
	w.next, w.locks = fields.Pick("next"), fields.Pick("locks")
	members := []jen.Code{jen.Id(w.next).Add(w.of(iface))}
	fr := f.names.Inner()
	fr.Reserve(w.args...)
	nextArg := fr.Pick("next")
	params := []jen.Code{jen.Id(nextArg).Add(w.of(iface))}
	values := []jen.Code{jen.Id(w.next).Op(":").Id(nextArg)}
	doc := []string{s.Constructor + " wraps next. What opts say counts more than the annotations."}
	if fallsBack(s) {
		w.fallback = fields.Pick("fallback")
		members = append(members, jen.Id(w.fallback).Add(w.of(iface)))
		arg := fr.Pick("fallback")
		params = []jen.Code{jen.List(jen.Id(nextArg), jen.Id(arg)).Add(w.of(iface))}
		values = append(values, jen.Id(w.fallback).Op(":").Id(arg))
		doc = []string{s.Constructor + " wraps next. Where the annotations say so fallback is called instead when somebody else holds the lock. What",
			"opts say counts more than the annotations."}
	}
	members = append(members, jen.Id(w.locks).Add(gen("Acquirer")))
	near, red := kindsOf(s)
	var locksArg, quorumArg string
	if near {
		locksArg = fr.Pick("locks")
		params = append(params, jen.Id(locksArg).Op("*").Add(lockrt("Client")))
	}
	if red {
		quorumArg = fr.Pick("quorum")
		params = append(params, jen.Id(quorumArg).Index().Op("*").Add(lockrt("Client")))
		doc = append(doc, "", "Locks of kind=red are held on a majority of the servers of "+quorumArg+": three or more, of an odd number, independent of each other.")
	}
	optsArg := fr.Pick("opts")
	params = append(params, jen.Id(optsArg).Op("...").Add(lockrt("LockOption")))
	var acquirer *jen.Statement
	switch opts := jen.Id(optsArg).Op("..."); {
	case near && red:
		acquirer = gen("With").Call(jen.Id(locksArg), opts).Dot("Quorum").Call(jen.Id(quorumArg))
	case red:
		acquirer = gen("Quorum").Call(jen.Id(quorumArg), opts)
	default:
		acquirer = gen("With").Call(jen.Id(locksArg), opts)
	}
	values = append(values, jen.Id(w.locks).Op(":").Add(acquirer))

	f.doc(fmt.Sprintf("%s is %s %s that holds the annotated locks around each call.", s.Wrapper, article(iface), iface))
	f.Add(w.typeDecl(s.Wrapper, s.TypeParams).Struct(members...))
	f.assertion(w.owner, s.TypeParams, iface, jen.Parens(jen.Op("*").Add(w.of(s.Wrapper))).Call(jen.Nil()))
	f.doc(doc...)
	fn := jen.Func().Id(s.Constructor)
	if len(s.TypeParams) > 0 {
		fn.Types(w.declared(s.TypeParams)...)
	}
	f.Add(fn.Params(params...).Op("*").Add(w.of(s.Wrapper)).Block(
		jen.Return(jen.Op("&").Add(w.of(s.Wrapper)).Values(values...)),
	))
	f.specs(s.Methods, false)
	for _, m := range s.Methods {
		if m.Lock == nil {
			f.passThrough(w, m)
		} else {
			f.locked(w, m)
		}
	}
	for _, m := range s.Methods {
		if m.Lock != nil && m.Lock.Stream != nil && m.Lock.Stream.Closer != "" {
			f.closer(s, m)
		}
	}
	f.keys(s.Keys, s.Wrapper, s.TypeParams, s.Methods)
}

// kindsOf reports whether a service has locks of one server, and of a majority of several.
func kindsOf(s *model.Service) (near, red bool) {
	for _, m := range s.Methods {
		if m.Lock == nil {
			continue
		}
		for _, k := range m.Lock.Keys {
			near = near || k.Kind != model.Red
			red = red || k.Kind == model.Red
		}
	}
	return near, red
}

// fallsBack reports whether a method calls another implementation when its lock is busy.
func fallsBack(s *model.Service) bool {
	return slices.ContainsFunc(s.Methods, func(m *model.Method) bool { return m.Lock != nil && m.Lock.Fallback })
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
func (f *file) specs(methods []*model.Method, typed bool) {
	var defs []jen.Code
	for _, m := range methods {
		if m.Lock != nil {
			defs = append(defs, jen.Id(m.Lock.SpecVar).Op("=").Add(spec(m.Lock, typed)))
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
func (f *file) passThrough(w *wrapper, m *model.Method) {
	if len(m.Doc) > 0 {
		f.methodDoc(m, append(append([]string(nil), m.Doc...), "", "It is not locked."))
	} else {
		f.doc(m.Name + " is not locked.")
	}
	f.forward(w.owner, m, "s", w.next)
}

// forward writes a method that calls that of a field.
func (f *file) forward(o *owner, m *model.Method, receiver, field string) {
	fr := f.newFrame(o, m)
	recv := fr.Pick(receiver)
	call := jen.Id(recv).Dot(field).Dot(m.Name).Call(arguments(m, fr, "")...)
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
func (f *file) locked(w *wrapper, m *model.Method) {
	reports := len(m.Results) > 0
	needed := append(builderNames(m), "nil")
	if !reports {
		needed = append(needed, "error")
	}
	fr := f.newFrame(w.owner, m, needed...)
	fr.nameResults(m.Results)
	recv := fr.Pick("s")
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
		return jen.Return(ids(fr.results)...)
	}
	failed := func() *jen.Statement { return jen.Id(errName).Op("!=").Nil() }

	ctx := func() *jen.Statement {
		if m.Lock.Context >= 0 {
			return jen.Id(fr.params[m.Lock.Context])
		}
		return jen.Qual("context", "Background").Call()
	}
	var body []jen.Code
	if !reports {
		body = append(body,
			jen.Var().Id(errName).Error(),
			jen.Defer().Id(recv).Dot(w.locks).Dot("Unreported").Call(ctx(), jen.Op("&").Id(m.Lock.SpecVar), jen.Op("&").Id(errName)),
		)
	}
	shape := shapeOf(m.Lock)
	keys := w.builders(w.service.Keys, m).Values().Dot(m.Name).Call(builderArguments(m, fr)...)
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
	acquire := "Acquire"
	if m.Lock.Mixed() {
		acquire = "AcquireKinds"
	}
	body = append(body, jen.List(jen.Id(held), jen.Id(errName)).Op(":=").
		Id(recv).Dot(w.locks).Dot(acquire).Call(ctx(), jen.Op("&").Id(m.Lock.SpecVar), keys))
	busy := jen.If(jen.Qual("errors", "Is").Call(jen.Id(errName), lockrt("ErrNotAcquired")))
	switch {
	case m.Lock.Skip && reports:
		body = append(body, busy.Block(jen.Return(jen.Nil())))
	case m.Lock.Fallback:
		body = append(body, busy.Block(jen.Return(jen.Id(recv).Dot(w.fallback).Dot(m.Name).Call(arguments(m, fr, "")...))))
	}
	body = append(body,
		jen.If(failed()).Block(fail()),
		jen.Defer().Id(held).Dot("Release").Call(jen.Op("&").Id(errName)),
	)
	call := jen.Id(recv).Dot(w.next).Dot(m.Name).Call(arguments(m, fr, held)...)
	switch {
	case m.Lock.Stream != nil:
		body = append(body, f.stream(w, m, fr, held, call)...)
	case reports:
		body = append(body, jen.Return(call))
	default:
		body = append(body, call)
	}
	f.methodDoc(m, lockedDoc(m))
	f.Add(w.method(recv, m, fr).Block(body...))
}

// ids are names as code.
func ids(names []string) []jen.Code {
	list := make([]jen.Code, len(names))
	for i, name := range names {
		list[i] = jen.Id(name)
	}
	return list
}

// stream writes the call of a method with a result that takes the lock with it, unless there is none.
func (f *file) stream(w *wrapper, m *model.Method, fr *frame, held string, call *jen.Statement) []jen.Code {
	st := m.Lock.Stream
	last := len(fr.results) - 1
	result := jen.Id(fr.results[st.Result])
	none := jen.Id(fr.results[last]).Op("!=").Nil()
	results := ids(fr.results)
	results[last] = jen.Nil()
	switch {
	case st.Closer != "":
		none.Op("||").Add(result).Op("==").Nil()
		results[st.Result] = jen.Op("&").Add(w.of(st.Closer)).Values(result, jen.Id(held).Dot("Lend").Call())
	case st.Pairs:
		results[st.Result] = gen("HoldSeq2").Call(jen.Id(held), result)
	default:
		results[st.Result] = gen("HoldSeq").Call(jen.Id(held), result)
	}
	return []jen.Code{
		jen.List(ids(fr.results)...).Op("=").Add(call),
		jen.If(none).Block(jen.Return(ids(fr.results)...)),
		jen.Return(results...),
	}
}

// closer writes the type that a result is wrapped in which is to be closed. All methods are written out, as those of the service are.
func (f *file) closer(s *model.Service, m *model.Method) {
	st := m.Lock.Stream
	o := f.owner(st.Closer, s.TypeParams)
	fields := &Names{}
	for _, method := range st.Methods {
		fields.Reserve(method.Name)
	}
	next, held := fields.Pick("next"), fields.Pick("held")
	f.doc(fmt.Sprintf("%s is what %s returns. Closing it releases the locks.", st.Closer, m.Name))
	f.Add(o.typeDecl(st.Closer, s.TypeParams).Struct(
		jen.Id(next).Add(o.code(m.Results[st.Result].Type)),
		jen.Id(held).Op("*").Add(gen("Hold")),
	))
	for _, method := range st.Methods {
		f.Line()
		if method.Name != "Close" {
			f.forward(o, method, "r", next)
			continue
		}
		fr := f.newFrame(o, method)
		recv := fr.Pick("r")
		f.Add(o.method(recv, method, fr).Block(jen.Return(
			jen.Id(recv).Dot(held).Dot("Close").Call(jen.Id(recv).Dot(next).Dot("Close")),
		)))
	}
}
