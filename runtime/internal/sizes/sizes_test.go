package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGraph(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		g         graph
		up, cycle int
	}{
		"none":                  {graph{}, 0, 0},
		"in order":              {graph{"a": {"b": true, "c": true}, "b": {"c": true}, "c": {}}, 0, 1},
		"two need each other":   {graph{"a": {"b": true}, "b": {"a": true}, "c": {}}, 1, 2},
		"a ring of three":       {graph{"a": {"b": true}, "b": {"c": true}, "c": {"a": true}}, 1, 3},
		"two rings":             {graph{"a": {"b": true}, "b": {"a": true, "c": true}, "c": {"d": true}, "d": {"c": true}}, 2, 2},
		"one that needs itself": {graph{"a": {"b": true}, "b": {}}, 0, 1},
	} {
		require.Equal(t, c.up, c.g.up(), "%s: up", name)
		require.Equal(t, c.cycle, c.g.cycle(), "%s: cycle", name)
	}
}

// The table counts what is written: files, lines, flags, and passages by functions, methods, fields, types and constants.
func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	write("go.mod", "module example.com/m\n\ngo 1.26\n")
	write("runtime/a.go", "package rt\n\ntype a struct{ one, two bool }\n\nfunc (x a) f() int { return limit }\n")
	write("runtime/b.go", "package rt\n\nconst limit = 1\n\nvar _ = a{}.f()\n")
	write("runtime/c.go", "package rt\n\nvar _ = func() bool { limit := a{}; return limit.one }()\n")
	write("runtime/c_test.go", "package rt\n\nvar tested struct{ flag bool }\n")
	write("runtime/locktest/d.go", "package locktest\n\ntype D struct{ Flag bool }\n")
	write("runtime/internal/low/e.go", "package low\n\ntype E struct{ Flag bool }\n")
	var out strings.Builder
	require.NoError(t, run(&out, dir))
	require.Equal(t, `
package files lines longest flags passages up cycle
runtime 3 13 5 2 3 1 2
runtime/internal/low 1 3 3 1 0 0 1
all 4 16 5 3 3 1 2
`, "\n"+regexp.MustCompile(` *\n *`).ReplaceAllString(regexp.MustCompile(` +`).ReplaceAllString(strings.TrimLeft(out.String(), " "), " "), "\n"))

	write("runtime/a.go", "package rt\n\nvar a int = \"\"\n")
	require.ErrorContains(t, run(&out, dir), "have errors")
}

// The files of package transport stand in the layers that its documentation lists.
func TestTransport_HasLayers(t *testing.T) {
	t.Parallel()
	all, err := load("../../..", "./runtime/internal/transport")
	require.NoError(t, err)
	require.Len(t, all, 1)
	s, err := measure(all[0])
	require.NoError(t, err)
	require.LessOrEqual(t, s.up, 3, "go run ./runtime/internal/sizes says more")
	require.LessOrEqual(t, s.cycle, 4)
}
