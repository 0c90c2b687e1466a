package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/examples/internal/replicastest"
	"github.com/lockgen/lockgen/examples/service/servers"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

func TestMain(m *testing.M) { replicastest.Main(m, main) }

// needed skips the test where PostgreSQL or Redis is missing. In CI it fails instead.
func needed(t *testing.T) {
	t.Helper()
	if os.Getenv("CI") == "" && (!servers.PostgresInstalled() || !redistest.Installed()) {
		t.Skip("PostgreSQL and redis-server are not installed: make service installs them")
	}
}

// TestService runs the load. It fails if anything is done twice or oversold, or if no other replica acquires the locks
// of the killed replica. The output names each fault that has happened.
func TestService(t *testing.T) {
	t.Parallel()
	needed(t)
	var out bytes.Buffer
	require.NoError(t, show(t.Context(), 60, &out), "%s", &out)
	for _, line := range []string{
		`load +sold 30 orders in peace, at most [1-4] labels were printed at once`,
		`load +KILLS replica A, which holds the locks of order crash`,
		`load +crash was paid by another replica [0-9.ms]+ after the crash`,
		`A +listens`,
		`load +RESTARTS Redis: all locks are gone`,
		`load +restart was paid by another replica [0-9.ms]+ after the restart`,
		`load +the first payment of restart failed: `,
		`C +stops`,
		`load +freeze was paid by another replica [0-9.ms]+ after the pause`,
		`load +the first payment of freeze failed: `,
		`load +sold 30 orders beside the faults`,
		`audit +nothing was done twice, 480000 cents and 45 pieces are all there`,
	} {
		require.Regexp(t, line, out.String())
	}
}

func TestService_RefusesTooFewOrders(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, show(t.Context(), 11, io.Discard), "at least 12")
}

// TestFresh generates the wrappers again, in memory, and compares them with what is committed.
func TestFresh(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"../../cmd/lockgen", "../../templates", "../../runtime", "shop"} { // go test must not reuse a stale result from its cache
		require.NoError(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				_, err = os.Stat(path)
			}
			return err
		}))
	}
	out, err := exec.CommandContext(t.Context(), "go", "tool", "lockgen", "-strict", "-check", "./...").CombinedOutput()
	require.NoError(t, err, "run go tool lockgen ./... in examples/service; the difference is\n%s", out)
	out, err = exec.CommandContext(t.Context(), "go", "tool", "lockgen", "vet", "./...").CombinedOutput()
	require.NoError(t, err, "%s", out)
}
