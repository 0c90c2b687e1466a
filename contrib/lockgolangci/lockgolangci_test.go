package lockgolangci

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golangci/plugin-module-register/register"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"
)

// TestPlugin runs the linter as golangci-lint does: by its name, on packages with types.
func TestPlugin(t *testing.T) {
	t.Parallel()
	build, err := register.GetPlugin(name)
	require.NoError(t, err)
	linter, err := build(nil)
	require.NoError(t, err)
	require.Equal(t, register.LoadModeTypesInfo, linter.GetLoadMode())
	analyzers, err := linter.BuildAnalyzers()
	require.NoError(t, err)

	loaded, err := packages.Load(&packages.Config{Mode: packages.LoadAllSyntax, Dir: "internal/mistake", Context: t.Context()}, ".")
	require.NoError(t, err)
	require.Zero(t, packages.PrintErrors(loaded))
	graph, err := checker.Analyze(analyzers, loaded, nil)
	require.NoError(t, err)
	var found []string
	for action := range graph.All() {
		require.NoError(t, action.Err, action)
		if action.IsRoot {
			for _, d := range action.Diagnostics {
				found = append(found, action.Analyzer.Name+": "+d.Message)
			}
		}
	}
	require.Contains(t, strings.Join(found, "\n"), "unlock: lease is not unlocked")
}

// TestReadme_Name shows that the configuration of README.md names this linter, and this module.
func TestReadme_Name(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	mod, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	path, _, _ := strings.Cut(strings.TrimPrefix(string(mod), "module "), "\n")
	require.Contains(t, string(readme), "- module: "+path+"\n")
	require.Equal(t, 1, strings.Count(string(readme), "\n    - "+name+"\n"))
	require.Equal(t, 1, strings.Count(string(readme), "\n      "+name+":\n"))
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	require.NoError(t, err)
	_, version, _ := strings.Cut(string(makefile), "cmd/golangci-lint@")
	version, _, _ = strings.Cut(version, "\n")
	require.Contains(t, string(readme), "version: "+version+"\n")
}
