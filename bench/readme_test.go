package main

import (
	"os"
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
		after, changed := refresh(string(before), rowsOf(string(results)))
		require.Positive(t, changed, "%s has rows of the results", file)
		require.Equal(t, string(before), after, "%s: run go run . -readme to bring it up to date", file)
	}
}
