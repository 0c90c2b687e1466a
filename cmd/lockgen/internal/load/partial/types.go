package partial

import (
	"errors"
	"go/ast"
	"go/types"
	"slices"
	"strings"
)

// Types checks what was reached of a unit. Everything must be reached before.
func (u *Unit) Types() *types.Package {
	if u.types != nil || u.checking {
		return u.types
	}
	u.checking = true
	u.Parse()
	files := make([]*ast.File, len(u.Files))
	for i, file := range u.Files {
		files[i] = u.pruned(file)
	}
	cfg := &types.Config{
		Importer:         importer{u},
		IgnoreFuncBodies: true,
		FakeImportC:      true,
		Sizes:            types.SizesFor("gc", u.program.arch),
		Error: func(err error) {
			var e types.Error
			switch {
			case !errors.As(err, &e):
			case u.Annotated:
				u.Errors = append(u.Errors, e)
			default:
				u.program.Abroad[u.Package.PkgPath] = append(u.program.Abroad[u.Package.PkgPath], e)
			}
		},
	}
	var info *types.Info
	if u.Annotated {
		info = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}}
		u.Info = info
	}
	// Its error is the first of those that were noted.
	u.types, _ = cfg.Check(u.Package.PkgPath, u.program.fset, files, info)
	return u.types
}

// Circle is in what is said of an import of a package that imports this one.
const Circle = "import cycle"

// An importer finds the imports of one package, from source.
type importer struct{ u *Unit }

// Import returns the package that the unit knows by path, which the vendor directory and the like can make another one than others know.
func (i importer) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	dep := i.u.Package.Imports[path]
	if dep == nil {
		// The go command leaves out one of the imports of a circle, and says which packages are in it.
		for _, e := range i.u.Package.Errors {
			if strings.Contains(e.Msg, Circle) && slices.Contains(strings.FieldsFunc(e.Msg, func(r rune) bool { return strings.ContainsRune(" []", r) }), path) {
				return nil, errors.New(Circle)
			}
		}
	}
	if dep == nil || len(dep.GoFiles) == 0 {
		return nil, errors.New("no such package")
	}
	pkg := i.u.program.Unit(dep).Types()
	if pkg == nil {
		return nil, errors.New(Circle)
	}
	return pkg, nil
}
