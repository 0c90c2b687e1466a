package check_test

import (
	"errors"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/check"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/diag"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/directive"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/load"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/survey"
	"github.com/lockgen/lockgen/templates"
)

// FuzzFile reads any file, the sources of all scenarios first: nothing panics, and what nobody has called a mistake can be written.
func FuzzFile(f *testing.F) {
	archives, err := filepath.Glob("../../testdata/*.txtar")
	require.NoError(f, err)
	require.NotEmpty(f, archives)
	for _, name := range archives {
		archive, err := txtar.ParseFile(name)
		require.NoError(f, err)
		for _, file := range archive.Files {
			if strings.HasSuffix(file.Name, ".go") && !strings.Contains(file.Name, "_lockgen") {
				f.Add(string(file.Data))
			}
		}
	}
	for _, comment := range comments {
		f.Add("package a\n\nimport \"context\"\n\n//lockgen:service\ntype S interface {\n\t" + comment + "\n\tA(ctx context.Context, id string) error\n}\n")
	}
	for _, space := range []string{"\f", "\v", "\t", "\r", "\u00a0"} { // to some a space, to gofmt the end of a line or of a cell
		for place := range strings.Count(spaced, "_") {
			before, after := cut(spaced, place)
			f.Add(strings.ReplaceAll(before+space+after, "_", ""))
		}
	}
	g := generating(f)
	f.Fuzz(func(t *testing.T, src string) { g.file(t, src) })
}

// spaced has a mark at each place where the output may repeat a space of its source.
const spaced = `//go:build _linux || !linux

// a_b
package a

import "context"

// S_is
//
//	_a
//
//lockgen:service _wait=1s
type S interface {
	// A_does_
	//lockgen:lock key=a_:{id}_ "wait=_2s"
	A(ctx context.Context, id string) error //_
}
`

// cut returns what is before and after one mark.
func cut(s string, mark int) (before, after string) {
	for range mark {
		part, rest, _ := strings.Cut(s, "_")
		before, s = before+part, rest
	}
	part, after, _ := strings.Cut(s, "_")
	return before + part, after
}

// comments are directives, right and wrong.
var comments = []string{
	"//lockgen:lock key=a:{id}", "//lockgen:lock key=a:{id...} max=3 empty=allow", "//lockgen:lock key={{id}}:x kind=permit permits=2", "//lockgen:lock key=@key fence",
	"//lockgen:lock key=a wait=0 busy=skip release=keep lease=1s", "//lockgen:lock \"key=a:{o.Owner.Name()}\" after=b:{}", "//lockgen:lock key=a:{o.At.Unix()} scope=close",
	"//lockgen:lock key=a:{o.Tags...} kind=red", "//lockgen:lock key=a:{o.Next.Next.ID} kind=read", "//lockgen:nolock", "//lockgen:lock key=a:{t}", "//lockgen:lock key=a:{f.X}",
	"//lockgen:lock key=\u00a0{id}", "// lockgen:lock key = a", "//lockgen:lock key=a:{id.LockKey()} ctx=c", "//lockgen:lock key=a min=1s lost=report", "//lockgen",
}

// FuzzDirective puts any comment above a method of any signature, where there are types of many kinds to name.
func FuzzDirective(f *testing.F) {
	for _, comment := range comments {
		for _, signature := range []string{
			"(ctx context.Context, id string) error", "(ctx context.Context, o *Order, ids ...ID) (io.ReadCloser, error)", "(c context.Context, t T, f func())",
			"(context.Context, [2]Order, struct{ time.Time }) (res iter.Seq[T], err error)",
		} {
			f.Add(comment, signature)
		}
	}
	const head = `package a

import (
	"context"
	"io"
	"iter"
	"time"
)

type ID string

func (i ID) LockKey() string { return string(i) }

type Order struct {
	ID    ID
	Next  *Order
	Owner interface{ Name() string }
	At    time.Time
	Tags  []string
	Hash  [4]byte
	Fails func() error
	io.Reader
	*embedded
}

type embedded struct{ X any }

func (e *embedded) Number() (int, error) { return 0, nil }

func key(id string, ids ...ID) string { return id }

`
	g := generating(f)
	f.Fuzz(func(t *testing.T, comment, signature string) {
		if strings.Contains(comment, "\n") || strings.Contains(signature, "\n") {
			return
		}
		for _, kind := range []string{"//lockgen:service wait=3s\ntype S[T ~string | ~int] interface {\n\t", "//lockgen:locks prefix=p\ntype S[T any] interface {\n\t"} {
			g.file(t, head+kind+comment+"\n\tA"+signature+"\n}\n")
		}
	})
}

