package diag_test

import (
	"bytes"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/diag"
)

func TestList_PrintsSortedWithCaret(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "a.go")
	src := "package a\r\n\t\tfoo\tbär(x)\r\n\ufeffend\n"
	require.NoError(t, os.WriteFile(name, []byte(src), 0o600))

	l := diag.New(token.NewFileSet())
	l.AddAt(token.Position{Filename: name, Line: 2, Column: 7}, 4, "second")
	l.AddAt(token.Position{Filename: name, Line: 1, Column: 9}, 99, "first")
	l.AddAt(token.Position{Filename: name, Line: 1, Column: 9}, 99, "first")
	l.AddAt(token.Position{Filename: name, Line: 77, Column: 1}, 1, "beyond the end")
	l.AddAt(token.Position{}, 0, "nowhere")

	var out bytes.Buffer
	require.NoError(t, l.Print(&out, dir))
	require.Equal(t, `nowhere
a.go:1:9: first
	package a
	        ^
a.go:2:7: second
	foo	bär(x)
	   	^^^
a.go:77:1: beyond the end
`, out.String())
}

// TestList_Excerpt: the caret stands below the place in letters of every width, and of a long line there is what is around it.
func TestList_Excerpt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ line, mark, want string }{
		{"\t//lockgen：lock key=a", "key", "//lockgen：lock key=a\n\t                ^^^"},
		{"{注文.番号}", "番号", "{注文.番号}\n\t      ^^^^"},
		{"{👍}:🦊{x}", "{x}", "{👍}:🦊{x}\n\t       ^^^"},
		{"cafe\u0301 {x}", "{x}", "cafe\u0301 {x}\n\t     ^^^"},
		{"ab" + strings.Repeat("c", 300) + "<x>" + strings.Repeat("d", 300), "<x>", "..." + strings.Repeat("c", 66) + "<x>" + strings.Repeat("d", 66) + "...\n\t" + strings.Repeat(" ", 69) + "^^^"},
		{"<" + strings.Repeat("é", 300) + ">", strings.Repeat("é", 300), "<" + strings.Repeat("é", 33) + "...\n\t " + strings.Repeat("^", 36)},
	} {
		name := filepath.Join(t.TempDir(), "a.go")
		require.NoError(t, os.WriteFile(name, []byte(tt.line), 0o600))
		l := diag.New(token.NewFileSet())
		l.AddAt(token.Position{Filename: name, Line: 1, Column: 1 + strings.Index(tt.line, tt.mark)}, len(tt.mark), "m")
		var out bytes.Buffer
		require.NoError(t, l.Print(&out, "/"))
		_, excerpt, _ := strings.Cut(out.String(), "m\n\t")
		require.Equal(t, tt.want+"\n", excerpt)
	}
}

func TestRelative(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a/b.go", diag.Relative("/x", "/x/a/b.go"))
	require.Equal(t, "/y/b.go", diag.Relative("/x", "/y/b.go"))
}

func TestNearest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		from []string
		want string
	}{
		{"lok", []string{"locks", "lock", "nolock"}, "lock"},
		{"Id", []string{"Owner", "ID"}, "ID"},
		{"wiat", []string{"wait", "watchdog"}, "wait"},
		{"x", []string{"o", "ctx"}, ""},
		{"ordr", []string{"order"}, "order"},
		{"zzzzz", []string{"wait"}, ""},
	} {
		require.Equal(t, tt.want, diag.Nearest(tt.name, tt.from), tt.name)
	}
}
