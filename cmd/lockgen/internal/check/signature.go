package check

import (
	"go/ast"
	"go/token"
	"go/types"
	"strconv"
	"strings"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/directive"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/load"
	"github.com/lockgen/lockgen/templates"
	"github.com/lockgen/lockgen/templates/model"
)

// signature copies parameters and results into the model. It returns nil after noting a type that can't be written.
func (c *checker) signature(iface *directive.Interface, m *method) *model.Method {
	sig := m.fn.Signature()
	out := &model.Method{Name: m.fn.Name(), Doc: m.doc(), Variadic: sig.Variadic()}
	ok := true
	add := func(list *[]model.Param, tuple *types.Tuple) {
		for v := range tuple.Variables() {
			if !c.writable(iface, m, v.Type()) {
				ok = false
			}
			*list = append(*list, model.Param{Name: v.Name(), Type: v.Type()})
		}
	}
	add(&out.Params, sig.Params())
	add(&out.Results, sig.Results())
	if !ok {
		return nil
	}
	return out
}

// writable says whether the output can name a type, and notes why it can't.
func (c *checker) writable(iface *directive.Interface, m *method, typ types.Type) bool {
	from, to := m.pos(iface)
	before := c.list.Len()
	templates.Visit(typ, func(t types.Type) {
		if c.list.Len() > before {
			return
		}
		switch t := t.(type) {
		case *types.Basic:
			if t.Kind() == types.Invalid {
				c.invalid(iface, m)
				return
			}
			c.predeclared(t.Name(), from, to)
		case *types.Named:
			c.nameable(t.Obj(), m, from, to)
		case *types.Alias:
			c.nameable(t.Obj(), m, from, to)
		}
	})
	return c.list.Len() == before
}

// nameable checks that the output may mention a name.
func (c *checker) nameable(obj *types.TypeName, m *method, from, to token.Pos) {
	pkg := obj.Pkg()
	switch {
	case pkg == nil:
		c.predeclared(obj.Name(), from, to)
	case pkg == c.pkg.Types:
		if obj.Parent() != pkg.Scope() {
			c.list.Add(from, to, "%s mentions %s, which is declared inside of a function", m.fn.Name(), obj.Name())
		}
	case !obj.Exported():
		c.list.Add(from, to, "%s mentions %s.%s, which is not exported and can't be named here", m.fn.Name(), pkg.Path(), obj.Name())
	case !importable(pkg.Path(), c.pkg.Path):
		c.list.Add(from, to, "%s mentions %s.%s, which is internal and can't be imported here", m.fn.Name(), pkg.Path(), obj.Name())
	}
}

// predeclared refuses a name of the language that the package has given to something else.
func (c *checker) predeclared(name string, from, to token.Pos) {
	if at, hidden := c.pkg.Declared[name]; hidden {
		c.list.Add(from, to, "package %s declares %s at %s, which hides the predeclared one that the output needs", c.pkg.Name, name, c.list.Place(at))
	}
}

// needed are the predeclared names in the bodies of generated code.
var needed = []string{"nil", "append", "make", "byte", "string", "error"}

// importable says whether a package may import another: what is internal only from where it is internal to.
func importable(path, from string) bool {
	at := -1
	switch {
	case strings.HasPrefix(path, "internal/") || path == "internal":
		at = 0
	case strings.Contains(path, "/internal/"):
		at = strings.LastIndex(path, "/internal/")
	case strings.HasSuffix(path, "/internal"):
		at = len(path) - len("/internal")
	}
	if at < 0 {
		return true
	}
	parent := path[:at]
	return from == parent || strings.HasPrefix(from, parent+"/")
}

// invalid notes what the compiler says about a signature.
func (c *checker) invalid(iface *directive.Interface, m *method) {
	if m.field != nil && c.compiler(m.field.Type) {
		return
	}
	if m.field != nil {
		if sel := cgo(m.field.Type); sel != nil {
			c.list.Add(sel.Pos(), sel.End(), "C.%s can't be used in an annotated signature, since lockgen doesn't run cgo; use a type of Go", sel.Sel.Name)
			return
		}
	}
	from, to := m.pos(iface)
	c.list.Add(from, to, "a type in the signature of %s is not known", m.fn.Name())
}

// unknown says whether a type is invalid, and notes why.
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

// missing notes the first package that an expression mentions and that isn't there.
func (c *checker) missing(e ast.Node) bool {
	var file *load.File
	for _, f := range c.pkg.Files {
		if f.Syntax.FileStart <= e.Pos() && e.Pos() < f.Syntax.FileEnd {
			file = f
		}
	}
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
		if path := file.Imports[x.Name]; path != "" && c.broken(file, path) {
			found = true
			c.list.Add(sel.Pos(), sel.End(), "there is no package %s; if another module has it: go get %s", path, path)
		}
		return !found
	})
	return found
}

// broken says whether a file imports a package in vain.
func (c *checker) broken(file *load.File, path string) bool {
	for _, spec := range file.Syntax.Imports {
		if spec.Path.Value != strconv.Quote(path) {
			continue
		}
		for _, err := range c.pkg.Errors {
			if spec.Pos() <= err.Pos && err.Pos < spec.End() {
				return true
			}
		}
	}
	return false
}

// compiler says why an expression has no type: for want of a package, or what the compiler says first.
func (c *checker) compiler(e ast.Node) bool {
	if c.missing(e) {
		return true
	}
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

// cgo finds the first name of package C.
func cgo(e ast.Expr) *ast.SelectorExpr {
	var first *ast.SelectorExpr
	ast.Inspect(e, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && first == nil {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "C" {
				first = sel
			}
		}
		return first == nil
	})
	return first
}
