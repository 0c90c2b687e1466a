package main

import (
	"bytes"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/examples/internal/replicas"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

func TestMain(m *testing.M) {
	if replicas.Name() != "" {
		main() // as the replicas of the test
		return
	}
	os.Exit(m.Run())
}

func TestShow(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"embedded", "redis"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var url string
			if name == "redis" {
				url = redistest.Server(t).URL()
			}
			var out bytes.Buffer
			require.NoError(t, show(t.Context(), url, &out), out.String())
			check(t, out.String())
		})
	}
}

// check reads what was printed: never more than three jobs at a time, with those of the dead as long as their permits
// are out, and all jobs of the others done.
func check(t *testing.T, out string) {
	t.Helper()
	busy, done := map[string]int{}, map[string]int{}
	killed := math.Inf(1)
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		at, err := strconv.ParseFloat(strings.TrimSuffix(words[0], "s"), 64)
		require.NoError(t, err, line)
		if at > killed+1 { // two seconds, of which a third had passed at most when it was killed
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
