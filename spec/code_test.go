package spec

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// codeOf returns the functions and methods of the Go files of a folder, as Name or Type.Name.
func codeOf(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	all := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name := f.Name.Name
			if f.Recv != nil {
				of := f.Recv.List[0].Type
				if star, ok := of.(*ast.StarExpr); ok {
					of = star.X
				}
				if id, ok := of.(*ast.Ident); ok {
					name = id.Name + "." + name
				}
			}
			all[name] = true
		}
	}
	return all
}

// codeBelow returns the functions and methods of the packages below a folder, by their names, and by their names behind that of the folder
// of the package: so a module can go on naming code that moves to another package.
func codeBelow(t *testing.T, root string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	require.NoError(t, filepath.WalkDir(root, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if d.Name() == "testdata" || d.Name() == "sim" || d.Name() == "locktest" {
			return filepath.SkipDir
		}
		for name := range codeOf(t, dir) {
			all[name], all[d.Name()+"."+name] = true, true
		}
		return nil
	}))
	return all
}

// namedIn returns the names after "Code:" in comments.
func namedIn(text string) (names []string) {
	words := strings.Fields(text)
	for i, word := range words {
		if word != "Code:" {
			continue
		}
		for _, name := range words[i+1:] {
			names = append(names, strings.Trim(name, ",."))
			if strings.HasSuffix(name, ".") {
				break
			}
		}
	}
	return names
}

// A definition is what a module has after the name, with the comment above it or above the ones that it follows.
type definition struct{ comment, text string }

// namesCode matches a comment that names the code, or the part of the environment, of an action.
var namesCode = regexp.MustCompile(`Code: |Environment: `)

var definedIn = regexp.MustCompile(`^([A-Z]\w*)(\([^)]*\))? ==`)

// definitions returns those of a module in TLA+.
func definitions(module string) map[string]definition {
	all := map[string]definition{}
	comment, name, inComment := "", "", false
	for line := range strings.Lines(module) {
		if text, ok := strings.CutPrefix(line, "(*"); ok {
			if !inComment {
				comment = ""
			}
			comment += strings.Trim(text, "*) \n") + " "
			inComment = true
			continue
		}
		inComment = false
		switch found := definedIn.FindStringSubmatch(line); {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "----"):
			comment, name = "", ""
		case found != nil:
			name = found[1]
			all[name] = definition{comment, line[len(found[0]):]}
		case name != "":
			d := all[name]
			d.text += line
			all[name] = d
		}
	}
	return all
}

// Each action of a module names the code that does it, or the part of the environment. The code exists.
func TestModules_NameTheCode(t *testing.T) {
	t.Parallel()
	code := codeBelow(t, "../runtime")
	files, err := filepath.Glob("*.tla")
	require.NoError(t, err)
	named := 0
	for _, file := range append(files, "trust.pml") {
		module, err := os.ReadFile(file)
		require.NoError(t, err)
		comments := strings.NewReplacer("(*", " ", "*)", " ", "*/", " ", "/*", " ", "\n *", "\n", "\\", " ").Replace(string(module))
		for _, name := range namedIn(comments) {
			named++
			script, function, _ := strings.Cut(name, "/")
			if !strings.HasSuffix(script, ".lua") {
				require.True(t, code[name], "%s: there is no %s in runtime", file, name)
				continue
			}
			source, err := os.ReadFile(filepath.Join("../scripts", script))
			require.NoError(t, err, "%s: there is no such script", file)
			require.True(t, function == "" || strings.Contains(string(source), "function "+function+"("), "%s: there is no function %s", file, name)
		}
		all := definitions(string(module))
		actions(all, all["Next"].text, func(name string) {
			require.Regexp(t, namesCode, all[name].comment, "%s: the comment on %s names no code", file, name)
		})
	}
	require.Greater(t, named, 70)
}

// actions calls f for each action in a text: for the parts of one that has no comment and consists of others.
func actions(all map[string]definition, text string, f func(name string)) {
	for _, name := range regexp.MustCompile(`\b[A-Z]\w*`).FindAllString(text, -1) {
		switch d, ok := all[name]; {
		case !ok:
		case (name == "Run" || name == "Answer") && !namesCode.MatchString(d.comment):
			actions(all, d.text, f)
		default:
			f(name)
		}
	}
}

func TestNamedIn(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"a.b", "c.lua/d", "e"}, namedIn(`x. Code: a.b, c.lua/d. Not this. "Code:" nor that. Code: e.`))
}

func TestDefinitions(t *testing.T) {
	t.Parallel()
	all := definitions("(* Code: a. *)\nA(p) == /\\ x\n        /\\ y\nB == z\n\nC == 1\n(* It is *)\n(* long.  *)\nNext == A(1) \\/ B\n")
	require.Equal(t, definition{"Code: a. ", " /\\ x\n        /\\ y\n"}, all["A"])
	require.Equal(t, "Code: a. ", all["B"].comment)
	require.Empty(t, all["C"].comment)
	require.Equal(t, "It is long. ", all["Next"].comment)
	var found []string
	actions(all, all["Next"].text, func(name string) { found = append(found, name) })
	require.Equal(t, []string{"A", "B"}, found)
}
