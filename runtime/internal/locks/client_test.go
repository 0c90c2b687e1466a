package locks

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/core/coretest"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/runtime/observe"
)

// opened returns a client with connections of its own to the server at url, which announce on channels, if any are given.
func opened(ctx context.Context, url string, s core.Settings, channels *transport.Channels) (*Client, error) {
	return coretest.Open(ctx, url, s, channels, New)
}

// clientOf returns a client of a server that is closed at the end of the test.
func clientOf(t *testing.T, url string, s core.Settings) *Client {
	t.Helper()
	s.OpTimeout = long / 2
	c, err := opened(t.Context(), url, s, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// long is how long a test waits for what must happen.
const long = 20 * time.Second

// patient returns a context that ends when a test has waited long enough.
func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), long)
	t.Cleanup(cancel)
	return ctx
}

// receive returns what comes from ch.
func receive[T any](t *testing.T, ch <-chan T, what string) (got T) {
	t.Helper()
	select {
	case got = <-ch:
	case <-patient(t).Done():
		require.Fail(t, "waited too long for "+what)
	}
	return got
}

// until returns once a condition holds that only the server knows.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	over, poll := patient(t), time.NewTicker(5*time.Millisecond)
	defer poll.Stop()
	for !holds() {
		select {
		case <-poll.C:
		case <-over.Done():
			require.Fail(t, "waited too long until "+what)
		}
	}
}

// gone returns when a server does not have the key.
func gone(t *testing.T, server *redistest.RedisServer, key string) {
	t.Helper()
	until(t, key+" is gone", func() bool { return number(t, server, "EXISTS", key) == 0 })
}

// number returns the answer to a command.
func number(t *testing.T, server *redistest.RedisServer, cmd ...string) int64 {
	t.Helper()
	n, err := server.Do(cmd...).AsInt64()
	require.NoError(t, err)
	return n
}

// watch returns hooks that report calls that begin to wait.
func watch() (hooks observe.Hooks, waiting chan string) {
	waiting = make(chan string, 1000)
	return observe.Hooks{Waiting: func(_ context.Context, e observe.AcquireEvent) { waiting <- e.Key }}, waiting
}

type locked struct {
	lease *leases.Lease
	err   error
}

// lockLater has another goroutine lock.
func lockLater(ctx context.Context, m Locker) <-chan locked {
	got := make(chan locked, 1)
	go func() {
		lease, err := m.Lock(ctx)
		got <- locked{lease, err}
	}()
	return got
}

// gotten returns the lease of a call that succeeds.
func gotten(t *testing.T, got <-chan locked, what string) *leases.Lease {
	t.Helper()
	l := receive(t, got, what)
	require.NoError(t, l.err, what)
	return l.lease
}

// tryOnce tries to lock, and unlocks.
func tryOnce(t *testing.T, m Locker) error {
	t.Helper()
	lease, err := m.TryLock(patient(t))
	if err == nil {
		err = lease.Unlock(t.Context())
	}
	return err
}

// subscribers returns how many tickets get messages.
func subscribers(c *Client) int {
	return c.base.Subscribers.Size()
}
