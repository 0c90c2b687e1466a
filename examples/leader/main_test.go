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
		for _, line := range []string{
			`(?m)^ +\d+\.\d{3}s +A         leads$`,
			`operator  sees that A leads`,
			`operator  asks A to resign`,
			`A         has resigned`,
			`B         leads`,
			`operator  kills B`,
			`[AC]         leads`,
			`operator  takes the lock of the election from [AC] by force`,
			`[AC]         has lost the lead: .*lease lost`,
		} {
			require.Regexp(t, line, out)
		}
	}, "redisson_lock_token:") // expires
}
