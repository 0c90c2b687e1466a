package check_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/format"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/check"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/diag"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/directive"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/load"
	"github.com/lockgen/lockgen/templates"
)

// exports finds the compiled form of what random interfaces mention, once for all tests.
var exports = sync.OnceValues(func() (map[string]string, error) {
	cfg := &packages.Config{Mode: packages.NeedName | packages.NeedExportFile | packages.NeedDeps | packages.NeedImports}
	pkgs, err := packages.Load(cfg, "github.com/lockgen/lockgen/runtime", "github.com/lockgen/lockgen/runtime/gen", "text/template", "html/template", "io", "iter", "net/http", "database/sql", "math/big", "net/netip", "time")
	files := map[string]string{}
	packages.Visit(pkgs, nil, func(p *packages.Package) { files[p.PkgPath] = p.ExportFile })
	return files, err
})

// FuzzOutputCompiles makes interfaces out of names and types that are likely to be in the way, generates, and type-checks the result.
func FuzzOutputCompiles(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed)
	}
	files, err := exports()
	require.NoError(f, err)
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
	var layouts templates.Layouts
	f.Fuzz(func(t *testing.T, seed uint64) {
		src := (&generator{Rand: rand.New(rand.NewPCG(seed, 0))}).file()

		list := diag.New(fset)
		outputs := check.Package(list, loadSource(t, list, imports, src), build.Default)
		require.Empty(t, list.Sorted(), src)
		require.Len(t, outputs, 1, src)
		out, err := templates.Render(outputs[0].Model)
		require.NoError(t, err, src)

		again, err := layouts.Render(outputs[0].Model)
		require.NoError(t, err)
		require.True(t, bytes.Equal(out, again), "the same model gives the same bytes, whatever was written before")
		formatted, err := format.Source(out)
		require.NoError(t, err)
		require.Equal(t, string(formatted), string(out))

		var parsed []*ast.File
		for name, src := range map[string]string{"a.go": src, "a_lockgen.go": string(out)} {
			file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
			require.NoError(t, err, src)
			parsed = append(parsed, file)
		}
		_, err = (&types.Config{Importer: imports}).Check("example.com/a", fset, parsed, nil)
		require.NoError(t, err, "%s\n%s", src, out)
	})
}

// loadSource does what package load does, for one file in memory.
func loadSource(t *testing.T, list *diag.List, imports types.Importer, src string) *load.Package {
	file, err := parser.ParseFile(list.Fset(), "a.go", src, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err, src)
	pkg := &load.Package{
		Path:     "example.com/a",
		Name:     file.Name.Name,
		Info:     &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}},
		Declared: map[string]token.Pos{},
		Syntax:   []*ast.File{file},
	}
	pkg.Types, err = (&types.Config{Importer: imports}).Check(pkg.Path, list.Fset(), pkg.Syntax, pkg.Info)
	require.NoError(t, err, src)
	for _, name := range pkg.Types.Scope().Names() {
		pkg.Declared[name] = pkg.Types.Scope().Lookup(name).Pos()
	}
	names := map[string]string{}
	for _, spec := range file.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		name := path[strings.LastIndex(path, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = path
	}
	pkg.Files = []*load.File{{Name: "a.go", Syntax: file, Directives: directive.Collect(list, file), Imports: names}}
	return pkg
}

// A generator makes random sources.
type generator struct {
	*rand.Rand

	fn   string // a function that makes a key
	open string // a type parameter that a key can be made of
}

// nasty are names that generated code uses itself, or could.
var nasty = []string{
	"s", "l", "b", "c", "key", "keys", "held", "err", "err1", "ctx", "ctx1", "res", "res0", "res1", "next", "locks", "lockrt", "lockrt1", "gen", "gen1", "errors", "time",
	"context", "context1", "template", "nil", "append", "make", "byte", "string", "error", "len", "true", "any", "int", "p0", "p1", "k", "v", "T", "K",
	"ServiceKeys", "OuterKeys", "LockedService", "NewLockedService", "lockServiceM0", "lockServiceM1", "order", "Order", "id", "label", "iota", "new", "String", "_",
}

func pick[T any](g *generator, from []T) T { return from[g.IntN(len(from))] }

