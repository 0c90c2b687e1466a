//go:build linux

package chaos

import (
	"flag"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

var (
	full   = flag.Bool("full", false, "run every fault at full length, within its exact bounds")
	every  = flag.Bool("every", false, "run every fault for every primitive, shortened")
	times  = flag.Int("runs", 1, "run each fault so many times and keep the worst; more than once, it strikes once in each run")
	beside = flag.Int("beside", 1, "with -full, how many faults run beside each other")
	write  = flag.Bool("write", false, "write the rows of the table that were run to the document, and the list of faults")
)

func TestMain(m *testing.M) {
	if line := os.Getenv(ordersVariable); line != "" {
		process(line)
	}
	flag.Parse()
	if !*full {
		_ = flag.Set("test.parallel", "6") // they wait more than they do
	} else {
		_ = flag.Set("test.parallel", strconv.Itoa(*beside))
	}
	os.Exit(m.Run())
}

// TestChaos runs every fault, for every primitive. Shortened, it runs every fault for a Mutex and, in turn, for one or
// two of the others, which is every primitive with a part of the faults, and some faults of several servers. It then runs beside other tests and under the race detector, where
// figures say little: only what is not a matter of speed is held against its bound then, and the
// others against one that is wide enough for a machine that is busy.
func TestChaos(t *testing.T) {
	t.Parallel()
	results := make([]*findings, len(runs))
	lease := time.Second
	if *full {
		lease = 2 * time.Second
	}
	t.Run("faults", func(t *testing.T) {
		for i, r := range runs {
			crowd := r.topology != oneServer
			switch {
			case *full || *every:
			case crowd && (r.rare || r.of != mutex && r.of != red),
				r.part != "" && r.rare,
				r.part == "" && !crowd && r.of != mutex && (i+slices.Index(family, r.of))%len(family) != 0:
				continue
			}
			t.Run(r.title(), func(t *testing.T) {
				if !*full || *beside > 1 {
					t.Parallel()
				}
				if crowd {
					crowded <- struct{}{}
					defer func() { <-crowded }()
				}
				lease := lease
				switch {
				case r.lease > 0:
					lease = r.lease
				case r.slow && !*full: // a connection waits for a third of a lease, which has to be several round trips
					lease = 3 * time.Second
				case r.topology == sentinels:
					lease = failoverLease
				case r.topology == shards:
					lease = clusterLease
				}
				results[i] = worst(t, *times, func(t *testing.T) *arena {
					a := &arena{t: t, row: r.row, of: r.of, on: r.topology, lease: lease, rounds: 1, exact: *full}
					if *full && !r.once && *times == 1 {
						a.rounds = 3
					}
					return a
				})
				t.Logf("%s", line(r, results[i]))
				require.Empty(t, results[i].violations)
			})
		}
	})
	if !*full {
		return
	}
	before, err := os.ReadFile(document)
	require.NoError(t, err)
	text := compose(preface(lease, version(t)), tables(results, parse(string(before))))
	_, _ = os.Stdout.WriteString(text)
	if *write {
		require.NoError(t, os.WriteFile(document, []byte(text), 0o644))
	}
}

// title names the test of a run.
func (r run) title() string {
	if r.part != "" {
		return r.of.name + ", " + r.part + ": " + r.name
	}
	return r.of.name + ": " + r.name
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
