package lockrt_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
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

// covdata runs a command of go tool covdata.
func covdata(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("go", append([]string{"tool", "covdata"}, args...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// whatRan returns the functions that ran in any of some calls, as covdata names them, by files.
func whatRan(t *testing.T, dirs string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for line := range strings.Lines(covdata(t, "func", "-i="+dirs)) {
		if m := ranLine.FindStringSubmatch(strings.TrimSpace(line)); m != nil && m[3] != "0.0" {
			file := "../" + m[1]
			all[file] = append(all[file], strings.TrimPrefix(m[2], "*"))
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

// batching are the files of package transport with what is done whichever connection is used.
var batching = []string{"request.go", "reply.go", "queues.go", "senders.go", "turn.go", "window.go", "batch.go"}

// TestArchitecturePage_Calls shows that the lists of docs/architecture.md have what runs in a Lock and in an Unlock that nobody else is in the
// way of. Background work does not run each time.
func TestArchitecturePage_Calls(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "calls")
	covered := []string{module + "/runtime", module + "/runtime/internal/locks", module + "/runtime/internal/policy", module + "/runtime/internal/resource", module + "/runtime/internal/leases", module + "/runtime/internal/core", module + "/runtime/internal/engine", module + "/runtime/internal/fleet", module + "/runtime/internal/transport", module + "/runtime/internal/protocol", module + "/runtime/internal/watchdog", "./testdata/calls"}
	out, err := exec.Command("go", "build", "-cover", "-covermode=atomic", "-coverpkg="+strings.Join(covered, ","), "-o", program, "./testdata/calls").CombinedOutput()
	require.NoError(t, err, "%s", out)
	const times = 40 // more than a table of the engine has parts: the first value of each part makes room there, and so not every Lock does
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
		var each []string
		for i := 1; i < times; i++ { // the first one also makes what the client keeps
			each = append(each, filepath.Join(dir, name, strconv.Itoa(i)))
		}
		ever, both := whatRan(t, strings.Join(each, ",")), t.TempDir()
		covdata(t, "intersect", "-i="+strings.Join(each, ","), "-o="+both)
		shown := map[string]bool{}
		for _, m := range named.FindAllStringSubmatch(part, -1) {
			shown[m[2]+" "+m[1]] = true
			require.True(t, slices.ContainsFunc(ever[m[2]], func(short string) bool { return isCalled(m[1], short) }), "%s runs in %s", m[1], name)
		}
		for file, always := range whatRan(t, both) {
			folder, base := path.Split(file)
			if folder == "../runtime/testdata/calls/" || folder == "../runtime/internal/transport/" && !slices.Contains(batching, base) {
				continue // which connection is used depends on what the client sent before
			}
			for _, long := range longFunctions(t, file) {
				if slices.ContainsFunc(always, func(short string) bool { return isCalled(long, short) }) {
					require.True(t, shown[file+" "+long], "the page says that %s of %s runs in %s", long, file, name)
				}
			}
		}
	}
}
