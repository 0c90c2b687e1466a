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

// TestTable shows that the document in the repository is about the faults that there are, and says of each whether all was
// kept when it was written.
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
			require.Regexp(t, `\| (kept(, \d+ runs)?|\*\*missed\*\* in \d+ of \d+ runs: .+) \|\n$`, found[0])
			found = found[1:]
		}
		require.Empty(t, found, h)
	}
	require.Equal(t, string(text), compose(parts[""], parts), "there are parts that are about nothing")
}

// TestFaults_AreListed shows that testdata/faults.txt names each fault once, whatever it was tried with: other tests compare what they
// try with it. With -write it is written.
func TestFaults_AreListed(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	listed := map[string]bool{}
	for _, r := range runs {
		where := string(r.topology)
		if r.part != "" {
			where += ", " + r.part
		}
		if line := where + ": " + r.name + "\n"; !listed[line] {
			listed[line] = true
			text.WriteString(line)
		}
	}
	list := filepath.Join("testdata", "faults.txt")
	if *write {
		require.NoError(t, os.MkdirAll(filepath.Dir(list), 0o755))
		require.NoError(t, os.WriteFile(list, []byte(text.String()), 0o644))
	}
	kept, err := os.ReadFile(list)
	require.NoError(t, err)
	require.Equal(t, text.String(), string(kept), "go test ./runtime/internal/chaos -run TestFaults_AreListed -write writes it")
}
