package memo_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/memo"
)

// home gives the test its own cache directory, on any system.
func home(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"XDG_CACHE_HOME", "HOME", "LocalAppData"} {
		t.Setenv(name, dir)
	}
}

func TestMemo(t *testing.T) {
	home(t)
	m := memo.ForCall("dir", "./...")
	found := func(m memo.Memo, fingerprint string) bool {
		_, ok := m.Find(fingerprint)
		return ok
	}
	require.False(t, found(m, "a"))
	m.Keep("a", "one\ntwo")
	said, ok := m.Find("a")
	require.True(t, ok)
	require.Equal(t, "one\ntwo", said, "with what the run said")
	require.True(t, found(memo.ForCall("dir", "./..."), "a"))
	require.False(t, found(memo.ForCall("dir", "./x"), "a"))
	require.False(t, found(memo.ForCall("dir./..."), "a"))
	m.Keep("b", "")
	require.False(t, found(m, "a"))
	m.Keep("", "")
	require.True(t, found(m, "b"))
	require.False(t, found(m, ""), "what has no fingerprint is never known")
	require.False(t, found(memo.ForPackage("dir", "./..."), "b"), "a package is no call")
}

func TestMemo_WithoutDirectory(t *testing.T) {
	for _, name := range []string{"XDG_CACHE_HOME", "HOME", "LocalAppData"} {
		t.Setenv(name, "")
	}
	m := memo.ForCall("dir")
	m.Keep("a", "")
	_, ok := m.Find("a")
	require.False(t, ok)
}

func TestSelf(t *testing.T) {
	t.Parallel()
	name, err := os.Executable()
	require.NoError(t, err)
	require.FileExists(t, name)
	require.Len(t, memo.Self(), 64)
	require.Equal(t, memo.Self(), memo.Self())
}
