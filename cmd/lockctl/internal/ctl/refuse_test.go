package ctl

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestOneServerOfACluster shows that no verb takes one server of a cluster, or a replica in it, for the whole cluster, unless the URL says that it is one.
func TestOneServerOfACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.SharedCluster(t)
	master := cluster.Master("k")
	for name, server := range map[string]*redistest.RedisServer{"master": master, "replica": cluster.Replica(master)} {
		for _, args := range [][]string{{"list"}, {"list", "-scan"}, {"show", "k"}, {"why", "k"}, {"deadlocks"}, {"force", "-yes", "k"}} {
			s := ctl(t, server.URL(), args...)
			require.Equal(t, exitNoRedis, s.code, "%s: %v: %s", name, args, s.out)
			require.Contains(t, s.err, "the server is one server of a cluster", "%s: %v", name, args)
			require.Contains(t, s.err, "say cluster=true in the URL", "%s: %v", name, args)
		}
		s := ctl(t, server.URL(), "doctor")
		require.Equal(t, exitFound, s.code, s.out)
		require.Contains(t, s.out, "wrong    cluster      it is one server of a cluster")
		require.Contains(t, s.out, "-> say cluster=true in the URL\n")
		require.NotContains(t, s.out, "use the URL of its master", name)

		s = all(t, server.URL()+"?cluster=true", "list", "nothing:*")
		require.Zero(t, s.code, s.err)
		require.NotContains(t, all(t, server.URL()+"?cluster=true", "doctor").out, "one server of a cluster")
	}
}
