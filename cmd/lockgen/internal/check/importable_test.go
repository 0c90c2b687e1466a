package check

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Packages below the parent of the last internal in a path may import it.
func TestImportable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path, from string
		want       bool
	}{
		{"m/a", "n", true},
		{"m/internals", "n", true},
		{"m/internal", "m", true},
		{"m/internal", "m/a", true},
		{"m/internal/a", "m/b", true},
		{"m/internal", "n", false},
		{"m/internal/a", "mm", false},
		{"m/internal/y/internal", "m/internal/y", true},
		{"m/internal/y/internal", "m/internal/y/z", true},
		{"m/internal/y/internal", "m/z", false},
		{"m/internal/y/internal/a", "m/z", false},
		{"internal/poll", "m", false},
		{"internal", "m", false},
	} {
		require.Equal(t, c.want, importable(c.path, c.from), "%s from %s", c.path, c.from)
	}
}
