package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadme_Figures shows that the figures of the READMEs are those of the results.
func TestReadme_Figures(t *testing.T) {
	t.Parallel()
	results, err := os.ReadFile("RESULTS.md")
	require.NoError(t, err)
	for _, file := range readmes {
		before, err := os.ReadFile(file)
		require.NoError(t, err)
		after, changed := refresh(string(before), string(results))
		require.Positive(t, changed, "%s has rows of the results", file)
		require.Equal(t, string(before), after, "%s: run go run . -readme to bring it up to date", file)
	}
}

// TestLimits_GoalsThatAreMissed shows that docs/limits.md has every goal that the results miss, and no other goals than
// those of the results.
func TestLimits_GoalsThatAreMissed(t *testing.T) {
	t.Parallel()
	results, err := os.ReadFile("RESULTS.md")
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join("..", "docs", "limits.md"))
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(page), "\n## Goals that are missed\n")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n## ")
	goals := goalsOf(string(results))
	var missed, shown []string
	for _, line := range goals {
		if strings.HasSuffix(line, "| **no** |\n") {
			missed = append(missed, line)
		}
	}
	for line := range strings.Lines(section) {
		if _, ok := goalOf(line); ok {
			shown = append(shown, line)
		}
	}
	require.ElementsMatch(t, missed, shown)
	for line := range strings.Lines(string(page)) {
		if goal, ok := goalOf(line); ok {
			require.Contains(t, goals, goal)
		}
	}
}
