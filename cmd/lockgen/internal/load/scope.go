package load

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/load/partial"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/output"
)

// scope lists the names of the package scope and those of imports, also in its tests and in files for other systems: a name of an import must differ from all of
// package scope.
func (p *Package) scope(fset *token.FileSet, dir string, files []*ast.File, names, ignored []string) {
	p.Declared, p.Imported = map[string]token.Pos{}, map[string]token.Pos{}
	add := func(file *ast.File) {
		for name, pos := range partial.Declared(file) {
			if _, ok := p.Declared[name]; !ok {
				p.Declared[name] = pos
			}
		}
		for _, spec := range file.Imports {
			if spec.Name != nil {
				p.Imported[spec.Name.Name] = spec.Name.Pos()
			}
		}
	}
	for _, file := range files {
		add(file)
	}
	others := slices.Clone(ignored)
	// Not filepath.Glob: the path of a directory can have brackets.
	entries, _ := os.ReadDir(dir) // of one that has just been removed, what was read before
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), "_test.go") {
			others = append(others, filepath.Join(dir, entry.Name()))
		}
	}
	for _, name := range others {
		if slices.Contains(names, name) || !strings.HasSuffix(name, ".go") {
			continue
		}
		src, err := os.ReadFile(name)
		if err != nil || output.Ours(src) {
			continue
		}
		file, _ := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
		if file != nil && file.Name.Name == p.Name {
			add(file)
		}
	}
}
