package vet

import (
	"go/ast"
	"go/types"
)

// handing knows where a function lets others have a lease, who may release it: by a use of the lease itself, or of a function that has it.
type handing struct {
	*function
	lease *types.Var
	by    map[*types.Var]bool // variables with a function that has the lease
	kept  map[ast.Node]bool   // these functions
}

// handsOn finds the functions that have the lease and stand in a variable that gets no other value. They are looked for in the whole file: a
// function around this one may declare them.
func (f *function) handsOn(lease *types.Var) *handing {
	h := &handing{f, lease, map[*types.Var]bool{}, map[ast.Node]bool{}}
	file, values := f.file(), map[*types.Var]ast.Expr{}
	all := valuesOf(f.pass)
	for v := range all.sources {
		if _, ok := v.Type().Underlying().(*types.Signature); !ok {
			continue
		}
		if value := all.one(v); value != nil && file.FileStart <= value.Pos() && value.Pos() < file.FileEnd {
			values[v] = ast.Unparen(value)
		}
	}
	for more := true; more; { // a function may call another one
		more = false
		for v, value := range values {
			if !h.by[v] && h.at(value) {
				h.by[v], h.kept[value], more = true, true, true
			}
		}
	}
	return h
}

// file is the one that the function stands in.
func (f *function) file() *ast.File {
	for _, file := range f.pass.Files {
		if file.FileStart <= f.node.Pos() && f.node.Pos() < file.FileEnd {
			return file
		}
	}
	return nil
}

// at reports whether others may have released the lease after a node, before the function ends.
func (h *handing) at(n ast.Node) bool {
	found := false
	ast.PreorderStack(n, nil, func(n ast.Node, stack []ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && !found {
			v, _ := h.info.Uses[id].(*types.Var)
			found = (v == h.lease && !h.harmless(id, stack) || h.by[v]) && !late(stack)
		}
		return !found && !h.kept[n]
	})
	return found
}

// late reports whether the stack leads to something that a defer does later, and not where it stands.
func late(stack []ast.Node) bool {
	if len(stack) == 0 {
		return false
	}
	d, ok := stack[0].(*ast.DeferStmt)
	if !ok {
		return false
	}
	for _, n := range stack {
		switch n := n.(type) {
		case *ast.FuncLit:
			return true
		case *ast.CallExpr:
			if n != d.Call {
				return false
			}
		}
	}
	return true
}
