package vet

import (
	"go/ast"
	"slices"

	"golang.org/x/tools/go/analysis"
)

// Outer finds locks that are asked for inside of the function of another lock's Do, with the context from outside. Under that one nobody
// knows what is held: the same lock waits for itself, for ever, where it would be entered again under the context that the function is
// given; and another one is still waited for when the first is lost.
var Outer = &analysis.Analyzer{
	Name:     "lockouter",
	Doc:      "find locks that are asked for inside of Do with the context from outside\n\nUse the context that Do gives to its function: under it the same lock is entered again.",
	URL:      docs + "#Outer",
	Requires: graphs,
	Run: func(pass *analysis.Pass) (any, error) {
		reported := map[*ast.CallExpr]bool{}
		calls(pass, func(f *function, call *ast.CallExpr) { f.asksOutside(call, reported) })
		return nil, nil
	},
}

// asking are the methods that ask for a lock and wait for it. One that only tries may be meant to be refused.
var asking = []string{"Lock", "Do", "RLock", "RDo", "Acquire", "AcquireN", "AcquireKinds", "Campaign", "Lead"}

// asks names the method of the runtime by which a call asks for a lock, or returns "".
func (f *function) asks(call *ast.CallExpr) string {
	fn := callee(f.info, call)
	if fn == nil || fn.Pkg() == nil || fn.Pkg().Path() != runtimePath || fn.Signature().Recv() == nil || !slices.Contains(asking, fn.Name()) {
		return ""
	}
	return fn.Name()
}

// asksOutside looks at a function that is given to Do.
func (f *function) asksOutside(call *ast.CallExpr, reported map[*ast.CallExpr]bool) {
	ctx := contextArg(f.info, call)
	if name := f.asks(call); ctx == nil || name != "Do" && name != "RDo" && name != "Lead" {
		return
	}
	for _, arg := range call.Args {
		lit, ok := ast.Unparen(arg).(*ast.FuncLit)
		if !ok || f.sets(lit, ctx) {
			continue
		}
		ast.Inspect(lit.Body, func(n ast.Node) bool {
			inner, ok := n.(*ast.CallExpr)
			if !ok || reported[inner] || contextArg(f.info, inner) != ctx {
				return true
			}
			if name := f.asks(inner); name != "" {
				reported[inner] = true
				f.pass.ReportRangef(inner, "%s asks with %s, from outside of the lock that is held here: use the context that the function is given, or the same lock waits for itself",
					name, ctx.Name())
			}
			return true
		})
	}
}
