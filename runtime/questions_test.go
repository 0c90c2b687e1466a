package lockrt_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestUnavailable_Questions shows that a method that reads a state, or changes a number, reports an outage by ErrUnavailable, whether the server
// refuses connections or does not answer, and that Close does not wait for these requests.
func TestUnavailable_Questions(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(p *redistest.FaultProxy){
		"refused": func(p *redistest.FaultProxy) { p.Refuse(true) },
		"mute":    func(p *redistest.FaultProxy) { p.Blackhole(redistest.Both) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := redistest.Proxy(t, redistest.Shared(t).Addr())
			c, err := opened(t.Context(), proxy.URL(), lockrt.Options{OpTimeout: 500 * time.Millisecond})
			require.NoError(t, err)
			key := redistest.Key(t, "k")
			lease, err := c.Mutex(key).Lock(patient(t))
			require.NoError(t, err)
			fail(proxy)
			ask := map[string]func(ctx context.Context) error{
				"TTL":                func(ctx context.Context) error { _, err := lease.TTL(ctx); return err },
				"Extend":             func(ctx context.Context) error { return lease.Extend(ctx, time.Minute) },
				"Mutex.Inspect":      func(ctx context.Context) error { _, err := c.Mutex(key).Inspect(ctx); return err },
				"Mutex.ForceUnlock":  func(ctx context.Context) error { _, err := c.Mutex(key).ForceUnlock(ctx); return err },
				"Client.ForceUnlock": func(ctx context.Context) error { _, err := c.ForceUnlock(ctx, key, "owner:1"); return err },
				"Client.ProcessOf": func(ctx context.Context) error {
					_, _, err := c.ProcessOf(ctx, "0b6a1f0e-90ce-8c12-a4b5-6b1c5f0d7f3e")
					return err
				},
				"Semaphore.Available":       func(ctx context.Context) error { _, err := c.Semaphore(key, 1).Available(ctx); return err },
				"Semaphore.Release":         func(ctx context.Context) error { return c.Semaphore(key, 1).Release(ctx, 1) },
				"Semaphore.Drain":           func(ctx context.Context) error { _, err := c.Semaphore(key, 1).Drain(ctx); return err },
				"PermitSemaphore.Available": func(ctx context.Context) error { _, err := c.PermitSemaphore(key, 1).Available(ctx); return err },
				"CountDownLatch.Count":      func(ctx context.Context) error { _, err := c.CountDownLatch(key).Count(ctx); return err },
				"CountDownLatch.SetCount":   func(ctx context.Context) error { _, err := c.CountDownLatch(key).SetCount(ctx, 1); return err },
				"CountDownLatch.CountDown":  func(ctx context.Context) error { _, err := c.CountDownLatch(key).CountDown(ctx); return err },
			}
			for what, ask := range ask {
				err := ask(patient(t))
				require.ErrorIs(t, err, lockrt.ErrUnavailable, what)
				require.NotErrorIs(t, err, context.Canceled, what)
				require.NotErrorIs(t, err, context.DeadlineExceeded, what)
			}
			if name == "refused" {
				_, err := lease.TTL(patient(t))
				require.ErrorIs(t, err, lockrt.ErrUnavailable)
				require.NoError(t, c.Close())
			} else {
				_ = c.Close()
			}
		})
	}
}
