package locks

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
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

// The permits of one renewal are bounded, as those of one call are: else a server would do nothing else for many milliseconds.
func TestPermit_RenewalsAreBounded(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	proxy := redistest.Proxy(t, server.Addr())
	renewals := make(chan []string, 1000)
	renews := redistest.EvalSHA(scripts.PermitRenew.SHA1())
	proxy.OnRequest(func(cmd []string) {
		if renews(cmd) {
			renewals <- cmd
		}
	})
	c := clientOf(t, proxy.URL(), core.Settings{})
	const each, semaphores = protocol.MostPermits/2 + 1, 3
	var all []*Permit
	for range semaphores {
		p, err := c.PermitSemaphore(redistest.Key(t, "p"), each).AcquireN(t.Context(), each, leases.WithWatchdog(time.Hour))
		require.NoError(t, err)
		all = append(all, p)
	}
	c.base.Watchdog.Recheck()
	for renewed := map[string]bool{}; len(renewed) < semaphores; {
		cmd := <-renewals
		keys, err := strconv.Atoi(cmd[2])
		require.NoError(t, err)
		for i := 3; i < 3+keys; i += 3 {
			renewed[cmd[i]] = true
		}
		ids := 0
		for i := 3 + keys + 1; i < len(cmd); i += 2 {
			ids += len(cmd[i]) / protocol.PermitLength
		}
		require.LessOrEqual(t, ids, protocol.MostPermits)
	}
	for _, p := range all {
		require.NoError(t, p.Release(t.Context()))
	}
}
