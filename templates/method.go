package templates

import (
	"fmt"
	"go/types"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dave/jennifer/jen"

	"github.com/lockgen/lockgen/templates/model"
)

// An owner is the generated type that methods are written for.
type owner struct {
	typePrinter
	name string   // of the type
	args []string // names of its type parameters
}

// owner settles the names of type parameters for a generated type.
func (f *file) owner(name string, params []*types.TypeParam) *owner {
	o := &owner{typePrinter{map[*types.TypeParam]string{}}, name, nil}
	if len(params) == 0 {
		return o
	}
	scope := &Names{}
	scope.Reserve(f.model.Declared...)
	scope.Reserve(types.Universe.Names()...)
	scope.outer = f.names
	for _, tp := range params {
		base := tp.Obj().Name()
		if base == "_" {
			base = "T"
		}
		o.params[tp] = scope.Pick(base)
		o.args = append(o.args, o.params[tp])
	}
	return o
}

// declared returns the type parameters with their constraints, as they stand where the type is declared.
func (o *owner) declared(params []*types.TypeParam) []jen.Code {
	var list []jen.Code
	for _, tp := range params {
		list = append(list, jen.Id(o.params[tp]).Add(o.code(tp.Constraint())))
	}
	return list
}

// of returns the named type with the type parameters as arguments.
func (o *owner) of(name string) *jen.Statement {
	s := jen.Id(name)
	if len(o.args) == 0 {
		return s
	}
	list := make([]jen.Code, len(o.args))
	for i, arg := range o.args {
		list[i] = jen.Id(arg)
	}
	return s.Types(list...)
}

// typeDecl starts the declaration of a type with the type parameters.
func (o *owner) typeDecl(name string, params []*types.TypeParam) *jen.Statement {
	s := jen.Type().Id(name)
	if len(params) > 0 {
		s.Types(o.declared(params)...)
	}
	return s
}

// A frame holds the names inside of one generated function.
type frame struct {
	*Names
	params  []string
	results []string
}

// newFrame names parameters and results. They keep the names they have, since those are documentation, unless the body needs such a name itself.
func (f *file) newFrame(o *owner, m *model.Method, needed ...string) *frame {
	fr := &frame{Names: f.names.Inner()}
	fr.Reserve(o.args...)
	fr.Reserve(needed...)
	fr.params = make([]string, len(m.Params))
	fr.results = make([]string, len(m.Results))
	fr.keep(m.Params, fr.params)
	fr.keep(m.Results, fr.results)
	for i, p := range m.Params {
		if fr.params[i] == "" {
			fr.params[i] = fr.Pick(paramName(p.Type, i))
		}
	}
	return fr
}

// keep takes the names that are there.
func (fr *frame) keep(vars []model.Param, names []string) {
	for i, v := range vars {
		if v.Name != "" && v.Name != "_" {
			names[i] = fr.Pick(v.Name)
		}
	}
}

// nameResults names those results that have no name, for a function that needs them.
func (fr *frame) nameResults(results []model.Param) {
	for i, r := range results {
		if fr.results[i] != "" {
			continue
		}
		switch {
		case i == len(results)-1 && isError(r.Type):
			fr.results[i] = fr.Pick("err")
		case len(results) <= 2:
			fr.results[i] = fr.Pick("res")
		default:
			fr.results[i] = fr.Pick(fmt.Sprintf("res%d", i))
		}
	}
}

// paramName makes a name for a parameter that has none from its type.
func paramName(t types.Type, i int) string {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	n, ok := types.Unalias(t).(*types.Named)
	if !ok {
		return fmt.Sprintf("p%d", i)
	}
	if isContext(t) {
		return "ctx"
	}
	name := lowerFirst(n.Obj().Name())
	if types.Universe.Lookup(name) != nil {
		return fmt.Sprintf("p%d", i)
	}
	return name
}

// lowerFirst makes the start of a name lower case: orderID of OrderID, id of ID.
func lowerFirst(s string) string {
	if strings.ToUpper(s) == s {
		return strings.ToLower(s)
	}
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToLower(r)) + s[n:]
}

func isError(t types.Type) bool {
	return types.Identical(t, types.Universe.Lookup("error").Type())
}

func isContext(t types.Type) bool {
	n, ok := types.Unalias(t).(*types.Named)
	return ok && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == "context" && n.Obj().Name() == "Context"
}

// paramList writes the parameters of a method.
func (o *owner) paramList(m *model.Method, fr *frame) []jen.Code {
	var list []jen.Code
	for i, p := range m.Params {
		param := jen.Id(fr.params[i])
		switch last := len(m.Params) - 1; {
		case m.Variadic && i == last:
			param.Add(o.variadic(p.Type))
		case i < last && (!m.Variadic || i+1 != last) && sameType(p, m.Params[i+1]):
			// The next one names the type of both.
		default:
			param.Add(o.code(p.Type))
		}
		list = append(list, param)
	}
	return list
}

// sameType reports whether the source of two types is the same.
func sameType(a, b model.Param) bool {
	return a.Type == b.Type || types.Identical(a.Type, b.Type) && types.TypeString(a.Type, nil) == types.TypeString(b.Type, nil)
}

// resultList writes the results of a method, with their names if they have some.
func (o *owner) resultList(m *model.Method, fr *frame) *jen.Statement {
	switch {
	case len(m.Results) == 0:
		return jen.Null()
	case len(m.Results) == 1 && fr.results[0] == "":
		return o.code(m.Results[0].Type)
	}
	var list []jen.Code
	named := false
	for _, name := range fr.results {
		named = named || name != ""
	}
	for i, r := range m.Results {
		s := jen.Null()
		switch {
		case fr.results[i] != "":
			s.Id(fr.results[i])
		case named:
			s.Id("_")
		}
		if !named || i+1 == len(m.Results) || !sameType(r, m.Results[i+1]) {
			s.Add(o.code(r.Type))
		}
		list = append(list, s)
	}
	return jen.Params(list...)
}
