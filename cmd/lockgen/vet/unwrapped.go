package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/directive"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/output"
)

// Unwrapped finds calls, from other packages, of methods that an annotated interface locks, on the implementation itself and not on the generated
// wrapper. An implementation is a type that implements the interface in the interface's own package, or one of another package that says so by
// var _ Service = ... or by giving it to NewLockedService. A call through the interface is not reported: the value may be the wrapper. Nor is one of a
// type that has a field of the interface or of the wrapper, as one that logs the calls has: what is in the field may take the lock. A method of a type
// that implements the interface, too, may call another implementation under the lock that the wrapper takes for both.
var Unwrapped = &analysis.Analyzer{
	Name:      "unwrapped",
	Doc:       "find calls of implementations that should go through the generated wrapper\n\nA caller of the implementation itself holds no lock.",
	URL:       docs + "#Unwrapped",
	Requires:  []*analysis.Analyzer{inspect.Analyzer, table},
	FactTypes: []analysis.Fact{(*guarded)(nil), (*bare)(nil)},
	Run: func(pass *analysis.Pass) (any, error) {
		u := &unwrapped{pass}
		u.interfaces()
		u.implementations()
		u.calls()
		return nil, nil
	},
}

// guarded is the fact that an interface has locks.
type guarded struct {
	Wrapper string
	Keys    map[string]string // of each locked method
}

// AFact marks it as a fact.
func (*guarded) AFact() {}

func (g *guarded) String() string { return "guarded by " + g.Wrapper }

// bare is the fact that a method is one of an implementation, which a wrapper guards.
type bare struct{ Wrapper, Key string }

// AFact marks it as a fact.
func (*bare) AFact() {}

func (b *bare) String() string { return "locked by " + b.Wrapper }

type unwrapped struct{ pass *analysis.Pass }

// interfaces notes which interfaces of this package have locks.
func (u *unwrapped) interfaces() {
	facts := map[types.Object]*guarded{}
	for _, pkg := range u.pass.ResultOf[table].(*found).pkgs {
		for _, file := range pkg.Files {
			for _, iface := range file.Directives.Interfaces {
				if obj := u.pass.TypesInfo.Defs[iface.Spec.Name]; obj != nil && iface.Directive.Verb == directive.Service {
					facts[obj] = &guarded{Wrapper: iface.Wrapper(), Keys: map[string]string{}}
				}
			}
		}
	}
	for _, out := range u.pass.ResultOf[table].(*found).outputs {
		for _, use := range out.Uses {
			fact := facts[use.Interface]
			if fact == nil || len(use.Keys) == 0 {
				continue
			}
			fact.Keys[use.Method.Name] = use.Keys[0].Text
			u.pass.ExportObjectFact(use.Interface, fact)
		}
	}
}

// implementations notes which methods of this package's types a wrapper guards.
func (u *unwrapped) implementations() {
	said := u.said()
	for _, fact := range u.pass.AllObjectFacts() {
		g, ok := fact.Fact.(*guarded)
		if !ok {
			continue
		}
		iface, ok := fact.Object.Type().Underlying().(*types.Interface)
		if n, named := fact.Object.Type().(*types.Named); !ok || named && n.TypeParams().Len() > 0 {
			continue
		}
		scope := u.pass.Pkg.Scope()
		for _, name := range scope.Names() {
			obj, ok := scope.Lookup(name).(*types.TypeName)
			if !ok || obj.IsAlias() || types.IsInterface(obj.Type()) || u.generated(obj) {
				continue
			}
			pointer := types.NewPointer(obj.Type())
			if n, ok := obj.Type().(*types.Named); ok && n.TypeParams().Len() > 0 || !types.Implements(pointer, iface) || passesOn(obj.Type(), fact.Object, g) {
				continue
			}
			if fact.Object.Pkg() == u.pass.Pkg || said[pair{fact.Object, obj}] {
				u.export(pointer, fact.Object, g)
			}
		}
	}
}

