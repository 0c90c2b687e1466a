package check

import (
	"go/ast"
	"go/types"
	"path/filepath"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/directive"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/load"
	"github.com/lockgen/lockgen/templates"
)

// lengths refuses an array in the signature of a method whose length depends on the size of words, such as [unsafe.Sizeof(x)]byte: the output has the
// length as a number, which is right only for the platform of the run.
func (c *checker) lengths(iface *directive.Interface, m *method) bool {
	var syntax ast.Expr
	if m.field != nil {
		syntax = m.field.Type
	}
	arrays := arraysOf(m.fn.Signature())
	if numbers(syntax, len(arrays)) || !c.builtElsewhere(iface) {
		return true
	}
	other, arch := c.elsewhere(iface, m)
	return other == nil || c.sameLengths(m.fn.Name(), m.ident(iface), syntax, arrays, arraysOf(other), arch)
}

// closerLengths does the same for the methods of a result.
func (c *checker) closerLengths(iface *directive.Interface, m *method, result int) bool {
	arrays := arraysOf(m.fn.Signature().Results().At(result).Type().Underlying())
	if len(arrays) == 0 || !c.builtElsewhere(iface) {
		return true
	}
	other, arch := c.elsewhere(iface, m)
	return other == nil || c.sameLengths(m.fn.Name(), m.ident(iface), nil, arrays, arraysOf(other.Results().At(result).Type().Underlying()), arch)
}

// constraintLengths does the same for the type parameters of an interface.
func (c *checker) constraintLengths(iface *directive.Interface, obj *types.TypeName) bool {
	var arrays, others []*types.Array
	for _, tp := range typeParams(obj) {
		arrays = append(arrays, arraysOf(tp.Constraint())...)
	}
	if len(arrays) == 0 || !c.builtElsewhere(iface) {
		return true
	}
	pkg, arch := c.pkg.Elsewhere()
	other, ok := pkg.Scope().Lookup(obj.Name()).(*types.TypeName)
	if !ok {
		return true
	}
	for _, tp := range typeParams(other) {
		others = append(others, arraysOf(tp.Constraint())...)
	}
	return c.sameLengths(obj.Name(), iface.Spec.Name, iface.Spec.TypeParams, arrays, others, arch)
}

// arraysOf lists the arrays that the source of a type has, and of an interface those of all its methods.
func arraysOf(t types.Type) []*types.Array {
	var arrays []*types.Array
	visit := func(t types.Type) {
		if a, ok := t.(*types.Array); ok {
			arrays = append(arrays, a)
		}
	}
	if iface, ok := t.(*types.Interface); ok && iface.IsMethodSet() {
		for m := range iface.Methods() {
			templates.Visit(m.Type(), visit)
		}
		return arrays
	}
	templates.Visit(t, visit)
	return arrays
}

// numbers reports whether the syntax has so many arrays, all with a number as their length.
func numbers(syntax ast.Expr, arrays int) bool {
	if syntax == nil {
		return arrays == 0
	}
	ast.Inspect(syntax, func(n ast.Node) bool {
		if a, ok := n.(*ast.ArrayType); ok && a.Len != nil {
			if _, number := a.Len.(*ast.BasicLit); number {
				arrays--
			}
		}
		return true
	})
	return arrays == 0
}

// builtElsewhere reports whether the file of an interface is also built for words of another size.
func (c *checker) builtElsewhere(iface *directive.Interface) bool {
	file := c.fileOf(iface.Spec)
	if c.pkg.Elsewhere == nil || file == nil {
		return false
	}
	build := c.run.build
	for _, build.GOARCH = range load.OtherWords(c.run.build.GOARCH) {
		if ok, err := build.MatchFile(filepath.Split(file.Name)); err == nil && ok {
			return true
		}
	}
	return false
}

// elsewhere is the signature of a method for words of another size.
func (c *checker) elsewhere(iface *directive.Interface, m *method) (sig *types.Signature, arch string) {
	pkg, arch := c.pkg.Elsewhere()
	if obj := pkg.Scope().Lookup(iface.Spec.Name.Name); obj != nil {
		if fn, _, _ := types.LookupFieldOrMethod(obj.Type(), false, pkg, m.fn.Name()); fn != nil {
			return fn.Type().(*types.Signature), arch
		}
	}
	return nil, arch
}

// sameLengths compares arrays with those in the same places for words of another size. It notes the first that differs.
func (c *checker) sameLengths(name string, at *ast.Ident, syntax ast.Node, arrays, others []*types.Array, arch string) bool {
	for i, a := range arrays {
		if i >= len(others) || a.Len() == others[i].Len() {
			continue
		}
		from, to, text := at.Pos(), at.End(), ""
		if syntax != nil {
			ast.Inspect(syntax, func(n ast.Node) bool {
				if e, ok := n.(*ast.ArrayType); ok && c.pkg.Info.Types[e].Type == types.Type(a) {
					from, to, text = e.Pos(), e.End(), ", such as type Name "+types.ExprString(e)
				}
				return true
			})
		}
		c.list.Add(from, to, "%s mentions an array that is %s on %s and %s on %s, so the output would be right for one of them; declare a type for it%s",
			name, c.typeName(a), c.run.build.GOARCH, c.typeName(types.NewArray(a.Elem(), others[i].Len())), arch, text)
		return false
	}
	return true
}
