package check

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/directive"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/load"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/load/partial"
	"github.com/lockgen/lockgen/templates"
)

// invalid notes what the compiler says about a signature.
func (c *checker) invalid(iface *directive.Interface, m *method) {
	if m.field != nil && c.compiler(m.field.Type) || c.compiler(iface.Spec) {
		return
	}
	from, to := m.pos(iface)
	c.list.Add(from, to, "a type in the signature of %s is not known", m.fn.Name())
}

// unknown reports whether a type is invalid, and notes why.
func (c *checker) unknown(e ast.Node, t types.Type) bool {
	b, ok := t.(*types.Basic)
	if !ok || b.Kind() != types.Invalid {
		return false
	}
	if !c.compiler(e) {
		c.list.Add(e.Pos(), e.End(), "this type is not known")
	}
	return true
}

// fileOf finds the file with directives that something stands in, or nil.
func (c *checker) fileOf(e ast.Node) *load.File {
	for _, f := range c.pkg.Files {
		if f.Syntax.FileStart <= e.Pos() && e.Pos() < f.Syntax.FileEnd {
			return f
		}
	}
	return nil
}

// abroad notes what the compiler says about a package that an expression mentions.
func (c *checker) abroad(e ast.Node) bool {
	file := c.fileOf(e)
	if file == nil {
		return false
	}
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok {
				for _, err := range c.pkg.Abroad[file.Imports[x.Name]] {
					if name, ok := strings.CutPrefix(err.Msg, "undefined: "); ok {
						found = true
						c.list.Add(err.Pos, err.Pos+token.Pos(len(name)), "%s", err.Msg)
					}
				}
			}
		}
		return true
	})
	return found
}

// missing notes the first package that an expression mentions and that isn't there.
func (c *checker) missing(e ast.Node) bool {
	file := c.fileOf(e)
	if file == nil {
		return false
	}
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok || found {
			return !found
		}
		x, ok := sel.X.(*ast.Ident)
		if !ok {
			return true
		}
		path := file.Imports[x.Name]
		if path == "" {
			return true
		}
		switch broken, circle := c.broken(file, path); {
		case circle && n == e:
			c.list.Add(sel.Pos(), sel.End(), "invalid recursive type: package %s, which %s is of, imports this one", path, sel.Sel.Name)
		case circle:
			c.list.Add(sel.Pos(), sel.End(), "import cycle not allowed: package %s imports this one", path)
		case broken:
			c.list.Add(sel.Pos(), sel.End(), "there is no package %s; if another module has it: go get %s", path, path)
		default:
			return true
		}
		found = true
		return !found
	})
	return found
}

// broken reports whether a file imports a package in vain, and whether that is since the package imports this one.
func (c *checker) broken(file *load.File, path string) (broken, circle bool) {
	for _, spec := range file.Syntax.Imports {
		if spec.Path.Value != strconv.Quote(path) {
			continue
		}
		for _, err := range c.pkg.Errors {
			if spec.Pos() <= err.Pos && err.Pos < spec.End() {
				return true, strings.Contains(err.Msg, partial.Circle)
			}
		}
	}
	return false, false
}

// compiler says why a declaration or an expression has no type: for want of a package, or what the compiler says first about it. If that is nothing, it
// is about what the package declares by the names that are mentioned there.
func (c *checker) compiler(e ast.Node) bool {
	seen := map[ast.Node]bool{e: true}
	var all []ast.Node
	for queue := []ast.Node{e}; len(queue) > 0; queue = queue[1:] {
		if c.missing(queue[0]) || c.says(queue[0]) {
			return true
		}
		all = append(all, queue[0])
		ast.Inspect(queue[0], func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BlockStmt:
				return false
			case *ast.Ident:
				for _, decl := range c.declarations()[n.Name] {
					if !seen[decl] {
						seen[decl] = true
						queue = append(queue, decl)
					}
				}
			}
			return true
		})
	}
	return slices.ContainsFunc(all, c.abroad) || slices.ContainsFunc(all, c.cgo)
}

