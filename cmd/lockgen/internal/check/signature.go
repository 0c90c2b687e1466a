package check

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/directive"
	"github.com/lockgen/lockgen/templates"
	"github.com/lockgen/lockgen/templates/model"
)

// signature copies parameters and results into the model. It returns nil after noting a type that can't be written.
func (c *checker) signature(iface *directive.Interface, m *method) *model.Method {
	sig := m.fn.Signature()
	out := &model.Method{Name: m.fn.Name(), Variadic: sig.Variadic()}
	out.Doc, out.Block = m.doc()
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
	for i, name := range m.names() {
		out.Params[i].Name = name
	}
	if !ok {
		return nil
	}
	return out
}

// writable reports whether the output can name a type, and notes why it can't.
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
			if spec := c.specs[t.Obj().Pos()]; t.TypeArgs().Len() > 0 && spec != nil && c.said(spec.TypeParams) {
				c.compiler(spec.TypeParams)
				return
			}
			c.nameable(t.Obj(), m, from, to)
		case *types.Alias:
			c.nameable(t.Obj(), m, from, to)
		case *types.Struct:
			for f := range t.Fields() {
				c.foreign(t, "field", f, m, from, to)
			}
		case *types.Interface:
			for fn := range t.ExplicitMethods() {
				c.foreign(t, "method", fn, m, from, to)
			}
		}
	})
	return c.list.Len() == before
}

// foreign refuses a type literal with a name that is not exported from another package: the output would write a different type.
func (c *checker) foreign(t types.Type, what string, part types.Object, m *method, from, to token.Pos) {
	if !part.Exported() && part.Pkg() != c.pkg.Types {
		c.list.Add(from, to, "%s mentions %s, whose %s %s is not exported and can't be named here; declare a type for it in package %s",
			m.fn.Name(), c.typeName(t), what, part.Name(), part.Pkg().Path())
	}
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
	case !importable(pkg.Path(), c.folder()):
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

// folder returns the import path of the package's folder, which decides what it may import: an external test, whose files are all tests, has a path of its own.
func (c *checker) folder() string {
	if slices.ContainsFunc(c.pkg.Syntax, func(file *ast.File) bool {
		return !strings.HasSuffix(c.list.Fset().PositionFor(file.Package, false).Filename, "_test.go")
	}) {
		return c.pkg.Path
	}
	return strings.TrimSuffix(c.pkg.Path, "_test")
}

// importable reports whether a package may import another: what is internal only from where it is internal to.
func importable(path, from string) bool {
	at := strings.LastIndex("/"+path+"/", "/internal/")
	if at < 0 {
		return true
	}
	parent := path[:max(at-1, 0)]
	return from == parent || strings.HasPrefix(from, parent+"/")
}
