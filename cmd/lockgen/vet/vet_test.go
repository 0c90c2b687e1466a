package vet_test

import (
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/cli"
	"github.com/lockgen/lockgen/cmd/lockgen/vet"
	"github.com/lockgen/lockgen/internal/testmodule"
	"github.com/lockgen/lockgen/templates"
)

// run analyses packages below testdata, which have the real runtime.
func run(t *testing.T, a *analysis.Analyzer, packages ...string) {
	t.Helper()
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	for i, p := range packages {
		packages[i] = "./cmd/lockgen/vet/testdata/" + p
	}
	analysistest.Run(t, root, a, packages...)
}

// each has the analyzer of a folder of testdata.
var each = map[string]*analysis.Analyzer{
	"unlock":      vet.Unlock,
	"lockcontext": vet.Context,
	"lockouter":   vet.Outer,
	"lockbound":   vet.Bound,
	"lockproof":   vet.Proof,
}

// TestEach has each analyzer look at its folder. They are one analyzer for that, since most of the time goes into reading what the
// folders import.
func TestEach(t *testing.T) {
	one := &analysis.Analyzer{Name: "each", Doc: "each runs the analyzer of a folder", Run: func(pass *analysis.Pass) (any, error) {
		if a := each[path.Base(pass.Pkg.Path())]; a != nil && strings.Contains(pass.Pkg.Path(), "/testdata/") {
			return a.Run(pass)
		}
		return nil, nil
	}}
	for _, a := range each {
		require.Empty(t, a.FactTypes)
		require.Nil(t, a.ResultType)
		for _, required := range a.Requires {
			if !slices.Contains(one.Requires, required) {
				one.Requires = append(one.Requires, required)
			}
		}
	}
	// Bound reports only with its flag.
	require.NoError(t, vet.Bound.Flags.Set("warn", "true"))
	defer func() { require.NoError(t, vet.Bound.Flags.Set("warn", "false")) }()
	run(t, one, slices.Collect(maps.Keys(each))...)
}

func TestBound_Silent(t *testing.T) { run(t, vet.Bound, "lockbound/silent") }

func TestUnwrapped(t *testing.T) {
	run(t, vet.Unwrapped, "unwrapped", "unwrapped/other", "unwrapped/cache", "unwrapped/caller")
}

// TestStale generates, changes the input, and looks.
func TestStale(t *testing.T) {
	dir := module(t)
	packages := map[string]struct{ before, after string }{
		"fresh": {service("order:{id}"), service("order:{id}")},
		"changed": {service("bill:{id}"), strings.Replace(service("bills:{id}"), "interface {",
			"interface { // want `a_lockgen.go is not what the directives of this file give: run lockgen`", 1)},
		"missing": {"package a\n", strings.Replace(service("cart:{id}"), "interface {",
			"interface { // want `a_lockgen.go is missing: run lockgen`", 1)},
		"mistake": {service("shelf:{id}"), strings.Replace(service("shelf:{idd}"), "//lockgen:lock",
			"// want+1 `key path {idd}: no parameter idd; did you mean id\\?`\n\t//lockgen:lock", 1)},
	}
	for name, tt := range packages {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name, "a.go"), []byte(tt.before), 0o600))
	}
	require.Zero(t, cli.Main([]string{"-cache=off", "./..."}, dir, io.Discard, io.Discard))
	for name, tt := range packages {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name, "a.go"), []byte(tt.after), 0o600))
	}
	analysistest.Run(t, dir, vet.Stale, "./...")
}

// TestStale_Orphan looks at an output whose source lost its directives.
func TestStale_Orphan(t *testing.T) {
	dir := module(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.go"), []byte("package a\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a_lockgen.go"),
		[]byte(templates.Header+"\n\npackage a // want `a_lockgen.go comes from directives that are gone: run lockgen`\n"), 0o600))
	analysistest.Run(t, dir, vet.Stale, ".")
}

func service(key string) string {
	return "package a\n\nimport \"context\"\n\n//lockgen:service\ntype Service interface {\n\t//lockgen:lock key=" + key +
		"\n\tPay(ctx context.Context, id int) error\n}\n"
}

// module makes a module that requires what this one does, and this one.
func module(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, testmodule.Write(dir, root, "example.com/a"))
	return dir
}