// A generation does in memory what a run does.
type generation struct {
	fset    *token.FileSet
	imports types.Importer
}

func generating(f *testing.F) *generation {
	files, err := exports()
	require.NoError(f, err)
	g := &generation{fset: token.NewFileSet()}
	g.imports = importer.ForCompiler(g.fset, "gc", func(path string) (io.ReadCloser, error) {
		if files[path] == "" {
			return nil, errors.New("no such package")
		}
		return os.Open(files[path])
	})
	return g
}

func (g *generation) file(t *testing.T, src string) {
	fset := g.fset
	file, err := parser.ParseFile(fset, "a.go", src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return // which a run says, and goes no further
	}
	list := diag.New(fset)
	pkg := &load.Package{
		Path:     "example.com/a",
		Name:     file.Name.Name,
		Info:     &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}},
		Declared: map[string]token.Pos{},
		Syntax:   []*ast.File{file},
	}
	d := directive.Collect(list, file)
	if d.None() {
		return
	}
	require.True(t, directive.Mentioned([]byte(src)), src)
	cfg := &types.Config{
		Importer: g.imports, IgnoreFuncBodies: true, FakeImportC: true, Sizes: types.SizesFor("gc", runtime.GOARCH),
		Error: func(err error) {
			var e types.Error
			if errors.As(err, &e) {
				pkg.Errors = append(pkg.Errors, e)
			}
		},
	}
	pkg.Types, _ = cfg.Check(pkg.Path, fset, pkg.Syntax, pkg.Info)
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil {
				pkg.Declared[decl.Name.Name] = decl.Name.Pos()
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					pkg.Declared[spec.Name.Name] = spec.Name.Pos()
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						pkg.Declared[name.Name] = name.Pos()
					}
				}
			}
		}
	}
	names := map[string]string{}
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		require.NoError(t, err)
		name := path[strings.LastIndex(path, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name != "." && name != "_" {
			names[name] = path
		}
	}
	pkg.Files = []*load.File{{Name: "a.go", Syntax: file, Directives: d, Imports: names, Wrong: list.Len() > 0}}
	outputs := check.Package(list, pkg, build.Default)
	var uses []check.Use
	for _, out := range outputs {
		uses = append(uses, out.Uses...)
	}
	all := survey.New(list, ".", uses, func(string, string) bool { return true })
	all.Check()
	for _, d := range list.Sorted() {
		require.NotEmpty(t, d.Message, src)
		require.True(t, d.Pos.IsValid(), "%s\n%s", d.Message, src)
	}
	require.NoError(t, list.Print(io.Discard, "."))
	if list.Len() > 0 {
		return
	}
	require.NoError(t, all.Table(io.Discard))
	require.NoError(t, all.Mermaid(io.Discard))
	for _, out := range outputs {
		text, err := templates.Render(out.Model)
		require.NoError(t, err, src)
		made, err := parser.ParseFile(fset, "a_lockgen.go", text, parser.SkipObjectResolution)
		require.NoError(t, err, "%s\n%s", src, text)
		if len(pkg.Errors) == 0 {
			whole := &types.Config{Importer: g.imports, FakeImportC: true, Error: func(err error) {
				var e types.Error
				if errors.As(err, &e) && fset.PositionFor(e.Pos, false).Filename == "a_lockgen.go" {
					t.Errorf("%v\n%s\n%s", err, src, text)
				}
			}}
			_, _ = whole.Check(pkg.Path, fset, []*ast.File{file, made}, nil)
		}
	}
}
