//go:build linux && !race

// With the race detector these tests take minutes instead of seconds: they keep the processors busy, and the time in which a process does not run does
// not count. make test runs this package without it as well.

package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMutants runs primitives that are broken on purpose.
func TestMutants(t *testing.T) {
	t.Parallel()
	for mutant, tt := range map[string]struct {
		of   *primitive
		row  string
		want string
	}{
		mutantAlone: {mutex, "SCRIPT FLUSH every 10 ms", "double hold"},
		mutantDeaf:  {rw, "server stopped (SIGSTOP) for 1.5 L", "double hold"},
		mutantStuck: {mutex, "subscriber connections killed every 100 ms", "unheld"},
		mutantSlow:  {fair, "SCRIPT FLUSH every 10 ms", "late"},
		mutantWide:  {permits, "SCRIPT FLUSH every 10 ms", "double hold"},
		mutantRash:  {latch, "SCRIPT FLUSH every 10 ms", "the model does not explain the history"},
		mutantTorn:  {multi, "SCRIPT FLUSH every 10 ms", "double hold"},
	} {
		t.Run(mutant, func(t *testing.T) {
			t.Parallel()
			for _, r := range rows {
				if r.name != tt.row {
					continue
				}
				var found []string
				for range 5 { // events are left out while the machine does not let a process run
					a := &arena{t: t, row: r, of: tt.of, lease: 600 * time.Millisecond, rounds: 1, mutant: mutant}
					found = a.run().violations
					if strings.Contains(strings.Join(found, "\n"), tt.want) {
						return
					}
				}
				require.Fail(t, "it was not found", "%s: %q", tt.want, found)
			}
			require.Fail(t, "there is no such row", tt.row)
		})
	}
}
