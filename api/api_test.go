package main

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNext compares api/next.txt with the code.
func TestNext(t *testing.T) {
	t.Parallel()
	// The go command records the files that a test reads, but not those that its child processes read. The test
	// therefore reads all files that the output depends on; otherwise go test would reuse a stale result from its
	// cache.
	for _, dir := range []string{"../runtime", "../cmd", "../contrib"} {
		require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && filepath.Ext(path) == ".go" {
				_, err = os.Stat(path)
			}
			return err
		}))
	}
	var stdout, stderr strings.Builder
	require.Zero(t, run("..", false, &stdout, &stderr), "%s%s", &stdout, &stderr)
	text, err := os.ReadFile("next.txt")
	require.NoError(t, err)
	require.Contains(t, string(text), "pkg github.com/lockgen/lockgen/runtime, func New(")
	for line := range strings.Lines(string(text)) {
		require.NotContains(t, line, "/internal/", "a program cannot name this type")
	}
}

// TestRun_ShowsDifferences shows that the program prints a change of the code, and the command to
// run.
func TestRun_ShowsDifferences(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write("go.mod", "module github.com/lockgen/lockgen\n\ngo 1.26.0\n")
	write("runtime/a.go", "package lockrt\n\nfunc A() {}\n\nfunc B() {}\n")
	write("cmd/tool/main.go", "package main\n\nfunc Main() {}\n\nfunc main() {}\n")
	write("scripts/s.go", "package scripts\n\nfunc S() {}\n")
	write("runtime/internal/i/i.go", "package i\n\nfunc I() {}\n")
	write("contrib/c/go.mod", "module github.com/lockgen/lockgen/contrib/c\n\ngo 1.26.0\n")
	write("contrib/c/c.go", "package c\n\nfunc C() {}\n")

	var stdout, stderr strings.Builder
	require.Equal(t, 2, run(dir, false, &stdout, &stderr), "there is no file")
	require.Contains(t, stderr.String(), "next.txt")
	write("api/README", "")
	require.Zero(t, run(dir, true, &stdout, &stderr), "%s", &stderr)
	text, err := os.ReadFile(filepath.Join(dir, "api", "next.txt"))
	require.NoError(t, err)
	require.Equal(t, "pkg github.com/lockgen/lockgen/contrib/c, func C()\npkg github.com/lockgen/lockgen/runtime, func A()\npkg github.com/lockgen/lockgen/runtime, func B()\n", string(text))
	stderr.Reset()
	require.Zero(t, run(dir, false, &stdout, &stderr))
	require.Empty(t, stdout.String()+stderr.String())

	write("runtime/a.go", "package lockrt\n\nfunc A() {}\n\nfunc B(n int) {}\n\nfunc C() {}\n")
	require.Equal(t, 1, run(dir, false, &stdout, &stderr))
	const head = "pkg github.com/lockgen/lockgen/runtime, "
	require.Equal(t, "-"+head+"func B()\n+"+head+"func B(int)\n+"+head+"func C()\n", stdout.String())
	require.Contains(t, stderr.String(), "go run ./api -update")

	write("runtime/a.go", "package lockrt\n\nfunc A() { none }\n\nfunc B() missing\n")
	stderr.Reset()
	require.Equal(t, 2, run(dir, false, &stdout, &stderr))
	require.Contains(t, stderr.String(), "missing")
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	const source = `package p

import (
	"context"
	"time"
)

const (
	Small       = 3
	Big   Count = 7
	small       = 1
)

var Err error

type Count int

func (c Count) Next() (next Count, err error) { return }

func Do[K comparable](ctx context.Context, f func(ctx context.Context, k K) (err error), opts ...Option) (done bool) { return }

func undo() {}

type Options struct {
	Wait   time.Duration
	Hook   func(n int)
	hidden int
	Embedded
}

type Embedded struct{}

func (*Embedded) Close() error { return nil }

type base[T any] struct{}

func (base[T]) Lock(ctx context.Context, t T) error { return nil }

type Mutex[K any] struct{ base[K] }

type Option interface {
	Apply(o *Options)
	apply()
}

type Locker interface{ Lock() error }

type Number interface{ ~int | ~int64 }

type Alias = time.Duration

type List []map[string]chan<- *Count
`
	want := `const Big Count = 7
const Small untyped int = 3
func Do[K comparable](context.Context, func(context.Context, K) error, ...Option) bool
method (*Embedded) Close() error
method (*Options) Close() error
method (Count) Next() (Count, error)
method (Mutex[K]) Lock(context.Context, K) error
type Alias = time.Duration
type Count int
type Embedded struct
type List []map[string]chan<- *Count
type Locker interface { Lock }
type Locker interface, Lock() error
type Mutex[K any] struct
type Number interface{~int | ~int64}
type Option interface { Apply, unexported methods }
type Option interface, Apply(*Options)
type Options struct
type Options struct, Hook func(int)
type Options struct, Wait time.Duration
type Options struct, embedded Embedded
var Err error`
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "p.go", source, 0)
	require.NoError(t, err)
	p, err := (&types.Config{Importer: importer.ForCompiler(files, "source", nil)}).Check("example.com/p", files, []*ast.File{file}, nil)
	require.NoError(t, err)
	lines := describe(p)
	slices.Sort(lines)
	for i, line := range lines {
		after, ok := strings.CutPrefix(line, "pkg example.com/p, ")
		require.True(t, ok, line)
		lines[i] = after
	}
	require.Equal(t, want, strings.Join(lines, "\n"))
}

