package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"reflect"

	"golang.org/x/tools/go/analysis"
)

// sources are what the variables of a package, and the fields of its structs, are set to anywhere in it, of those that no other package can set. A
// nil value is not known. A call stands for its first result.
type sources map[*types.Var][]ast.Expr

// set collects the sources of a package, for all analyzers.
var set = &analysis.Analyzer{
	Name:       "lockset",
	Doc:        "collect what variables and fields are set to",
	ResultType: reflect.TypeFor[sources](),
	Run:        func(pass *analysis.Pass) (any, error) { return sourcesOf(pass), nil },
}

func sourcesOf(pass *analysis.Pass) sources {
	s, info := sources{}, pass.TypesInfo
	for _, file := range pass.Files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				s.assign(info, n.Lhs, n.Rhs)
			case *ast.ValueSpec:
				var lhs []ast.Expr
				for _, name := range n.Names {
					lhs = append(lhs, name)
				}
				if len(n.Values) > 0 {
					s.assign(info, lhs, n.Values)
				}
			case *ast.RangeStmt:
				s.unknown(info, n.Key, n.Value)
			case *ast.FuncDecl:
				s.arrive(info, n.Recv, n.Type.Params, n.Type.Results)
			case *ast.FuncLit:
				s.arrive(info, n.Type.Params, n.Type.Results)
			case *ast.CompositeLit:
				s.literal(info, n)
			case *ast.UnaryExpr:
				if n.Op == token.AND { // it may be set through its address
					s.unknown(info, n.X)
				}
			}
			return true
		})
	}
	return s
}

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
		if len(lhs) == len(rhs) || i == 0 {
			value = rhs[i]
		}
		s.add(source(info, e), value)
	}
}

// unknown notes that variables or fields are set to what is not known.
func (s sources) unknown(info *types.Info, all ...ast.Expr) {
	for _, e := range all {
		if e != nil {
			s.add(source(info, e), nil)
		}
	}
}

// arrive notes parameters and results, which are set when the function begins.
func (s sources) arrive(info *types.Info, lists ...*ast.FieldList) {
	for _, list := range lists {
		if list == nil {
			continue
		}
		for _, field := range list.List {
			for _, name := range field.Names {
				s.unknown(info, name)
			}
		}
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

// one returns the only value of a variable or of a field, or nil.
func (s sources) one(of *types.Var) ast.Expr {
	if all := s[of]; len(all) == 1 {
		return all[0]
	}
	return nil
}