// file makes a source with one interface.
func (g *generator) file() string {
	var b strings.Builder
	alias := pick(g, []string{"", "", "ctx ", "errors ", "lockrt ", "key "})
	context := strings.TrimSpace(alias)
	if context == "" {
		context = "context"
	}
	fmt.Fprintf(&b, "package %s\n\nimport (\n\t%s\"context\"\n\thtml \"html/template\"\n\t\"io\"\n\t\"iter\"\n\t\"text/template\"\n\n\trt \"github.com/lockgen/lockgen/runtime\"\n)\n\n", pick(g, []string{"a", "lockrt", "gen", "context", "key"}), alias)
	b.WriteString("type Order struct {\n\tID string\n\tNo *int\n\tOwner *Order\n}\n\nfunc (o *Order) Label() string { return o.ID }\n\n")
	b.WriteString("func (o *Order) Find() (*Order, error) { return o, nil }\n\nfunc (o Order) MarshalText() ([]byte, error) { return nil, nil }\n\n")
	b.WriteString("type UUID [16]byte\n\ntype Line struct{ SKU string }\n\nfunc (Line) AppendLockKey(b []byte) ([]byte, error) { return b, nil }\n\n")
	b.WriteString("type Rows[T any] interface {\n\tio.Closer\n\tNext(key, r, next, held, s, lockrt T) (nil T, err error)\n\theld()\n}\n\n")
	b.WriteString("var _ html.HTML\nvar _ template.Template\nvar _ io.Reader\nvar _ iter.Seq[int]\nvar _ rt.LockOption\n\n")
	declared := map[string]bool{context: true, "html": true, "template": true, "io": true, "iter": true, "rt": true, "Order": true, "UUID": true, "Line": true, "Rows": true, "_": true}
	g.fn = pick(g, []string{"made", "b", "key", "err1", "text", "append1", "i"})
	if declared[g.fn] {
		g.fn = ""
	} else {
		declared[g.fn] = true
		fmt.Fprintf(&b, "func %s(%s %s.Context) (string, error) { return \"\", nil }\n\n", g.fn, "ctx1", context)
	}
	for range g.IntN(4) {
		name := pick(g, []string{"key", "held", "errors", "err", "time", "s", "res", "lockServiceM0", "lockrt", "gen", "cap", "next", "order"})
		if !declared[name] {
			declared[name] = true
			fmt.Fprintf(&b, "var %s int\n\n", name)
		}
	}
	params := pick(g, []string{"", "", "[K ~string, T any]", "[v, held ~int | ~string]"})
	g.open = map[byte]string{'K': "K", 'v': "held"}[(params + "  ")[1]]
	b.WriteString("//lockgen:service wait=" + pick(g, []string{"3s", "0"}) + " lost=" + pick(g, []string{"cancel", "report"}) + "\ntype Service" + params + " interface {\n")
	for i := range 1 + g.IntN(4) {
		g.method(&b, i, context)
	}
	b.WriteString("}\n")
	if g.IntN(2) == 0 {
		args := map[string]string{"[K ~string, T any]": "[K, T]", "[v, held ~int | ~string]": "[v, held]"}[params]
		b.WriteString("\n//lockgen:service\ntype Outer" + params + " interface{ Service" + args + " }\n")
	}
	g.locks(&b)
	return b.String()
}

// locks makes an interface of typed locks, some of them of several parts.
func (g *generator) locks(b *strings.Builder) {
	if g.IntN(2) == 0 {
		return
	}
	b.WriteString("\ntype Pair struct {\n\tA string\n\tB UUID\n}\n\n//lockgen:locks name=MakeEntities\ntype entities interface {\n")
	if g.IntN(2) == 0 {
		list := pick(g, []string{"keys", "key", "err", "l", "opts", "nil", "len", "b", "lockrt", "gen"})
		fmt.Fprintf(b, "\t//lockgen:lock key=m:{%s...}\n\tMulti(%s %sUUID) rt.EntityMulti[UUID]\n", list, list, pick(g, []string{"...", "[]"}))
	}
	for i := range 1 + g.IntN(3) {
		one, two := pick(g, []string{"Pair", "l", "key", "UUID", "nil", "c", "string"}), pick(g, []string{"opts", "err", "b", "id"})
		kind := pick(g, []string{"Mutex", "RWMutex", "FairMutex"})
		fmt.Fprintf(b, "\t//lockgen:lock key=e%d:{%s}/{%s}\n\tE%d(%s string, %s UUID) rt.Entity%s[Pair]\n", i, one, two, i, one, two, kind)
	}
	b.WriteString("}\n")
}

