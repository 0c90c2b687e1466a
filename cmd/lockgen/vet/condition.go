package vet

import (
	"go/ast"
	"go/token"
	"go/types"

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
	case *ast.Ident:
		is, given := w.given[variable(w.info, cond)]
		return is || !given, !is || !given
	}
	// errors.Is(err, ...) and the like ask which error it is.
	return !w.asksAbout(cond, known), true
}

// givenAt lists the variables that conditions around a statement have looked at, with their values there, of those that keep their first value.
func (f *function) givenAt(stmt ast.Node) map[*types.Var]bool {
	given := map[*types.Var]bool{}
	var add func(cond ast.Expr, is bool)
	add = func(cond ast.Expr, is bool) {
		switch cond := ast.Unparen(cond).(type) {
		case *ast.UnaryExpr:
			add(cond.X, !is) // of the operators only ! makes a condition
		case *ast.BinaryExpr:
			if cond.Op == token.LAND && is || cond.Op == token.LOR && !is {
				add(cond.X, is)
				add(cond.Y, is)
			}
		case *ast.Ident:
			if v := variable(f.info, cond); v != nil && f.keeps(v) {
				given[v] = is
			}
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

// keeps reports whether a variable of the function keeps the value that it has first.
func (f *function) keeps(v *types.Var) bool {
	kept := f.node.Pos() <= v.Pos() && v.Pos() < f.node.End()
	ast.Inspect(f.body, func(n ast.Node) bool {
		if address, ok := n.(*ast.UnaryExpr); ok && address.Op == token.AND && variable(f.info, address.X) == v {
			kept = false
		}
		if n != nil && assigns(f.info, n, v) && !f.declares(n, v) {
			kept = false
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
	case w.asksAbout(x, known) || w.asksAbout(y, known):
		return false, true
	default:
		// A comparison of the error inside of x or y is not understood.
		unsure := known && w.err != nil && (mentions(w.info, x, w.err) || mentions(w.info, y, w.err))
		return !unsure, !unsure
	}
	if op == token.NEQ {
		yes, no = no, yes
	}
	return yes, no
}

// asksAbout reports whether a call in an expression is given the error that reports whether there
// is a lease.
func (w *walk) asksAbout(e ast.Expr, known bool) bool {
	found := false
	if known && w.err != nil {
		w.inspect(e, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			found = found || ok && mentions(w.info, call, w.err)
			return !found
		})
	}
	return found
}