func (u *unwrapped) export(t types.Type, iface types.Object, g *guarded) {
	for method, key := range g.Keys {
		obj, _, _ := types.LookupFieldOrMethod(t, true, u.pass.Pkg, method)
		// A method that is promoted from an interface inside of the type is that interface's: the value in it may be the wrapper. One that is promoted
		// from the wrapper holds the lock, and one from a type that passes calls on may.
		if fn, ok := obj.(*types.Func); ok && fn.Pkg() == u.pass.Pkg && !u.outside(fn.Signature().Recv().Type(), iface, g) {
			u.pass.ExportObjectFact(fn, &bare{g.Wrapper, key})
		}
	}
}

// outside reports whether the receiver of a method is no implementation.
func (u *unwrapped) outside(recv types.Type, iface types.Object, g *guarded) bool {
	recv = pointed(recv)
	n, ok := recv.(*types.Named)
	return types.IsInterface(recv) || passesOn(recv, iface, g) || ok && u.generated(n.Obj())
}

// pointed returns what a pointer points to, and other types as they are.
func pointed(t types.Type) types.Type {
	t = types.Unalias(t)
	if p, ok := t.(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	return t
}

// passesOn reports whether an implementation has values of the interface or of its wrapper, to which it may pass calls on: in a field, also in one of a
// struct that is embedded in it, or as elements.
func passesOn(t types.Type, iface types.Object, g *guarded) bool {
	all := []types.Type{pointed(t)} // it, and what is embedded in it
	for i := 0; i < len(all); i++ {
		s, ok := all[i].Underlying().(*types.Struct)
		if !ok {
			if gives(all[i].Underlying(), iface, g) {
				return true
			}
			continue
		}
		for field := range s.Fields() {
			if gives(field.Type(), iface, g) {
				return true
			}
			if embedded := pointed(field.Type()); field.Embedded() && !slices.Contains(all, embedded) { // it may embed a pointer to the one around it
				all = append(all, embedded)
			}
		}
	}
	return false
}

// gives reports whether a value of a type is, has as an element or returns one of the interface or of its wrapper.
func gives(t types.Type, iface types.Object, g *guarded) bool {
	switch t := types.Unalias(t).(type) {
	case *types.Named:
		for arg := range t.TypeArgs().Types() {
			if gives(arg, iface, g) {
				return true
			}
		}
		return t.Obj() == iface || t.Obj().Pkg() == iface.Pkg() && t.Obj().Name() == g.Wrapper
	case *types.Signature:
		for result := range t.Results().Variables() {
			if gives(result.Type(), iface, g) {
				return true
			}
		}
	case interface{ Elem() types.Type }:
		return gives(t.Elem(), iface, g)
	}
	return false
}

// A pair is an interface and a type that is said to implement it.
type pair struct{ iface, typ types.Object }

// said finds what this package says about implementations.
func (u *unwrapped) said() map[pair]bool {
	all := map[pair]bool{}
	add := func(iface types.Type, e ast.Expr) {
		t := types.Unalias(u.pass.TypesInfo.TypeOf(e))
		if p, ok := t.(*types.Pointer); ok {
			t = types.Unalias(p.Elem())
		}
		impl, ok := t.(*types.Named)
		if n, isNamed := types.Unalias(iface).(*types.Named); ok && isNamed {
			all[pair{n.Obj(), impl.Obj()}] = true
		}
	}
	in := u.pass.ResultOf[inspect.Analyzer].(*inspector.Inspector)
	in.Preorder([]ast.Node{(*ast.ValueSpec)(nil), (*ast.CallExpr)(nil)}, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.ValueSpec:
			if n.Type != nil && len(n.Values) == 1 {
				add(u.pass.TypesInfo.TypeOf(n.Type), n.Values[0])
			}
		case *ast.CallExpr:
			fn := callee(u.pass.TypesInfo, n)
			if fn != nil && len(n.Args) > 0 && u.wraps(fn) {
				add(fn.Signature().Params().At(0).Type(), n.Args[0])
			}
		}
	})
	return all
}

