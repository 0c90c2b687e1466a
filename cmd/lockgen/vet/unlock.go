package vet

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/ctrlflow"
	"golang.org/x/tools/go/analysis/passes/inspect"
)

// Unlock finds leases that some way through the function never unlocks. The lock is then held, and renewed, until the process ends.
//
// A lease that is dropped at once is meant only if it ends by itself: with WithLease or WithMaxHold. One that is to be held until the process ends is
// reported too: unlock it when the process is told to stop, so that nobody has to wait for the watchdog.
var Unlock = &analysis.Analyzer{
	Name:     "unlock",
	Doc:      "find leases that are not unlocked on some path\n\nA lease that nobody unlocks is renewed for as long as the process lives.",
	URL:      docs + "#Unlock",
	Requires: []*analysis.Analyzer{inspect.Analyzer, ctrlflow.Analyzer},
	Run: func(pass *analysis.Pass) (any, error) {
		functions(pass, func(f *function) {
			for _, a := range f.acquisitions() {
				f.unlocked(a)
			}
		})
		return nil, nil
	},
}

func (f *function) unlocked(a acquisition) {
	switch {
	case a.lease == nil && !f.ends(a.call):
		f.pass.ReportRangef(a.call, "the lease is dropped, so the lock is held until the process ends: keep it and unlock it, or give it an end by WithLease")
		return
	case a.lease == nil || !a.local || f.escapes(a.lease):
		return
	}
	var leak *ast.ReturnStmt
	w := &walk{function: f, from: a.stmt, lease: a.lease, err: a.err}
	w.visit = func(n ast.Node) bool {
		now, deferred := f.released(n, a.lease)
		return !now && !deferred
	}
	w.end = func(r *ast.ReturnStmt) {
		if leak == nil || r.Pos() < leak.Pos() {
			leak = r
		}
	}
	w.run()
	if leak == nil {
		return
	}
	done, how := f.how(a)
	f.pass.ReportRangef(a.call, "%s is not %s on the way that returns at line %d: defer %s.%s",
		a.lease.Name(), done, f.pass.Fset.PositionFor(leak.Pos(), false).Line, a.lease.Name(), how)
}

// ends says whether a call asks for a lease that ends by itself.
func (f *function) ends(call *ast.CallExpr) bool {
	found := false
	for _, arg := range call.Args {
		ast.Inspect(arg, func(n ast.Node) bool {
			if inner, ok := n.(*ast.CallExpr); ok {
				fn := callee(f.info, inner)
				found = found || fn != nil && fn.Pkg() != nil && fn.Pkg().Path() == runtimePath && (fn.Name() == "WithLease" || fn.Name() == "WithMaxHold")
			}
			return !found
		})
	}
	// Options in a variable can say anything.
	return found || call.Ellipsis.IsValid()
}

// how the lease is given back: what it is then, and by which call.
func (f *function) how(a acquisition) (done, call string) {
	obj, _, _ := types.LookupFieldOrMethod(a.lease.Type(), true, nil, "Unlock")
	switch {
	case obj != nil:
		return "unlocked", "Unlock(ctx)"
	case ours(a.lease.Type()) == "Hold":
		return "released", "Release(&err)"
	}
	return "released", "Release(ctx)"
}
