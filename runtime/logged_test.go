package lockrt_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A logLine is a call of a logger: its level, its message, and the names of its attributes.
type logLine struct{ level, message, attributes string }

var (
	loggerMethod = regexp.MustCompile(`^(Debug|Info|Warn|Error)(Context)?$`)
	logRow       = regexp.MustCompile(`(?m)^\| (debug|info|warn|error) \| ([^|]+) \| ([^|]*) \|`)
	logShown     = regexp.MustCompile(`(?m)^(DEBUG|INFO|WARN|ERROR) lockgen: (.+)$`)
	logAttribute = regexp.MustCompile(`(?:^| )(\w+)=(?:"(?:[^"\\]|\\.)*"|[^ "]+)`)
)

// logLines returns the calls of loggers in a package. It fails for one whose message is put together when it is written.
func logLines(t *testing.T, dir string) (lines []logLine) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		for _, d := range parsed.Decls {
			named := map[string][]string{} // attributes of a variable, in the order of the source
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.AssignStmt:
					name, ok := n.Lhs[0].(*ast.Ident)
					if !ok || len(n.Rhs) != 1 {
						break
					}
					if names, ok := listed(n.Rhs[0]); ok {
						named[name.Name] = append(slices.Clone(named[name.Name]), names...)
					}
				case *ast.CallExpr:
					if line, ok := logCall(t, file, n, named); ok {
						lines = append(lines, line)
					}
				}
				return true
			})
		}
	}
	return lines
}

// listed returns the names of attributes that an expression lists or adds.
func listed(e ast.Expr) ([]string, bool) {
	switch e := e.(type) {
	case *ast.CompositeLit:
		return names(e.Elts), len(e.Elts) > 0
	case *ast.CallExpr:
		if f, ok := e.Fun.(*ast.Ident); ok && f.Name == "append" {
			return names(e.Args[1:]), true
		}
	}
	return nil, false
}

// names returns each other one, from the first on, of the texts in a list of names and values.
func names(list []ast.Expr) (all []string) {
	for i := 0; i < len(list); i += 2 {
		if text, ok := list[i].(*ast.BasicLit); ok && text.Kind == token.STRING {
			name, err := strconv.Unquote(text.Value)
			if err == nil {
				all = append(all, name)
			}
		}
	}
	return all
}

// logCall returns what a call writes to the log, if it does.
func logCall(t *testing.T, file string, call *ast.CallExpr, named map[string][]string) (logLine, bool) {
	t.Helper()
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return logLine{}, false
	}
	method := loggerMethod.FindStringSubmatch(f.Sel.Name)
	on, ok := f.X.(*ast.SelectorExpr)
	if method == nil || !ok || on.Sel.Name != "Logger" {
		return logLine{}, false
	}
	args := call.Args
	if method[2] != "" {
		args = args[1:]
	}
	message := constant(args[0])
	require.NotEmpty(t, message, "%s: a message is a constant, and what changes is an attribute", file)
	require.True(t, strings.HasPrefix(message, "lockgen: "), "%s: %s", file, message)
	var attributes []string
	if rest := args[1:]; call.Ellipsis.IsValid() {
		switch last := rest[0].(type) {
		case *ast.Ident:
			attributes = named[last.Name]
		case *ast.CallExpr: // of append, to what a method returns
			attributes = append([]string{"kind", "key"}, names(last.Args[1:])...)
		}
	} else {
		attributes = names(rest)
	}
	attributes = slices.Clone(attributes) // which several calls may share
	for i, name := range attributes {
		attributes[i] = "`" + name + "`"
	}
	return logLine{strings.ToLower(method[1]), strings.TrimPrefix(message, "lockgen: "), strings.Join(attributes, ", ")}, true
}

// constant returns a text, or several that are added.
func constant(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil {
			return text
		}
	case *ast.BinaryExpr:
		if x, y := constant(e.X), constant(e.Y); x != "" && y != "" {
			return x + y
		}
	}
	return ""
}

// The table of docs/operating.md has each message that a Logger gets, with its level and its attributes, and no other one.
func TestLogger_Documented(t *testing.T) {
	t.Parallel()
	var want []logLine
	for _, layer := range layers {
		for _, name := range layer {
			want = append(want, logLines(t, filepath.Join("..", name))...)
		}
	}
	require.Greater(t, len(want), 30)
	text, err := os.ReadFile("../docs/operating.md")
	require.NoError(t, err)
	var got []logLine
	for _, row := range logRow.FindAllStringSubmatch(string(text), -1) {
		got = append(got, logLine{row[1], strings.TrimSpace(row[2]), strings.TrimSpace(row[3])})
	}
	order := func(a, b logLine) int { return strings.Compare(a.message, b.message) }
	slices.SortFunc(want, order)
	want = slices.Compact(want)
	slices.SortFunc(got, order)
	var rows strings.Builder
	for _, l := range want {
		rows.WriteString("| " + l.level + " | " + l.message + " | " + l.attributes + " |\n")
	}
	require.Equal(t, want, got, "the rows are to be\n%s", &rows)
	for _, l := range want {
		if strings.Contains(l.attributes, "`key`") {
			require.Contains(t, l.attributes, "`kind`", l.message)
		}
	}
}

// Each line of a log that docs/operating.md shows has the attributes of its message, in their order, and no other ones.
func TestLogger_Shown(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/operating.md")
	require.NoError(t, err)
	shown := logShown.FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, shown)
	for _, line := range shown {
		found := false
		for _, row := range logRow.FindAllStringSubmatch(string(text), -1) {
			rest, ok := strings.CutPrefix(line[2], row[2]+" ")
			if !ok || row[1] != strings.ToLower(line[1]) {
				continue
			}
			found = true
			var names []string
			for _, attribute := range logAttribute.FindAllStringSubmatch(rest, -1) {
				names = append(names, "`"+attribute[1]+"`")
			}
			require.Equal(t, row[3], strings.Join(names, ", "), line[0])
		}
		require.True(t, found, "the table has the message of %s", line[0])
	}
}
