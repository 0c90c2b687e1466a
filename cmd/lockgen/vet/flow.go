package vet

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/ctrlflow"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/cfg"
	"golang.org/x/tools/go/types/typeutil"
)

// A function is one body, without the functions inside of it, which are bodies of their own.
type function struct {
	pass  *analysis.Pass
	info  *types.Info
	node  ast.Node // *ast.FuncDecl or *ast.FuncLit
	body  *ast.BlockStmt
	graph *cfg.CFG
}

// functions calls do for each body of the package that is not a test's. The runtime has none: it makes the leases and proofs that
// these rules are for, and hands them to its callers.
func functions(pass *analysis.Pass, do func(f *function)) {
	if pass.Pkg.Path() == runtimePath {
		return
	}
	in := pass.ResultOf[inspect.Analyzer].(*inspector.Inspector)
	flows := pass.ResultOf[ctrlflow.Analyzer].(*ctrlflow.CFGs)
	in.Preorder([]ast.Node{(*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)}, func(n ast.Node) {
		f := &function{pass: pass, info: pass.TypesInfo, node: n}
		switch n := n.(type) {
		case *ast.FuncDecl:
			f.body, f.graph = n.Body, flows.FuncDecl(n)
		case *ast.FuncLit:
			f.body, f.graph = n.Body, flows.FuncLit(n)
		}
		if f.body != nil && f.graph != nil && !isTest(pass, n) {
			do(f)
		}
	})
}

// graphs are what an analyzer needs that looks at functions.
var graphs = []*analysis.Analyzer{inspect.Analyzer, ctrlflow.Analyzer, set}

// calls calls do for each call of these bodies.
func calls(pass *analysis.Pass, do func(f *function, call *ast.CallExpr)) {
	functions(pass, func(f *function) {
		f.inspect(f.body, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				do(f, call)
			}
			return true
		})
	})
}

// An acquisition is a statement that gets a lease.
type acquisition struct {
	call  *ast.CallExpr
	stmt  ast.Node   // as it is in the graph
	lease *types.Var // nil if it is dropped
	err   *types.Var // nil if it is dropped
	local bool       // the lease is in a variable of the function
}

// acquisitions finds those of the function.
func (f *function) acquisitions() []acquisition {
	var all []acquisition
	add := func(stmt ast.Node, lhs []ast.Expr, rhs []ast.Expr) {
		if len(rhs) != 1 {
			return
		}
		call, ok := ast.Unparen(rhs[0]).(*ast.CallExpr)
		if !ok || !acquires(f.info, call) {
			return
		}
		a := acquisition{call: call, stmt: stmt}
		if len(lhs) == 2 {
			a.lease, a.err = variable(f.info, lhs[0]), variable(f.info, lhs[1])
			if id, ok := lhs[0].(*ast.Ident); !ok || a.lease == nil && id.Name != "_" {
				return // kept somewhere else
			}
		}
		a.local = a.lease != nil && f.body.Pos() <= a.lease.Pos() && a.lease.Pos() < f.body.End()
		all = append(all, a)
	}
	f.inspect(f.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			add(n, n.Lhs, n.Rhs)
		case *ast.ExprStmt:
			add(n, nil, []ast.Expr{n.X})
		case *ast.ValueSpec:
			var lhs []ast.Expr
			for _, name := range n.Names {
				lhs = append(lhs, name)
			}
			add(n, lhs, n.Values)
		}
		return true
	})
	return all
}

// inspect goes through a node, but not into functions inside of it.
func (f *function) inspect(n ast.Node, do func(ast.Node) bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		if _, ok := n.(*ast.FuncLit); ok {
			return false
		}
		return n != nil && do(n)
	})
}

// A walk goes along all ways that begin behind a statement.
type walk struct {
	*function
	from  ast.Node
	lease *types.Var
	err   *types.Var            // says whether there is a lease; can be nil
	visit func(n ast.Node) bool // visits each node on the way; false ends it
	end   func(n ast.Node)      // the way ends: returns, panics, or comes to where it began
	given map[string]bool       // conditions that are true, or false, on all of the ways
	seen  map[place]bool
	open  bool // it goes on after a condition about err that is not understood
}

type place struct {
	block *cfg.Block
	known bool // err is still that of the lock
}

// run walks. Ways on which the error says that there is no lease are left out.
func (w *walk) run() {
	w.seen, w.given = map[place]bool{}, w.givenAt(w.from)
	for _, b := range w.graph.Blocks {
		if i := slices.Index(b.Nodes, w.from); i >= 0 && b.Live {
			w.block(b, i+1, w.err != nil)
			return
		}
	}
}

func (w *walk) block(b *cfg.Block, start int, known bool) {
	next := b.Succs
	if next := round(b); next != nil && start == 0 {
		if !w.visit(next) {
			return
		}
		known = known && !assigns(w.info, next, w.err)
	}
	for i, n := range b.Nodes[start:] {
		if n == w.from {
			w.ends(n)
			return // around a loop
		}
		if start+i == len(b.Nodes)-1 {
			next = w.holds(b, known)
		}
		if !w.visit(n) {
			return
		}
		if w.judges(n, known) {
			return // something else says now whether there is a lease
		}
		known = known && !assigns(w.info, n, w.err)
	}
	if last := len(b.Nodes) - 1; last >= 0 && len(b.Succs) == 0 && (b.Return() != nil || w.recovers(b.Nodes[last])) {
		w.ends(b.Nodes[last])
	}
	for _, s := range next {
		if p := (place{s, known}); !w.seen[p] {
			w.seen[p] = true
			w.block(s, 0, known)
		}
	}
}

