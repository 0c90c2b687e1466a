package lockrt_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	// named is a thing of the source with the file that declares it, as docs/architecture.md links them.
	named = regexp.MustCompile("\\[`([A-Za-z.]+)`\\]\\((\\.\\./runtime/[^)]+\\.go)\\)")
	// step is one function of a list, at a depth.
	step = regexp.MustCompile("^( *)- \\[`([A-Za-z.]+)`\\]\\((\\.\\./runtime/[^)]+\\.go)\\)")
	// sum is what the page says of the list that follows.
	sum = regexp.MustCompile(`calls (\d+) functions in (\d+) files:`)
)

// mostCalls bounds the way of a Lock, and of an Unlock.
var mostCalls = []struct{ functions, files int }{{20, 7}, {14, 5}}

// A sourceFile is what a file declares outside of functions, by name; methods are named Type.Method.
type sourceFile map[string]ast.Node

func sourceOf(t *testing.T, name string) sourceFile {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	require.NoError(t, err)
	all := sourceFile{}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			all[ownerOf(decl)+decl.Name.Name] = decl
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					all[spec.Name.Name] = spec
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						all[name.Name] = spec
					}
				}
			}
		}
	}
	return all
}

// ownerOf returns the type that a method is of and a point, or nothing.
func ownerOf(decl *ast.FuncDecl) string {
	if decl.Recv == nil {
		return ""
	}
	of := ""
	ast.Inspect(decl.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && of == "" {
			of = id.Name + "."
		}
		return of == ""
	})
	return of
}

// uses reports whether a function calls or names what is called so.
func uses(decl ast.Node, name string) (found bool) {
	_, method, isMethod := strings.Cut(name, ".")
	if !isMethod {
		method = name
	}
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			found = found || n.Sel.Name == method
		case *ast.CallExpr:
			id, ok := n.Fun.(*ast.Ident)
			found = found || ok && !isMethod && id.Name == method
		}
		return !found
	})
	return found
}

// TestArchitecturePage shows that docs/architecture.md is true: each thing is where it says, each function of its lists calls those below it, it
// counts them right, and it has every package that users link.
func TestArchitecturePage(t *testing.T) {
	t.Parallel()
	docs := filepath.Join("..", "docs")
	page, err := os.ReadFile(filepath.Join(docs, "architecture.md"))
	require.NoError(t, err)
	for _, layer := range layers {
		for _, name := range layer {
			require.True(t, strings.Contains(string(page), "](../"+name+")"), "the page has %s", name)
		}
	}
	files := map[string]sourceFile{}
	declared := func(name, file string) ast.Node {
		t.Helper()
		if files[file] == nil {
			files[file] = sourceOf(t, filepath.Join(docs, file))
		}
		decl := files[file][name]
		require.NotNil(t, decl, "%s declares %s", file, name)
		return decl
	}
	for _, m := range named.FindAllStringSubmatch(string(page), -1) {
		declared(m[1], m[2])
	}
	lists := 0
	var wants []string // functions and files, as the page says
	var path []ast.Node
	functions, in := 0, map[string]bool{}
	check := func() {
		if functions > 0 {
			require.Equal(t, wants, []string{strconv.Itoa(functions), strconv.Itoa(len(in))}, "functions and files of list %d", lists)
			require.LessOrEqual(t, functions, mostCalls[lists-1].functions, "functions of list %d", lists)
			require.LessOrEqual(t, len(in), mostCalls[lists-1].files, "files of list %d", lists)
		}
	}
	for line := range strings.Lines(string(page)) {
		if m := sum.FindStringSubmatch(line); m != nil {
			check()
			lists++
			wants, path, functions, in = m[1:], nil, 0, map[string]bool{}
		}
		m := step.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		depth := len(m[1]) / 2
		require.LessOrEqual(t, depth, len(path), "depth of %s", m[2])
		decl := declared(m[2], m[3])
		if depth > 0 {
			require.True(t, uses(path[depth-1], m[2]), "%s is called by the function above it", m[2])
		}
		path = append(path[:depth], decl)
		functions++
		in[m[3]] = true
	}
	check()
	require.Equal(t, 2, lists)
}