// wraps reports whether a function is one that makes the wrapper of its first parameter.
func (u *unwrapped) wraps(fn *types.Func) bool {
	sig := fn.Signature()
	if sig.Recv() != nil || sig.Params().Len() == 0 || sig.Results().Len() != 1 {
		return false
	}
	iface, ok := types.Unalias(sig.Params().At(0).Type()).(*types.Named)
	made, isPointer := sig.Results().At(0).Type().(*types.Pointer)
	g := &guarded{}
	if !ok || !isPointer || fn.Pkg() != iface.Obj().Pkg() || !u.pass.ImportObjectFact(iface.Obj(), g) {
		return false
	}
	wrapper, ok := made.Elem().(*types.Named)
	return ok && wrapper.Obj().Pkg() == fn.Pkg() && wrapper.Obj().Name() == g.Wrapper
}

// generated reports whether a type is declared in an output.
func (u *unwrapped) generated(obj types.Object) bool {
	name := u.pass.Fset.PositionFor(obj.Pos(), false).Filename
	if _, ok := output.Source(name); !ok {
		return false
	}
	src, err := os.ReadFile(name)
	return err == nil && output.Ours(src)
}

// calls reports those that miss the wrapper, and methods that are taken as values from what is behind it.
func (u *unwrapped) calls() {
	in := u.pass.ResultOf[inspect.Analyzer].(*inspector.Inspector)
	called := map[ast.Expr]bool{}
	var around *ast.FuncDecl // the last one that has begun
	var apart token.Pos      // the end of the last go statement: its call may run when the wrapper has released the lock
	in.Preorder([]ast.Node{(*ast.FuncDecl)(nil), (*ast.GoStmt)(nil), (*ast.CallExpr)(nil), (*ast.SelectorExpr)(nil)}, func(n ast.Node) {
		if isTest(u.pass, n) {
			return
		}
		var fn *types.Func
		does := "called"
		switch n := n.(type) {
		case *ast.FuncDecl:
			around, apart = n, token.NoPos
		case *ast.GoStmt:
			apart = n.End()
		case *ast.CallExpr:
			called[ast.Unparen(n.Fun)] = true
			fn = callee(u.pass.TypesInfo, n)
		case *ast.SelectorExpr:
			if called[n] {
				return
			}
			does = "taken as a value"
			fn, _ = u.pass.TypesInfo.Uses[n.Sel].(*types.Func)
		}
		if fn == nil || fn.Pkg() == nil || fn.Pkg() == u.pass.Pkg {
			return
		}
		fact := &bare{}
		below := around != nil && around.Pos() <= n.Pos() && n.Pos() < around.End() && around.Name.Name == fn.Name() && n.Pos() >= apart
		if u.pass.ImportObjectFact(fn.Origin(), fact) && !(below && u.below(around, fact)) {
			u.pass.ReportRangef(n, "%s is %s without the lock %s: %s", fn.Name(), does, fact.Key, through(does, fact.Wrapper))
		}
	})
}

// below reports whether a function is a method that the wrapper calls with the same lock, if it is given that implementation: as one of a type does that
// passes its calls on to another implementation.
func (u *unwrapped) below(decl *ast.FuncDecl, lock *bare) bool {
	fn, ok := u.pass.TypesInfo.Defs[decl.Name].(*types.Func)
	if !ok || fn.Signature().Recv() == nil {
		return false
	}
	recv := types.NewPointer(pointed(fn.Signature().Recv().Type()))
	return slices.ContainsFunc(u.pass.AllObjectFacts(), func(fact analysis.ObjectFact) bool {
		g, ok := fact.Fact.(*guarded)
		if !ok || g.Wrapper != lock.Wrapper || g.Keys[fn.Name()] != lock.Key {
			return false
		}
		iface, ok := fact.Object.Type().Underlying().(*types.Interface)
		return ok && types.Implements(recv, iface)
	})
}

func through(does, wrapper string) string {
	if does == "called" {
		return "call it through " + wrapper
	}
	return "take it from " + wrapper
}
