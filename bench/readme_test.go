package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPages_Figures shows that the figures of the READMEs and the docs are those of the results.
func TestPages_Figures(t *testing.T) {
	t.Parallel()
	results, err := os.ReadFile("RESULTS.md")
	require.NoError(t, err)
	for _, p := range pages {
		before, err := os.ReadFile(p.file)
		require.NoError(t, err)
		after, rows := p.refresh(string(before), string(results))
		require.Positive(t, rows, "%s has rows of the results", p.file)
		require.Equal(t, string(before), after, "%s: run go run . -readme to bring it up to date", p.file)
		require.Contains(t, string(before), p.behind)
	}
}

// TestLimits_GoalsThatAreMissed shows that docs/limits.md has every goal that the results miss, and no other goals than
// those of the results.
func TestLimits_GoalsThatAreMissed(t *testing.T) {
	t.Parallel()
	results, err := os.ReadFile("RESULTS.md")
	require.NoError(t, err)
	for _, p := range pages {
		if p.missed == "" {
			continue
		}
		page, err := os.ReadFile(p.file)
		require.NoError(t, err)
		_, section, ok := strings.Cut(string(page), "\n"+p.missed+"\n")
		require.True(t, ok)
		section, _, _ = strings.Cut(section, "\n## ")
		require.ElementsMatch(t, goalLines(string(results), missed), goalLines(section, nil))
		require.Subset(t, goalLines(string(results), nil), goalLines(string(page), nil))
	}
}

// goalLines returns the rows of tables of goals, of those that fit.
func goalLines(text string, fits func(line string) bool) []string {
	var goals []string
	for line := range strings.Lines(text) {
		if _, ok := goalOf(line); ok && (fits == nil || fits(line)) {
			goals = append(goals, line)
		}
	}
	return goals
}

// TestPages_NewResults shows that a page follows results with other goals and scenarios, and that they then stay.
func TestPages_NewResults(t *testing.T) {
	t.Parallel()
	text := made(t).markdown(nil)
	for _, p := range pages {
		before, err := os.ReadFile(p.file)
		require.NoError(t, err)
		after, _ := p.refresh(string(before), text)
		again, _ := p.refresh(after, text)
		require.Equal(t, after, again)
		require.Contains(t, after, "bench/RESULTS.md#s17) | ", p.file)
		if p.missed == "" {
			require.Contains(t, after, "`WithLinger` | ")
			require.Regexp(t, p.behind+"S.*S3, 100; ", after)
			continue
		}
		_, section, _ := strings.Cut(after, "\n"+p.missed+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		require.ElementsMatch(t, goalLines(text, missed), goalLines(section, nil))
		require.Subset(t, goalLines(text, nil), goalLines(after, nil), "no goal of earlier results stays")
		for _, s := range allScenarios() {
			require.Contains(t, after, "| ["+s.name()+"](", p.file)
		}
	}
}
