//go:build linux

package ctl

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// longerLease is the lease where the command must be dead long before its end, though a failover comes first.
const longerLease = 2 * runLease

// sentinelFaults are those of a master that sentinels watch.
var sentinelFaults = []fault{
	{
		name: "master killed", of: []string{"Sentinel, a master and two replicas: master killed, another promoted"},
		happens: func(t *testing.T, r *ran) { // it stays away, as the documentation demands of one that would come back empty
			t.Helper()
			r.group.AwaitReplicas(2)
			r.fresh(t)
			r.server.Kill()
			r.server = r.group.AwaitMaster(r.server)
		},
	},
	{
		name: "master stopped", of: []string{
			"Sentinel, a master and two replicas: master stopped, another promoted, the old one back as a replica",
			"Sentinel, a master and two replicas, many waiters: master stopped, another promoted, L = 2 s, 9 waiters",
			"Sentinel, a master and two replicas, many waiters: master stopped, another promoted, L = 2 s, 99 waiters",
		},
		happens: func(t *testing.T, r *ran) {
			t.Helper()
			r.group.AwaitReplicas(2)
			old := r.server
			r.fresh(t)
			old.Stop()
			r.server = r.group.AwaitMaster(old)
			r.renewed(t, nil)
			old.Cont()
			r.group.AwaitReplicas(2)
		},
	},
	{
		name: "master killed, no replica has the lock", of: []string{
			"Sentinel, a master and two replicas: master killed, with 1.5 L of writes that no replica has",
		},
		lease: longerLease, must: isForgotten, code: exitLost,
		before: func(_ *testing.T, r *ran) {
			for _, s := range r.group.Replicas() {
				s.Stop()
			}
			r.server.Do("CLIENT", "KILL", "TYPE", "replica") // the replicas get nothing beyond what it has sent them
		},
		happens: func(_ *testing.T, r *ran) {
			replicas := r.group.Replicas()
			r.server.Kill()
			for _, s := range replicas {
				s.Cont()
			}
			r.server = r.group.AwaitMaster(r.server)
		},
	},
	{
		name: "planned failover", of: []string{
			"Sentinel, a master and two replicas: planned failover (SENTINEL FAILOVER)",
			"Sentinel, a master and two replicas, many waiters: planned failover (SENTINEL FAILOVER), L = 2 s, 9 waiters",
			"Sentinel, a master and two replicas, many waiters: planned failover (SENTINEL FAILOVER), L = 2 s, 99 waiters",
		},
		happens: func(_ *testing.T, r *ran) {
			r.group.AwaitReplicas(2)
			r.server = r.group.Failover()
			r.group.AwaitReplicas(2)
		},
	},
}

// clusterFaults are those of a cluster.
var clusterFaults = []fault{
	{
		name: "master killed", of: []string{"Cluster, three masters with a replica each: master of the long key killed, its replica promoted"},
		happens: func(t *testing.T, r *ran) {
			t.Helper()
			old, next := r.server, r.cluster.Replica(r.server)
			until(t, "the replica has the lock", func() bool {
				keys, err := next.Do("KEYS", "k").AsStrSlice()
				require.NoError(t, err)
				return len(keys) == 1
			})
			r.fresh(t)
			old.Kill()
			r.cluster.AwaitMaster(next)
			r.server = next
		},
	},
	{
		name: "planned failover", of: []string{"Cluster, three masters with a replica each: planned failover (CLUSTER FAILOVER)"},
		happens: func(_ *testing.T, r *ran) { r.server = r.cluster.Failover(r.server) },
	},
	{
		name: "slot moved", of: []string{"Cluster, three masters with a replica each: slots of all keys moved to another master, key by key"},
		happens: func(t *testing.T, r *ran) {
			t.Helper()
			to := r.cluster.Master("other")
			require.NotEqual(t, r.server, to, "the keys are in slots of one master")
			move := r.cluster.Move(r.cluster.Slot("k"), to)
			<-time.After(100 * time.Millisecond) // the slot is on its way for a while, with the key and without
			move.Keys()
			<-time.After(100 * time.Millisecond)
			move.End()
			r.server = to
		},
	},
}

// TestRun_Failovers is TestRun_Faults with a master that another one replaces, under sentinels and in a cluster.
func TestRun_Failovers(t *testing.T) {
	t.Parallel()
	t.Run("Sentinel", func(t *testing.T) {
		strike(t, sentinelFaults, 1, func(t *testing.T, _ *fault) *ran {
			t.Helper()
			group := redistest.Sentinel(t)
			return &ran{group: group, server: group.Master()}
		})
	})
	t.Run("Cluster", func(t *testing.T) {
		strike(t, clusterFaults, 1, func(t *testing.T, _ *fault) *ran {
			t.Helper()
			cluster := redistest.Cluster(t)
			return &ran{cluster: cluster, server: cluster.Master("k")}
		})
	})
}
