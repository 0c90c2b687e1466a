package partial

import (
	"go/ast"
	"go/token"

	"golang.org/x/tools/go/packages"
)

// Reach marks the declaration of a name and everything that its type is made of, here and in imported packages.
func (u *Unit) Reach(name string) {
	u.Parse()
	if whole, ok := u.reached[name]; ok && (whole || !u.program.whole) {
		return
	}
	u.reached[name] = u.program.whole
	for _, d := range u.decls[name] {
		u.keep(d)
	}
}

func (u *Unit) keep(d declaration) {
	switch node := d.node.(type) {
	case *ast.FuncDecl:
		u.keepFunc(d.file, node)
	case *ast.TypeSpec:
		u.kept[node] = true
		all := u.Annotated || u.says // its directives can name what is not exported
		if _, ok := u.full[node]; !ok {
			u.full[node] = node.Type
		}
		node.Type = u.full[node]
		if !all && !u.program.whole {
			node.Type = exported(node.Type)
		}
		u.walk(d.file, node)
		defer u.program.asWhole(false)()
		_, isInterface := node.Type.(*ast.InterfaceType)
		for _, m := range u.methods[d.name] {
			if fn, ok := m.node.(*ast.FuncDecl); ok && (all || isInterface || ast.IsExported(m.name)) {
				u.keepFunc(m.file, fn)
			}
		}
	case *ast.ValueSpec:
		if d.decl.Tok != token.CONST {
			u.kept[node] = true
			u.walk(d.file, node)
			return
		}
		// Constants of a group depend on those above: iota, and values that are repeated.
		for _, spec := range d.decl.Specs {
			if !u.kept[spec] {
				u.kept[spec] = true
				u.walk(d.file, spec)
			}
		}
	}
}

func (u *Unit) keepFunc(file *ast.File, fn *ast.FuncDecl) {
	if u.kept[fn] {
		return
	}
	u.kept[fn] = true
	if fn.Recv != nil {
		u.walk(file, fn.Recv)
	}
	u.walk(file, fn.Type)
}

// asWhole says for a while whether types are reached with all that they have, and returns what ends that.
func (p *Program) asWhole(whole bool) func() {
	before := p.whole
	p.whole = whole
	return func() { p.whole = before }
}

// measures reports whether a function asks for the size of something or for places in it: those of package unsafe do.
func measures(fn ast.Expr) bool {
	if sel, ok := fn.(*ast.SelectorExpr); ok {
		fn = sel.Sel
	}
	name, ok := fn.(*ast.Ident)
	return ok && (name.Name == "Sizeof" || name.Name == "Alignof" || name.Name == "Offsetof")
}

// walk reaches every name that node mentions. A parameter that is called as something in package scope reaches that too, which costs only time.
func (u *Unit) walk(file *ast.File, node ast.Node) {
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if !measures(n.Fun) {
				return true
			}
			u.walk(file, n.Fun)
			defer u.program.asWhole(true)()
			for _, arg := range n.Args {
				u.walk(file, arg)
			}
			return false
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && u.reachImport(file, x.Name, n.Sel.Name) {
				return false
			}
		case *ast.Ident:
			if _, ok := u.decls[n.Name]; ok {
				u.Reach(n.Name)
			} else if ast.IsExported(n.Name) {
				u.reachImport(file, ".", n.Name)
			}
		case *ast.BlockStmt:
			return false
		}
		return true
	})
}

// reachImport follows a name into the package that the file imports as local.
func (u *Unit) reachImport(file *ast.File, local, name string) bool {
	found := false
	for _, spec := range file.Imports {
		if u.importName(spec) != local {
			continue
		}
		found = true
		dep := u.Package.Imports[importPath(spec)]
		if local == "." && (dep == nil || !u.program.declares(dep, name)) {
			continue
		}
		u.used[spec] = true
		if dep != nil && dep.PkgPath != "unsafe" {
			u.program.Unit(dep).Reach(name)
		}
	}
	return found
}

func (p *Program) declares(pkg *packages.Package, name string) bool {
	u := p.Unit(pkg)
	u.Parse()
	_, ok := u.decls[name]
	return ok
}

// exported drops what no other package can name from a type: the unexported fields of structs, which lead far into packages and to nothing that
// a directive could reach. Embedded fields stay, since what they promote can be named.
func exported(t ast.Expr) ast.Expr {
	s, ok := t.(*ast.StructType)
	if !ok || s.Fields == nil {
		return t
	}
	fields := &ast.FieldList{Opening: s.Fields.Opening, Closing: s.Fields.Closing}
	for _, f := range s.Fields.List {
		if len(f.Names) == 0 {
			fields.List = append(fields.List, f)
			continue
		}
		kept := *f
		kept.Names = nil
		for _, name := range f.Names {
			if name.IsExported() {
				kept.Names = append(kept.Names, name)
			}
		}
		if len(kept.Names) > 0 {
			fields.List = append(fields.List, &kept)
		}
	}
	return &ast.StructType{Struct: s.Struct, Fields: fields}
}
