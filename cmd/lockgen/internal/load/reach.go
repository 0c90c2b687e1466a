package load

import (
	"go/ast"
	"go/token"

	"golang.org/x/tools/go/packages"
)

// reach marks the declaration of a name and everything that its type is made of, here and in imported packages.
func (l *loader) reach(u *unit, name string) {
	l.parse(u)
	if whole, ok := u.reached[name]; ok && (whole || !l.whole) {
		return
	}
	u.reached[name] = l.whole
	for _, d := range u.decls[name] {
		l.keep(u, d)
	}
}

func (l *loader) keep(u *unit, d declaration) {
	switch node := d.node.(type) {
	case *ast.FuncDecl:
		l.keepFunc(u, d.file, node)
	case *ast.TypeSpec:
		u.kept[node] = true
		all := u.root != nil || u.says // its directives can name what is not exported
		if _, ok := u.full[node]; !ok {
			u.full[node] = node.Type
		}
		node.Type = u.full[node]
		if !all && !l.whole {
			node.Type = exported(node.Type)
		}
		l.walk(u, d.file, node)
		defer l.asWhole(false)()
		_, isInterface := node.Type.(*ast.InterfaceType)
		for _, m := range u.methods[d.name] {
			if fn, ok := m.node.(*ast.FuncDecl); ok && (all || isInterface || ast.IsExported(m.name)) {
				l.keepFunc(u, m.file, fn)
			}
		}
	case *ast.ValueSpec:
		if d.decl.Tok != token.CONST {
			u.kept[node] = true
			l.walk(u, d.file, node)
			return
		}
		// Constants of a group depend on those above: iota, and values that are repeated.
		for _, spec := range d.decl.Specs {
			if !u.kept[spec] {
				u.kept[spec] = true
				l.walk(u, d.file, spec)
			}
		}
	}
}

func (l *loader) keepFunc(u *unit, file *ast.File, fn *ast.FuncDecl) {
	if u.kept[fn] {
		return
	}
	u.kept[fn] = true
	if fn.Recv != nil {
		l.walk(u, file, fn.Recv)
	}
	l.walk(u, file, fn.Type)
}

// asWhole says for a while whether types are reached with all that they have, and returns what ends that.
func (l *loader) asWhole(whole bool) func() {
	before := l.whole
	l.whole = whole
	return func() { l.whole = before }
}

// measures says whether a function asks for the size of something or for places in it: those of package unsafe do.
func measures(fn ast.Expr) bool {
	if sel, ok := fn.(*ast.SelectorExpr); ok {
		fn = sel.Sel
	}
	name, ok := fn.(*ast.Ident)
	return ok && (name.Name == "Sizeof" || name.Name == "Alignof" || name.Name == "Offsetof")
}

// walk reaches every name that node mentions. A parameter that is called as something in package scope reaches that too, which costs only time.
func (l *loader) walk(u *unit, file *ast.File, node ast.Node) {
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if !measures(n.Fun) {
				return true
			}
			l.walk(u, file, n.Fun)
			defer l.asWhole(true)()
			for _, arg := range n.Args {
				l.walk(u, file, arg)
			}
			return false
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && l.reachImport(u, file, x.Name, n.Sel.Name) {
				return false
			}
		case *ast.Ident:
			if _, ok := u.decls[n.Name]; ok {
				l.reach(u, n.Name)
			} else if ast.IsExported(n.Name) {
				l.reachImport(u, file, ".", n.Name)
			}
		case *ast.BlockStmt:
			return false
		}
		return true
	})
}

// reachImport follows a name into the package that the file imports as local.
func (l *loader) reachImport(u *unit, file *ast.File, local, name string) bool {
	found := false
	for _, spec := range file.Imports {
		if u.importName(spec) != local {
			continue
		}
		found = true
		dep := u.pkg.Imports[importPath(spec)]
		if local == "." && (dep == nil || !l.declares(dep, name)) {
			continue
		}
		u.used[spec] = true
		if dep != nil && dep.PkgPath != "unsafe" {
			l.reach(l.unit(dep), name)
		}
	}
	return found
}

func (l *loader) declares(pkg *packages.Package, name string) bool {
	u := l.unit(pkg)
	l.parse(u)
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
