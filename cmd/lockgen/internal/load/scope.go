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

// declared lists the names of the package scope, those in its tests and in files for other systems too: names of imports must differ from all.
func declared(fset *token.FileSet, dir, pkg string, files []*ast.File, names, ignored []string) map[string]token.Pos {
	all := map[string]token.Pos{}
	add := func(file *ast.File) {
		for name, pos := range partial.Declared(file) {
			if _, ok := all[name]; !ok {
				all[name] = pos
			}
		}
	}
	for _, file := range files {
		add(file)
	}
	others := slices.Clone(ignored)
	tests, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err == nil {
		others = append(others, tests...)
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
		if file != nil && file.Name.Name == pkg {
			add(file)
		}
	}
	return all
}
