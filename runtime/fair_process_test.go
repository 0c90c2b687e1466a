package lockrt_test

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// queuerVariable tells a process that this test binary was started as what to queue for: the address of the server, the
// lock, and its name, which it writes into a list while it has the lock.
const queuerVariable = "LOCKGEN_FAIR_QUEUER"

// TestFairMutex_Queuer is the process that the test below starts. By itself it tests nothing.
func TestFairMutex_Queuer(t *testing.T) { //nolint:paralleltest // it is a process of its own
	orders := strings.Fields(os.Getenv(queuerVariable))
	if len(orders) == 0 {
		return
	}
	server, key, name := orders[0], orders[1], orders[2]
	c, err := opened(t.Context(), "redis://"+server, lockrt.Options{})
	require.NoError(t, err)
	rc := redistest.NewClient(t, server)
	require.NoError(t, c.FairMutex(key).Do(t.Context(), func(ctx context.Context, _ *lockrt.Lease) error {
		return rc.Do(ctx, rc.B().Rpush().Key(key+":served").Element(name).Build()).Error()
	}))
	require.NoError(t, c.Close())
}

// Processes are served in the order in which they began to wait. Those that are killed while they wait cost the others some
// seconds, and not their turn.
func TestFairMutex_ServesProcessesInOrder(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "k")
	m := newClient(t, lockrt.Options{}).FairMutex(key)
	held := ok(t)(m.Lock(patient(t)))
	var all []*exec.Cmd
	for i := range 6 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestFairMutex_Queuer$", "-test.timeout=1m")
		cmd.Env = append(os.Environ(), queuerVariable+"="+server.Addr()+" "+key+" "+strconv.Itoa(i))
		cmd.Stderr = os.Stderr
		require.NoError(t, redistest.Start(cmd))
		all = append(all, cmd)
		until(t, "it stands in the queue", func() bool { return len(fairQueue(t, server, key)) == i+1 })
	}
	dead := []int{0, 2} // the one that is next, and one in the middle
	for _, i := range dead {
		require.NoError(t, all[i].Process.Kill())
		require.Error(t, all[i].Wait())
	}
	free(t, held)
	for i, cmd := range all {
		if !slices.Contains(dead, i) {
			require.NoError(t, cmd.Wait())
		}
	}
	served, err := server.Do("LRANGE", key+":served", "0", "-1").AsStrSlice()
	require.NoError(t, err)
	require.Equal(t, []string{"1", "3", "4", "5"}, served)
	server.Do("DEL", key+":served")
	nothingLeft(t, server, key)
}
