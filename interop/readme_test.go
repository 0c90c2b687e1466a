package interop

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadme_Methods shows that the methods in the README's table of counterparts exist, on both
// sides.
func TestReadme_Methods(t *testing.T) {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), "\n| Redisson | lockgen |\n|---|---|\n")
	require.True(t, ok, "the table is there")
	rows, _, _ := strings.Cut(rest, "\n\n")
	inGo := exported(t, "../runtime")
	java := thread{startJava(t, newest(t)), "-", "main"}
	method := regexp.MustCompile(`(?:(\w+)\.)?(\w+)\(`)
	lookups := 0
	for row := range strings.SplitSeq(rows, "\n") {
		cells := strings.Split(row, " | ")
		require.Len(t, cells, 2, row)
		for _, m := range method.FindAllStringSubmatch(cells[0], -1) {
			class, name := "org.redisson.api."+m[1], m[2]
			if m[1] == "" { // a constructor
				class, name = "org.redisson."+m[2], "lock"
			}
			require.Equal(t, "true", java.do(t, "has", class, name), row)
			lookups++
		}
		for _, m := range method.FindAllStringSubmatch(cells[1], -1) {
			name := strings.TrimPrefix(m[1]+"."+m[2], ".")
			require.True(t, inGo[name], "%s: there is no %s", row, name)
			lookups++
		}
	}
	require.Greater(t, lookups, 60)
}

// exported returns the names of the exported functions and methods of a package, including those of embedded types.
func exported(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	embeds := map[string][]string{}
	sources, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, sources)
	typeName := func(e ast.Expr) string {
		if star, ok := e.(*ast.StarExpr); ok {
			e = star.X
		}
		id, _ := e.(*ast.Ident)
		if id == nil {
			return ""
		}
		return id.Name
	}
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), source, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				name := n.Name.Name
				if n.Recv != nil {
					name = typeName(n.Recv.List[0].Type) + "." + name
				}
				names[name] = true
			case *ast.TypeSpec:
				if s, ok := n.Type.(*ast.StructType); ok {
					for _, field := range s.Fields.List {
						if len(field.Names) == 0 {
							embeds[n.Name.Name] = append(embeds[n.Name.Name], typeName(field.Type))
						}
					}
				}
			}
			return true
		})
	}
	for outer, inners := range embeds {
		for _, inner := range inners {
			for name := range names {
				if method, ok := strings.CutPrefix(name, inner+"."); ok {
					names[outer+"."+method] = true
				}
			}
		}
	}
	return names
}
