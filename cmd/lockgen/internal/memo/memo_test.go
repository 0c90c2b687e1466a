package memo_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/memo"
)

// home gives the test a cache directory of its own, on any system.
func home(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"XDG_CACHE_HOME", "HOME", "LocalAppData"} {
		t.Setenv(name, dir)
	}
}

func TestMemo(t *testing.T) {
	home(t)
	m := memo.For("dir", "./...")
	require.False(t, m.Has("a"))
	m.Keep("a")
	require.True(t, m.Has("a"))
	require.True(t, memo.For("dir", "./...").Has("a"))
	require.False(t, memo.For("dir", "./x").Has("a"))
	require.False(t, memo.For("dir./...").Has("a"))
	m.Keep("b")
	require.False(t, m.Has("a"))
	m.Keep("")
	require.True(t, m.Has("b"))
	require.False(t, m.Has(""), "what has no fingerprint is never known")
}

func TestMemo_WithoutDirectory(t *testing.T) {
	for _, name := range []string{"XDG_CACHE_HOME", "HOME", "LocalAppData"} {
		t.Setenv(name, "")
	}
	m := memo.For("dir")
	m.Keep("a")
	require.False(t, m.Has("a"))
}

func TestSelf(t *testing.T) {
	t.Parallel()
	name, err := os.Executable()
	require.NoError(t, err)
	require.FileExists(t, name)
	require.Len(t, memo.Self(), 64)
	require.Equal(t, memo.Self(), memo.Self())
}
