package load

import (
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/diag"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/directive"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/output"
)

// Checked makes packages with directives from one that another program has parsed and checked. As in a run, these are
// the package of its files without its tests, and that of its tests, as far as they have directives. Ignored are the
// files of its directory that the build leaves out. Checked notes mistakes in the directives in list.
func Checked(list *diag.List, pkg *types.Package, info *types.Info, files []*ast.File, ignored []string) []*Package {
	var sources []*File
	for _, file := range files {
		name := list.Fset().PositionFor(file.Package, false).Filename
		src, err := os.ReadFile(name)
		if err != nil || output.Is(name, src) {
			continue
		}
		before := list.Len()
		d := directive.Collect(list, file)
		sources = append(sources, &File{Name: name, Syntax: file, Directives: d, Imports: importsOf(info, file), Wrong: list.Len() > before})
	}
	var all []*Package
	for _, tests := range []bool{false, true} {
		p := &Package{Path: pkg.Path(), Name: pkg.Name(), Types: pkg, Info: info, Others: true}
		var names []string
		for _, f := range sources {
			isTest := strings.HasSuffix(f.Name, "_test.go")
			if isTest && !tests {
				continue
			}
			p.Syntax = append(p.Syntax, f.Syntax)
			names = append(names, f.Name)
			switch {
			case isTest != tests:
				p.Shared = append(p.Shared, f)
			case !f.Directives.None():
				p.Files = append(p.Files, f)
			}
		}
		if len(p.Files) > 0 {
			imports := func(file *ast.File) map[string]string { return importsOf(info, file) }
			p.scope(list.Fset(), filepath.Dir(names[0]), p.Syntax, imports, names, ignored)
			p.Dotted = dottedOf(info, files)
			all = append(all, p)
		}
	}
	return all
}

func importsOf(info *types.Info, file *ast.File) map[string]string {
	names := map[string]string{}
	for _, spec := range file.Imports {
		obj := info.PkgNameOf(spec)
		path, err := strconv.Unquote(spec.Path.Value)
		if obj != nil && err == nil && obj.Name() != "." && obj.Name() != "_" {
			names[obj.Name()] = path
		}
	}
	return names
}

// dottedOf maps the names that dot imports bring into files to the place of the import.
func dottedOf(info *types.Info, files []*ast.File) map[string]token.Pos {
	names := map[string]token.Pos{}
	for _, file := range files {
		for _, spec := range file.Imports {
			if obj := info.PkgNameOf(spec); obj != nil && obj.Name() == "." {
				for _, name := range obj.Imported().Scope().Names() {
					if token.IsExported(name) {
						names[name] = spec.Name.Pos()
					}
				}
			}
		}
	}
	return names
}

// Pos finds a position of a file set again.
func Pos(fset *token.FileSet, p token.Position) token.Pos {
	found := token.NoPos
	fset.Iterate(func(f *token.File) bool {
		if f.Name() == p.Filename && p.Offset <= f.Size() {
			found = f.Pos(p.Offset)
		}
		return !found.IsValid()
	})
	return found
}
