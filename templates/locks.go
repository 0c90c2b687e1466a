package templates

import (
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/lockgen/lockgen/templates/model"
)

// locks writes the implementation of an interface whose methods declare the locks of entities.
func (f *file) locks(l *model.Locks) {
	o := f.owner(l.Type, l.TypeParams)
	iface := l.Interface.Name()
	fields := &Names{}
	for _, m := range l.Methods {
		fields.Reserve(m.Name)
	}
	client, opts := fields.Pick("c"), fields.Pick("opts")

	f.Line()
	f.Add(o.typeDecl(l.Type, l.TypeParams).Struct(
		jen.Id(client).Op("*").Add(lockrt("Client")),
		jen.Id(opts).Index().Add(lockrt("LockOption")),
	))
	f.assertion(o, l.TypeParams, iface, o.of(l.Type).Values())

	fr := f.names.Inner()
	fr.Reserve(o.args...)
	arg, optsArg := fr.Pick("c"), fr.Pick("opts")
	f.doc(l.Constructor + " makes " + iface + " on " + arg + ". What opts say counts more than the annotations.")
	fn := jen.Func().Id(l.Constructor)
	if len(l.TypeParams) > 0 {
		fn.Types(o.declared(l.TypeParams)...)
	}
	f.Add(fn.Params(jen.Id(arg).Op("*").Add(lockrt("Client")), jen.Id(optsArg).Op("...").Add(lockrt("LockOption"))).Add(o.of(iface)).Block(
		jen.Return(o.of(l.Type).Values(jen.Id(client).Op(":").Id(arg), jen.Id(opts).Op(":").Id(optsArg))),
	))
	f.specs(l.Methods, true)
	for _, m := range l.Methods {
		f.entity(o, l, m, client, opts)
	}
	f.keys(l.Keys, iface, l.TypeParams, l.Methods)
}

// entity writes the method that gives the lock of one entity.
func (f *file) entity(o *owner, l *model.Locks, m *model.Method, client, opts string) {
	fr := f.newFrame(o, m, f.entityNames(m)...)
	recv := fr.Pick("l")
	id := jen.Id(fr.params[0])
	if m.Entity != nil {
		var fields []jen.Code
		for i, name := range m.Entity.Fields {
			fields = append(fields, jen.Id(name).Op(":").Id(fr.params[i]))
		}
		id = o.code(m.Entity.Type).Values(fields...)
	}
	keys := o.builders(l.Keys, m).Values().Dot(m.Name).Call(builderArguments(m, fr)...)
	base := "key"
	if m.Lock.Keys[0].Kind == model.Multi {
		base = "keys"
	}
	key, err := fr.Pick(base), fr.Pick("err")
	fr.results = make([]string, len(m.Results))
	of, spec := jen.Id(recv).Dot(client), jen.Op("&").Id(m.Lock.SpecVar)
	rest := []jen.Code{id, jen.Id(key), jen.Id(err), jen.Id(recv).Dot(opts).Op("...")}
	var made *jen.Statement
	switch lock := m.Lock.Keys[0]; lock.Kind {
	case model.Permit:
		made = gen("ForPermits").Call(append([]jen.Code{of, spec, jen.Lit(lock.Permits)}, rest...)...)
	case model.ReadWrite:
		made = gen("ForRW").Call(append([]jen.Code{of, spec}, rest...)...)
	case model.Fair:
		made = gen("ForFair").Call(append([]jen.Code{of, spec}, rest...)...)
	case model.Multi:
		made = gen("ForMulti").Call(append([]jen.Code{of, spec}, rest...)...)
	default:
		made = gen("For").Call(append([]jen.Code{of, spec}, rest...)...)
	}
	f.methodDoc(m, entityDoc(m))
	f.Add(jen.Func().Params(jen.Id(recv).Add(o.of(l.Type))).Id(m.Name).Params(o.paramList(m, fr)...).Add(o.resultList(m, fr)).Block(
		jen.List(jen.Id(key), jen.Id(err)).Op(":=").Add(keys),
		jen.Return(made),
	))
}

// entityNames are the names that the body of a method needs: nil, and those of the package in the type that it makes.
func (f *file) entityNames(m *model.Method) []string {
	names := append([]string{"nil"}, builderNames(m)...)
	if m.Entity != nil {
		names = append(names, typeNames(m.Entity.Type)...)
	}
	return names
}

// entityDoc is the doc of a method with its key: at the end of a single sentence, else in a paragraph of its own.
func entityDoc(m *model.Method) []string {
	key, its := keyList(m.Lock.Keys), "Its key is "
	if m.Lock.Keys[0].Kind == model.Multi {
		key, its = key+", one for each element", "Its keys are "
	}
	if len(m.Doc) == 0 {
		has := " is the lock "
		if m.Lock.Keys[0].Kind == model.Multi {
			has = " has the locks "
		}
		return []string{m.Name + has + key + "."}
	}
	if sentence, ok := strings.CutSuffix(m.Doc[0], "."); ok && len(m.Doc) == 1 {
		return []string{sentence + ": " + key + "."}
	}
	return append(append([]string(nil), m.Doc...), "", its+key+".")
}