// round is the assignment that begins a round of a loop over something, if a block does: the graph has the variables only before the loop.
func round(b *cfg.Block) ast.Node {
	loop, ok := b.Stmt.(*ast.RangeStmt)
	if !ok || b.Kind != cfg.KindRangeBody || loop.Key == nil {
		return nil
	}
	set := []ast.Expr{loop.Key}
	if loop.Value != nil {
		set = append(set, loop.Value)
	}
	return &ast.AssignStmt{Lhs: set, Tok: loop.Tok, TokPos: loop.TokPos, Rhs: []ast.Expr{&ast.BadExpr{From: loop.TokPos, To: loop.TokPos}}}
}

// judges reports whether a node looks at the error, or compares the lease, and keeps what it has found: the value of a variable, or the case of a
// type switch.
func (w *walk) judges(n ast.Node, known bool) bool {
	var looks []ast.Expr
	switch n := n.(type) {
	case *ast.AssignStmt:
		looks = n.Rhs
	case *ast.ValueSpec:
		looks = n.Values
	case *ast.ExprStmt:
		if assertion, ok := n.X.(*ast.TypeAssertExpr); ok && assertion.Type == nil {
			looks = []ast.Expr{assertion.X}
		}
	}
	return slices.ContainsFunc(looks, func(e ast.Expr) bool {
		return w.err != nil && known && mentions(w.info, e, w.err) || w.lease != nil && w.compares(e)
	})
}

// compares reports whether the lease itself is compared in an expression, as with nil.
func (w *walk) compares(e ast.Expr) bool {
	found := false
	w.inspect(e, func(n ast.Node) bool {
		b, ok := n.(*ast.BinaryExpr)
		found = found || ok && (variable(w.info, b.X) == w.lease || variable(w.info, b.Y) == w.lease)
		return !found
	})
	return found
}

func (w *walk) ends(n ast.Node) {
	if w.end != nil {
		w.end(n)
	}
}

// recovers reports whether a node is a call of panic in a function that recovers, so that it returns all the same. Of
// other panics it is not known what becomes of them.
func (f *function) recovers(n ast.Node) bool {
	calls := func(n ast.Node, name string) bool {
		call, ok := n.(*ast.CallExpr)
		return ok && typeutil.Callee(f.info, call) == types.Universe.Lookup(name)
	}
	stmt, ok := n.(*ast.ExprStmt)
	if !ok || !calls(stmt.X, "panic") {
		return false
	}
	found := false
	f.inspect(f.body, func(n ast.Node) bool {
		d, ok := n.(*ast.DeferStmt)
		if !ok {
			return true
		}
		if lit, ok := ast.Unparen(d.Call.Fun).(*ast.FuncLit); ok {
			f.inspect(lit.Body, func(n ast.Node) bool {
				found = found || calls(n, "recover")
				return !found
			})
		}
		return false
	})
	return found
}

// released reports whether a node releases the lease, now or deferred.
func (f *function) released(n ast.Node, lease *types.Var) (now, deferred bool) {
	if d, ok := n.(*ast.DeferStmt); ok {
		ast.Inspect(d, func(n ast.Node) bool {
			deferred = deferred || f.isRelease(n, lease)
			return !deferred
		})
		return false, deferred
	}
	f.inspect(n, func(n ast.Node) bool {
		now = now || f.isRelease(n, lease)
		return !now
	})
	return now, false
}

// isRelease reports whether a node is the call that releases the lease.
func (f *function) isRelease(n ast.Node, lease *types.Var) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	return ok && slices.Contains(releases, sel.Sel.Name) && variable(f.info, sel.X) == lease
}

// escapes reports whether somebody else than the function could release the lease.
func (f *function) escapes(lease *types.Var) bool {
	found := false
	ast.PreorderStack(f.node, nil, func(n ast.Node, stack []ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if ok && f.info.Uses[id] == lease && !f.harmless(id, stack) {
			found = true
		}
		return !found
	})
	return found
}

// harmless reports whether this use of the lease leaves it with the function.
func (f *function) harmless(id *ast.Ident, stack []ast.Node) bool {
	parent := func(i int) ast.Node {
		if len(stack) < i {
			return nil
		}
		return stack[len(stack)-i]
	}
	switch p := parent(1).(type) {
	case *ast.AssignStmt:
		return slices.Contains(p.Lhs, ast.Expr(id)) || len(p.Lhs) == 1 && isBlank(p.Lhs[0])
	case *ast.BinaryExpr:
		return true // compared with nil
	case *ast.SelectorExpr:
		call, ok := parent(2).(*ast.CallExpr)
		if !ok || call.Fun != p {
			return false // a method as a value, or the lease inside of a proof
		}
		if strings.HasPrefix(p.Sel.Name, "PermitID") {
			return false // by which the semaphore releases the permit
		}
		return !slices.Contains(releases, p.Sel.Name) || !f.inOther(stack)
	}
	return false
}

// inOther reports whether the stack leads into a function that isn't deferred where it stands.
func (f *function) inOther(stack []ast.Node) bool {
	for i, n := range stack {
		lit, ok := n.(*ast.FuncLit)
		if !ok || n == f.node {
			continue
		}
		if i < 2 {
			return true
		}
		call, ok := stack[i-1].(*ast.CallExpr)
		_, deferred := stack[i-2].(*ast.DeferStmt)
		if !ok || !deferred || call.Fun != lit {
			return true
		}
	}
	return false
}

func isBlank(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == "_"
}
