package load

import (
	"errors"
	"go/ast"
	"go/types"
	"slices"
	"strings"
)

// check gives the packages with directives their types.
func (l *loader) check() {
	for _, u := range l.roots {
		for _, file := range u.root.Files {
			for _, iface := range file.Directives.Interfaces {
				l.reach(u, iface.Spec.Name.Name)
			}
			for name := range file.Directives.Functions() {
				l.reach(u, name)
			}
		}
	}
	l.abroad = map[string][]types.Error{}
	for _, u := range l.roots {
		u.root.Types, u.root.Abroad = l.typed(u), l.abroad
	}
}

// typed checks what was reached of a unit.
func (l *loader) typed(u *unit) *types.Package {
	if u.types != nil || u.checking {
		return u.types
	}
	u.checking = true
	l.parse(u)
	files := make([]*ast.File, len(u.files))
	for i, file := range u.files {
		files[i] = u.pruned(file)
	}
	cfg := &types.Config{
		Importer:         importer{l, u},
		IgnoreFuncBodies: true,
		FakeImportC:      true,
		Sizes:            types.SizesFor("gc", l.arch),
		Error: func(err error) {
			var e types.Error
			switch {
			case !errors.As(err, &e):
			case u.root != nil:
				u.root.Errors = append(u.root.Errors, e)
			default:
				l.abroad[u.pkg.PkgPath] = append(l.abroad[u.pkg.PkgPath], e)
			}
		},
	}
	var info *types.Info
	if u.root != nil {
		info = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}}
		u.root.Info = info
	}
	// Its error is the first of those that were noted.
	u.types, _ = cfg.Check(u.pkg.PkgPath, l.list.Fset(), files, info)
	return u.types
}

// Circle is in what is said of an import of a package that imports this one.
const Circle = "import cycle"

// An importer finds the imports of one package, from source.
type importer struct {
	l *loader
	u *unit
}

// Import returns the package that the unit knows by path, which the vendor directory and the like can make another one than others know.
func (i importer) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	dep := i.u.pkg.Imports[path]
	if dep == nil {
		// The go command leaves out one of the imports of a circle, and says which packages are in it.
		for _, e := range i.u.pkg.Errors {
			if strings.Contains(e.Msg, Circle) && slices.Contains(strings.FieldsFunc(e.Msg, func(r rune) bool { return strings.ContainsRune(" []", r) }), path) {
				return nil, errors.New(Circle)
			}
		}
	}
	if dep == nil || len(dep.GoFiles) == 0 {
		return nil, errors.New("no such package")
	}
	pkg := i.l.typed(i.l.unit(dep))
	if pkg == nil {
		return nil, errors.New(Circle)
	}
	return pkg, nil
}
