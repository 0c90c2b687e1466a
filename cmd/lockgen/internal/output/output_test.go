package output_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/output"
	"github.com/lockgen/lockgen/templates"
)

func TestName(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"orders.go":             "orders_lockgen.go",
		"a/b/orders.go":         "a/b/orders_lockgen.go",
		"linux.go":              "linux_lockgen.go",
		"test.go":               "test_lockgen.go",
		"amd64_linux.go":        "amd64_lockgen_linux.go",
		"orders_linux.go":       "orders_lockgen_linux.go",
		"orders_amd64.go":       "orders_lockgen_amd64.go",
		"orders_linux_amd64.go": "orders_lockgen_linux_amd64.go",
		"orders_test.go":        "orders_lockgen_test.go",
		"orders_linux_test.go":  "orders_lockgen_linux_test.go",
		"orders_lockgen.go":     "orders_lockgen_lockgen.go",
		"two_words.go":          "two_words_lockgen.go",
	} {
		require.Equal(t, want, output.Name(source))
		got, ok := output.Source(want)
		require.True(t, ok, want)
		require.Equal(t, source, got)
	}
	for _, name := range []string{"orders.go", "_lockgen.go", "orders_lockgen.txt"} {
		_, ok := output.Source(name)
		require.False(t, ok, name)
	}
}

func TestConstrained(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"orders.go":               false,
		"linux.go":                false,
		"amd64/orders.go":         false,
		"a_linux/orders_test.go":  false,
		"orders_linux.go":         true,
		"orders_linux_amd64.go":   true,
		"orders_amd64_test.go":    true,
		"orders_lockgen_linux.go": true,
	} {
		require.Equal(t, want, output.Constrained(name), name)
	}
}

func TestOurs(t *testing.T) {
	t.Parallel()
	require.True(t, output.Ours([]byte(templates.Header+"\n\npackage a\n")))
	require.True(t, output.Ours([]byte(templates.Header+"\r\n\r\npackage a\r\n")))
	require.True(t, output.Ours([]byte("\ufeff"+templates.Header+"\r\n")))
	require.True(t, output.Ours([]byte("<<<<<<< HEAD\n"+templates.Header+"\n")))
	require.False(t, output.Ours([]byte("package a\n")))
	require.False(t, output.Ours([]byte("package a\n\nconst s = `"+templates.Header+"`\n")))
	require.False(t, output.Ours(nil))
}

func TestIs(t *testing.T) {
	t.Parallel()
	require.True(t, output.Is("a_lockgen.go", []byte(templates.Header+"\n\npackage a\n")))
	require.True(t, output.Is("a_lockgen.go", nil), "a loss of power leaves an empty file")
	require.False(t, output.Is("a_lockgen.go", []byte("package a\n")))
	require.False(t, output.Is("a.go", nil))
	require.False(t, output.Is("a.go", []byte(templates.Header+"\n\npackage a\n")))
}
