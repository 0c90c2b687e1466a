package sim

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace/tracetest"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestRealTraces_Counts makes processes use permits, a semaphore and a latch of a real server, and replays what the server did in the order of
// its MONITOR.
func TestRealTraces_Counts(t *testing.T) {
	run := undisturbed(t, countedReally)
	actions, err := run.Replay()
	require.NoError(t, err)
	t.Log(actions)
	for _, action := range []string{"Acquire", "Release", "Renew", "Lease", "Look", "Total", "Create", "Take", "Give", "Drain", "Start", "Down", "Read", "Delete"} {
		require.NotZero(t, actions[action], action)
	}
	require.True(t, lengthen(run.Commands))
	_, err = run.Replay()
	require.ErrorContains(t, err, "leaves the protocol", "a permit that lasts longer than it was asked for")
}

// countedReally returns what a real server did for processes that count.
func countedReally(t *testing.T) tracetest.Run {
	server := redistest.Server(t)
	monitor, err := tracetest.Watch(server.Addr(), 1_000_000)
	require.NoError(t, err)
	workReally(t, "^TestRealTraces_Counter$", server.URL())
	run := tracetest.Run{Kind: "count", Processes: realClients}
	run.Commands, err = monitor.Stop()
	require.NoError(t, err)
	return run
}

// lengthen has the server grant the first permit for a second more than it did.
func lengthen(commands []*tracetest.Command) bool {
	for _, c := range commands {
		for _, call := range c.Calls {
			if strings.EqualFold(call[0], "zadd") && call[1] == protocol.PermitLeases("permits") {
				over, err := strconv.ParseInt(call[2], 10, 64)
				call[2] = strconv.FormatInt(over+1000, 10)
				return err == nil
			}
		}
	}
	return false
}

// TestRealTraces_Counter is a process that TestRealTraces_Counts starts. By itself it tests nothing.
func TestRealTraces_Counter(t *testing.T) {
	_, url, started := strings.Cut(os.Getenv(workerVariable), " ")
	if !started {
		return
	}
	c := realClient(t, url)
	var workers sync.WaitGroup
	for j := range 3 {
		workers.Go(func() {
			for n := range 14 {
				if err := realCounts(t.Context(), c, j+n); err != nil {
					t.Errorf("round %d: %v", n, err)
					return
				}
			}
		})
	}
	workers.Wait()
	require.NoError(t, c.Close())
	realWorker{}.print(t)
}

// realCounts does one round: a permit, a part of the semaphore, and the latch, each with something else besides.
func realCounts(ctx context.Context, c *lockrt.Client, n int) error {
	permits, semaphore, latch := c.PermitSemaphore("permits", 3), c.Semaphore("semaphore", 3), c.CountDownLatch("latch")
	ignored := func(_ any, err error) error { return err }
	if n%10 == 9 { // a permit that nobody releases before it expires
		p, err := permits.Acquire(ctx, lockrt.WithLease(200*time.Millisecond))
		switch {
		case err == nil:
			<-p.Context().Done()
		case !errors.Is(err, lockrt.ErrNotAcquired): // the answer came when the lease was over
			return err
		}
	}
	p, err := permits.AcquireN(ctx, 1+n%3)
	if err != nil {
		return err
	}
	ids := p.PermitIDs()
	const long = time.Hour
	err = []func() error{
		func() error { return ignored(permits.UpdateLease(ctx, ids[0], long)) },
		func() error { return ignored(permits.TTL(ctx, ids[0])) },
		func() error { return ignored(permits.Total(ctx)) },
		func() error { return permits.SetPermits(ctx, 3) },
		func() error { return ignored(permits.TrySetPermits(ctx, 3, 0)) },
		func() error { return p.Extend(ctx, long) },
		func() error { return permits.Release(ctx, ids[1:]...) },
	}[n%7]()
	if err != nil {
		return err
	}
	if err := p.Release(ctx); err != nil {
		return err
	}
	if err := semaphore.Acquire(ctx, 1+n%3); err != nil {
		return err
	}
	if err := semaphore.Release(ctx, 1+n%3); err != nil {
		return err
	}
	return []func() error{
		func() error { return ignored(latch.SetCount(ctx, 2)) },
		func() error { return ignored(latch.CountDown(ctx)) },
		func() error { return ignored(latch.Count(ctx)) },
		func() error { return ignored(latch.Delete(ctx)) },
		func() error { return ignored(c.Semaphore("drained", 3).Resize(ctx, 2)) },
		func() error { return ignored(c.Semaphore("drained", 3).Drain(ctx)) },
	}[n%6]()
}
