package locktest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// wait returns when the channel is closed.
func wait(t *testing.T, ch <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(20 * time.Second):
		require.Fail(t, "waited too long for "+what)
	}
}

// TestNetwork_OfSeveralServers shows that a Network does not stand in front of one of several servers, to which clients find the way themselves.
//
//nolint:paralleltest // it sets a variable of the environment
func TestNetwork_OfSeveralServers(t *testing.T) {
	t.Setenv("REDIS_URL", redistest.SharedCluster(t).URL())
	tb := &locktest.Recorder{TB: t}
	tb.Run(func() { locktest.NewNetwork(tb) })
	require.Len(t, tb.Errors, 1)
	require.Contains(t, tb.Errors[0], "a network needs one server at redis://host:port, not ")
}

//nolint:paralleltest // it sets a variable of the environment
func TestNetwork_LosesExactlyOneMessage(t *testing.T) {
	everyServer(t, func(t *testing.T) {
		n := locktest.NewNetwork(t)
		m := n.Client(lockrt.Options{}).Mutex(redistest.Key(t, "k"))
		direct := locktest.Client(t, lockrt.Options{}).Mutex(m.Key())

		lost := n.DropReply()
		lease, err := m.Lock(t.Context())
		require.NoError(t, err, "it is asked again")
		wait(t, lost, "the loss")
		standing, err := direct.Inspect(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, standing.Count)
		lost = n.DropRequest()
		require.NoError(t, lease.Unlock(t.Context()))
		wait(t, lost, "the loss")
		next, err := direct.TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, next.Unlock(t.Context()))
	})
}

//nolint:paralleltest // it sets a variable of the environment
func TestNetwork_BreaksAndHeals(t *testing.T) {
	everyServer(t, func(t *testing.T) {
		n := locktest.NewNetwork(t)
		c := n.Client(lockrt.Options{Watchdog: 2400 * time.Millisecond})
		m := c.Mutex(redistest.Key(t, "k"))
		direct := locktest.Client(t, lockrt.Options{}).Mutex(m.Key())

		n.Delay(50 * time.Millisecond)
		start := time.Now()
		_, err := m.Inspect(t.Context())
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(start), 100*time.Millisecond)
		n.Heal()

		for name, fail := range map[string]func(){"half open": n.HalfOpen, "refuse": n.Refuse} {
			lease, err := m.Lock(t.Context())
			require.NoError(t, err)
			fail()
			wait(t, lease.Context().Done(), name+": the loss to be told")
			require.ErrorIs(t, lease.Err(), lockrt.ErrLost)
			next, err := direct.Lock(t.Context())
			require.NoError(t, err)
			n.Heal()
			require.ErrorIs(t, lease.Unlock(context.Background()), lockrt.ErrLost)
			_, err = next.TTL(t.Context())
			require.NoError(t, err, "what arrived late has changed nothing")
			require.NoError(t, next.Unlock(t.Context()))
		}

		n.Reset()
		lease, err := m.Lock(t.Context())
		require.NoError(t, err)
		n.Reset()
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

//nolint:paralleltest // it sets a variable of the environment
func TestNetwork_NeedsToSeeWhatIsSaid(t *testing.T) {
	t.Setenv("REDIS_URL", "rediss://localhost")
	tb := &locktest.Recorder{TB: t}
	tb.Run(func() { locktest.NewNetwork(tb) })
	require.Equal(t, []string{`locktest: a network needs one server at redis://host:port, not "rediss://localhost"`}, tb.Errors)
}
