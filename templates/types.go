package templates

import (
	"go/types"
	"strconv"

	"github.com/dave/jennifer/jen"
)

// A typePrinter writes types as the output names them.
type typePrinter struct {
	params map[*types.TypeParam]string // type parameters that have another name in the output
}

// code returns the source of a type. Aliases stay what they are: what one stands for may not be nameable.
func (p typePrinter) code(t types.Type) *jen.Statement {
	switch t := t.(type) {
	case *types.Alias:
		return p.named(t.Obj(), t.TypeArgs())
	case *types.Named:
		return p.named(t.Obj(), t.TypeArgs())
	case *types.TypeParam:
		if name, ok := p.params[t]; ok {
			return jen.Id(name)
		}
		return jen.Id(t.Obj().Name())
	case *types.Basic:
		if t.Kind() == types.UnsafePointer {
			return jen.Qual("unsafe", "Pointer")
		}
		return jen.Id(t.Name())
	case *types.Pointer:
		return jen.Op("*").Add(p.code(t.Elem()))
	case *types.Slice:
		return jen.Index().Add(p.code(t.Elem()))
	case *types.Array:
		return jen.Index(jen.Op(strconv.FormatInt(t.Len(), 10))).Add(p.code(t.Elem()))
	case *types.Map:
		return jen.Map(p.code(t.Key())).Add(p.code(t.Elem()))
	case *types.Chan:
		return p.channel(t)
	case *types.Signature:
		return jen.Func().Add(p.signature(t))
	case *types.Struct:
		return p.structure(t)
	case *types.Interface:
		return p.iface(t)
	case *types.Union:
		return p.union(t)
	}
	panic("templates: no source for " + t.String()) //nolint:forbidigo // the list above is that of go/types
}

func (p typePrinter) named(obj *types.TypeName, args *types.TypeList) *jen.Statement {
	var s *jen.Statement
	if obj.Pkg() == nil {
		s = jen.Id(obj.Name())
	} else {
		s = jen.Qual(obj.Pkg().Path(), obj.Name())
	}
	if args.Len() == 0 {
		return s
	}
	list := make([]jen.Code, 0, args.Len())
	for arg := range args.Types() {
		list = append(list, p.code(arg))
	}
	return s.Types(list...)
}

func (p typePrinter) channel(t *types.Chan) *jen.Statement {
	elem := p.code(t.Elem())
	switch t.Dir() {
	case types.RecvOnly:
		return jen.Op("<-").Chan().Add(elem)
	case types.SendOnly:
		return jen.Chan().Op("<-").Add(elem)
	}
	if inner, ok := t.Elem().(*types.Chan); ok && inner.Dir() == types.RecvOnly {
		return jen.Chan().Parens(elem)
	}
	return jen.Chan().Add(elem)
}

// signature returns parameters and results, without func.
func (p typePrinter) signature(sig *types.Signature) *jen.Statement {
	var params []jen.Code
	for i := range sig.Params().Len() {
		v := sig.Params().At(i)
		param := name(v.Name())
		if sig.Variadic() && i == sig.Params().Len()-1 {
			param.Add(p.variadic(v.Type()))
		} else {
			param.Add(p.code(v.Type()))
		}
		params = append(params, param)
	}
	s := jen.Params(params...)
	results := sig.Results()
	if results.Len() == 1 && results.At(0).Name() == "" {
		return s.Add(p.code(results.At(0).Type()))
	}
	if results.Len() == 0 {
		return s
	}
	var list []jen.Code
	for v := range results.Variables() {
		list = append(list, name(v.Name()).Add(p.code(v.Type())))
	}
	return s.Params(list...)
}

// variadic returns the type of a variadic parameter, which is a slice everywhere but in the built-in append.
func (p typePrinter) variadic(t types.Type) *jen.Statement {
	return jen.Op("...").Add(p.code(t.(*types.Slice).Elem()))
}

func name(s string) *jen.Statement {
	if s == "" {
		return jen.Null()
	}
	return jen.Id(s)
}

func (p typePrinter) structure(t *types.Struct) *jen.Statement {
	var fields []jen.Code
	for i := range t.NumFields() {
		f := t.Field(i)
		field := jen.Null()
		if !f.Embedded() {
			field.Id(f.Name())
		}
		field.Add(p.code(f.Type()))
		if tag := t.Tag(i); tag != "" {
			field.Op(strconv.Quote(tag))
		}
		fields = append(fields, field)
	}
	return jen.Struct(fields...)
}

