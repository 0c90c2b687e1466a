package lockrt_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDocumentation_FitsItsBound: a person can read the documentation of the package. The package documentation has the
// rules for several methods once; docs/details.md has the rules that few programs need; package observe has the types
// of programs that watch locks.
func TestDocumentation_FitsItsBound(t *testing.T) {
	t.Parallel()
	const most = 1500
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range files { // the go command knows what a test reads, and not what its children do
		_, err := os.Stat(name)
		require.NoError(t, err)
	}
	out, err := exec.Command("go", "doc", "-all", ".").Output()
	require.NoError(t, err)
	text := string(out)
	require.Contains(t, text, "func Open(ctx context.Context, url string, opts Options) (*Client, error)")
	require.LessOrEqual(t, strings.Count(text, "\n"), most, "lines of go doc -all ./runtime")
}
