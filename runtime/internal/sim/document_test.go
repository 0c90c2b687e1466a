package sim

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDocument writes the figures of docs/SIMULATION.md, from a folder of results if there is one.
func TestDocument(t *testing.T) {
	file := filepath.Join(root(t), "docs", "SIMULATION.md")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	page := string(text)
	for _, name := range []string{"worlds", "mutants"} {
		require.Contains(t, section(t, page, name, ""), "<!-- "+name+" -->")
	}
	if *results == "" {
		return
	}
	sum := tally{Done: map[string]int{}}
	parts, err := filepath.Glob(filepath.Join(*results, "worlds-*.json"))
	require.NoError(t, err)
	for _, part := range parts {
		var x tally
		load(t, part, &x)
		sum.Worlds, sum.Wall, sum.CPU, sum.Virtual = sum.Worlds+x.Worlds, sum.Wall+x.Wall, sum.CPU+x.CPU, sum.Virtual+x.Virtual
		sum.Failed = append(sum.Failed, x.Failed...)
		for what, n := range x.Done {
			sum.Done[what] += n
		}
	}
	if sum.Worlds > 0 {
		page = section(t, page, "worlds", sum.table())
	}
	if caughts, _ := filepath.Glob(filepath.Join(*results, "mutants*.json")); len(caughts) > 0 {
		var b strings.Builder
		b.WriteString("| mutant | file | worlds of | found by seed | as |\n|---|---|---|--:|---|\n")
		for _, part := range caughts {
			var all []caught
			load(t, part, &all)
			for _, c := range all {
				seed := fmt.Sprint(c.Seed)
				if c.Missed {
					seed = "not found"
				}
				_, told, _ := strings.Cut(strings.TrimSpace(c.Told), " ")
				fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", c.Name, c.File, c.Kind, seed, strings.ReplaceAll(told, "|", "/"))
			}
		}
		page = section(t, page, "mutants", b.String())
	}
	require.NoError(t, os.WriteFile(file, []byte(page), 0o644))
}

func load(t *testing.T, file string, into any) {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, into))
}

// table says what worlds came to.
func (x *tally) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| | |\n|---|--:|\n| worlds | %d |\n| of them failed | %d |\n| worlds a second of CPU | %.1f |\n| CPU | %v |\n| virtual time | %.0f h |\n",
		x.Worlds, len(x.Failed), float64(x.Worlds)/x.CPU.Seconds(), x.CPU.Round(time.Second), x.Virtual.Hours())
	for _, what := range slices.Sorted(maps.Keys(x.Done)) {
		fmt.Fprintf(&b, "| %s | %d |\n", what, x.Done[what])
	}
	for _, failed := range x.Failed {
		lines := strings.Split(failed, "\n")
		fmt.Fprintf(&b, "\nFailed: %s %s\n", lines[0], strings.TrimSpace(lines[1]))
	}
	return b.String()
}

// section replaces what stands between the marks of a name.
func section(t *testing.T, page, name, with string) string {
	before, rest, ok := strings.Cut(page, "<!-- "+name+" -->\n")
	require.True(t, ok)
	_, after, ok := strings.Cut(rest, "<!-- end of "+name+" -->")
	require.True(t, ok)
	return before + "<!-- " + name + " -->\n" + with + "<!-- end of " + name + " -->" + after
}
