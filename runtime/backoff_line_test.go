package lockrt_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// rare is how a call polls that asks at once, and then so late that no test waits for it. The second refusal would end it.
var rare = lockrt.WithBackoff(lockrt.ConstantBackoff(time.Hour).Attempts(2))

// Calls for a RedLock that poll have a wait queue of their own: one that listens does not wait for their pauses.
func TestWithBackoff_RedLocksThatPollWaitApart(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	c, key := newClient(t, lockrt.Options{Hooks: hooks}), redistest.Key(t, "k")
	keys := []string{key, key + ":2", key + ":3"}
	of := func(c *lockrt.Client) *lockrt.RedLock {
		return lockrt.RedLockOf(c.Mutex(keys[0]), c.Mutex(keys[1]), c.Mutex(keys[2]))
	}
	_, err := of(newClient(t, lockrt.Options{})).Lock(patient(t), lockrt.WithLease(time.Minute))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(patient(t))
	polls := lockLater(ctx, of(c), rare)
	receive(t, waiting, "the call that polls")
	listens := lockLater(patient(t), of(c))
	receive(t, waiting, "the call that listens")
	redistest.Shared(t).Do(append([]string{"DEL"}, keys...)...) // no message says so
	got := receive(t, listens, "the call that listens")
	require.NoError(t, got.err)
	require.NoError(t, got.lease.Unlock(t.Context()))
	require.Empty(t, polls)
	cancel()
	require.ErrorIs(t, receive(t, polls, "the call that polls").err, context.Canceled)
}
