package sim

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
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
	for _, name := range []string{"worlds", "runs", "mutants"} {
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
		if sum.Worlds == 0 || x.From < sum.From {
			sum.From = x.From
		}
		sum.Worlds, sum.Wall, sum.CPU, sum.Virtual = sum.Worlds+x.Worlds, sum.Wall+x.Wall, sum.CPU+x.CPU, sum.Virtual+x.Virtual
		sum.Failed = append(sum.Failed, x.Failed...)
		for what, n := range x.Done {
			sum.Done[what] += n
		}
	}
	if sum.Worlds > 0 {
		page = section(t, page, "worlds", sum.table())
		page = section(t, page, "runs", between(t, page, "runs")+sum.row(time.Now().UTC()))
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
	fmt.Fprintf(&b, "| | |\n|---|--:|\n| seeds | %s |\n| worlds | %d |\n| of them failed | %d |\n| worlds a second of CPU | %.1f |\n| CPU | %v |\n| virtual time | %.0f h |\n",
		x.seeds(), x.Worlds, len(x.Failed), float64(x.Worlds)/x.CPU.Seconds(), x.CPU.Round(time.Second), x.Virtual.Hours())
	for _, what := range slices.Sorted(maps.Keys(x.Done)) {
		fmt.Fprintf(&b, "| %s | %d |\n", what, x.Done[what])
	}
	for _, failed := range x.Failed {
		lines := strings.Split(failed, "\n")
		fmt.Fprintf(&b, "\nFailed: %s %s\n", lines[0], strings.TrimSpace(lines[1]))
	}
	return b.String()
}

// seeds names the seeds of worlds.
func (x *tally) seeds() string { return fmt.Sprintf("%d to %d", x.From, x.From+uint64(x.Worlds)-1) }

var failedSeed = regexp.MustCompile(`^seed (\d+) `)

// row says in a line what worlds came to, and which of them failed.
func (x *tally) row(when time.Time) string {
	var failed []string
	for _, said := range x.Failed {
		failed = append(failed, failedSeed.FindStringSubmatch(said)[1])
	}
	return fmt.Sprintf("| %s | %s | %.0f h | %d | %s |\n", when.Format(time.DateOnly), x.seeds(), x.Virtual.Hours(), len(failed), strings.Join(failed, ", "))
}

// TestDocument_Runs adds a run to those before it.
func TestDocument_Runs(t *testing.T) {
	const page = "head\n<!-- runs -->\n| 2026-01-01 | 1 to 9 | 3 h | 0 |  |\n<!-- end of runs -->\nfoot\n"
	x := tally{From: 10, Worlds: 20, Virtual: 7 * time.Hour, Failed: []string{"seed 12 (mutex):\n  bad", "seed 27 (rw):\n  worse"}}
	row := x.row(time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC))
	require.Equal(t, "| 2026-02-03 | 10 to 29 | 7 h | 2 | 12, 27 |\n", row)
	require.Contains(t, section(t, page, "runs", between(t, page, "runs")+row), "0 |  |\n| 2026-02-03 | 10 to 29 ")
	require.Contains(t, x.table(), "| seeds | 10 to 29 |\n| worlds | 20 |\n| of them failed | 2 |\n")
}

// between returns what stands between the marks of a name.
func between(t *testing.T, page, name string) string {
	_, rest, ok := strings.Cut(page, "<!-- "+name+" -->\n")
	require.True(t, ok)
	text, _, ok := strings.Cut(rest, "<!-- end of "+name+" -->")
	require.True(t, ok)
	return text
}

// section replaces what stands between the marks of a name.
func section(t *testing.T, page, name, with string) string {
	before, rest, ok := strings.Cut(page, "<!-- "+name+" -->\n")
	require.True(t, ok)
	_, after, ok := strings.Cut(rest, "<!-- end of "+name+" -->")
	require.True(t, ok)
	return before + "<!-- " + name + " -->\n" + with + "<!-- end of " + name + " -->" + after
}
