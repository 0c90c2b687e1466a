package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/trace/tracetest"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestRealTraces_Multi makes processes use MultiLocks of a real server, and replays what the processes and the server did, in the order of
// their times: each member as a mutex, and the calls.
func TestRealTraces_Multi(t *testing.T) {
	var run tracetest.MultiRun
	undisturbed(t, func(t *testing.T) tracetest.Run {
		run = multiReally(t)
		return tracetest.Run{}
	})
	actions, err := run.Replay()
	require.NoError(t, err)
	t.Log(actions)
	for _, action := range []string{"Asks", "Granted", "Refused", "Handed", "Unlock", "RunAcquire", "RunRelease",
		"calls: Begin", "calls: Try", "calls: Has", "calls: Refused", "calls: Stand", "calls: Take", "calls: End", "calls: Over"} {
		require.NotZero(t, actions[action], action)
	}
	for _, events := range run.Processes { // a call that takes the whole without its last member
		last := slices.IndexFunc(events, func(e tracetest.Event) bool { return e.Whole != nil && e.Whole.Action == trace.Takes })
		require.Positive(t, last)
		for last--; events[last].Whole == nil || events[last].Whole.Action != trace.Has; last-- {
			require.Positive(t, last)
		}
		events[last].Whole.Action = trace.Turned
	}
	_, err = run.Replay()
	require.ErrorContains(t, err, "leaves the protocol")
}

// multiReally returns what a real server and the processes did.
func multiReally(t *testing.T) (run tracetest.MultiRun) {
	server := redistest.Server(t)
	monitor, err := tracetest.Watch(server.Addr(), 1_000_000)
	require.NoError(t, err)
	for _, w := range workReally(t, "^TestRealTraces_MultiWorker$", server.URL()) {
		run.Processes = append(run.Processes, w.Events)
		require.NotEmpty(t, w.Sections)
	}
	run.Commands, err = monitor.Stop()
	require.NoError(t, err)
	return run
}

// TestRealTraces_MultiWorker is a process that TestRealTraces_Multi starts. By itself it tests nothing.
func TestRealTraces_MultiWorker(t *testing.T) {
	composed(t, func(clients []*lockrt.Client, r *rand.Rand) (locker, string) {
		var members []lockrt.Locker
		for _, i := range r.Perm(4)[:2+r.IntN(2)] {
			members = append(members, clients[0].Mutex(fmt.Sprintf("key%d", i)))
		}
		return lockrt.NewMultiLock(members...), "some"
	})
}
