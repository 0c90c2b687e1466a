package lockrt_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// FLUSHALL deletes the wait queue with the lock, and no message goes to the waiters. The holder does not notice it here
// either, so each waiter has to find out by itself: by tracking, or by time, long before the 30s after which everybody
// asks.
func TestFlushAll_WakesThoseWhoWait(t *testing.T) {
	t.Parallel()
	for kind, lock := range exclusives {
		for how, opts := range map[string]lockrt.Options{"tracking": {}, "no tracking": {Tracking: lockrt.TrackingOff}} {
			for _, n := range []int{1, 9} {
				t.Run(fmt.Sprint(kind, " ", how, " ", n), func(t *testing.T) {
					t.Parallel()
					atBest(t, "were all served in time", func() bool { // a busy machine may have no time for that
						server := redistest.Server(t)
						a, b := clientOf(t, server.URL(), lockrt.Options{Tracking: lockrt.TrackingOff}), clientOf(t, server.URL(), opts)
						ok(t)(lock(a, "k").Lock(patient(t), lockrt.WithLease(time.Hour)))
						all := manyLater(patient(t), n, lock(b, "k"))
						until(t, "they wait", func() bool {
							return b.Stats().Waiting == n && (kind != "FairMutex" || number(t, server, "LLEN", "redisson_lock_queue:{k}") == int64(n))
						})
						if how == "tracking" {
							until(t, "the server tells the waiters of changes", func() bool { return tracks(t, server) })
						}
						server.Do("FLUSHALL")
						since := time.Now()
						serveAll(t, n, all)
						took := time.Since(since)
						t.Logf("all served after %v", took)
						bound := 12 * time.Second
						if how == "tracking" {
							bound = 4 * time.Second
						}
						return took < bound
					})
				})
			}
		}
	}
}

// Waiters of semaphores and latches find out too: by time, long before the 30s, or by tracking, where the process holds
// something else.
func TestFlushAll_WakesThoseWhoWaitForWhatCounts(t *testing.T) {
	t.Parallel()
	hold := map[string]func(t *testing.T, c *lockrt.Client){
		"Semaphore": func(t *testing.T, c *lockrt.Client) {
			require.NoError(t, c.Semaphore("k", 2).Acquire(patient(t), 2))
		},
		"PermitSemaphore": func(t *testing.T, c *lockrt.Client) {
			_, err := c.PermitSemaphore("k", 2).AcquireN(patient(t), 2, lockrt.WithLease(time.Hour))
			require.NoError(t, err)
		},
		"CountDownLatch": func(t *testing.T, c *lockrt.Client) {
			_, err := c.CountDownLatch("k").SetCount(patient(t), 1)
			require.NoError(t, err)
		},
	}
	wait := map[string]func(c *lockrt.Client, ctx context.Context) error{
		"Semaphore": func(c *lockrt.Client, ctx context.Context) error { return c.Semaphore("k", 2).Acquire(ctx, 1) },
		"PermitSemaphore": func(c *lockrt.Client, ctx context.Context) error {
			_, err := c.PermitSemaphore("k", 2).Acquire(ctx)
			return err
		},
		"CountDownLatch": func(c *lockrt.Client, ctx context.Context) error { return c.CountDownLatch("k").Wait(ctx) },
	}
	for kind := range hold {
		for how, opts := range map[string]lockrt.Options{"tracking": {}, "no tracking": {Tracking: lockrt.TrackingOff}} {
			t.Run(kind+" "+how, func(t *testing.T) {
				t.Parallel()
				atBest(t, "was it served in time", func() bool { // a busy machine may have no time for that
					server := redistest.Server(t)
					a, b := clientOf(t, server.URL(), lockrt.Options{Tracking: lockrt.TrackingOff}), clientOf(t, server.URL(), opts)
					hold[kind](t, a)
					got := later(func() error { return wait[kind](b, patient(t)) })
					until(t, "it waits", func() bool { return b.Stats().Waiting == 1 })
					if how == "tracking" {
						ok(t)(b.Mutex("other").Lock(patient(t)))
						until(t, "the server tells of changes", func() bool { return tracks(t, server) })
					}
					server.Do("FLUSHALL")
					since := time.Now()
					require.NoError(t, receive(t, got, "the waiter"))
					took := time.Since(since)
					t.Logf("served after %v", took)
					bound := 12 * time.Second
					if how == "tracking" {
						bound = 4 * time.Second // and not when it would have asked by itself
					}
					return took < bound
				})
			})
		}
	}
}

// tracks reports whether the server tells some connection of changes.
func tracks(t *testing.T, server *redistest.RedisServer) bool {
	t.Helper()
	info, err := server.Do("INFO", "clients").ToString()
	require.NoError(t, err)
	return strings.Contains(info, "tracking_clients:") && !strings.Contains(info, "tracking_clients:0")
}
