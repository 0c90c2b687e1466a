package main_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/cli"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/directive"
	"github.com/lockgen/lockgen/internal/testmodule"
)

func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
	require.NoError(t, err)
	return string(text)
}

// TestReference shows that the reference has every option of the code, and no other. With -update it is written.
func TestReference(t *testing.T) {
	t.Parallel()
	table, missing := directive.Reference()
	require.Empty(t, missing, "describe these options in internal/directive/reference.go")
	text := document(t, "reference.md")
	head, rest, ok := strings.Cut(text, "-update -->\n")
	require.True(t, ok)
	_, tail, ok := strings.Cut(rest, "<!-- end -->")
	require.True(t, ok)
	want := head + "-update -->\n" + table + "<!-- end -->" + tail
	if *update {
		require.Empty(t, os.Getenv("CI"), "-update is for people")
		require.NoError(t, os.WriteFile(filepath.Join("..", "..", "docs", "reference.md"), []byte(want), 0o644))
		text = want
	}
	require.Equal(t, want, text, "go test ./cmd/lockgen -run TestReference -update")
}

var row = regexp.MustCompile("(?m)^\\| `([a-z]+)` ")

// TestReference_Chinese shows that the Chinese reference has a row for each option, in the same order.
func TestReference_Chinese(t *testing.T) {
	t.Parallel()
	table, _ := directive.Reference()
	_, section, ok := strings.Cut(document(t, filepath.Join("zh", "reference.md")), "\n## 选项\n")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n## ")
	require.Equal(t, row.FindAllString(table, -1), row.FindAllString(section, -1))
}

var file = regexp.MustCompile("(?s)\n`([a-z_/]+\\.go)`:\n\n```go\n(.*?)\n```\n")

// TestGuide shows that the guide's program generates without a word, compiles, tests and all, and that no code in it is left out of that. The mistake on the
// page is one in this program.
func TestGuide(t *testing.T) {
	t.Parallel()
	text := document(t, "generator.md")
	found := file.FindAllStringSubmatch(text, -1)
	require.Equal(t, strings.Count(text, "```go\n"), len(found), "name the file of each block in the line above: `a.go`:")
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, testmodule.Write(dir, root, module))
	for _, m := range found {
		name := filepath.Join(dir, m[1])
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(m[2]+"\n"), 0o600))
	}
	var stdout, stderr strings.Builder
	require.Zero(t, cli.Main([]string{"-cache=off", "-strict", "./..."}, dir, &stdout, &stderr), "%s", &stderr)
	require.Empty(t, stderr.String())
	require.NoError(t, newTypeChecker(t, root).check(dir))

	_, message, ok := strings.Cut(text, "\n```\norders.go:")
	require.True(t, ok)
	message, _, _ = strings.Cut(message, "\n```")
	name := filepath.Join(dir, "orders", "orders.go")
	right, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, bytes.Replace(right, []byte("{o.ID}"), []byte("{o.Id}"), 1), 0o600))
	require.NotZero(t, cli.Main([]string{"-cache=off", "."}, filepath.Dir(name), &stdout, &stderr))
	require.Contains(t, stderr.String(), "orders.go:"+message)
}

// TestMistakes shows that the messages on the page are what the tool says somewhere.
func TestMistakes(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	var said strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		said.Write(text)
	}
	source, err := os.ReadFile("internal/write/write.go")
	require.NoError(t, err)
	said.Write(source)
	blocks := regexp.MustCompile("(?s)```\n(.*?)\n```").FindAllStringSubmatch(document(t, "mistakes.md"), -1)
	require.Greater(t, len(blocks), 15)
	for _, block := range blocks {
		require.True(t, strings.Contains(said.String(), block[1]), "no scenario has: %s", block[1])
	}
}