// declarations are the types and functions of the package by their names, and the methods by those of their types.
func (c *checker) declarations() map[string][]ast.Node {
	if c.nodes != nil {
		return c.nodes
	}
	c.nodes = map[string][]ast.Node{}
	for _, file := range c.pkg.Syntax {
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				name := decl.Name.Name
				if decl.Recv != nil && len(decl.Recv.List) > 0 {
					name = receiver(decl.Recv.List[0].Type)
				}
				c.nodes[name] = append(c.nodes[name], decl.Type)
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					if spec, ok := spec.(*ast.TypeSpec); ok {
						c.nodes[spec.Name.Name] = append(c.nodes[spec.Name.Name], spec)
					}
				}
			}
		}
	}
	return c.nodes
}

// receiver names the type of a receiver, or what it calls that.
func receiver(t ast.Expr) (name string) {
	ast.Inspect(t, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return name == ""
	})
	return name
}

// says notes what the compiler says first about a declaration or an expression.
func (c *checker) says(e ast.Node) bool {
	for _, err := range c.pkg.Errors {
		if err.Pos < e.Pos() || err.Pos > e.End() {
			continue
		}
		msg, width := err.Msg, 1
		ast.Inspect(e, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && id.Pos() == err.Pos {
				width = len(id.Name)
				if _, generated := c.given[id.Name]; generated {
					msg += " (a name that lockgen generates can't be used in an annotated signature)"
				}
			}
			return true
		})
		c.list.Add(err.Pos, err.Pos+token.Pos(width), "%s", msg)
		return true
	}
	return false
}

// parameters reports whether the constraints of a declaration's type parameters are in order, or notes what the
// compiler says about them, or about the interfaces of the package that they mention.
func (c *checker) parameters(spec *ast.TypeSpec) bool {
	if spec.TypeParams == nil {
		return true
	}
	seen := map[ast.Node]bool{}
	for queue := []ast.Node{spec.TypeParams}; len(queue) > 0; queue = queue[1:] {
		if c.said(queue[0]) && c.compiler(queue[0]) {
			return false
		}
		ast.Inspect(queue[0], func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			for _, decl := range c.declarations()[id.Name] {
				if spec, ok := decl.(*ast.TypeSpec); ok && !seen[spec] {
					if _, ok := ast.Unparen(spec.Type).(*ast.InterfaceType); ok {
						seen[spec] = true
						queue = append(queue, spec)
					}
				}
			}
			return true
		})
	}
	obj, ok := c.pkg.Info.Defs[spec.Name].(*types.TypeName)
	if !ok {
		return true
	}
	for i, tp := range typeParams(obj) {
		wrong := false
		templates.Visit(tp.Constraint(), func(t types.Type) {
			b, basic := t.(*types.Basic)
			wrong = wrong || basic && b.Kind() == types.Invalid
		})
		if wrong {
			if !c.compiler(spec.TypeParams) {
				c.list.Add(tp.Obj().Pos(), tp.Obj().Pos()+token.Pos(len(tp.Obj().Name())), "a type in constraint %d of %s is not known", i+1, spec.Name.Name)
			}
			return false
		}
	}
	return true
}

// said reports whether the compiler has something to say about a declaration or an expression.
func (c *checker) said(e ast.Node) bool {
	return slices.ContainsFunc(c.pkg.Errors, func(err types.Error) bool { return e.Pos() <= err.Pos && err.Pos <= e.End() })
}

// cgo notes the first name of package C.
func (c *checker) cgo(e ast.Node) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && !found {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "C" {
				found = true
				c.list.Add(sel.Pos(), sel.End(), "C.%s can't be used in an annotated signature, since lockgen doesn't run cgo; use a type of Go", sel.Sel.Name)
			}
		}
		return !found
	})
	return found
}
