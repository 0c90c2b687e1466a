package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The hash of a module is that of what a checker reads: comments do not change it, everything else does.
func TestSum(t *testing.T) {
	t.Parallel()
	sumOf := func(file, text string) string {
		t.Helper()
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
		r := run{module: file[:len(file)-len(filepath.Ext(file))]}
		if filepath.Ext(file) == ".pml" {
			r.spin = "-DP=2"
		}
		sum, err := r.sum(dir)
		require.NoError(t, err)
		return sum
	}
	const module = "(***)\n(* One. *)\n(***)\nA == 1   \\* a number\n\nB == \"x\"\n"
	require.Equal(t, sumOf("M.tla", module), sumOf("M.tla", "A == 1\n(* Two\n   lines. *)\nB == \"x\" \\* text"))
	require.NotEqual(t, sumOf("M.tla", module), sumOf("M.tla", "A == 2\nB == \"x\"\n"))
	require.NotEqual(t, sumOf("M.tla", module), sumOf("M.tla", "A == 1\n B == \"x\"\n"), "the place of a line matters in TLA+")
	const program = "/* One. */\n#define A 1 /* a number */ \\\n  + 2\n"
	require.Equal(t, sumOf("m.pml", program), sumOf("m.pml", "#define A 1  \\\n  + 2\n/* Two\n * lines. */\n"))
	require.NotEqual(t, sumOf("m.pml", program), sumOf("m.pml", "#define A 1  \\\n  + 3\n"))
}

// The committed results are of the modules as they are.
func TestResults(t *testing.T) {
	t.Parallel()
	have, err := read("../RESULTS.md", "..")
	require.NoError(t, err)
	require.NoError(t, have.complete("RESULTS.md"))
	for _, r := range runs() {
		row, ok := have.rows[r.id()]
		if r.deep || !ok {
			continue
		}
		have.rows[r.id()] = row[:strings.LastIndex(strings.TrimSuffix(row, " |"), "|")] + "| VIOLATED: InvTruth |"
		require.ErrorContains(t, have.complete("RESULTS.md"), "has another result of "+r.file())
		delete(have.rows, r.id())
		require.ErrorContains(t, have.complete("RESULTS.md"), "has no result of "+r.file())
		have.rows[r.id()] = row
	}
}

// A result is of one question: of these properties, bounds and changes.
func TestQuestion(t *testing.T) {
	t.Parallel()
	one := run{module: "Mutex", name: "it", refutes: "InvTruth", changes: edit{{"a", "b"}}}
	have := results{rows: map[string]string{one.id(): one.row("12,345", "refuted: InvTruth")}}
	require.Equal(t, 12345, have.states(one))
	for what, other := range map[string]run{
		"another property":     {module: "Mutex", name: "it", refutes: "InvTruth", changes: one.changes, invariants: "InvWithdrawn"},
		"another change":       {module: "Mutex", name: "it", refutes: "InvTruth", changes: edit{{"a", "c"}}},
		"another refutation":   {module: "Mutex", name: "it", refutes: "InvClaim", changes: one.changes},
		"a property over time": {module: "Mutex", name: "it", refutes: "InvTruth", changes: one.changes, temporal: "Served"},
	} {
		require.Zero(t, have.states(other), what)
	}
	ids := map[string]bool{}
	for _, r := range runs() {
		require.False(t, ids[r.id()], r.id())
		ids[r.id()] = true
	}
}
