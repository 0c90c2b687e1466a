package vet

import (
	"go/ast"
	"go/token"
	"go/types"
)

// sources are what the variables of a package, and the fields of its structs, are set to anywhere in it, of those that no other package can set.
type sources map[*types.Var][]ast.Expr // a nil value is not known

// source returns the variable or the field that an expression names, if no other package can set it.
func source(info *types.Info, e ast.Expr) *types.Var {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		v, _ := info.ObjectOf(e).(*types.Var)
		if v == nil || v.Parent() == nil || v.Exported() && v.Pkg() != nil && v.Parent() == v.Pkg().Scope() {
			return nil
		}
		return v
	case *ast.SelectorExpr:
		if s := info.Selections[e]; s != nil && s.Kind() == types.FieldVal {
			return private(s.Obj())
		}
	}
	return nil
}

// private returns an object as a field of a package's own struct, or nil if it is none, or if other packages can set it.
func private(obj types.Object) *types.Var {
	if v, ok := obj.(*types.Var); ok && v.IsField() && !v.Exported() {
		return v.Origin()
	}
	return nil
}

func (s sources) add(of *types.Var, value ast.Expr) {
	if of != nil {
		s[of] = append(s[of], value)
	}
}

func (s sources) assign(info *types.Info, lhs, rhs []ast.Expr) {
	for i, e := range lhs {
		var value ast.Expr
		if len(lhs) == len(rhs) {
			value = rhs[i]
		}
		s.add(source(info, e), value)
	}
}

func (s sources) literal(info *types.Info, lit *ast.CompositeLit) {
	typ := info.TypeOf(lit)
	if p, ok := typ.Underlying().(*types.Pointer); ok {
		typ = p.Elem() // an element of a literal that leaves out its type
	}
	of, ok := typ.Underlying().(*types.Struct)
	if !ok {
		return
	}
	for i, e := range lit.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if key, ok := kv.Key.(*ast.Ident); ok {
				s.add(private(info.Uses[key]), kv.Value)
			}
		} else if i < of.NumFields() {
			s.add(private(of.Field(i)), e)
		}
	}
}

// address notes a variable or a field whose address is taken: it may be set to anything.
func (s sources) address(info *types.Info, e *ast.UnaryExpr) {
	if e.Op == token.AND {
		s.add(source(info, e.X), nil)
	}
}
