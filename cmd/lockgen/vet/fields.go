package vet

import (
	"go/ast"
	"go/token"
	"go/types"
)

// fields are what the fields of a package's structs are set to, in any struct, of those that no other package can set.
type fields map[*types.Var][]ast.Expr // a nil value is not known

// field returns the field that an expression selects, if no other package can set it.
func field(info *types.Info, e ast.Expr) *types.Var {
	sel, ok := ast.Unparen(e).(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	if s := info.Selections[sel]; s != nil && s.Kind() == types.FieldVal {
		return private(s.Obj())
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

func (f fields) add(of *types.Var, value ast.Expr) {
	if of != nil {
		f[of] = append(f[of], value)
	}
}

func (f fields) assign(info *types.Info, lhs, rhs []ast.Expr) {
	for i, e := range lhs {
		var value ast.Expr
		if len(lhs) == len(rhs) {
			value = rhs[i]
		}
		f.add(field(info, e), value)
	}
}

func (f fields) literal(info *types.Info, lit *ast.CompositeLit) {
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
				f.add(private(info.Uses[key]), kv.Value)
			}
		} else if i < of.NumFields() {
			f.add(private(of.Field(i)), e)
		}
	}
}

// address notes a field whose address is taken: it may be set to anything.
func (f fields) address(info *types.Info, e *ast.UnaryExpr) {
	if e.Op == token.AND {
		f.add(field(info, e.X), nil)
	}
}