func TestPublic(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		module:                                 true,
		module + "/runtime":                    true,
		module + "/runtime/locktest":           true,
		module + "/cmd/lockgen/vet":            true,
		module + "/runtime/internal/hub":       false,
		module + "/internal":                   false,
		module + "/templates/model":            false,
		module + "/generated_test":             false,
		module + "er/runtime":                  false,
		"example.com/" + module + "/elsewhere": false,
	} {
		require.Equal(t, want, public(path, "p"), path)
		require.False(t, public(path, "main"), path)
	}
}

// TestRun_ComparesWithTheLastRelease shows that the changelog must name everything that the last
// release had and the code has not.
func TestRun_ComparesWithTheLastRelease(t *testing.T) {
	t.Parallel()
	const head = "pkg github.com/lockgen/lockgen/runtime, "
	const next = head + "func A()\n" + head + "func Other()\n" + head + "type T struct\n"
	tests := []struct {
		name, file, release, changelog string
		gone                           string // the output
	}{
		{"the same", "v1.0.0.txt", next, "\n## [Unreleased]\n", ""},
		{"added", "v1.0.0.txt", head + "func A()\n", "\n## [Unreleased]\n", ""},
		{"removed", "v1.0.0.txt", next + head + "func B()\n", "\n## [Unreleased]\n", "-" + head + "func B()\n"},
		{"changed", "v1.0.0.txt", head + "func A(int)\n", "\n## [Unreleased]\n", "-" + head + "func A(int)\n"},
		{"explained", "v1.0.0.txt", next + head + "method (*T) Close() error\n" + head + "func B()\n",
			"\n## [Unreleased]\n\n- `B` and `T.Close` are gone.\n\n## [1.0.0]\n", ""},
		{"explained in another release", "v1.0.0.txt", next + head + "func B()\n", "\n## [Unreleased]\n\n## [1.0.0]\n\n- `B`\n", "-" + head + "func B()\n"},
		{"another name", "v1.0.0.txt", next + head + "func B()\n", "\n## [Unreleased]\n\n- `Big` B\n", "-" + head + "func B()\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, text := range map[string]string{
				"go.mod": "module github.com/lockgen/lockgen\n\ngo 1.26.0\n", "runtime/a.go": "package lockrt\n\nfunc A() {}\n\nfunc Other() {}\n\ntype T struct{}\n",
				"api/next.txt": next, "api/v0.9.12.txt": head + "func Old()\n", "api/" + tt.file: tt.release, "CHANGELOG.md": tt.changelog,
			} {
				file := filepath.Join(dir, filepath.FromSlash(name))
				require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
				require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			}
			var stdout, stderr strings.Builder
			code := run(dir, false, &stdout, &stderr)
			require.Equal(t, tt.gone, stdout.String())
			if tt.gone == "" {
				require.Zero(t, code, "%s", &stderr)
				return
			}
			require.Equal(t, 1, code)
			require.Contains(t, stderr.String(), "CHANGELOG.md")
		})
	}
}

func TestLastRelease(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	last, err := lastRelease(dir)
	require.NoError(t, err)
	require.Empty(t, last, "before the first release")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "api"), 0o755))
	for _, name := range []string{"next.txt", "v0.9.0.txt", "v0.10.0.txt", "v0.2.11.txt"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "api", name), nil, 0o600))
	}
	last, err = lastRelease(dir)
	require.NoError(t, err)
	require.Equal(t, "v0.10.0.txt", filepath.Base(last))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "api", "vnext.txt"), nil, 0o600))
	_, err = lastRelease(dir)
	require.ErrorContains(t, err, "v1.2.3.txt")
}

func TestSubject(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"func New(int) error":                       "New",
		"func For[K any](K)":                        "For",
		"var ErrLost error":                         "ErrLost",
		"const Forever time.Duration = -1":          "Forever",
		"method (*Client) Close() error":            "Client.Close",
		"method (Held[K]) ID() K":                   "Held.ID",
		"type Options struct":                       "Options",
		"type Held[K any] struct":                   "Held",
		"type Options struct, Wait time.Duration":   "Options.Wait",
		"type HeldPermit struct, embedded *Permit":  "HeldPermit.Permit",
		"type Locker interface, Lock(int) error":    "Locker.Lock",
		"type Locker interface { Lock }":            "Locker",
		"type Alias = time.Duration":                "Alias",
		"type Hooks struct, Ended func(a.EndEvent)": "Hooks.Ended",
	} {
		require.Equal(t, want, subject("pkg example.com/p, "+line), line)
	}
}
