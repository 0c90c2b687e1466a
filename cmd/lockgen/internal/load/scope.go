package load

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/diag"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/directive"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/load/partial"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/output"
)

// scope lists the names of the package scope and those of imports, also in its tests and in files for other systems: a name of an import must differ from all of
// package scope. imports returns the names of the imports of one of the files, and what each is for. Of the other files it takes only those names that the
// files give. It keeps those other files that have directives, and returns the dot imports of all of them.
func (p *Package) scope(fset *token.FileSet, dir string, files []*ast.File, imports func(*ast.File) map[string]string, names, ignored []string) []*ast.ImportSpec {
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
		for name, path := range imports(file) {
			if _, ok := p.Imported[name]; !ok {
				p.Imported[name] = importOf(file, path)
			}
		}
	}
	others := slices.Clone(ignored)
	var dots []*ast.ImportSpec
	// Not filepath.Glob: the path of a directory can have brackets.
	entries, _ := os.ReadDir(dir) // of one that has just been removed, what was read before
	for _, entry := range entries {
		name := filepath.Join(dir, entry.Name())
		if strings.HasSuffix(name, "_test.go") && !slices.Contains(ignored, name) {
			others = append(others, name)
		}
	}
	for _, name := range others {
		if slices.Contains(names, name) || !strings.HasSuffix(name, ".go") || !Regular(name) {
			continue
		}
		src, err := os.ReadFile(name)
		if err != nil || output.Ours(src) {
			continue
		}
		flags := parser.SkipObjectResolution
		mentioned := directive.Mentioned(src)
		if mentioned {
			flags |= parser.ParseComments
		}
		file, _ := parser.ParseFile(fset, name, src, flags)
		if file != nil && file.Name.Name == p.Name {
			add(file)
			if mentioned {
				p.Excluded = append(p.Excluded, &File{Name: name, Syntax: file, Directives: directive.Collect(diag.New(fset), file)})
			}
			for _, spec := range file.Imports {
				if spec.Name != nil && spec.Name.Name == "." {
					dots = append(dots, spec)
				}
			}
		}
	}
	return dots
}

// importOf returns where a file imports a package.
func importOf(file *ast.File, path string) token.Pos {
	for _, spec := range file.Imports {
		if spec.Path.Value == strconv.Quote(path) || spec.Path.Value == "`"+path+"`" {
			return spec.Pos()
		}
	}
	return file.Name.Pos()
}

// dotted adds the names that dot imports bring into files that are not loaded, such as those of tests, from packages of the module. Those of others are
// not known without the go command.
func (l *loader) dotted(p *Package, module *packages.Module, dots []*ast.ImportSpec) {
	for _, spec := range dots {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil || module == nil {
			continue
		}
		below, ok := strings.CutPrefix(path+"/", module.Path+"/")
		if !ok {
			continue
		}
		dir := filepath.Join(module.Dir, filepath.FromSlash(below))
		entries, _ := os.ReadDir(dir) // none of a package that is not there
		for _, entry := range entries {
			if built, err := l.result.Build.MatchFile(dir, entry.Name()); err != nil || !built || strings.HasSuffix(entry.Name(), "_test.go") {
				continue
			}
			name := filepath.Join(dir, entry.Name())
			if _, ok := l.sums[name]; !ok {
				l.result.print = "" // which is not of this file, so the next run has to look again
			}
			file, _ := parser.ParseFile(l.list.Fset(), name, nil, parser.SkipObjectResolution)
			if file == nil {
				continue
			}
			for name := range partial.Declared(file) {
				if token.IsExported(name) {
					p.Dotted[name] = spec.Name.Pos()
				}
			}
		}
	}
}
