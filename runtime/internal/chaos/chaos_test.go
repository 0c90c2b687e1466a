//go:build linux

package chaos

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

var (
	full  = flag.Bool("full", false, "run every fault at full length, one after the other, within its exact bounds")
	write = flag.String("write", "", "write the table to this file")
)

func TestMain(m *testing.M) {
	if line := os.Getenv(ordersVariable); line != "" {
		process(line)
	}
	os.Exit(m.Run())
}

// TestChaos runs every fault. Shortened, it runs beside other tests and under the race detector, where
// figures say little: only what is not a matter of speed is held against its bound then, and the
// others against one that is wide enough for a machine that is busy.
func TestChaos(t *testing.T) {
	t.Parallel()
	results := make([]*findings, len(rows))
	lease := time.Second
	if *full {
		lease = 2 * time.Second
	}
	t.Run("faults", func(t *testing.T) {
		for i, r := range rows {
			t.Run(r.name, func(t *testing.T) {
				if !*full {
					t.Parallel()
				}
				a := &arena{t: t, row: r, lease: lease, rounds: 1, exact: *full}
				if *full && !r.once {
					a.rounds = 3
				}
				results[i] = a.run()
				t.Logf("%s", line(r, results[i]))
				require.Empty(t, results[i].violations)
			})
		}
	})
	if !*full || slices.Contains(results, nil) {
		return
	}
	table := table(results, lease, version(t))
	_, _ = os.Stdout.WriteString(table)
	if *write != "" {
		require.NoError(t, os.WriteFile(*write, []byte(table), 0o644))
	}
}

// version returns what the servers are.
func version(t *testing.T) string {
	t.Helper()
	info, err := redistest.Server(t).Do("INFO", "server").ToString()
	require.NoError(t, err)
	_, rest, _ := strings.Cut(info, "redis_version:")
	version, _, _ := strings.Cut(rest, "\r")
	return version
}
