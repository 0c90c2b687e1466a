//go:build linux

package chaos

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTable shows that the document in the repository is about the faults that there are, and that all
// was kept when it was written.
func TestTable(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "CHAOS.md"))
	require.NoError(t, err)
	var found []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| fault ") {
			found = append(found, line)
		}
	}
	require.Len(t, found, len(rows))
	for i, r := range rows {
		require.True(t, strings.HasPrefix(found[i], "| "+r.name+" | "+r.must+" |"), found[i])
		require.True(t, strings.HasSuffix(found[i], "| kept |\n"), found[i])
	}
}
