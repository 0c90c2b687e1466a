// Api writes the exported API of the public packages of this module as text, one line for each thing, like the api
// directory of Go.
//
//	go run ./api           # compares the files with the code; the exit code is 1 if they differ
//	go run ./api -update   # writes api/next.txt again
//
// api/next.txt is the API of the next release; with a release it is copied to api/v1.2.3.txt. A removed or changed line
// breaks programs that use it: the part of CHANGELOG.md since the last release has to name the thing. An added line
// breaks none. The list of the methods of an interface is a line, too.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

const module = "github.com/lockgen/lockgen"

// notForImport are folders whose packages are not part of the API. Programs and internal packages are not either.
var notForImport = []string{"scripts", "templates", "generated_test", "examples", "spec"}

func main() {
	update := flag.Bool("update", false, "write api/next.txt again")
	flag.Parse()
	os.Exit(run(".", *update, os.Stdout, os.Stderr))
}

// run compares or writes api/next.txt of the module in the directory, and returns the exit code.
func run(dir string, update bool, stdout, stderr io.Writer) int {
	now, err := load(dir)
	if err != nil {
		fmt.Fprintf(stderr, "api: %v\n", err)
		return 2
	}
	file := filepath.Join(dir, "api", "next.txt")
	if update {
		if err := os.WriteFile(file, []byte(strings.Join(now, "\n")+"\n"), 0o644); err != nil {
			fmt.Fprintf(stderr, "api: %v\n", err)
			return 2
		}
		return 0
	}
	text, err := os.ReadFile(file)
	if err != nil {
		fmt.Fprintf(stderr, "api: %v\n", err)
		return 2
	}
	differences := diff(split(string(text)), now)
	for _, line := range differences {
		fmt.Fprintln(stdout, line)
	}
	if len(differences) > 0 {
		fmt.Fprintln(stderr, "api: the code differs from api/next.txt: go run ./api -update writes it again, and CHANGELOG.md has a line for users")
		return 1
	}
	gone, err := unexplained(dir, now)
	if err != nil {
		fmt.Fprintf(stderr, "api: %v\n", err)
		return 2
	}
	for _, line := range gone {
		fmt.Fprintln(stdout, "-"+line)
	}
	if len(gone) > 0 {
		fmt.Fprintln(stderr, "api: these lines of the last release are gone: name each in CHANGELOG.md, under Unreleased, as in `Client.Close`")
		return 1
	}
	return 0
}

// load returns the lines of all public packages of the module in the directory, and of the modules in its folder contrib.
func load(dir string) ([]string, error) {
	modules, err := filepath.Glob(filepath.Join(dir, "contrib", "*", "go.mod"))
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, file := range append(modules, filepath.Join(dir, "go.mod")) {
		cfg := &packages.Config{Dir: filepath.Dir(file), Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports | packages.NeedDeps}
		found, err := packages.Load(cfg, "./...")
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			if !public(p.PkgPath, p.Name) {
				continue
			}
			if len(p.Errors) > 0 {
				return nil, p.Errors[0]
			}
			lines = append(lines, describe(p.Types)...)
		}
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("no public package below %s", dir)
	}
	slices.Sort(lines)
	return slices.Compact(lines), nil
}

// public reports whether programs may import the package.
func public(path, name string) bool {
	below, ok := strings.CutPrefix(path+"/", module+"/")
	if !ok || name == "main" || strings.Contains("/"+below, "/internal/") {
		return false
	}
	first, _, _ := strings.Cut(below, "/")
	return !slices.Contains(notForImport, first)
}

// diff returns the lines that only one of two sorted lists has, those that are gone with a minus.
func diff(before, now []string) []string {
	var lines []string
	for len(before) > 0 || len(now) > 0 {
		order := 0
		switch {
		case len(before) == 0:
			order = 1
		case len(now) == 0:
			order = -1
		default:
			order = cmp.Compare(before[0], now[0])
		}
		if order < 0 {
			lines = append(lines, "-"+before[0])
		} else if order > 0 {
			lines = append(lines, "+"+now[0])
		}
		if order <= 0 {
			before = before[1:]
		}
		if order >= 0 {
			now = now[1:]
		}
	}
	return lines
}

// describe returns the lines of one package, not sorted.
func describe(p *types.Package) []string {
	w := &writer{of: p, head: "pkg " + p.Path() + ", "}
	for _, name := range p.Scope().Names() {
		if obj := p.Scope().Lookup(name); obj.Exported() {
			w.object(obj)
		}
	}
	return w.lines
}

// A writer writes the lines of one package.
type writer struct {
	of    *types.Package
	head  string
	lines []string
}

