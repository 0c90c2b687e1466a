// Command sizes prints how large the packages of the runtime are and how much their files need each other:
//
//	go run ./runtime/internal/sizes [-C folder of another checkout]
//
// Tests are not counted, nor are packages that serve tests alone. The columns are
//
//	files     source files
//	lines     their lines
//	longest   the lines of the longest file
//	flags     boolean fields of structs
//	passages  pairs of files of the package of which the first needs something that the second declares
//	up        passages that remain to be cut before the files can be put in an order in which each needs only those below it,
//	          as the heuristic of Eades, Lin and Smyth orders them
//	cycle     the most files that all need each other, directly or through others
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/tools/go/packages"
)

func main() {
	dir := flag.String("C", ".", "a folder of the module that is measured")
	flag.Parse()
	if err := run(os.Stdout, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "sizes:", err)
		os.Exit(1)
	}
}

// run prints the table of the module at dir.
func run(out io.Writer, dir string) error {
	all, err := load(dir, "./runtime/...")
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b *packages.Package) int { return strings.Compare(a.PkgPath, b.PkgPath) })
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "package\tfiles\tlines\tlongest\tflags\tpassages\tup\tcycle\t")
	var sum size
	for _, p := range all {
		name := strings.TrimPrefix(p.PkgPath, p.Module.Path+"/")
		if !counted(name) {
			continue
		}
		s, err := measure(p)
		if err != nil {
			return err
		}
		s.print(table, name)
		sum.add(s)
	}
	sum.print(table, "all")
	return table.Flush()
}

// load returns the packages of the module at dir that a pattern matches.
func load(dir, pattern string) ([]*packages.Package, error) {
	all, err := packages.Load(&packages.Config{
		Dir:  dir,
		Mode: packages.NeedName | packages.NeedModule | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports,
	}, pattern)
	if err == nil && packages.PrintErrors(all) > 0 {
		err = fmt.Errorf("the packages in %s have errors", dir)
	}
	return all, err
}

// counted reports whether a package is part of what users link.
func counted(name string) bool {
	for _, other := range []string{"runtime/locktest", "runtime/internal/chaos", "runtime/internal/sim", "runtime/internal/sizes"} {
		if name == other || strings.HasPrefix(name, other+"/") {
			return false
		}
	}
	return true
}

// A size is what the table says of a package, or of all.
type size struct{ files, lines, longest, flags, passages, up, cycle int }

func (s *size) add(other size) {
	s.files += other.files
	s.lines += other.lines
	s.longest = max(s.longest, other.longest)
	s.flags += other.flags
	s.passages += other.passages
	s.up += other.up
	s.cycle = max(s.cycle, other.cycle)
}

func (s *size) print(out io.Writer, name string) {
	fmt.Fprintf(out, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", name, s.files, s.lines, s.longest, s.flags, s.passages, s.up, s.cycle)
}

// measure returns the size of a package.
func measure(p *packages.Package) (s size, err error) {
	needs := map[string]map[string]bool{}
	for _, file := range p.Syntax {
		name := p.Fset.Position(file.Package).Filename
		text, err := os.ReadFile(name)
		if err != nil {
			return s, err
		}
		lines := strings.Count(string(text), "\n")
		s.files++
		s.lines += lines
		s.longest = max(s.longest, lines)
		s.flags += flags(file, p.TypesInfo)
		needs[filepath.Base(name)] = map[string]bool{}
	}
	for id, used := range p.TypesInfo.Uses {
		if used.Pkg() != p.Types || !declaredOutside(used) {
			continue
		}
		from := filepath.Base(p.Fset.Position(id.Pos()).Filename)
		to := filepath.Base(p.Fset.Position(used.Pos()).Filename)
		if from != to {
			needs[from][to] = true
		}
	}
	for _, to := range needs {
		s.passages += len(to)
	}
	g := graph(needs)
	s.up, s.cycle = g.up(), g.cycle()
	return s, nil
}

// declaredOutside reports whether something is declared outside of functions: what is used of another file always is.
func declaredOutside(used types.Object) bool {
	switch v := used.(type) {
	case *types.Var:
		return v.IsField() || v.Parent() == v.Pkg().Scope()
	case *types.Func, *types.TypeName, *types.Const:
		return true
	}
	return false
}

// flags counts the boolean fields of structs.
func flags(file *ast.File, info *types.Info) (n int) {
	ast.Inspect(file, func(node ast.Node) bool {
		s, ok := node.(*ast.StructType)
		if !ok {
			return true
		}
		for _, field := range s.Fields.List {
			if basic, ok := info.TypeOf(field.Type).(*types.Basic); ok && basic.Kind() == types.Bool {
				n += len(field.Names)
			}
		}
		return true
	})
	return n
}
