package vet

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/cfg"
)

// holds takes those ways behind a condition on which there can be a lease.
func (w *walk) holds(b *cfg.Block, known bool) []*cfg.Block {
	if len(b.Succs) != 2 || len(b.Nodes) == 0 {
		return b.Succs
	}
	cond, ok := b.Nodes[len(b.Nodes)-1].(ast.Expr)
	if !ok {
		return b.Succs // one of the cases of a select or of a type switch
	}
	var yes, no bool
	if tag := w.tag(b); tag != nil {
		yes, no = w.compared(token.EQL, tag, cond, known)
	} else {
		yes, no = w.possible(cond, known)
	}
	var next []*cfg.Block
	if yes {
		next = append(next, b.Succs[0])
	}
	if no {
		next = append(next, b.Succs[1])
	}
	return next
}

// tag is what the condition at the end of a block is compared with, if it is a case of a switch over something. The graph has no more of it than one
// half of the comparison.
func (w *walk) tag(b *cfg.Block) ast.Expr {
	clause, ok := b.Succs[0].Stmt.(*ast.CaseClause)
	if !ok || b.Succs[0].Kind != cfg.KindSwitchCaseBody {
		return nil
	}
	var tag ast.Expr
	w.inspect(w.body, func(n ast.Node) bool {
		if s, ok := n.(*ast.SwitchStmt); ok && tag == nil {
			for _, c := range s.Body.List {
				if c == clause {
					tag = s.Tag
				}
			}
		}
		return tag == nil
	})
	return tag
}

// possible reports whether there can be a lease if a condition is true, and if it is false.
func (w *walk) possible(cond ast.Expr, known bool) (yes, no bool) {
	text, plain := w.positive(cond)
	if is, given := w.given[text]; given {
		return is == plain, is != plain
	}
	switch cond := ast.Unparen(cond).(type) {
	case *ast.UnaryExpr:
		if cond.Op == token.NOT {
			no, yes = w.possible(cond.X, known)
			return yes, no
		}
	case *ast.BinaryExpr:
		switch cond.Op {
		case token.LAND:
			yesX, noX := w.possible(cond.X, known)
			yesY, noY := w.possible(cond.Y, known)
			return yesX && yesY, noX || yesX && noY
		case token.LOR:
			yesX, noX := w.possible(cond.X, known)
			yesY, noY := w.possible(cond.Y, known)
			return yesX || noX && yesY, noX && noY
		case token.EQL, token.NEQ:
			return w.compared(cond.Op, cond.X, cond.Y, known)
		}
	case *ast.CallExpr:
		if known && w.asksWhich(cond) {
			return false, true
		}
	}
	sure := !w.unsure(known, cond)
	return sure, sure
}

// givenAt has the conditions around a statement, as texts, and whether they are true there. Only those count whose variables and fields the function
// does not change.
func (f *function) givenAt(stmt ast.Node) map[string]bool {
	given := map[string]bool{}
	var add func(cond ast.Expr, is bool)
	add = func(cond ast.Expr, is bool) {
		cond = ast.Unparen(cond)
		if not, ok := cond.(*ast.UnaryExpr); ok && not.Op == token.NOT {
			add(not.X, !is)
			return
		}
		if both, ok := cond.(*ast.BinaryExpr); ok && (both.Op == token.LAND && is || both.Op == token.LOR && !is) {
			add(both.X, is)
			add(both.Y, is)
			return
		}
		if f.keeps(cond) {
			text, plain := f.positive(cond)
			given[text] = is == plain
		}
	}
	ast.PreorderStack(f.body, nil, func(n ast.Node, stack []ast.Node) bool {
		for i, outer := range stack {
			branch, ok := outer.(*ast.IfStmt)
			if n != stmt || !ok || i+1 == len(stack) {
				continue
			}
			switch stack[i+1] {
			case branch.Body:
				add(branch.Cond, true)
			case branch.Else:
				add(branch.Cond, false)
			}
		}
		return n != stmt
	})
	return given
}

