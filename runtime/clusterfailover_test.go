package lockrt_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// cutReplica has the replica of a master miss what is written from now on.
func cutReplica(cluster *redistest.RedisCluster, master *redistest.RedisServer) (cut *redistest.RedisServer) {
	cut = cluster.Replica(master)
	cut.Stop()
	master.Do("CLIENT", "KILL", "TYPE", "replica")
	return cut
}

// A grant that was lost with its master is told when another server has taken over, not when the lease is to be
// renewed, which here would be in 20s; and what is granted next has a larger token. Nothing is sent to that master meanwhile.
func TestClusterFailover_LostGrantsAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pubsub lockrt.PubSub
		fail   func(s *redistest.RedisServer)
	}{
		"killed":       {lockrt.PubSubAuto, (*redistest.RedisServer).Kill},
		"killed/plain": {lockrt.PubSubPlain, (*redistest.RedisServer).Kill},
		"stopped":      {lockrt.PubSubAuto, (*redistest.RedisServer).Stop},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.Cluster(t)
			keys := spread(t, cluster)
			sick := func(key string) string { return "{" + keys[0] + "}" + key }
			opts := lockrt.Options{PubSub: test.pubsub, Watchdog: time.Minute}
			a, b := inCluster(t, cluster, opts), inCluster(t, cluster, opts)
			well, err := a.Mutex(keys[1]).Lock(patient(t))
			require.NoError(t, err)
			kept, err := a.Mutex(sick("kept")).Lock(patient(t))
			require.NoError(t, err)
			master := cluster.Master(keys[0])
			until(t, "the connections are watched", func() bool { return subscribed(t, cluster, a.ID()+":{") >= 2 })
			master.Do("PING") // the earlier writes are replicated first
			require.EqualValues(t, 1, number(t, master, "WAIT", "1", "0"))

			successor := cutReplica(cluster, master)
			holds := map[string]*lockrt.Lease{}
			for kind, lock := range exclusives {
				lease, err := lock(a, sick(kind)).Lock(patient(t), lockrt.WithFencing())
				require.NoError(t, err)
				holds[kind] = lease
			}
			fixed, err := a.Mutex(sick("fixed")).Lock(patient(t), lockrt.WithLease(time.Minute))
			require.NoError(t, err)
			read, err := a.RWMutex(sick("rw")).RLock(patient(t))
			require.NoError(t, err)
			permit, err := a.PermitSemaphore(sick("permits"), 1).Acquire(patient(t))
			require.NoError(t, err)

			test.fail(master)
			successor.Cont()
			cluster.AwaitMaster(successor)
			since := time.Now()
			for kind, held := range holds {
				receive(t, held.Context().Done(), "the loss of "+kind)
			}
			receive(t, fixed.Context().Done(), "the loss of the fixed lease")
			receive(t, read.Context().Done(), "the loss of the read lock")
			receive(t, permit.Context().Done(), "the loss of the permit")
			told := time.Since(since)
			t.Logf("told %v after another server had taken over", told)
			require.Less(t, told, 12*time.Second)
			for kind, held := range holds {
				require.ErrorIs(t, context.Cause(held.Context()), lockrt.ErrLost)
				next, err := exclusives[kind](b, sick(kind)).Lock(patient(t), lockrt.WithFencing())
				require.NoError(t, err)
				require.Greater(t, next.Token(), held.Token(), kind)
				require.ErrorIs(t, held.Unlock(t.Context()), lockrt.ErrLost)
				require.NoError(t, next.Err(), "an unlock that comes late harms nobody")
				require.NoError(t, next.Unlock(t.Context()))
			}
			for _, c := range []*lockrt.Client{a, b} {
				until(t, "rueidis knows the server, too", func() bool {
					lease, err := c.Mutex(sick("more")).Lock(patient(t))
					require.NoError(t, err)
					require.NoError(t, lease.Unlock(t.Context()))
					return lockrt.Redirects(c) == 0
				})
			}
			require.NoError(t, kept.Err())
			require.NoError(t, kept.Unlock(patient(t)))
			require.NoError(t, well.Err())
			require.NoError(t, well.Unlock(patient(t)))
			if name == "stopped" {
				master.Cont()
			}
		})
	}
}

// rueidis closes its connection to a server that has left the cluster 5 seconds after it noticed that. The requests without an answer there
// fail, and the calls go on: their client is not closed.
func TestClusterFailover_TheOldConnectionIsClosed(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	keys := spread(t, cluster)
	well := cluster.Master(keys[1])
	rc := cluster.NewClient(func(o *rueidis.ClientOption) {
		o.InitAddress = []string{well.Addr()}
	})
	c, err := lockrt.New(rc, lockrt.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	for _, key := range keys {
		lease, err := c.Mutex(key).Lock(patient(t))
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(patient(t)))
	}
	master := cluster.Master(keys[0])
	successor := cluster.Replica(master)
	master.Stop()
	got := later(func() error {
		lease, err := c.Mutex(keys[0]).Lock(patient(t))
		if err == nil {
			err = lease.Unlock(patient(t))
		}
		return err
	})
	cluster.AwaitMaster(successor)                               // takes long enough for the request to be sent as often as it is
	well.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") // has rueidis look for the servers
	lease, err := c.Mutex(keys[1]).Lock(patient(t))
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(patient(t)))
	require.NoError(t, receive(t, got, "the lock"))
	master.Cont()
}
