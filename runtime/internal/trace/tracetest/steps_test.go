package tracetest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/trace"
)

// TestReadSteps reads the steps of two processes, of which one had more than are written, and one was killed while it wrote.
func TestReadSteps(t *testing.T) { //nolint:paralleltest // one function gets the steps of all clients
	dir, began := t.TempDir(), time.Now()
	step := func(i int) trace.Step {
		return trace.Step{Action: trace.Granted, Key: "key", Owner: first, Trust: time.Second, At: began.Add(time.Duration(i)).Round(0).UTC()}
	}
	for name, n := range map[string]int{"a": 2, "b": 4} {
		w, err := WriteSteps(filepath.Join(dir, name), 3)
		require.NoError(t, err)
		for i := range n {
			trace.Present()(step(i))
		}
		require.NoError(t, w.Close())
		require.Nil(t, trace.Present())
	}
	killed, err := os.OpenFile(filepath.Join(dir, "a"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = killed.WriteString(`{"Action":"Gra`)
	require.NoError(t, err)
	require.NoError(t, killed.Close())

	all, until, err := ReadSteps(dir, 3)
	require.NoError(t, err)
	require.ElementsMatch(t, []trace.Step{step(0), step(1), step(0), step(1), step(2)}, all)
	require.True(t, until.Equal(step(2).At), "until then they are all")
	_, err = WriteSteps(filepath.Join(dir, "none", "c"), 3)
	require.Error(t, err)
}