func (w *writer) line(format string, args ...any) {
	w.lines = append(w.lines, w.head+fmt.Sprintf(format, args...))
}

// typ writes a type: without the package if it is of this one, and without names of parameters.
func (w *writer) typ(t types.Type) string {
	return types.TypeString(unnamed(t), types.RelativeTo(w.of))
}

// signature writes parameters and results.
func (w *writer) signature(t types.Type) string { return strings.TrimPrefix(w.typ(t), "func") }

func (w *writer) object(obj types.Object) {
	switch obj := obj.(type) {
	case *types.Const:
		w.line("const %s %s = %s", obj.Name(), w.typ(obj.Type()), obj.Val().ExactString())
	case *types.Var:
		w.line("var %s %s", obj.Name(), w.typ(obj.Type()))
	case *types.Func:
		signature := obj.Signature()
		w.line("func %s%s%s", obj.Name(), w.parameters(signature.TypeParams()), w.signature(signature))
	case *types.TypeName:
		w.typeName(obj)
	}
}

// parameters writes type parameters with their constraints.
func (w *writer) parameters(list *types.TypeParamList) string {
	if list.Len() == 0 {
		return ""
	}
	var all []string
	for p := range list.TypeParams() {
		all = append(all, p.Obj().Name()+" "+w.typ(p.Constraint()))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

func (w *writer) typeName(obj *types.TypeName) {
	if obj.IsAlias() {
		w.line("type %s = %s", obj.Name(), w.typ(types.Unalias(obj.Type())))
		return
	}
	named := obj.Type().(*types.Named)
	head := "type " + obj.Name() + w.parameters(named.TypeParams())
	switch under := named.Underlying().(type) {
	case *types.Struct:
		w.line("%s struct", head)
		for f := range under.Fields() {
			switch {
			case !f.Exported():
			case f.Embedded():
				w.line("type %s struct, embedded %s", obj.Name(), w.typ(f.Type()))
			default:
				w.line("type %s struct, %s %s", obj.Name(), f.Name(), w.typ(f.Type()))
			}
		}
	case *types.Interface:
		w.interfaceOf(head, obj.Name(), under)
		return // its methods are written already
	default:
		w.line("%s %s", head, w.typ(under))
	}
	w.methods(named)
}

func (w *writer) interfaceOf(head, name string, t *types.Interface) {
	var names []string
	closed := false
	for m := range t.Methods() {
		if !m.Exported() {
			closed = true
			continue
		}
		names = append(names, m.Name())
		w.line("type %s interface, %s%s", name, m.Name(), w.signature(m.Signature()))
	}
	if closed {
		names = append(names, "unexported methods")
	}
	if !t.IsMethodSet() {
		w.line("%s %s", head, w.typ(t))
		return
	}
	w.line("%s interface { %s }", head, strings.Join(names, ", "))
}

// methods writes the exported methods of a type, including those of embedded types.
func (w *writer) methods(named *types.Named) {
	values := types.NewMethodSet(named)
	receiver := named.Obj().Name()
	if args := named.TypeParams(); args.Len() > 0 {
		var names []string
		for p := range args.TypeParams() {
			names = append(names, p.Obj().Name())
		}
		receiver += "[" + strings.Join(names, ", ") + "]"
	}
	for m := range types.NewMethodSet(types.NewPointer(named)).Methods() {
		if !m.Obj().Exported() {
			continue
		}
		of := "*" + receiver
		if values.Lookup(m.Obj().Pkg(), m.Obj().Name()) != nil {
			of = receiver
		}
		w.line("method (%s) %s%s", of, m.Obj().Name(), w.signature(m.Type()))
	}
}

// unnamed returns a type without the names of parameters and results, which callers do not depend on.
func unnamed(t types.Type) types.Type {
	switch t := t.(type) {
	case *types.Signature:
		return types.NewSignatureType(nil, nil, nil, unnamedTuple(t.Params()), unnamedTuple(t.Results()), t.Variadic())
	case *types.Pointer:
		return types.NewPointer(unnamed(t.Elem()))
	case *types.Slice:
		return types.NewSlice(unnamed(t.Elem()))
	case *types.Array:
		return types.NewArray(unnamed(t.Elem()), t.Len())
	case *types.Map:
		return types.NewMap(unnamed(t.Key()), unnamed(t.Elem()))
	case *types.Chan:
		return types.NewChan(t.Dir(), unnamed(t.Elem()))
	}
	return t
}

func unnamedTuple(t *types.Tuple) *types.Tuple {
	var vars []*types.Var
	for v := range t.Variables() {
		vars = append(vars, types.NewVar(v.Pos(), v.Pkg(), "", unnamed(v.Type())))
	}
	return types.NewTuple(vars...)
}
