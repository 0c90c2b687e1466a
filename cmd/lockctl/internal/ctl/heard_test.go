package ctl

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestSurvey_WithoutTheServerOfTheClient shows that lockctl asks the processes of a cluster although the server does not answer that has the channel of
// its first client.
func TestSurvey_WithoutTheServerOfTheClient(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]func(s *redistest.RedisServer){"stopped": (*redistest.RedisServer).Stop, "killed": (*redistest.RedisServer).Kill} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.Cluster(t)
			for _, node := range cluster.Nodes() {
				require.NoError(t, node.Do("CONFIG", "SET", "cluster-replica-no-failover", "yes").Error())
			}
			holds, err := lockrt.Open(t.Context(), cluster.URL(), lockrt.Options{OpTimeout: patience})
			require.NoError(t, err)
			at := cluster.Master("lockgen_process:" + holds.ID())
			i := 0
			for cluster.Master(key(i)).Addr() != at.Addr() {
				i++
			}
			held, err := holds.Mutex(key(i)).Lock(t.Context())
			require.NoError(t, err)
			defer func() {
				require.NoError(t, held.Unlock(context.Background()))
				require.NoError(t, holds.Close())
			}()
			until(t, "it listens", func() bool { return listed(t, cluster.URL(), key(i)) != nil })

			o := &options{Env: Env{Stderr: io.Discard}, timeout: 10 * time.Second, url: cluster.URL()}
			require.NoError(t, o.open(t.Context(), lockrt.Options{}))
			defer func() { require.NoError(t, o.c.Close()) }()
			dead := cluster.Master("lockgen_process:" + o.c.ID())
			for dead.Addr() == at.Addr() {
				require.NoError(t, o.c.Close())
				require.NoError(t, o.open(t.Context(), lockrt.Options{}))
				dead = cluster.Master("lockgen_process:" + o.c.ID())
			}
			end(dead) // and not the server of the holder
			ctx, cancel := context.WithTimeout(t.Context(), o.timeout)
			defer cancel()
			w, err := o.survey(ctx, "")
			require.NoError(t, err)
			require.NotNil(t, w.Locks[key(i)])
		})
	}
}

// TestHeard_WithoutMostServers shows that lockctl finds a client that can hear although two of three servers are mute: it waits for each of them once.
func TestHeard_WithoutMostServers(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, redistest.WithConfig("cluster-replica-no-failover", "yes"))
	stopped := map[string]bool{}
	for i := 0; len(stopped) < 2; i++ {
		if at := cluster.Master(key(i)); !stopped[at.Addr()] {
			stopped[at.Addr()] = true
			at.Stop()
			defer at.Cont()
		}
	}
	for range 5 {
		o := &options{Env: Env{Stderr: io.Discard}, timeout: 10 * time.Second, url: cluster.URL()}
		require.NoError(t, o.open(t.Context(), lockrt.Options{}))
		heard := o.heard(t.Context())
		channel := cluster.Master("lockgen_process:" + o.c.ID())
		require.NoError(t, o.c.Close())
		require.True(t, heard)
		require.False(t, stopped[channel.Addr()], "it can hear")
	}
}

// TestServers_WithoutHosts shows that lockctl takes servers for no two of the same address when the cluster does not name their hosts.
func TestServers_WithoutHosts(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	o := &options{Env: Env{Stderr: io.Discard}, timeout: patience, url: cluster.URL()}
	require.NoError(t, o.open(t.Context(), lockrt.Options{}))
	defer func() { require.NoError(t, o.c.Close()) }()
	servers, mute := o.servers(t.Context())
	require.Len(t, servers, 16384)
	require.Empty(t, mute)
	for _, node := range cluster.Nodes() {
		require.NoError(t, node.Do("CONFIG", "SET", "cluster-preferred-endpoint-type", "unknown-endpoint").Error())
	}
	servers, _ = o.servers(t.Context())
	require.Empty(t, servers)
}

func key(i int) string { return "k" + itoa(i) }
