package lockrt_test

import (
	"context"
	"testing"
	"time"

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
