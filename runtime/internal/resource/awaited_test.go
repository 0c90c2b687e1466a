package resource

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/core"
)

// Each release is late at its own limit, in whatever order callers begin to wait, and one that was answered never.
func TestAwaitedReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a awaitedReleases
		start := core.Now()
		after := func(d time.Duration) *ReleaseOp {
			op := &ReleaseOp{done: make(chan error, 2), limit: start.Add(d)}
			a.add(op)
			return op
		}
		third, first, answered, second := after(3*time.Second), after(time.Second), after(time.Second), after(2*time.Second)
		require.True(t, a.remove(answered))
		for i, op := range []*ReleaseOp{first, second, third} {
			require.Equal(t, errLate, <-op.done)
			require.Equal(t, time.Duration(i+1)*time.Second, core.Now().Sub(start))
			require.False(t, a.remove(op), "it has errLate")
		}
		require.Empty(t, answered.done)
		require.Empty(t, a.all)
		require.True(t, a.armed.IsZero())

		again := after(5 * time.Second)
		require.Equal(t, errLate, <-again.done)
		require.Equal(t, 5*time.Second, core.Now().Sub(start))
	})
}
