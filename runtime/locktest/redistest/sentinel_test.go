package redistest_test

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

func TestSentinel_FailsOver(t *testing.T) {
	t.Parallel()
	g := redistest.Sentinel(t)
	require.Len(t, g.Servers, 3)
	require.Len(t, g.Sentinels, 3)
	require.Same(t, g.Servers[0], g.Master())
	require.ElementsMatch(t, g.Servers[1:], g.Replicas())

	option, err := rueidis.ParseURL(g.URL())
	require.NoError(t, err)
	require.Equal(t, g.Addrs(), option.InitAddress)
	c, err := rueidis.NewClient(option)
	require.NoError(t, err)
	defer c.Close()
	require.Equal(t, rueidis.ClientModeSentinel, c.Mode())
	require.NoError(t, c.Do(t.Context(), c.B().Set().Key("a").Value("b").Build()).Error())
	g.AwaitReplicas(2)

	// As planned.
	planned := g.Failover()
	require.NotSame(t, g.Servers[0], planned)
	g.AwaitReplicas(2)
	got, err := planned.Do("GET", "a").ToString()
	require.NoError(t, err)
	require.Equal(t, "b", got)

	// By a crash, of which nobody but the sentinels knows.
	planned.Kill()
	other := g.AwaitMaster(planned)
	require.NotSame(t, planned, other)
	got, err = other.Do("GET", "a").ToString()
	require.NoError(t, err)
	require.Equal(t, "b", got)

	// It comes back as a replica.
	planned.Restart()
	g.AwaitReplicas(2)
	require.Same(t, other, g.Master())
	_, err = planned.Try("SET", "a", "c")
	require.ErrorContains(t, err, "READONLY")
}
