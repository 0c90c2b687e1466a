package main_test

import (
	"bytes"
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/cli"
	"github.com/lockgen/lockgen/internal/testmodule"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite what the scenarios expect")

// compile builds the command as users do, and returns its folder.
func compile(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", dir, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	return dir
}

// environment gives scenarios the program, and the go command its caches: scenarios have no home
// directory.
func environment(t *testing.T, program string) func(env *testscript.Env) {
	t.Helper()
	keys := []string{"GOCACHE", "GOMODCACHE", "GOPATH"}
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"env"}, keys...)...).Output()
	require.NoError(t, err)
	values := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Len(t, values, len(keys))
	return func(env *testscript.Env) {
		for i, key := range keys {
			env.Setenv(key, values[i])
		}
		env.Setenv("GOPROXY", "off")
		env.Setenv("XDG_CACHE_HOME", filepath.Join(env.WorkDir, ".cache"))
		env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, ".config"))
		env.Setenv("LOCKGEN", filepath.Join(program, "lockgen"))
		env.Setenv("PATH", program+string(os.PathListSeparator)+env.Getenv("PATH"))
	}
}

// TestScenarios runs testdata/*.txtar: an input tree, and the exact output or the exact messages. Each starts in a module that knows lockgen.
// The commands are
//
//	lockgen [args]      runs the tool, here, and then type-checks the whole tree; with ! it must exit with 1
//	ask [args]          runs the tool, to hear what it says, and nothing else; with ! it must exit with 1
//	trouble [args]      runs the tool, which must exit with 2
//	exec lockgen        runs the built program, as users and other programs do
//	replace old new file
//	nocheck             from here on the tree is not type-checked: it is broken on purpose
func TestScenarios(t *testing.T) {
	t.Parallel()
	if *update {
		require.Empty(t, os.Getenv("CI"), "-update is for people")
	}
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	checker := newTypeChecker(t, root)
	prepare := environment(t, compile(t))
	testscript.Run(t, testscript.Params{
		Dir:                "testdata",
		UpdateScripts:      *update,
		RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			prepare(env)
			return writeModule(root, env.WorkDir)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"lockgen": func(ts *testscript.TestScript, neg bool, args []string) {
				want := 0
				if neg {
					want = 1
				}
				run(ts, want, args)
				if !neg {
					// Whatever the order of maps and goroutines: a second run finds nothing to do.
					require.Zero(t, cli.Main(append([]string{"-cache=off", "-check"}, args...), ts.MkAbs("."), os.Stderr, io.Discard))
				}
				if !neg && ts.Getenv("nocheck") == "" {
					ts.Check(checker.check(ts.MkAbs(".")))
				}
			},
			"ask": func(ts *testscript.TestScript, neg bool, args []string) {
				want := 0
				if neg {
					want = 1
				}
				run(ts, want, args)
			},
			"trouble": func(ts *testscript.TestScript, _ bool, args []string) { run(ts, 2, args) },
			"replace": func(ts *testscript.TestScript, _ bool, args []string) {
				name := ts.MkAbs(args[2])
				ts.Check(os.WriteFile(name, []byte(strings.ReplaceAll(ts.ReadFile(name), args[0], args[1])), 0o600))
			},
			"nocheck": func(ts *testscript.TestScript, _ bool, _ []string) { ts.Setenv("nocheck", "1") },
		},
	})
}

// uncached is for runs that generate: they leave nothing behind outside of their directory.
func uncached(args []string) []string {
	if len(args) > 0 && slices.Contains([]string{"list", "graph", "explain", "vet", "help"}, args[0]) {
		return args
	}
	return append([]string{"-cache=off"}, args...)
}

// run calls the tool and wants an exit code of it.
func run(ts *testscript.TestScript, want int, args []string) {
	var stdout, stderr bytes.Buffer
	dir := ts.MkAbs(".")
	code := cli.Main(uncached(args), dir, &stdout, &stderr)
	scrub := strings.NewReplacer(dir+string(filepath.Separator), "", dir, "$WORK")
	_, err := scrub.WriteString(ts.Stdout(), stdout.String())
	ts.Check(err)
	_, err = scrub.WriteString(ts.Stderr(), stderr.String())
	ts.Check(err)
	if code != want {
		ts.Fatalf("exit code %d, want %d\n%s%s", code, want, stdout.String(), stderr.String())
	}
}

// writeModule makes dir a module that requires what this one requires, and this one, unless it is one.
func writeModule(root, dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
		return nil
	}
	return testmodule.Write(dir, root, module)
}

// TestDeterminism shows that the same input gives the same bytes, in whatever order files were made, packages are named and goroutines run.
func TestDeterminism(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	inputs, err := filepath.Glob(filepath.Join(root, "generated_test", "*.go"))
	require.NoError(t, err)
	inputs = slices.DeleteFunc(inputs, func(name string) bool {
		return strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_lockgen.go")
	})
	packages := []string{"./a", "./b", "./c"}
	var want map[string]string
	for range 20 {
		dir := t.TempDir()
		require.NoError(t, testmodule.Write(dir, root, module))
		rand.Shuffle(len(packages), func(i, j int) { packages[i], packages[j] = packages[j], packages[i] })
		for _, p := range packages {
			require.NoError(t, os.Mkdir(filepath.Join(dir, p), 0o700))
			rand.Shuffle(len(inputs), func(i, j int) { inputs[i], inputs[j] = inputs[j], inputs[i] })
			for _, name := range inputs {
				src, err := os.ReadFile(name)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(filepath.Join(dir, p, filepath.Base(name)), src, 0o600))
			}
		}
		var stdout, stderr bytes.Buffer
		require.Zero(t, cli.Main(append([]string{"-cache=off", "-json"}, packages...), dir, &stdout, &stderr), "%s%s", &stdout, &stderr)
		got := map[string]string{"said": stdout.String()}
		outputs, err := filepath.Glob(filepath.Join(dir, "*", "*_lockgen.go"))
		require.NoError(t, err)
		require.Greater(t, len(outputs), 6)
		for _, name := range outputs {
			src, err := os.ReadFile(name)
			require.NoError(t, err)
			got[strings.TrimPrefix(name, dir)] = string(src)
		}
		if want == nil {
			want = got
		}
		require.Equal(t, want, got)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{[]string{"-version"}, 0, "lockgen ", ""},
		{[]string{"-h"}, 0, "", "usage: lockgen"},
		{[]string{"-frobnicate"}, 2, "", "usage: lockgen"},
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, tt.code, cli.Main(tt.args, t.TempDir(), &stdout, &stderr), tt.args)
		require.Contains(t, stdout.String(), tt.stdout)
		require.Contains(t, stderr.String(), tt.stderr)
	}
}
