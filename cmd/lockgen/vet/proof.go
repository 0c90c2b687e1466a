package vet

import (
	"go/ast"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/ctrlflow"
	"golang.org/x/tools/go/analysis/passes/inspect"
)

// Proof finds proofs of locks that prove nothing any more: a lockrt.Held that is shown to a function after it was unlocked, and one that is stored,
// in a field, an element, a variable of the package or a channel, where it outlives the lock. The context of a lease that was unlocked is
// found too: it has ended.
var Proof = &analysis.Analyzer{
	Name:     "lockproof",
	Doc:      "find proofs of locks that are used after their release, or stored\n\nA lockrt.Held says that the lock is held only until it is unlocked.",
	URL:      docs + "#Proof",
	Requires: []*analysis.Analyzer{inspect.Analyzer, ctrlflow.Analyzer},
	Run: func(pass *analysis.Pass) (any, error) {
		functions(pass, func(f *function) {
			f.stored()
			f.inspect(f.body, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					f.afterRelease(call)
				}
				return true
			})
		})
		return nil, nil
	},
}

// afterRelease looks at what follows a call that gives a lease back.
func (f *function) afterRelease(call *ast.CallExpr) {
	sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok || !slices.Contains(releases, sel.Sel.Name) {
		return
	}
	lease := variable(f.info, sel.X)
	if lease == nil || !isLease(lease.Type()) {
		return
	}
	from := f.statement(call)
	if from == nil {
		return
	}
	if _, ok := from.(*ast.DeferStmt); ok {
		return
	}
	w := &walk{function: f, from: from, lease: lease}
	w.visit = func(n ast.Node) bool {
		if assigns(f.info, n, lease) {
			return false
		}
		f.inspect(n, func(n ast.Node) bool {
			f.useless(n, lease)
			return true
		})
		return true
	}
	w.run()
}

// statement is the node of the graph that a call stands in.
func (f *function) statement(call *ast.CallExpr) ast.Node {
	for _, b := range f.graph.Blocks {
		for _, n := range b.Nodes {
			if n.Pos() <= call.Pos() && call.End() <= n.End() {
				return n
			}
		}
	}
	return nil
}

// useless reports what has no sense with a lease that was given back.
func (f *function) useless(n ast.Node, lease *types.Var) {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return
	}
	if sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok && variable(f.info, sel.X) == lease {
		if sel.Sel.Name == "Context" || sel.Sel.Name == "Extend" {
			f.pass.ReportRangef(call, "%s was unlocked before: its context has ended", lease.Name())
		}
		return
	}
	if !isProof(lease.Type()) {
		return
	}
	for _, arg := range call.Args {
		if variable(f.info, arg) == lease {
			f.pass.ReportRangef(arg, "%s was unlocked before: it proves nothing any more", lease.Name())
		}
	}
}

// stored reports proofs that are put where they outlive the lock.
func (f *function) stored() {
	report := func(e ast.Expr) {
		f.pass.ReportRangef(e, "a %s is stored, where it outlives the lock: pass it on to those who need the proof", ours(f.info.TypeOf(e)))
	}
	is := func(e ast.Expr) bool {
		t := f.info.TypeOf(e)
		if t == nil {
			return false
		}
		_, pointer := types.Unalias(t).(*types.Pointer)
		return !pointer && isProof(t)
	}
	f.inspect(f.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, lhs := range n.Lhs {
				if is(lhs) && !isBlank(lhs) && variable(f.info, lhs) == nil && (len(n.Rhs) != len(n.Lhs) || is(n.Rhs[i])) {
					report(lhs)
				}
			}
		case *ast.CompositeLit:
			for _, e := range n.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					e = kv.Value
				}
				if is(e) {
					report(e)
				}
			}
		case *ast.SendStmt:
			if is(n.Value) {
				report(n.Value)
			}
		}
		return true
	})
}
