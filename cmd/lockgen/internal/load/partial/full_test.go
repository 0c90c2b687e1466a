package partial_test

import (
	"fmt"
	"go/build"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/txtar"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/check"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/diag"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/load"
	"github.com/lockgen/lockgen/internal/testmodule"
	"github.com/lockgen/lockgen/templates"
)

// TestPartial_AsTheFullLoad: what is generated from the declarations that are reached is what is generated from all of them.
func TestPartial_AsTheFullLoad(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../../../../..")
	require.NoError(t, err)
	t.Run("this module", func(t *testing.T) {
		t.Parallel()
		require.Greater(t, compare(t, root, "./generated_test", "./examples/..."), 10)
	})
	t.Run("beside what is left out", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		require.NoError(t, testmodule.Write(dir, root, "example.com/left"))
		archive, err := txtar.ParseFile("testdata/left.txtar")
		require.NoError(t, err)
		for _, file := range archive.Files {
			name := filepath.Join(dir, filepath.FromSlash(file.Name))
			require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
			require.NoError(t, os.WriteFile(name, file.Data, 0o600))
		}
		require.Equal(t, 2, compare(t, dir, "./..."))
	})
}

// compare loads packages both ways. It says how many outputs they have.
func compare(t *testing.T, dir string, patterns ...string) int {
	t.Helper()
	list := diag.New(token.NewFileSet())
	loaded, err := load.Load(load.Config{Dir: dir, Patterns: patterns}, list)
	require.NoError(t, err)
	partial := outputs(t, list, loaded.Packages)

	fset := token.NewFileSet()
	list = diag.New(fset)
	cfg := &packages.Config{Context: t.Context(), Mode: packages.LoadSyntax, Dir: dir, Fset: fset}
	pkgs, err := packages.Load(cfg, patterns...)
	require.NoError(t, err)
	var full []*load.Package
	for _, pkg := range pkgs {
		require.Empty(t, pkg.Errors)
		full = append(full, load.Checked(list, pkg.Types, pkg.TypesInfo, pkg.Syntax, pkg.IgnoredFiles)...)
	}
	require.Equal(t, outputs(t, list, full), partial)
	return len(partial)
}

// outputs has each output, and what each method locks, by the name of the source.
func outputs(t *testing.T, list *diag.List, pkgs []*load.Package) map[string]string {
	t.Helper()
	all := map[string]string{}
	run := check.NewRun(list, build.Default)
	for _, pkg := range pkgs {
		for _, out := range run.Package(pkg) {
			var text strings.Builder
			for _, use := range out.Uses {
				fmt.Fprintf(&text, "// %s at %s", use.Name, list.Fset().Position(use.Pos))
				for _, key := range use.Keys {
					fmt.Fprintf(&text, ", %s", key.Text)
					for _, part := range key.Parts {
						if part.Value != nil {
							fmt.Fprintf(&text, " %v", part.Value.Type)
						}
					}
				}
				text.WriteByte('\n')
			}
			src, err := templates.Render(out.Model)
			require.NoError(t, err)
			text.Write(src)
			all[out.Source] = text.String()
		}
	}
	run.End()
	var said strings.Builder
	require.NoError(t, list.Print(&said, ""))
	require.Zero(t, list.Len(), said.String())
	return all
}
