package examples_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFresh generates the wrappers of the examples again, in memory, and compares them with what is committed.
func TestFresh(t *testing.T) {
	t.Parallel()
	// The go command records the files that a test reads, but not those that its child processes read. The test
	// therefore reads all files that the output depends on; otherwise go test would reuse a stale result from its
	// cache.
	for _, dir := range []string{"../cmd/lockgen", "../templates", "."} {
		require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				_, err = os.Stat(path)
			}
			return err
		}))
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "go", "run", "../cmd/lockgen", "-check", "./...")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Run(), "run make generate; the difference is\n%s%s", stdout.String(), stderr.String())
	require.Empty(t, stdout.String())
}
