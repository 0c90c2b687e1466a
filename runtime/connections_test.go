package lockrt_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestConnections_TwoToEachServerAtRest counts the connections of a client that holds, waits and hears of changes: one for commands, and
// one for messages and changes. A third one, for one command at a time, is closed when nothing has used it for a while, and so is one for what
// cannot wait for an answer that is late.
func TestConnections_TwoToEachServerAtRest(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, other, c *lockrt.Client, servers ...*redistest.RedisServer) {
		t.Helper()
		key, wanted := redistest.Key(t, "ours"), redistest.Key(t, "theirs")
		theirs, err := other.Mutex(wanted).Lock(patient(t))
		require.NoError(t, err)
		ours, err := c.Mutex(key).Lock(patient(t))
		require.NoError(t, err)
		waited := make(chan error, 1)
		go func() {
			lease, err := c.Mutex(wanted).Lock(context.Background())
			if err == nil {
				err = lease.Unlock(context.Background())
			}
			waited <- err
		}()
		until(t, "a call waits, and hears", func() bool {
			return c.Stats().Waiting == 1 && len(namesAt(t, c, servers...)) > 1
		})
		until(t, "there are two connections to each server at most", func() bool {
			return !lockrt.Direct(c) && !slices.ContainsFunc(servers, func(s *redistest.RedisServer) bool { return len(namesAt(t, c, s)) > 2 })
		})
		require.NoError(t, theirs.Unlock(t.Context()))
		require.NoError(t, receive(t, waited, "the lock"))
		require.NoError(t, ours.Unlock(t.Context()))
	}
	t.Run("standalone", func(t *testing.T) {
		t.Parallel()
		server := redistest.Server(t)
		c := clientOf(t, server.URL(), lockrt.Options{})
		lockrt.RestSoon(c)
		busy(t, c)
		check(t, clientOf(t, server.URL(), lockrt.Options{}), c, server)
		until(t, "the server reports changes", func() bool { return watcher(t, server) != "" })
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		cluster := redistest.SharedCluster(t)
		c := inCluster(t, cluster, lockrt.Options{})
		lockrt.RestSoon(c)
		check(t, inCluster(t, cluster, lockrt.Options{}), c, cluster.Nodes()...)
	})
}
