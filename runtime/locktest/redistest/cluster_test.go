package redistest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

func TestCluster_ServesAllSlots(t *testing.T) {
	t.Parallel()
	c := redistest.SharedCluster(t)
	rc := c.NewClient()
	owners := map[string]bool{}
	for range 30 {
		key := redistest.Key(t, "k")
		require.NoError(t, rc.Do(t.Context(), rc.B().Set().Key(key).Value("v").Ex(60e9).Build()).Error())
		require.Equal(t, int64(1), must(c.Master(key).Do("EXISTS", key).AsInt64()))
		owners[c.Master(key).Addr()] = true
	}
	require.Len(t, owners, 3)
}

func TestCluster_MovesSlots(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t)
	rc := c.NewClient()
	set := func(key string) {
		require.NoError(t, rc.Do(t.Context(), rc.B().Set().Key(key).Value("v").Build()).Error())
	}
	set("{s}1")
	from := c.Master("{s}1")
	to := c.Nodes()[0]
	if to.Addr() == from.Addr() {
		to = c.Nodes()[1]
	}
	m := c.Move(c.Slot("{s}1"), to)
	set("{s}2")
	require.Equal(t, int64(1), must(from.Do("DBSIZE").AsInt64()))
	require.Equal(t, int64(1), must(to.Do("DBSIZE").AsInt64()), "what is new is where the slot moves to")
	m.End()
	require.Equal(t, to.Addr(), c.Master("{s}1").Addr())
	require.Equal(t, int64(2), must(to.Do("DBSIZE").AsInt64()))
	set("{s}1")
}

func TestCluster_ReplacesMasters(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t)
	rc := c.NewClient()
	require.NoError(t, rc.Do(t.Context(), rc.B().Set().Key("a").Value("v").Build()).Error())
	first := c.Master("a")
	second := c.Failover(first)
	require.Equal(t, second.Addr(), c.Master("a").Addr())
	require.Equal(t, "v", must(second.Do("GET", "a").ToString()))
	second.Kill()
	c.AwaitMaster(first)
	require.Equal(t, first.Addr(), c.Master("a").Addr())
	second.Restart()
	require.Eventually(t, func() bool {
		role, err := second.Do("ROLE").ToArray()
		return err == nil && must(role[0].ToString()) == "slave"
	}, opTimeout, pollEvery, "it comes back as a replica")
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