func (p typePrinter) iface(t *types.Interface) *jen.Statement {
	if t.IsImplicit() && t.NumEmbeddeds() == 1 && !startsAsPointer(t.EmbeddedType(0)) {
		return p.code(t.EmbeddedType(0))
	}
	var elems []jen.Code
	for m := range t.ExplicitMethods() {
		elems = append(elems, jen.Id(m.Name()).Add(p.signature(m.Signature())))
	}
	for e := range t.EmbeddedTypes() {
		elems = append(elems, p.code(e))
	}
	return jen.Interface(elems...)
}

// startsAsPointer reports whether the text of a constraint begins with a star. In type T[P *C] X, Go takes it for the length of an array.
func startsAsPointer(constraint types.Type) bool {
	if u, ok := constraint.(*types.Union); ok {
		return !u.Term(0).Tilde() && startsAsPointer(u.Term(0).Type())
	}
	_, ok := constraint.(*types.Pointer)
	return ok
}

func (p typePrinter) union(t *types.Union) *jen.Statement {
	var terms []jen.Code
	for term := range t.Terms() {
		s := jen.Null()
		if term.Tilde() {
			s.Op("~")
		}
		terms = append(terms, s.Add(p.code(term.Type())))
	}
	return jen.Union(terms...)
}

// packagesOf adds the packages whose names stand in a type, and every other name in it to avoid: an import must not hide it.
func packagesOf(t types.Type, pkgs map[string]string, avoid *Names) {
	Visit(t, func(t types.Type) {
		switch t := t.(type) {
		case *types.Named:
			addPackage(t.Obj(), pkgs)
		case *types.Alias:
			addPackage(t.Obj(), pkgs)
		case *types.TypeParam:
			avoid.Reserve(t.Obj().Name())
		case *types.Basic:
			if t.Kind() == types.UnsafePointer {
				pkgs["unsafe"] = "unsafe"
			}
		case *types.Signature:
			for v := range t.Params().Variables() {
				avoid.Reserve(v.Name())
			}
			for v := range t.Results().Variables() {
				avoid.Reserve(v.Name())
			}
		}
	})
}

// typeNames are the names in the source of a type.
func typeNames(t types.Type) []string {
	var names []string
	Visit(t, func(t types.Type) {
		switch t := t.(type) {
		case *types.Named:
			names = append(names, t.Obj().Name())
		case *types.Alias:
			names = append(names, t.Obj().Name())
		case *types.Basic:
			names = append(names, t.Name())
		}
	})
	return names
}

func addPackage(obj *types.TypeName, pkgs map[string]string) {
	if pkg := obj.Pkg(); pkg != nil {
		pkgs[pkg.Path()] = pkg.Name()
	}
}

// Visit calls fn for a type and all types that its source names: not for what is behind a name.
func Visit(t types.Type, fn func(types.Type)) {
	fn(t)
	switch t := t.(type) {
	case *types.Alias:
		for arg := range t.TypeArgs().Types() {
			Visit(arg, fn)
		}
	case *types.Named:
		for arg := range t.TypeArgs().Types() {
			Visit(arg, fn)
		}
	case *types.Pointer:
		Visit(t.Elem(), fn)
	case *types.Slice:
		Visit(t.Elem(), fn)
	case *types.Array:
		Visit(t.Elem(), fn)
	case *types.Map:
		Visit(t.Key(), fn)
		Visit(t.Elem(), fn)
	case *types.Chan:
		Visit(t.Elem(), fn)
	case *types.Signature:
		for v := range t.Params().Variables() {
			Visit(v.Type(), fn)
		}
		for v := range t.Results().Variables() {
			Visit(v.Type(), fn)
		}
	case *types.Struct:
		for f := range t.Fields() {
			Visit(f.Type(), fn)
		}
	case *types.Interface:
		for m := range t.ExplicitMethods() {
			Visit(m.Type(), fn)
		}
		for e := range t.EmbeddedTypes() {
			Visit(e, fn)
		}
	case *types.Union:
		for term := range t.Terms() {
			Visit(term.Type(), fn)
		}
	}
}
