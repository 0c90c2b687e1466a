package ctl

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestDeadlocks_BesidesManyCalls shows that deadlocks and why find the deadlocks of a process that has more waiting calls than it names, and that every
// verb says how many it does not name.
func TestDeadlocks_BesidesManyCalls(t *testing.T) {
	t.Parallel()
	const circles, named, many = 6, 200, 900
	url := redistest.Server(t).URL()
	c, err := lockrt.Open(t.Context(), url, lockrt.Options{OpTimeout: patience})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	defer func() {
		cancel()
		calls.Wait()
		require.NoError(t, c.Close())
	}()
	wait := func(ctx context.Context, key string) {
		calls.Go(func() { _, _ = c.Mutex(key).Lock(ctx) }) //nolint:errcheck // it ends with ctx
	}
	_, err = c.Mutex("aa").Lock(ctx)
	require.NoError(t, err)
	waiting := func(n int) {
		until(t, fmt.Sprint(n, " calls wait"), func() bool { return len(c.Snapshot().Waiting) == n })
	}
	for range many {
		wait(ctx, "aa")
	}
	waiting(many)
	for i := range circles {
		x, err := c.Mutex(fmt.Sprint("x", i+1)).Lock(ctx)
		require.NoError(t, err)
		y, err := c.Mutex(fmt.Sprint("y", i+1)).Lock(ctx)
		require.NoError(t, err)
		wait(x.Context(), fmt.Sprint("y", i+1))
		wait(y.Context(), fmt.Sprint("x", i+1))
	}
	wait(ctx, "x1") // under no lease: it has waited for less long than those that are named
	const total = many + 1 + 2*circles
	waiting(total)

	s := all(t, url, "deadlocks")
	require.Equal(t, exitFound, s.code, s.out+s.err)
	require.Equal(t, fmt.Sprintf("Processes did not name %d locks and calls, and may have left out calls of a deadlock.\n", total-named), s.err)
	var d Deadlocks
	require.NoError(t, json.Unmarshal([]byte(all(t, url, "deadlocks", "-json").out), &d))
	require.Len(t, d.Deadlocks, circles)
	require.Equal(t, total-named, d.Omitted)

	s = all(t, url, "why", "x1")
	require.Zero(t, s.code, s.err)
	require.Contains(t, s.out, "Deadlock of 2 calls:")
	require.Equal(t, fmt.Sprintf("Processes did not name %d locks and calls, so a chain may end too soon.\n", total-named), s.err)
	var r Reason
	require.NoError(t, json.Unmarshal([]byte(all(t, url, "why", "-json", "x1").out), &r))
	require.Len(t, r.Chains, 2, "of its key, the process names the call that waits under no lease, too")
	require.Equal(t, total-named, r.Omitted)

	s = all(t, url, "show", "aa")
	require.Zero(t, s.code, s.err)
	require.Equal(t, fmt.Sprintf("Processes did not name %d locks and calls of this key.\n", many-named), s.err)
	var shown Detail
	require.NoError(t, json.Unmarshal([]byte(all(t, url, "show", "-json", "aa").out), &shown))
	require.Equal(t, many-named, shown.Omitted)
}
