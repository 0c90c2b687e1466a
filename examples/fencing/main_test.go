//go:build unix

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/examples/internal/replicastest"
)

func TestMain(m *testing.M) { replicastest.Main(m, main) }

func TestShow(t *testing.T) {
	t.Parallel()
	replicastest.Show(t, show, func(t *testing.T, out string) {
		t.Helper()
		require.Regexp(t, `^ +\d+\.\d{3}s +slow      holds the lock, is about to write, and stops
 +\d+\.\d{3}s  quick     has shipped the order by truck
 +\d+\.\d{3}s  slow      runs on, [^\n]*
 +\d+\.\d{3}s  slow      was refused: stale token; lockgen: unlock "example-fencing:order:42": lease lost: [^\n]*
 +\d+\.\d{3}s  database  says that order 42 was shipped by truck
$`, out)
	}, "redisson_lock_token:{example-fencing:order:42}") // the counter expires
}
