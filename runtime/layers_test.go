package lockrt_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// layers are the packages that users link, from the bottom to the top. Each imports only packages of the layers below its own.
var layers = [][]string{
	{"scripts", "runtime/internal/bridge", "runtime/internal/failure", "runtime/internal/force", "runtime/internal/late", "runtime/internal/monotonic", "runtime/internal/trace"},
	{"runtime/observe"},
	{"runtime/internal/deadlock", "runtime/internal/hooks", "runtime/internal/hub", "runtime/internal/protocol", "runtime/internal/quorum", "runtime/internal/watchdog"},
	{"runtime/internal/engine", "runtime/internal/fleet", "runtime/internal/transport"},
	{"runtime/internal/connect", "runtime/internal/counting", "runtime/internal/election", "runtime/internal/withdrawal"},
	{"runtime/internal/core"},
	{"runtime/internal/leases"},
	{"runtime/internal/resource"},
	{"runtime/internal/policy"},
	{"runtime/internal/locks"},
	{"runtime/internal/composite"},
	{"runtime"},
	{"runtime/gen"},
}

func TestLayers(t *testing.T) {
	t.Parallel()
	all, err := packages()
	require.NoError(t, err)
	below := map[string]bool{}
	for _, layer := range layers {
		for _, name := range layer {
			p, ok := all[module+"/"+name]
			require.True(t, ok, "there is no package %s", name)
			for _, dep := range p.Imports {
				if other, ours := strings.CutPrefix(dep, module+"/"); ours {
					require.True(t, below[other], "%s imports %s, which is not in a layer below", name, other)
				}
			}
		}
		for _, name := range layer {
			below[name] = true
		}
	}
	for _, dep := range all[module+"/runtime/gen"].Deps {
		if other, ours := strings.CutPrefix(dep, module+"/"); ours {
			require.True(t, below[other], "%s is linked and in no layer", other)
		}
	}
}

// mostLines is how many lines a file has at most, without tests: no more than a reader takes in.
const mostLines = 450

// private are words that nobody outside of this project knows in the sense that they had in it.
var private = regexp.MustCompile(`(?i)\b(home|claim|ear|heir|party|parties|red line|takeover|take-over|switchover|switch-over|news|told|lookout|gatherer|turnstile|tenure|union|ballot|switchboard|janitor|litter)s?\b`)

func TestFiles(t *testing.T) {
	t.Parallel()
	all, err := packages()
	require.NoError(t, err)
	looked := 0
	for name, p := range all {
		name, ours := strings.CutPrefix(name, module+"/")
		if !ours || !within(name, "runtime") {
			continue
		}
		for _, file := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, file))
			require.NoError(t, err)
			require.LessOrEqual(t, strings.Count(string(text), "\n"), mostLines, "lines of %s/%s", name, file)
			require.Empty(t, private.FindAllString(string(text), -1), "in %s/%s", name, file)
			looked++
		}
	}
	require.Greater(t, looked, 100, "files of the runtime")
}

// TestFiles_OfCommands holds the same bound for the commands, what they write with, and the comparison with other libraries. Outputs of
// the generator have as many lines as their sources need.
func TestFiles_OfCommands(t *testing.T) {
	t.Parallel()
	looked := 0
	for _, dir := range []string{"cmd", "templates", "bench"} {
		require.NoError(t, filepath.WalkDir(filepath.Join("..", dir), func(name string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && d.Name() == "testdata":
				return filepath.SkipDir
			case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_lockgen.go"):
				return nil
			}
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			require.LessOrEqual(t, strings.Count(string(text), "\n"), mostLines, "lines of %s", name)
			looked++
			return nil
		}))
	}
	require.Greater(t, looked, 100, "files of the commands")
}

// TestFiles_Listed shows that a package whose comment lists its files in layers names all of them.
func TestFiles_Listed(t *testing.T) {
	t.Parallel()
	all, err := packages()
	require.NoError(t, err)
	listed := 0
	for name, p := range all {
		if !within(name, module+"/runtime") {
			continue
		}
		for _, file := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, file))
			require.NoError(t, err)
			comment, _, _ := strings.Cut(string(text), "\npackage ")
			if !strings.Contains(comment, "The files stand in layers.") {
				continue
			}
			listed++
			for _, other := range p.GoFiles {
				require.Regexp(t, `\b`+regexp.QuoteMeta(other)+`\b`, comment, "the list of %s", name)
			}
		}
	}
	require.Positive(t, listed)
}

// TestKeys shows that one package builds the names of keys and channels: in the others none of them is written out.
func TestKeys(t *testing.T) {
	t.Parallel()
	all, err := packages()
	require.NoError(t, err)
	names := regexp.MustCompile(`^["` + "`" + `]\{?(redisson_|lockgen_)|rwlock_timeout`)
	found := false
	for _, layer := range layers {
		for _, name := range slices.DeleteFunc(slices.Clone(layer), func(name string) bool { return name == "scripts" }) {
			p := all[module+"/"+name]
			for _, file := range p.GoFiles {
				parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, 0)
				require.NoError(t, err)
				ast.Inspect(parsed, func(n ast.Node) bool {
					if text, ok := n.(*ast.BasicLit); ok && names.MatchString(text.Value) {
						found = true
						require.Equal(t, "runtime/internal/protocol", name, "%s says %s", file, text.Value)
					}
					return true
				})
			}
		}
	}
	require.True(t, found, "of the names that are looked for")
}