// method makes a method with a lock.
func (g *generator) method(b *strings.Builder, i int, context string) {
	taken := map[string]bool{}
	name := func() string {
		for {
			n := pick(g, nasty)
			if n == "_" || !taken[n] {
				taken[n] = true
				return n
			}
		}
	}
	ctx := name()
	params := []string{ctx + " " + context + ".Context"}
	keys := []string{"fixed"}
	for range g.IntN(6) {
		n := name()
		typ, paths := g.param(n)
		params = append(params, n+" "+typ)
		if len(paths) > 0 && n != "_" && g.IntN(2) == 0 {
			keys = append(keys, fmt.Sprintf("k%d:%s", len(keys), pick(g, paths)))
		}
	}
	if g.IntN(4) == 0 {
		n, typ := name(), pick(g, []string{"int", "func(...string) error", "*Order", "UUID"})
		params = append(params, n+" ..."+typ)
		if n != "_" && typ != "func(...string) error" {
			keys = append(keys, "v:{"+n+"...}")
		}
	}
	if ctx == "ctx1" && g.fn != "" {
		keys = append(keys, "@"+g.fn)
	}
	results, scope := g.results(name)
	options := scope + pick(g, []string{"", " busy=fallback", " fence", " min=1s"})
	kinds := []string{""}
	if bare, ok := strings.CutSuffix(options, " fence"); ok {
		options, kinds = bare, pick(g, [][]string{{" fence"}, {"", " fence", " kind=write fence", " kind=fair", " kind=red fence"}})
	} else if !strings.HasSuffix(options, " min=1s") {
		kinds = pick(g, [][]string{kinds, {" kind=permit permits=2"}, {" kind=red"}, {"", " kind=read", " kind=write", " kind=fair", " kind=permit permits=3", " kind=red"}})
	}
	b.WriteString(pick(g, []string{"", "", "\t// Does it:\n\t//\n\t//\tx()\n\t//\n", "\t/*\n\t   Does it:\n\n\t     - one\n\t*/\n", "\t// # Head\n\t//   - one\n\t//\n"}))
	for _, key := range keys[g.IntN(len(keys)):] {
		fmt.Fprintf(b, "\t//lockgen:lock key=%s%s%s\n", key, options, pick(g, kinds))
	}
	fmt.Fprintf(b, "\tM%d(%s) %s\n", i, strings.Join(params, ", "), results)
}

// param makes a type, and what a key can have of a parameter of it.
func (g *generator) param(n string) (typ string, paths []string) {
	switch g.IntN(20) {
	case 17, 18:
		if g.open != "" {
			return g.open, []string{"{" + n + "}", "x:{" + n + "}:{" + n + "}"}
		}
	case 19:
		if g.open != "" {
			return "[]*" + g.open, []string{"{" + n + "...}"}
		}
	case 8:
		return "[]byte", []string{"{" + n + "}"}
	case 9:
		return "*UUID", []string{"{" + n + "}"}
	case 10:
		return "[]*Line", []string{"{" + n + "...}"}
	case 11:
		return "[2]UUID", []string{"{" + n + "...}:x"}
	case 12:
		return "Order", []string{"{" + n + "}:{" + n + ".Find().ID}"}
	case 13:
		return "*[]bool", []string{"{" + n + "...}"}
	case 14:
		return "Line", []string{"{" + n + "}", "{{" + n + "}}"}
	case 15:
		return "iter.Seq[io.Reader]", nil
	case 16:
		return "[]Order", nil
	case 0:
		return "string", []string{"{" + n + "}"}
	case 1:
		return "*int", []string{"{" + n + "}"}
	case 2:
		return "*Order", []string{"{" + n + ".ID}", "{" + n + ".Owner.No}", "{" + n + ".Label()}:{" + n + ".Owner.Label()}"}
	case 3:
		return "bool", []string{"{" + n + "}"}
	case 4:
		return "html.HTML", []string{"{" + n + "}"}
	case 5:
		return "*template.Template", nil
	case 6:
		return pick(g, []string{"map[string][]func(key, err int) (nil error)", "struct{ err, key *Order }", "interface{ held(next int) (err error) }"}), nil
	}
	return "uint8", []string{"{" + n + "}"}
}

// results makes the results of a method, named or not, with an error at the end, and the scope that they need.
func (g *generator) results(name func() string) (results, scope string) {
	switch g.IntN(9) {
	case 0:
		return fmt.Sprintf("(%s int, %s error)", name(), name()), ""
	case 1:
		return "(string, *Order, error)", ""
	case 2:
		return "(html.HTML, error)", ""
	case 3:
		return fmt.Sprintf("(%s, %s *template.Template, %s error)", name(), name(), name()), ""
	case 4:
		return fmt.Sprintf("(%s iter.Seq[int], %s error)", name(), name()), " scope=iter"
	case 5:
		return "(int, iter.Seq2[*Order, error], error)", " scope=iter"
	case 6:
		return fmt.Sprintf("(%s Rows[string], %s error)", name(), name()), " scope=close"
	case 7:
		return "(io.ReadWriteCloser, string, error)", " scope=close"
	}
	return "error", ""
}
