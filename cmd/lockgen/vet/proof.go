package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
)

// Proof finds proofs of locks that prove nothing any more: a lockrt.Held that is shown to a function after it was unlocked, and one that is stored,
// in a field, an element, a variable of the package or a channel, where it outlives the lock. A literal with a proof that is an argument of a call is as
// good as the proof. The context of a lease that was unlocked is found too: it has ended. Its error and its values are still there.
var Proof = &analysis.Analyzer{
	Name:     "lockproof",
	Doc:      "find proofs of locks that are used after their release, or stored\n\nA lockrt.Held says that the lock is held only until it is unlocked.",
	URL:      docs + "#Proof",
	Requires: graphs,
	Run: func(pass *analysis.Pass) (any, error) {
		functions(pass, (*function).stored)
		calls(pass, (*function).afterRelease)
		return nil, nil
	},
}

// afterRelease looks at what follows a call that releases a lease.
func (f *function) afterRelease(call *ast.CallExpr) {
	sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok || !slices.Contains(releases, sel.Sel.Name) {
		return
	}
	lease := variable(f.info, sel.X)
	if lease == nil || !isLease(lease.Type()) {
		return
	}
	names := f.aliases(lease)
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
			if f.outlives(n) {
				return false
			}
			for _, name := range names {
				f.useless(n, name)
			}
			return true
		})
		return true
	}
	w.run()
}

// outlives reports whether a node asks a context for something that it has after its end, too.
func (f *function) outlives(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	fn := callee(f.info, call)
	return fn != nil && fn.Pkg() != nil && fn.Pkg().Path() == "context" && slices.Contains([]string{"Err", "Cause", "Value", "WithoutCancel"}, fn.Name())
}

// aliases lists the variables that have the same lease, or its proof, with the variable itself. Only those count that get one value in the whole function.
func (f *function) aliases(lease *types.Var) []*types.Var {
	type assignment struct{ to, from *types.Var }
	var copies []assignment
	values := map[*types.Var]int{}
	assign := func(to, from ast.Expr) {
		v := variable(f.info, to)
		if v == nil {
			return
		}
		values[v]++
		if other := f.leaseOf(from); other != nil && (isLease(v.Type()) || isProof(v.Type())) {
			copies = append(copies, assignment{v, other})
		}
	}
	ast.Inspect(f.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, lhs := range n.Lhs {
				if len(n.Lhs) == len(n.Rhs) {
					assign(lhs, n.Rhs[i])
				} else if v := variable(f.info, lhs); v != nil {
					values[v]++
				}
			}
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if i < len(n.Values) {
					assign(name, n.Values[i])
				}
			}
		}
		return true
	})
	names := []*types.Var{lease}
	for i := 0; i < len(names); i++ {
		for _, c := range copies {
			for _, pair := range []assignment{c, {c.from, c.to}} {
				// Which of several values a variable has is not known here.
				if pair.from == names[i] && values[c.to] == 1 && values[c.from] <= 1 && !slices.Contains(names, pair.to) {
					names = append(names, pair.to)
				}
			}
		}
	}
	return names
}

// leaseOf is the local variable with the lease, or the proof, that an expression is: lease, or lease.Held(). Else it is nil.
func (f *function) leaseOf(e ast.Expr) *types.Var {
	if call, ok := ast.Unparen(e).(*ast.CallExpr); ok && len(call.Args) == 0 {
		sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != "Held" || ours(f.info.TypeOf(sel.X)) == "" {
			return nil
		}
		e = sel.X
	}
	return variable(f.info, e)
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

// useless reports what has no sense with a lease that was released.
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
	for _, arg := range call.Args {
		if t := f.info.TypeOf(arg); t != nil && isProof(t) && f.leaseOf(arg) == lease {
			f.pass.ReportRangef(arg, "%s was unlocked before: it proves nothing any more", lease.Name())
		}
	}
}

// stored reports proofs that are stored where they outlive the lock. It permits a goroutine that the function waits
// for.
func (f *function) stored() {
	report := func(e ast.Expr) {
		f.pass.ReportRangef(e, "a %s is stored, where it outlives the lock: pass it on to the functions that need the proof", ours(f.info.TypeOf(e)))
	}
	is := func(e ast.Expr) bool {
		t := f.info.TypeOf(e)
		if t == nil {
			return false
		}
		_, pointer := types.Unalias(t).(*types.Pointer)
		return !pointer && isProof(t)
	}
	started := map[ast.Node]ast.Stmt{} // receivers and arguments of go statements
	passed := map[ast.Node]bool{}      // literals that other calls get, which are as good as the proof itself
	f.inspect(f.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if !f.info.Types[n.Fun].IsValue() {
				break // such as append
			}
			for _, arg := range n.Args {
				passed[literal(arg)] = true
			}
			if sel, ok := ast.Unparen(n.Fun).(*ast.SelectorExpr); ok {
				passed[literal(sel.X)] = true
			}
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
				if passed[n] && started[n] == nil {
					passed[literal(e)] = true
				} else if is(e) && !f.waits(started[n]) {
					report(e)
				}
			}
		case *ast.SendStmt:
			if is(n.Value) && !f.waits(n) {
				report(n.Value)
			}
		case *ast.GoStmt:
			for _, arg := range n.Call.Args {
				started[ast.Unparen(arg)] = n
			}
			if sel, ok := ast.Unparen(n.Call.Fun).(*ast.SelectorExpr); ok {
				started[ast.Unparen(sel.X)] = n
			}
		}
		return true
	})
}

// literal is the composite literal that an expression is, or is the address of. Else it is the expression.
func literal(e ast.Expr) ast.Expr {
	e = ast.Unparen(e)
	if address, ok := e.(*ast.UnaryExpr); ok && address.Op == token.AND {
		e = ast.Unparen(address.X)
	}
	return e
}

// waits reports whether the function waits for goroutines after a statement, on some way and before it releases a lease
// there: by Wait of a group, by receiving from a channel, or by a loop over one.
func (f *function) waits(after ast.Stmt) bool {
	if after == nil {
		return false
	}
	ranged := map[ast.Node]bool{} // channels that a loop receives from
	f.inspect(f.body, func(n ast.Node) bool {
		if r, ok := n.(*ast.RangeStmt); ok {
			if t := f.info.TypeOf(r.X); t != nil {
				_, ranged[r.X] = t.Underlying().(*types.Chan)
			}
		}
		return true
	})
	waits := false
	w := &walk{function: f, from: after}
	w.visit = func(n ast.Node) bool {
		if _, ok := n.(*ast.DeferStmt); ok {
			return true // it runs after all of them
		}
		on := true
		f.inspect(n, func(n ast.Node) bool {
			if on {
				wait, release := f.waitsOrReleases(n)
				if wait || ranged[n] {
					waits = true
				}
				on = !waits && !release
			}
			return on
		})
		return on
	}
	w.run()
	return waits
}

// waitsOrReleases reports whether a node waits for something, or releases a lease.
func (f *function) waitsOrReleases(n ast.Node) (wait, release bool) {
	switch n := n.(type) {
	case *ast.UnaryExpr:
		return n.Op == token.ARROW, false
	case *ast.CallExpr:
		sel, ok := ast.Unparen(n.Fun).(*ast.SelectorExpr)
		if !ok {
			return false, false
		}
		t := f.info.TypeOf(sel.X)
		return sel.Sel.Name == "Wait" && len(n.Args) == 0, slices.Contains(releases, sel.Sel.Name) && t != nil && isLease(t)
	}
	return false, false
}
