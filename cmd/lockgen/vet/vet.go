// Package vet has analyzers for code that uses lockgen's locks. The command lockgen runs them:
//
//	lockgen vet ./...
//	go vet -vettool=$(which lockgen) ./...
//	go vet -vettool=$(go tool -n lockgen) ./...
//
// and programs that run analyzers of golang.org/x/tools/go/analysis can import them.
//
// They are [Unlock], [Context], [Outer], [Proof], [Unwrapped] and [Stale], and [Bound], which warns. Their reports
// should be right; they ignore uncertain cases, and test files, which make mistakes on purpose. Limits: a lease that is
// handed to another function, kept in a field or captured by a closure is the business of the function that has it, and
// is not followed; of conditions only those are understood that compare the error of the lock or ask errors.Is or
// errors.As about it, that look at the lease, or at a variable that a condition around the lock has looked at; and
// implementations are known by the rules that [Unwrapped] names, not by following values.
//
// Ways through a function are those of golang.org/x/tools/go/cfg: with goto, labels, select, loops over functions, and calls that never return. A panic
// ends a way; it is a return where the function itself recovers.
package vet

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/types/typeutil"
)

// Analyzers lists all of them.
func Analyzers() []*analysis.Analyzer {
	return []*analysis.Analyzer{Unlock, Context, Outer, Proof, Unwrapped, Stale, Bound}
}

// Asked reports whether go vet calls the program, and not a person: with one of the arguments that it has for its
// tools.
func Asked(args []string) bool {
	if len(args) == 0 {
		return false
	}
	return args[0] == "-V=full" || args[0] == "-flags" || strings.HasSuffix(args[len(args)-1], ".cfg")
}

const (
	runtimePath = "github.com/lockgen/lockgen/runtime"
	genPath     = runtimePath + "/gen"
	docs        = "https://pkg.go.dev/github.com/lockgen/lockgen/cmd/lockgen/vet"
)

// isOurs reports whether something is of the runtime, or of what it has for generated code.
func isOurs(o types.Object) bool {
	return o.Pkg() != nil && (o.Pkg().Path() == runtimePath || o.Pkg().Path() == genPath)
}

// ours names a type of the runtime, or returns "".
func ours(t types.Type) string {
	t = types.Unalias(t)
	if p, ok := t.(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	n, ok := t.(*types.Named)
	if !ok || !isOurs(n.Obj()) {
		return ""
	}
	return n.Obj().Name()
}

// releases are the methods that release a lease.
var releases = []string{"Unlock", "Release"}

// isLease reports whether a type of the runtime is something that is held until it is released.
func isLease(t types.Type) bool {
	if ours(t) == "" {
		return false
	}
	return slices.ContainsFunc(releases, func(name string) bool {
		obj, _, _ := types.LookupFieldOrMethod(t, true, nil, name)
		_, ok := obj.(*types.Func)
		return ok
	})
}

// isProof reports whether a type is the proof that a lock is held.
func isProof(t types.Type) bool { return strings.HasPrefix(ours(t), "Held") }

// acquires reports whether a call of the runtime returns a lease, and an error that reports whether there is one.
func acquires(info *types.Info, call *ast.CallExpr) bool {
	fn := callee(info, call)
	if fn == nil || !isOurs(fn) {
		return false
	}
	results := fn.Signature().Results()
	return results.Len() == 2 && isLease(results.At(0).Type())
}

func callee(info *types.Info, call *ast.CallExpr) *types.Func {
	fn, _ := typeutil.Callee(info, call).(*types.Func)
	return fn
}

// isTest reports whether a node is in a test file.
func isTest(pass *analysis.Pass, n ast.Node) bool {
	return strings.HasSuffix(pass.Fset.PositionFor(n.Pos(), false).Filename, "_test.go")
}

// variable is the local variable that an expression names, or nil.
func variable(info *types.Info, e ast.Expr) *types.Var {
	id, ok := ast.Unparen(e).(*ast.Ident)
	if !ok {
		return nil
	}
	v, _ := info.ObjectOf(id).(*types.Var)
	if v == nil || v.IsField() || v.Parent() == nil || v.Pkg() != nil && v.Parent() == v.Pkg().Scope() {
		return nil
	}
	return v
}

// mentions reports whether a node names a variable.
func mentions(info *types.Info, n ast.Node, v *types.Var) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && info.Uses[id] == v {
			found = true
		}
		return !found
	})
	return found
}

// assigns reports whether a node gives a variable another value, or is its declaration.
func assigns(info *types.Info, n ast.Node, v *types.Var) bool {
	is := func(e ast.Expr) bool {
		id, ok := ast.Unparen(e).(*ast.Ident)
		return ok && info.ObjectOf(id) == v
	}
	switch n := n.(type) {
	case *ast.AssignStmt:
		return slices.ContainsFunc(n.Lhs, is)
	case *ast.ValueSpec:
		return slices.ContainsFunc(n.Names, func(id *ast.Ident) bool { return is(id) })
	}
	return false
}
