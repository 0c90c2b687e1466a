package lockprom_test

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/contrib/lockprom"
	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestMetrics_FirstDeadlockOfAMultiLock shows that the series of a deadlock is there at 0 since the call began to wait: the first deadlock is an
// increase, which the alert sees.
func TestMetrics_FirstDeadlockOfAMultiLock(t *testing.T) {
	t.Parallel()
	metrics, registry := lockprom.New(), prometheus.NewRegistry()
	registry.MustRegister(metrics)
	waiting, deadlocks := make(chan lockrt.AcquireEvent, 10), make(chan lockrt.DeadlockEvent, 10)
	next := lockrt.Hooks{
		Waiting:  func(_ context.Context, e lockrt.AcquireEvent) { waiting <- e },
		Deadlock: func(_ context.Context, e lockrt.DeadlockEvent) { deadlocks <- e },
	}
	c, err := lockrt.Open(t.Context(), redistest.Shared(t).URL(), lockrt.Options{
		OpTimeout: 15 * time.Second, DeadlockAfter: time.Second, BreakDeadlocks: true, Hooks: metrics.Hooks(next),
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	a, b, z := c.Mutex(redistest.Key(t, "a")), c.Mutex(redistest.Key(t, "b")), c.Mutex(redistest.Key(t, "z"))
	first, err := a.Lock(t.Context(), lockrt.WithName("first"))
	require.NoError(t, err)
	second, err := b.Lock(t.Context(), lockrt.WithName("second"))
	require.NoError(t, err)
	done := make(chan error, 2)
	go func() {
		lease, err := b.Lock(first.Context(), lockrt.WithName("one"))
		if err == nil {
			err = lease.Unlock(context.Background())
		}
		done <- err
	}()
	<-waiting
	go func() {
		_, err := lockrt.NewMultiLock(a, z).Lock(second.Context(), lockrt.WithName("several"))
		require.NoError(t, second.Unlock(context.Background()))
		done <- err
	}()
	<-waiting
	series := func(kind string) float64 {
		return value(t, registry, "lockgen_deadlocks_total", "broken=true", "kind="+kind, "name=several")
	}
	require.Zero(t, series("multi"))
	for broken := false; !broken; broken = (<-deadlocks).Broken {
	}
	require.EqualValues(t, 1, series("multi"))
	require.EqualValues(t, -1, series("mutex"), "nothing made it before")
	require.ErrorIs(t, <-done, lockrt.ErrDeadlock)
	require.NoError(t, <-done)
	require.NoError(t, first.Unlock(t.Context()))
}
