package main

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/examples/internal/replicastest"
)

func TestMain(m *testing.M) { replicastest.Main(m, main) }

func TestShow(t *testing.T) {
	t.Parallel()
	replicastest.Show(t, show, check, "example-workers:", "lockgen_requests:{example-workers:") // of the semaphore, which stays after the test
}

// check examines the printed output: at most three jobs run at a time, counting those of dead workers until their
// permits expire, and the other replicas finish all their jobs.
func check(t *testing.T, out string) {
	t.Helper()
	busy, done := map[string]int{}, map[string]int{}
	killed := math.Inf(1)
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		at, err := strconv.ParseFloat(strings.TrimSuffix(words[0], "s"), 64)
		require.NoError(t, err, line)
		if at > killed+watchdog.Seconds()/3 { // a third of it has passed when it is renewed, and a busy machine may be late with that
			delete(busy, hanging)
		}
		switch who := words[1]; words[2] {
		case "begins":
			busy[who]++
		case "ends":
			busy[who]--
			done[who]++
		case "kills":
			killed = at
			require.Equal(t, workers, busy[hanging], "it was killed at work")
		}
		require.LessOrEqual(t, busy["A"]+busy["B"]+busy["C"], permits, "%s\n%s", line, out)
	}
	require.GreaterOrEqual(t, done["B"], jobs, out)
	require.GreaterOrEqual(t, done["C"], jobs, out)
	require.Contains(t, out, "operator  has all permits")
}
