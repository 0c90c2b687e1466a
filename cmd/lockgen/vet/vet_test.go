package vet_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/cli"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/synth"
	"github.com/lockgen/lockgen/cmd/lockgen/vet"
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

func TestUnlock(t *testing.T) { run(t, vet.Unlock, "unlock") }

func TestContext(t *testing.T) { run(t, vet.Context, "lockcontext") }

func TestOuter(t *testing.T) { run(t, vet.Outer, "lockouter") }

// What Bound says is said only when it is asked for.
func TestBound(t *testing.T) {
	require.NoError(t, vet.Bound.Flags.Set("warn", "true"))
	run(t, vet.Bound, "lockbound")
	require.NoError(t, vet.Bound.Flags.Set("warn", "false"))
	run(t, vet.Bound, "lockbound/silent")
}

func TestProof(t *testing.T) { run(t, vet.Proof, "lockproof") }

func TestUnwrapped(t *testing.T) {
	run(t, vet.Unwrapped, "unwrapped", "unwrapped/other", "unwrapped/caller")
}

// TestStale generates, changes the input, and looks.
func TestStale(t *testing.T) {
	for name, tt := range map[string]struct{ before, after string }{
		"fresh": {service("order:{id}"), service("order:{id}")},
		"changed": {service("order:{id}"), strings.Replace(service("orders:{id}"), "interface {",
			"interface { // want `a_lockgen.go is not what the directives of this file give: run lockgen`", 1)},
		"missing": {"package a\n", strings.Replace(service("order:{id}"), "interface {",
			"interface { // want `a_lockgen.go is missing: run lockgen`", 1)},
		"mistake": {service("order:{id}"), strings.Replace(service("order:{idd}"), "//lockgen:lock",
			"// want+1 `key path {idd}: no parameter idd; did you mean id\\?`\n\t//lockgen:lock", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			dir := module(t)
			source := filepath.Join(dir, "a.go")
			require.NoError(t, os.WriteFile(source, []byte(tt.before), 0o600))
			require.Zero(t, cli.Main([]string{"-cache=off"}, dir, io.Discard, io.Discard))
			require.NoError(t, os.WriteFile(source, []byte(tt.after), 0o600))
			analysistest.Run(t, dir, vet.Stale, ".")
		})
	}
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
	require.NoError(t, synth.Module(dir, root, "example.com/a"))
	return dir
}