// positive is the text of a condition without what negates it, and whether nothing does.
func (f *function) positive(cond ast.Expr) (text string, plain bool) {
	switch cond := ast.Unparen(cond).(type) {
	case *ast.UnaryExpr:
		if cond.Op == token.NOT {
			text, plain = f.positive(cond.X)
			return text, !plain
		}
	case *ast.BinaryExpr:
		if cond.Op == token.EQL || cond.Op == token.NEQ {
			return f.text(cond.X) + " == " + f.text(cond.Y), cond.Op == token.EQL
		}
	}
	return f.text(cond), true
}

// text is an expression with the places where its names are declared, so that one of another variable of the same name is another text.
func (f *function) text(e ast.Expr) string {
	var b strings.Builder
	b.WriteString(types.ExprString(ast.Unparen(e)))
	ast.Inspect(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if obj := f.info.ObjectOf(id); obj != nil {
				fmt.Fprintf(&b, " %d", obj.Pos())
			}
		}
		return true
	})
	return b.String()
}

// keeps reports whether a condition is one of variables of the function, and of their fields, that keep their first values.
func (f *function) keeps(cond ast.Expr) bool {
	kept, parts := true, map[string]bool{}
	ast.Inspect(cond, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr, *ast.IndexExpr, *ast.StarExpr, *ast.FuncLit:
			kept = false // it can have another value each time
		case *ast.UnaryExpr:
			kept = kept && n.Op != token.ARROW
		case *ast.SelectorExpr:
			parts[f.text(n)] = true
		case *ast.Ident:
			v, ok := f.info.Uses[n].(*types.Var)
			if ok && !v.IsField() {
				parts[f.text(n)] = true
				kept = kept && f.node.Pos() <= v.Pos() && v.Pos() < f.node.End()
			}
		}
		return kept
	})
	set := func(e ast.Expr) {
		id, ok := e.(*ast.Ident)
		declares := ok && f.info.Defs[id] != nil // a new variable each time
		kept = kept && (e == nil || declares || !parts[f.text(e)])
	}
	ast.Inspect(f.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				set(n.X)
			}
		case *ast.IncDecStmt:
			set(n.X)
		case *ast.AssignStmt:
			for _, e := range n.Lhs {
				set(e)
			}
		case *ast.RangeStmt:
			set(n.Key)
			set(n.Value)
		}
		return kept
	})
	return kept
}

// compared is what is possible behind a comparison.
func (w *walk) compared(op token.Token, x, y ast.Expr, known bool) (yes, no bool) {
	isNil := func(e ast.Expr) bool { return w.info.Types[e].IsNil() }
	about := func(v *types.Var) (found, withNil bool) {
		switch {
		case v == nil:
		case variable(w.info, x) == v:
			return true, isNil(y)
		case variable(w.info, y) == v:
			return true, isNil(x)
		}
		return false, false
	}
	err, errNil := about(w.err)
	lease, leaseNil := about(w.lease)
	switch {
	case err && known && errNil:
		yes, no = true, false // no error, so there is a lease
	case err && known, lease && leaseNil:
		yes, no = false, true
	default:
		sure := !w.unsure(known, x, y)
		return sure, sure
	}
	if op == token.NEQ {
		yes, no = no, yes
	}
	return yes, no
}

// unsure reports whether expressions look at the error that reports whether there is a lease, in a way that is not understood: of most functions that
// get an error it is not known which answer says that there is one.
func (w *walk) unsure(known bool, in ...ast.Expr) bool {
	return !w.open && known && w.err != nil && slices.ContainsFunc(in, func(e ast.Expr) bool { return mentions(w.info, e, w.err) })
}

// asksWhich reports whether a call asks which error it is that reports whether there is a lease: errors.Is and errors.As are true of errors alone.
func (w *walk) asksWhich(call *ast.CallExpr) bool {
	fn := callee(w.info, call)
	return w.err != nil && fn != nil && fn.Pkg() != nil && fn.Pkg().Path() == "errors" && (fn.Name() == "Is" || fn.Name() == "As") &&
		len(call.Args) == 2 && variable(w.info, call.Args[0]) == w.err && !w.info.Types[call.Args[1]].IsNil() && !mentions(w.info, call.Args[1], w.err)
}
