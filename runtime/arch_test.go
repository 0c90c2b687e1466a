package lockrt_test

import (
	"encoding/json"
	"errors"
	"flag"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files again")

const (
	module      = "github.com/lockgen/lockgen"
	redisClient = "github.com/redis/rueidis"
	jen         = "github.com/dave/jennifer"
	xtools      = "golang.org/x/tools"
	testify     = "github.com/stretchr/testify"
	mini        = "github.com/alicebob/miniredis"

	anything = "..." // every package outside the standard library
)

// A border says what the packages of a folder must not link, outside their tests.
type border struct {
	of       string // "runtime", or "runtime/..." with all below
	not      []string
	but      []string
	except   []string // folders below that other borders are for
	why      string
	optional bool // there may be no such package
}

var borders = []border{
	{of: "scripts", not: []string{anything}, why: "the Lua is a leaf"},
	{of: "runtime/observe", not: []string{anything}, but: []string{module + "/runtime/internal/failure"}, why: "what programs see of locks is plain data"},
	{of: "runtime", not: []string{anything}, but: []string{module + "/scripts", module + "/runtime/observe", module + "/runtime/internal", redisClient, "golang.org/x/sys"},
		why: "users link it into every service"},
	{of: "runtime/gen", not: []string{anything}, but: []string{module + "/runtime", module + "/scripts", redisClient, "golang.org/x/sys"},
		why: "it is linked with the runtime, and needs nothing more"},
	{of: "runtime/internal/...", except: []string{"runtime/internal/composite", "runtime/internal/connect", "runtime/internal/core", "runtime/internal/counting", "runtime/internal/election", "runtime/internal/late", "runtime/internal/leases", "runtime/internal/locks", "runtime/internal/policy", "runtime/internal/resource", "runtime/internal/transport", "runtime/internal/withdrawal", "runtime/internal/sizes", "runtime/internal/trace/tracetest"}, not: []string{anything}, but: []string{module + "/runtime/internal", module + "/runtime/observe", module + "/scripts"},
		why: "its tests run in virtual time, without Redis", optional: true},
	{of: "runtime/internal/engine", not: []string{anything}, but: []string{module + "/runtime/internal/engine", module + "/runtime/internal/monotonic", module + "/runtime/internal/trace", module + "/runtime/internal/watchdog"},
		why: "it waits and decides, and knows neither Redis nor what is sent there"},
	{of: "runtime/internal/quorum", not: []string{anything}, but: []string{module + "/runtime/internal/quorum", module + "/runtime/internal/trace"},
		why: "it decides, and knows neither servers nor what is sent there"},
	{of: "runtime/internal/protocol", not: []string{anything}, but: []string{module + "/scripts"}, why: "it says what is sent, and sends nothing"},
	{of: "runtime/internal/trace/tracetest", not: []string{anything}, but: []string{module + "/runtime/internal", module + "/scripts", module + "/spec", mini, "github.com/yuin/gopher-lua"},
		why: "it replays traces of tests against the specification, beside a server in memory"},
	{of: "runtime/internal/connect", not: []string{anything}, why: "it connects clients of rueidis",
		but: []string{module + "/scripts", module + "/runtime/internal", redisClient, "golang.org/x/sys"}},
	{of: "runtime/internal/counting", not: []string{anything}, why: "it sends over the transport",
		but: []string{module + "/scripts", module + "/runtime/observe", module + "/runtime/internal", redisClient, "golang.org/x/sys"}},
	{of: "runtime/internal/election", not: []string{anything}, why: "it sends over the transport",
		but: []string{module + "/scripts", module + "/runtime/observe", module + "/runtime/internal", redisClient, "golang.org/x/sys"}},
	{of: "runtime/internal/composite", not: []string{anything}, why: "it sends over the transport",
		but: []string{module + "/scripts", module + "/runtime/observe", module + "/runtime/internal", redisClient, "golang.org/x/sys"}},
	{of: "runtime/internal/core", not: []string{anything}, why: "it sends over the transport",
		but: []string{module + "/scripts", module + "/runtime/observe", module + "/runtime/internal", redisClient, "golang.org/x/sys"}},
	{of: "runtime/internal/leases", not: []string{anything}, why: "it sends over the transport",
		but: []string{module + "/scripts", module + "/runtime/observe", module + "/runtime/internal", redisClient, "golang.org/x/sys"}},
	{of: "runtime/internal/locks", not: []string{anything}, why: "it sends over the transport",
		but: []string{module + "/scripts", module + "/runtime/observe", module + "/runtime/internal", redisClient, "golang.org/x/sys"}},
	{of: "runtime/internal/policy", not: []string{anything}, why: "it sends over the transport",
		but: []string{module + "/scripts", module + "/runtime/observe", module + "/runtime/internal", redisClient, "golang.org/x/sys"}},
	{of: "runtime/internal/resource", not: []string{anything}, why: "it sends over the transport",
		but: []string{module + "/scripts", module + "/runtime/observe", module + "/runtime/internal", redisClient, "golang.org/x/sys"}},
	{of: "runtime/internal/withdrawal", not: []string{anything}, why: "it sends over the transport",
		but: []string{module + "/scripts", module + "/runtime/observe", module + "/runtime/internal", redisClient, "golang.org/x/sys"}},
	{of: "runtime/internal/late", not: []string{anything}, but: []string{redisClient, "golang.org/x/sys"}, why: "it wraps a client and nothing else"},
	{of: "runtime/internal/transport", not: []string{anything}, why: "it talks to rueidis for what stands above it",
		but: []string{module + "/scripts", module + "/runtime/internal", redisClient, "golang.org/x/sys"}},
	{of: "runtime/locktest/redistest", not: []string{module, mini}, but: []string{module + "/runtime/locktest/redistest"},
		why: "the tests inside of runtime and scripts import it"},
	{of: "templates/model", not: []string{anything}, why: "the model is plain data"},
	{of: "templates/...", not: []string{module, redisClient, xtools}, but: []string{module + "/templates"},
		why: "emitters turn a model into source and know the runtime by name only"},
	{of: "cmd/lockgen/...", not: []string{redisClient, mini, module + "/runtime", module + "/scripts"},
		why: "the generator needs no Redis client"},
	{of: "generated_test/...", not: []string{jen, xtools, mini, module + "/cmd", module + "/templates"},
		why: "generated code needs the runtime and nothing else"},
	{of: "examples/...", not: []string{jen, xtools, module + "/cmd", module + "/templates"},
		why: "an example is a user's program"},
	{of: "...", not: []string{testify, "testing/synctest"}, why: "it serves tests only"},
}

type pkg struct {
	ImportPath, Dir                    string
	Standard                           bool
	Imports, Deps                      []string
	GoFiles, TestGoFiles, XTestGoFiles []string
}

func (p pkg) ours() bool { return within(p.ImportPath, module) }

// within reports whether the path is the folder or below it.
func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}

