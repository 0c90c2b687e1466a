package partial

import (
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// outline is what a file declares, without bodies.
func outline(t *testing.T, src []byte) (string, bool) {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "a.go", src, parser.SkipObjectResolution)
	if err != nil {
		return "", false
	}
	file.Comments = nil
	ast.Inspect(file, func(n ast.Node) bool {
		if fn, ok := n.(*ast.FuncDecl); ok && fn.Body != nil {
			fn.Body.List = nil
		}
		return true
	})
	var out []byte
	for _, decl := range file.Decls {
		out = append(out, fset.Position(decl.Pos()).String()+" "+fset.Position(decl.End()).String()+"\n"...)
	}
	if err := format.Node((*writer)(&out), token.NewFileSet(), file); err != nil {
		return "", false
	}
	return string(out), true
}

type writer []byte

func (w *writer) Write(p []byte) (int, error) {
	*w = append(*w, p...)
	return len(p), nil
}

func TestWithoutBodies(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		"package a\nfunc f() { g() }\nvar x = 1\n":               "package a\nfunc f() {     }\nvar x = 1\n",
		"package a\nfunc (t T) f(x struct{ a int }) {\n\tg()\n}": "package a\nfunc (t T) f(x struct{ a int }) {\n    \n}",
		"package a\nfunc f() struct{ x int } { g() }":            "package a\nfunc f() struct{ x int } {     }",
		"package a\nfunc f() interface{ M() } { g() }":           "package a\nfunc f() interface{ M() } {     }",
		"package a\nfunc f() map[string]struct{} { g() }":        "package a\nfunc f() map[string]struct{} {     }",
		"package a\nfunc f() {\n\ts := `\n}\n`\n\tr := '}'\n}":   "package a\nfunc f() {\n       \n \n \n         \n}",
		"package a\nfunc f() { /* } */ // }\n}\n":                "package a\nfunc f() {             \n}\n",
		"package a\nfunc f() int\nfunc g() { h() }":              "package a\nfunc f() int\nfunc g() {     }",
		"package a\nfunc f() int // x\nvar a = [2]int{1}\n":      "package a\nfunc f() int // x\nvar a = [2]int{1}\n",
		"package a\nfunc f() /*\n*/ type t struct{ a int }\n":    "package a\nfunc f() /*\n*/ type t struct{ a int }\n",
		"package a\nfunc f() // x\nfunc g() { h() }":             "package a\nfunc f() // x\nfunc g() {     }",
		"package a\nfunc f(x int, // {\n\ty int) { g() }":        "package a\nfunc f(x int, // {\n\ty int) {     }",
		"package a\nfunc f[T any](x T) { g() }":                  "package a\nfunc f[T any](x T) {     }",
		"package a\nvar f = func() { g() }\n":                    "package a\nvar f = func() { g() }\n",
		"package a\nfunc f() { \"\\\"}\" }":                      "package a\nfunc f() {       }",
		"package a\nfunc f() func(x struct{}) { g() }":           "package a\nfunc f() func(x struct{}) {     }",
		// Source that is not understood stays.
		"package a\nfunc f( {\n}\n":    "package a\nfunc f( {\n}\n",
		"package a\nfunc f() { ` }":    "package a\nfunc f() { ` }",
		"package a\nfunc f() { \" \n}": "package a\nfunc f() { \" \n}",
		"package a\n}}":                "package a\n}}",
		"":                             "",
	} {
		require.Equal(t, want, string(withoutBodies([]byte(src))))
	}
}

// TestWithoutBodies_StandardLibrary shows that what files declare, and where, is the same.
func TestWithoutBodies_StandardLibrary(t *testing.T) {
	t.Parallel()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	require.NoError(t, err)
	for _, pkg := range []string{"net/http", "reflect", "go/types", "database/sql", "text/template", "fmt", "encoding/json"} {
		names, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(root)), "src", pkg, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, names)
		for _, name := range names {
			src, err := os.ReadFile(name)
			require.NoError(t, err)
			want, ok := outline(t, src)
			require.True(t, ok, name)
			got, ok := outline(t, withoutBodies(src))
			require.True(t, ok, name)
			require.Equal(t, want, got, name)
		}
	}
}

// FuzzWithoutBodies looks for source that declares something else without its bodies.
func FuzzWithoutBodies(f *testing.F) {
	for _, seed := range []string{"func f() struct{} {}", "func f() { if x { } }", "func f(x interface{}) (y struct{ z int }) { `}` }", "/* */ func f() {}", "func f() interface { M() }\n", "func f() // x\nvar a = [2]int{1}", "func f() /*\n*/ type t struct{ a int }"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, decls string) {
		src := []byte("package a\n" + decls)
		want, ok := outline(t, src)
		if !ok {
			return
		}
		got, ok := outline(t, withoutBodies(src))
		require.True(t, ok)
		require.Equal(t, want, got)
	})
}
