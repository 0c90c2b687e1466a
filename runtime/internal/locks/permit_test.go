package locks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A permit is trusted for no longer than its semaphore lasts as soon as the client asks for it again, also if a Java program has shortened that:
// Redisson's expire is of both keys.
func TestPermit_IsTrustedForNoLongerThanItsSemaphoreLasts(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for name, opts := range map[string][]leases.Option{"renewed": {leases.WithWatchdog(time.Hour)}, "fixed": {leases.WithLease(time.Hour)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clientOf(t, server.URL(), core.Settings{})
			s := c.PermitSemaphore(redistest.Key(t, "p"), 1)
			p, err := s.Acquire(t.Context(), opts...)
			require.NoError(t, err)
			require.Greater(t, time.Until(p.Until()), 10*time.Minute)
			for _, key := range []string{s.Key(), "{" + s.Key() + "}:timeout"} {
				server.Do("PEXPIRE", key, "600000")
			}
			dies := time.Now().Add(10 * time.Minute) // at the latest
			c.base.Watchdog.Recheck()
			require.Eventually(t, func() bool { return p.Until().Before(dies) }, long, time.Millisecond)
			require.NoError(t, p.Err())
			require.NoError(t, p.Release(t.Context()))
		})
	}
}
