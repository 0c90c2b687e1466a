package main_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/cli"
	"github.com/lockgen/lockgen/internal/testmodule"
)

// TestLongInput: lines that are longer than the buffers of line readers, and interfaces that are larger than those that people write.
func TestLongInput(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, testmodule.Write(dir, root, module))
	const many = 2000
	var src strings.Builder
	fmt.Fprintf(&src, "package shop\n\nimport \"context\"\n\n// %s\n\n//lockgen:service\ntype Wide interface {\n\t// %[1]s\n\t//\n", strings.Repeat("long ", 20_000))
	src.WriteString("\t//lockgen:lock key=wide:{p1999}\n\tWide(ctx context.Context")
	for i := range many {
		fmt.Fprintf(&src, ", p%d, %s%d string", i, strings.Repeat("q", 20), i)
	}
	src.WriteString(") error\n}\n\n//lockgen:service\ntype High interface {\n")
	for i := range many {
		fmt.Fprintf(&src, "\t//lockgen:lock key=high%d:{id}\n\tM%d(ctx context.Context, id string) (int, error)\n", i, i)
	}
	src.WriteString("}\n")
	source := filepath.Join(dir, "a.go")
	require.NoError(t, os.WriteFile(source, []byte(src.String()), 0o600))
	var stderr bytes.Buffer
	require.Zero(t, cli.Main([]string{"-cache=off"}, dir, io.Discard, &stderr), stderr.String())
	require.Empty(t, stderr.String())
	require.NoError(t, newTypeChecker(t, root).check(dir))

	// A mistake in such a line is shown with what is around it.
	require.NoError(t, os.WriteFile(source, []byte(strings.Replace(src.String(), "key=wide:{p1999}", "key=wide:{p2000} max=1"+strings.Repeat(" ", 70_000)+"wait=x", 1)), 0o600))
	require.Equal(t, 1, cli.Main([]string{"-cache=off"}, dir, io.Discard, &stderr))
	for line := range strings.Lines(stderr.String()) {
		require.Less(t, len(line), 1000)
	}

	// Letters that are none are a mistake of the file, with its place.
	stderr.Reset()
	require.NoError(t, os.WriteFile(source, []byte("package shop\n\n//lockgen:service\ntype S interface {\n\t//lockgen:lock key=a:{\xff} wait=1s\n\tA(\xff\xfe string) error\n}\n"), 0o600))
	require.Equal(t, 1, cli.Main([]string{"-cache=off"}, dir, io.Discard, &stderr))
	require.Contains(t, stderr.String(), "a.go:5:24: illegal UTF-8 encoding\n")
	require.Contains(t, stderr.String(), "a.go:6:4: illegal UTF-8 encoding\n")
}
