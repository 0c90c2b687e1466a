package vet

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// Context finds work that is done while a lock is held, under the context that the lock was asked for with. That one does not end when the lock is
// lost: the work goes on although somebody else may have the lock. The lease's Context ends, and so does the one that Do gives to its function.
//
// Calls that only log or ask for a value of the context, as SpanFromContext does, and those that get the lease or its proof, are left alone. So is all
// that follows where others get the lease, who may release it: a function, another variable, or a literal that is called.
var Context = &analysis.Analyzer{
	Name:     "lockcontext",
	Doc:      "find work under a context that does not end when the lock is lost\n\nUse the lease's Context, or the one that Do gives to its function.",
	URL:      docs + "#Context",
	Requires: graphs,
	Run: func(pass *analysis.Pass) (any, error) {
		functions(pass, func(f *function) {
			for _, a := range f.acquisitions() {
				f.oldContext(a)
			}
		})
		calls(pass, (*function).insideDo)
		return nil, nil
	},
}

// contextArg is the variable that a call of the runtime gets as its context, or nil.
func contextArg(info *types.Info, call *ast.CallExpr) *types.Var {
	if len(call.Args) == 0 {
		return nil
	}
	v := variable(info, call.Args[0])
	if v == nil || v.Type().String() != "context.Context" {
		return nil
	}
	return v
}

func (f *function) oldContext(a acquisition) {
	ctx := contextArg(f.info, a.call)
	if ctx == nil || a.lease == nil {
		return
	}
	reported := map[*ast.CallExpr]bool{}
	hands := f.handsOn(a.lease)
	w := &walk{function: f, from: a.stmt, lease: a.lease, err: a.err}
	w.visit = func(n ast.Node) bool {
		if now, _ := f.released(n, a.lease); now || hands.at(n) || assigns(f.info, n, ctx) {
			return false
		}
		if _, ok := n.(*ast.DeferStmt); ok {
			return true // it runs when the lock may be gone in any case
		}
		f.worksUnder(n, ctx, func(call *ast.CallExpr) {
			if reported[call] || f.bounds(n, call) || slices.ContainsFunc(call.Args, func(e ast.Expr) bool { return f.leaseOf(e) == a.lease }) {
				return
			}
			reported[call] = true
			f.pass.ReportRangef(call, "%s does not end when the lock is lost: work under %s.Context()", ctx.Name(), a.lease.Name())
		})
		return true
	}
	w.run()
}

// bounds reports whether a statement makes a context of another one for calls of the runtime alone, such as an Unlock that is to end in time.
func (f *function) bounds(stmt ast.Node, call *ast.CallExpr) bool {
	assign, ok := stmt.(*ast.AssignStmt)
	fn := callee(f.info, call)
	if !ok || fn == nil || fn.Pkg() == nil || fn.Pkg().Path() != "context" || len(assign.Rhs) != 1 || ast.Unparen(assign.Rhs[0]) != call {
		return false
	}
	made := variable(f.info, assign.Lhs[0])
	if made == nil {
		return false
	}
	uses, passed := 0, 0
	ast.Inspect(f.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			if f.info.Uses[n] == made {
				uses++
			}
		case *ast.CallExpr:
			if contextArg(f.info, n) == made && f.indifferent(n) {
				passed++
			}
		}
		return true
	})
	return uses == passed
}

// insideDo looks at a function that is given to Do.
func (f *function) insideDo(call *ast.CallExpr) {
	fn := callee(f.info, call)
	if fn == nil || fn.Pkg() == nil || fn.Pkg().Path() != runtimePath || fn.Name() != "Do" && fn.Name() != "RDo" {
		return
	}
	ctx := contextArg(f.info, call)
	for _, arg := range call.Args {
		lit, ok := ast.Unparen(arg).(*ast.FuncLit)
		if !ok || ctx == nil || f.sets(lit, ctx) {
			continue
		}
		f.worksUnder(lit.Body, ctx, func(inner *ast.CallExpr) {
			f.pass.ReportRangef(inner, "%s does not end when the lock is lost: work under the context that the function is given", ctx.Name())
		})
	}
}

// sets reports whether a function gives a variable another value.
func (f *function) sets(lit *ast.FuncLit, v *types.Var) bool {
	found := false
	ast.Inspect(lit.Body, func(n ast.Node) bool {
		found = found || n != nil && assigns(f.info, n, v)
		return !found
	})
	return found
}

// worksUnder finds calls that get the context, also in functions inside of the node that calls get. It is not known when the others run.
func (f *function) worksUnder(n ast.Node, ctx *types.Var, found func(*ast.CallExpr)) {
	run := map[ast.Node]bool{}
	ast.Inspect(n, func(n ast.Node) bool {
		if lit, ok := n.(*ast.FuncLit); ok {
			return run[lit]
		}
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		for _, e := range slices.Concat(call.Args, []ast.Expr{call.Fun}) {
			run[ast.Unparen(e)] = true
		}
		isCtx := func(e ast.Expr) bool { return variable(f.info, e) == ctx }
		if slices.ContainsFunc(call.Args, isCtx) && !f.indifferent(call) {
			found(call)
		}
		return true
	})
}

// indifferent reports whether a call has no use for the end of the context.
func (f *function) indifferent(call *ast.CallExpr) bool {
	fn := callee(f.info, call)
	if fn == nil || fn.Pkg() == nil {
		return false
	}
	if strings.HasSuffix(fn.Name(), "FromContext") {
		return true // it asks for a value, as SpanFromContext does
	}
	switch fn.Pkg().Path() {
	case runtimePath, "log", "log/slog", "testing":
		return true
	case "context":
		return fn.Name() == "WithoutCancel" || fn.Name() == "Cause" || fn.Name() == "AfterFunc"
	}
	return false
}
