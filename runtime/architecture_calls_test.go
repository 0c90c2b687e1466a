package lockrt_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// shownLines is how many lines a function has at least that docs/architecture.md shows whenever it runs.
const shownLines = 14

// ranLine is what go tool covdata says of a function.
var ranLine = regexp.MustCompile(`^` + regexp.QuoteMeta(module) + `/(\S+\.go):\d+:\s+(\S+)\s+(\d+\.\d)%$`)

// whatRan returns the functions that ran in a call, as docs/architecture.md names them: file and name.
func whatRan(t *testing.T, dir string) map[string]bool {
	t.Helper()
	out, err := exec.Command("go", "tool", "covdata", "func", "-i="+dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	all := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		if m := ranLine.FindStringSubmatch(strings.TrimSpace(line)); m != nil && m[3] != "0.0" {
			all["../"+m[1]+" "+strings.TrimPrefix(m[2], "*")] = true
		}
	}
	return all
}

// longFunctions returns the functions of a file that have at least shownLines.
func longFunctions(t *testing.T, file string) (all []string) {
	t.Helper()
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, filepath.Join("..", "docs", file), nil, 0)
	require.NoError(t, err)
	for _, decl := range parsed.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && fset.Position(f.End()).Line-fset.Position(f.Pos()).Line+1 >= shownLines {
			all = append(all, ownerOf(f)+f.Name.Name)
		}
	}
	return all
}

// isCalled reports whether covdata, which leaves out the type of a generic method, says short of the function full.
func isCalled(full, short string) bool {
	return full == short || strings.HasSuffix(full, "."+short)
}

// TestArchitecturePage_Calls shows that the lists of docs/architecture.md have what runs in a Lock and in an Unlock that nobody else is in the
// way of. What runs in the background besides does not do so each time.
func TestArchitecturePage_Calls(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "calls")
	covered := []string{module + "/runtime", module + "/runtime/internal/transport", module + "/runtime/internal/protocol", module + "/runtime/internal/watchdog", "./testdata/calls"}
	out, err := exec.Command("go", "build", "-cover", "-covermode=atomic", "-coverpkg="+strings.Join(covered, ","), "-o", program, "./testdata/calls").CombinedOutput()
	require.NoError(t, err, "%s", out)
	const times = 6
	cmd := exec.Command(program, redistest.Shared(t).URL(), redistest.Key(t, "k"), dir, strconv.Itoa(times))
	cmd.Env = append(os.Environ(), "GOCOVERDIR="+t.TempDir())
	out, err = cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)

	text, err := os.ReadFile(filepath.Join("..", "docs", "architecture.md"))
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## One Lock and one Unlock\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	lock, unlock, found := strings.Cut(section, "\nUnlock calls ")
	require.True(t, found)
	for name, part := range map[string]string{"lock": lock, "unlock": unlock} {
		ever, always := map[string]bool{}, map[string]int{}
		for i := 1; i < times; i++ { // the first one also makes what the client keeps
			for f := range whatRan(t, filepath.Join(dir, name, strconv.Itoa(i))) {
				ever[f] = true
				always[f]++
			}
		}
		shown := map[string]bool{}
		for _, m := range named.FindAllStringSubmatch(part, -1) {
			shown[m[2]+" "+m[1]] = true
			require.True(t, slices.ContainsFunc(slices.Collect(maps.Keys(ever)), func(f string) bool {
				file, short, _ := strings.Cut(f, " ")
				return file == m[2] && isCalled(m[1], short)
			}), "%s runs in %s", m[1], name)
		}
		for f, n := range always {
			file, short, _ := strings.Cut(f, " ")
			if n < times-1 || strings.HasPrefix(file, "../runtime/testdata/") {
				continue
			}
			for _, long := range longFunctions(t, file) {
				if isCalled(long, short) {
					require.True(t, shown[file+" "+long], "the page says that %s of %s runs in %s", long, file, name)
				}
			}
		}
	}
}
