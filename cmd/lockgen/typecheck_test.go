package main_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"
)

// A typeChecker checks trees of the module example.com/shop, bodies included, against the runtime as it is. It reads the export data of the
// runtime and of the standard library once for all trees.
type typeChecker struct {
	mu      sync.Mutex // the importer is for one goroutine
	fset    *token.FileSet
	imports types.Importer
}

const module = "example.com/shop"

func newTypeChecker(t *testing.T, root string) *typeChecker {
	cfg := &packages.Config{Mode: packages.NeedName | packages.NeedExportFile | packages.NeedDeps | packages.NeedImports, Dir: root}
	pkgs, err := packages.Load(cfg, "github.com/lockgen/lockgen/runtime", "database/sql", "html/template", "net/http", "text/template", "iter", "log", "testing",
		"github.com/lockgen/lockgen/runtime/gen", "github.com/lockgen/lockgen/runtime/locktest")
	require.NoError(t, err)
	exports := map[string]string{}
	packages.Visit(pkgs, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			t.Errorf("%v", e)
		}
		exports[p.PkgPath] = p.ExportFile
	})
	fset := token.NewFileSet()
	lookup := func(path string) (io.ReadCloser, error) {
		name, ok := exports[path]
		if !ok {
			return nil, fmt.Errorf("no export data for %s; name it in newTypeChecker", path)
		}
		return os.Open(name)
	}
	return &typeChecker{fset: fset, imports: importer.ForCompiler(fset, "gc", lookup)}
}

// check checks all packages below dir, their tests too.
func (c *typeChecker) check(dir string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &tree{typeChecker: c, root: dir, done: map[string]*types.Package{}}
	var errs []error
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if _, err := t.pkg(path, ""); err != nil {
			errs = append(errs, err)
		}
		for _, tests := range []string{"in", "out"} {
			if _, err := t.pkg(path, tests); err != nil {
				errs = append(errs, err)
			}
		}
		return nil
	})
	return errors.Join(append(errs, err)...)
}

// A tree is one module while it is checked.
type tree struct {
	*typeChecker
	root string
	done map[string]*types.Package
}

// Import finds the tree's own packages in the tree.
func (t *tree) Import(path string) (*types.Package, error) {
	if path == module || strings.HasPrefix(path, module+"/") {
		return t.pkg(filepath.Join(t.root, strings.TrimPrefix(path, module)), "")
	}
	return t.imports.Import(path)
}

// pkg checks the package in dir: without tests, with those in the package, or those outside of it.
func (t *tree) pkg(dir, tests string) (*types.Package, error) {
	key := dir + " " + tests
	if pkg, ok := t.done[key]; ok {
		return pkg, nil
	}
	var files []*ast.File
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	inTests := false
	for _, name := range names {
		if ok, err := build.Default.MatchFile(dir, filepath.Base(name)); !ok || err != nil {
			continue
		}
		file, err := parser.ParseFile(t.fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		isTest := strings.HasSuffix(name, "_test.go")
		outside := isTest && strings.HasSuffix(file.Name.Name, "_test")
		if isTest && tests == "" || outside != (tests == "out") {
			continue
		}
		inTests = inTests || isTest
		files = append(files, file)
	}
	if len(files) == 0 || tests != "" && !inTests {
		return nil, nil
	}
	path := module + strings.TrimPrefix(filepath.ToSlash(dir), filepath.ToSlash(t.root))
	if tests == "out" {
		path += "_test"
	}
	var errs []error
	cfg := &types.Config{Importer: t, Error: func(err error) { errs = append(errs, err) }, FakeImportC: true}
	pkg, _ := cfg.Check(path, t.fset, files, nil)
	t.done[key] = pkg
	return pkg, errors.Join(errs...)
}
