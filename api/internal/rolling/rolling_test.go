// Package rolling shows that processes of the last release and processes of the present code work together on the same keys, as they
// do while a fleet is updated.
package rolling

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/api/internal/releases"
	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// root is the folder of the module.
const root = "../../.."

// commitVariable names a commit that stands in for the last release.
const commitVariable = "LOCKGEN_ROLLING_COMMIT"

// TestRolling makes two processes of the last release and two of the present code count under locks of each kind.
// Before the first release, and in a shallow clone without its commit, all four are of the present code.
func TestRolling(t *testing.T) {
	t.Parallel()
	commit := os.Getenv(commitVariable)
	if commit == "" {
		all, err := releases.Read(root)
		require.NoError(t, err)
		if len(all) > 0 {
			has, err := all[len(all)-1].In(root)
			require.NoError(t, err)
			if has {
				commit = all[len(all)-1].Commit
			} else {
				t.Log("the present code stands in for the last release: this clone is shallow (git fetch --unshallow)")
			}
		}
	}
	last := root
	if commit != "" {
		last = released(t, commit)
	}
	programs := []string{build(t, last), build(t, root)}
	for tries := 5; ; tries-- { // a lock that is handed over has a lease of two seconds at first, and a machine may stand still for that long
		server := redistest.Server(t)
		failed := work(t, programs, server.URL())
		if tries > 0 && strings.Contains(failed, lockrt.ErrLost.Error()) {
			t.Log(failed)
			continue
		}
		require.Empty(t, failed)
		for _, kind := range []string{"mutex", "fair", "write", "multi", "permit", "semaphore"} {
			count, err := server.Do("GET", "counter:"+kind).AsInt64()
			require.NoError(t, err, kind)
			require.EqualValues(t, len(programs)*processes*rounds, count, "%s: two held it at once", kind)
		}
		return
	}
}

const (
	processes = 2 // of each program
	rounds    = 20
)

// work runs the programs until all have ended, and returns why some of them failed.
func work(t *testing.T, programs []string, url string) (failed string) {
	t.Helper()
	var (
		wg sync.WaitGroup
		mu sync.Mutex
	)
	for _, program := range programs {
		for range processes {
			wg.Go(func() {
				said, err := exec.CommandContext(t.Context(), program, url, strconv.Itoa(rounds)).CombinedOutput()
				if err != nil {
					mu.Lock()
					defer mu.Unlock()
					failed += fmt.Sprintf("%s: %v\n%s", filepath.Base(filepath.Dir(program)), err, said)
				}
			})
		}
	}
	wg.Wait()
	return failed
}

// released returns a folder with the tree of a commit.
func released(t *testing.T, commit string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "released")
	run(t, root, "git", "clone", "-q", "--shared", "--no-checkout", ".", dir)
	run(t, dir, "git", "checkout", "-q", "--detach", commit)
	return dir
}

// build builds the worker with the runtime of a tree.
func build(t *testing.T, tree string) string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("testdata", "worker", "main.go"))
	require.NoError(t, err)
	dir := t.TempDir()
	program := filepath.Join(dir, "worker")
	// A go build overlay adds a file that the tree does not have: the test writes nothing into the
	// tree.
	tree, err = filepath.Abs(tree)
	require.NoError(t, err)
	file := filepath.Join(dir, "main.go")
	require.NoError(t, os.WriteFile(file, source, 0o600))
	overlay := filepath.Join(dir, "overlay.json")
	laid := filepath.Join(tree, "examples", "internal", "worker", "main.go")
	require.NoError(t, os.WriteFile(overlay, []byte(`{"Replace": {`+strconv.Quote(laid)+`: `+strconv.Quote(file)+`}}`), 0o600))
	run(t, tree, "go", "build", "-overlay", overlay, "-o", program, "./examples/internal/worker")
	return program
}

func run(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %s\n%s", name, strings.Join(args, " "), out)
}
