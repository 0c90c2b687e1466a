//go:build linux

package chaos

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// document is where the table is.
var document = filepath.Join("..", "..", "CHAOS.md")

// TestTable shows that the document in the repository is about the faults that there are, and that all
// was kept when it was written.
func TestTable(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	parts := parse(string(text))
	for _, h := range headings() {
		var found []string
		for line := range strings.Lines(parts[h]) {
			if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| fault ") {
				found = append(found, line)
			}
		}
		if len(found) == 0 {
			continue // not run yet
		}
		for _, r := range runs {
			if r.heading() != h {
				continue
			}
			require.NotEmpty(t, found, "%s%s", h, r.name)
			require.True(t, strings.HasPrefix(found[0], r.begins()), found[0])
			require.Regexp(t, `\| kept(, \d+ runs)? \|\n$`, found[0])
			found = found[1:]
		}
		require.Empty(t, found, h)
	}
	require.Equal(t, string(text), compose(parts[""], parts), "there are parts that are about nothing")
}
