//go:build large

package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/cli"
)

// large is a module of others with hundreds of interfaces. It comes through the module proxy.
const large = "k8s.io/client-go@v0.34.1"

// TestLarge annotates the interfaces of a large module, those that have a method with an error, generates, and checks the types of
// all that was generated.
func TestLarge(t *testing.T) {
	dir := t.TempDir()
	download(t, dir)
	count := 0
	require.NoError(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			count += annotate(t, dir, name)
		}
		return err
	}))
	require.Greater(t, count, 200)
	var stdout, stderr bytes.Buffer
	require.Zero(t, cli.Main([]string{"-cache=off", "./..."}, dir, &stdout, &stderr), "%s", &stderr)
	require.Equal(t, 2, strings.Count(stderr.String(), ": warning: "), stderr.String())
	for line := range strings.Lines(stderr.String()) {
		if strings.Contains(line, ": warning: ") { // two of the methods return what lives on
			require.Contains(t, line, "used after the call")
		} else {
			require.True(t, strings.HasPrefix(line, "\t"), line)
		}
	}

	c := &sources{fset: token.NewFileSet(), dir: dir, pkgs: map[string]*packages.Package{}, done: map[string]*types.Package{}}
	cfg := &packages.Config{
		Context: t.Context(), Dir: dir, Env: append(os.Environ(), "CGO_ENABLED=0"),
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps,
	}
	roots, err := packages.Load(cfg, "./...")
	require.NoError(t, err)
	packages.Visit(roots, nil, func(p *packages.Package) { c.pkgs[p.PkgPath] = p })
	for _, p := range roots {
		_, err := c.check(p)
		require.NoError(t, err)
	}
	require.Empty(t, c.errs)
	require.Greater(t, c.outputs, 100)
	t.Logf("%s: %d interfaces, %d outputs", large, count, c.outputs)
}

// download copies the module to dir, which then requires this one.
func download(t *testing.T, dir string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	do := func(args ...string) []byte {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		out, err := cmd.Output()
		require.NoError(t, err, "go %s: %s", strings.Join(args, " "), out)
		return out
	}
	var module struct{ Dir string }
	require.NoError(t, json.Unmarshal(do("mod", "download", "-json", large), &module))
	require.NoError(t, os.CopyFS(dir, os.DirFS(module.Dir)))
	require.NoError(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chmod(name, 0o755) // the cache is read-only
	}))
	const self = "github.com/lockgen/lockgen"
	do("mod", "edit", "-require="+self+"@v0.0.0", "-replace="+self+"="+root)
	use := "package client\n\nimport _ \"" + self + "/runtime\"\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "use.go"), []byte(use), 0o600))
	do("mod", "tidy")
}

// annotate puts directives above the interfaces of a file and says how many.
func annotate(t *testing.T, dir, name string) int {
	t.Helper()
	src, err := os.ReadFile(name)
	require.NoError(t, err)
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.ParseComments)
	require.NoError(t, err)
	rel, err := filepath.Rel(dir, filepath.Dir(name))
	require.NoError(t, err)
	above := map[int][]string{} // by line
	count := 0
	add := func(pos token.Pos, directive string) {
		line := fset.PositionFor(pos, false).Line
		above[line] = append(above[line], directive)
	}
	for _, decl := range file.Decls {
		g, ok := decl.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE || g.Lparen.IsValid() {
			continue
		}
		spec := g.Specs[0].(*ast.TypeSpec)
		iface, ok := spec.Type.(*ast.InterfaceType)
		if !ok || spec.TypeParams != nil || len(above[fset.PositionFor(iface.Pos(), false).Line]) > 0 {
			continue
		}
		locked := false
		for _, m := range iface.Methods.List {
			if len(m.Names) == 0 {
				break // a lock of what is embedded from elsewhere would have to be said again
			}
			if key, ok := lockable(m); ok {
				locked = true
				add(m.Pos(), fmt.Sprintf("//lockgen:lock key=%s/%s.%s%s", strings.Trim(filepath.ToSlash(rel), "."), spec.Name.Name, m.Names[0].Name, key))
			}
		}
		if locked {
			count++
			add(g.TokPos, "//lockgen:service")
		}
	}
	if count == 0 {
		return 0
	}
	var out bytes.Buffer
	line := 0
	for text := range strings.Lines(string(src)) {
		line++
		for _, directive := range above[line] {
			out.WriteString(directive + "\n")
		}
		out.WriteString(text)
	}
	require.NoError(t, os.WriteFile(name, out.Bytes(), 0o600))
	return count
}

// lockable reports whether a method can have a lock, and what of it goes into the key.
func lockable(m *ast.Field) (key string, ok bool) {
	fn, isFunc := m.Type.(*ast.FuncType)
	if !isFunc || fn.Results == nil || !isIdent(fn.Results.List[len(fn.Results.List)-1].Type, "error") {
		return "", false
	}
	wait := " wait=1s"
	for _, p := range fn.Params.List {
		if sel, ok := p.Type.(*ast.SelectorExpr); ok && sel.Sel.Name == "Context" {
			wait = ""
		}
	}
	for _, r := range fn.Results.List {
		switch r.Type.(type) {
		case *ast.FuncType, *ast.ChanType:
			return "", false
		case *ast.SelectorExpr:
			if s := r.Type.(*ast.SelectorExpr); strings.HasSuffix(s.Sel.Name, "Closer") || s.Sel.Name == "Conn" || s.Sel.Name == "Connection" || s.Sel.Name == "Stream" {
				return "", false
			}
		}
	}
	for _, p := range fn.Params.List {
		if isIdent(p.Type, "string") && len(p.Names) > 0 && p.Names[0].Name != "_" {
			return ":{" + p.Names[0].Name + "}" + wait, true
		}
	}
	return wait, true
}

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// sources checks types from source: bodies only of what was generated.
type sources struct {
	fset    *token.FileSet
	dir     string
	pkgs    map[string]*packages.Package
	done    map[string]*types.Package
	errs    []string
	outputs int
}

func (c *sources) check(p *packages.Package) (*types.Package, error) {
	if pkg, ok := c.done[p.PkgPath]; ok {
		return pkg, nil
	}
	var files []*ast.File
	generated := map[string]bool{}
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(c.fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(name, "_lockgen.go") && strings.HasPrefix(name, c.dir) {
			generated[name] = true
			c.outputs++
		} else {
			for _, decl := range file.Decls {
				if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil {
					fn.Body.List = nil
				}
			}
		}
		files = append(files, file)
	}
	cfg := &types.Config{
		Importer: importFunc(func(path string) (*types.Package, error) {
			if path == "unsafe" {
				return types.Unsafe, nil
			}
			if dep := p.Imports[path]; dep != nil {
				return c.check(c.pkgs[dep.PkgPath])
			}
			c.errs = append(c.errs, p.PkgPath+": there is no package "+path) // a type from a missing package would pass the check
			return nil, errors.New("no package")
		}),
		IgnoreFuncBodies: len(generated) == 0,
		FakeImportC:      true,
		Error: func(err error) {
			if e, ok := err.(types.Error); ok && generated[c.fset.PositionFor(e.Pos, false).Filename] {
				c.errs = append(c.errs, c.fset.Position(e.Pos).String()+": "+e.Msg)
			}
		},
	}
	pkg, _ := cfg.Check(p.PkgPath, c.fset, files, nil)
	c.done[p.PkgPath] = pkg
	return pkg, nil
}

type importFunc func(path string) (*types.Package, error)

// Import calls the function.
func (f importFunc) Import(path string) (*types.Package, error) { return f(path) }