// packages are those of the module and all that they link, by import path.
var packages = sync.OnceValues(func() (map[string]pkg, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,Standard,Imports,Deps,GoFiles,TestGoFiles,XTestGoFiles", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = errors.New(string(exit.Stderr))
		}
		return nil, err
	}
	all := make(map[string]pkg)
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all[p.ImportPath] = p
	}
})

func (b border) about(path string) bool {
	folder, below := strings.CutSuffix(module+"/"+b.of, "/...")
	if slices.ContainsFunc(b.except, func(of string) bool { return within(path, module+"/"+of) }) {
		return false
	}
	return path == folder || below && within(path, folder)
}

func (b border) forbids(dep pkg) bool {
	in := func(folder string) bool {
		return folder == anything && !dep.Standard || within(dep.ImportPath, folder)
	}
	return slices.ContainsFunc(b.not, in) && !slices.ContainsFunc(b.but, in)
}

// TestArchitecture shows who links whom, at any distance.
func TestArchitecture(t *testing.T) {
	t.Parallel()
	all, err := packages()
	require.NoError(t, err)
	for _, b := range borders {
		t.Run(b.of, func(t *testing.T) {
			t.Parallel()
			found := b.optional
			for path, p := range all {
				if !p.ours() || !b.about(path) {
					continue
				}
				found = true
				for _, dep := range p.Deps {
					require.False(t, b.forbids(all[dep]), "%s links %s, but %s", path, dep, b.why)
				}
			}
			require.True(t, found, "no package %s", b.of)
		})
	}
}

// TestLinked shows what a program gets that imports the runtime: every package
// outside the standard library, as testdata/linked.txt has them. A new line there is
// a decision.
func TestLinked(t *testing.T) {
	t.Parallel()
	all, err := packages()
	require.NoError(t, err)
	var linked strings.Builder
	deps := slices.Sorted(slices.Values(all[module+"/runtime"].Deps))
	for _, dep := range deps {
		if !all[dep].Standard {
			linked.WriteString(dep + "\n")
		}
	}
	golden := filepath.Join("testdata", "linked.txt")
	if *update {
		require.Empty(t, os.Getenv("CI"), "golden files are not written by CI")
		require.NoError(t, os.WriteFile(golden, []byte(linked.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), linked.String())
}

// TestImportName shows that the runtime has one name in every file, beside which there is
// room for the standard library's. Only generated code yields, with a number, to a file
// that has taken the name.
func TestImportName(t *testing.T) {
	t.Parallel()
	all, err := packages()
	require.NoError(t, err)
	for _, p := range all {
		if !p.ours() {
			continue
		}
		for _, name := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			file := filepath.Join(p.Dir, name)
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			require.NoError(t, err)
			for _, imp := range parsed.Imports {
				if path, _ := strconv.Unquote(imp.Path.Value); path != module+"/runtime" {
					continue
				}
				require.NotNil(t, imp.Name, "%s imports the runtime without the name lockrt", file)
				as := imp.Name.Name
				if strings.HasSuffix(name, "_lockgen.go") {
					as = strings.TrimRight(as, "0123456789")
				}
				require.Equal(t, "lockrt", as, file)
			}
		}
	}
}
