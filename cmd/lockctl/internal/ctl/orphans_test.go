package ctl

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// fill makes n keys beside a key, which has a hash tag if the server is one of a cluster.
func fill(server *redistest.RedisServer, key string, n int) {
	server.Do("EVAL", `for i = 1, ARGV[1] do redis.call('set', KEYS[1] .. i, '') end`, "1", key, fmt.Sprint(n))
}

// TestDoctor_OrphansAmongMany shows that doctor says so if it has not read all keys of a server, and that it reads as many of each other server.
func TestDoctor_OrphansAmongMany(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	fill(server, "k", mostOrphans/2)
	require.Contains(t, all(t, server.URL(), "doctor").out, "  ok       orphans      no process that is gone stands in a wait queue\n")
	fill(server, "l", mostOrphans)
	require.Contains(t, all(t, server.URL(), "doctor").out,
		"  ok       orphans      among the first 100,000 keys of "+server.Addr()+": no process that is gone stands in a wait queue\n")

	cluster := redistest.Cluster(t)
	tags := map[string]string{} // of a key on each master, by the addresses
	for i := 0; len(tags) < 3; i++ {
		tags[cluster.Master(fmt.Sprint(i)).Addr()] = fmt.Sprint(i)
	}
	addrs := sortedKeys(tags)
	first := cluster.Master(tags[addrs[0]])
	fill(first, "{"+tags[addrs[0]]+"}", mostOrphans+mostOrphans/2)
	for _, addr := range addrs[1:] {
		cluster.Master(tags[addr]).Do("RPUSH", "lockgen_waiting:{"+tags[addr]+"}", "11111111-1111-8111-9111-111111111111:1")
	}
	s := all(t, cluster.URL(), "doctor", "-timeout", "30s")
	lines := slices.Collect(strings.Lines(s.out))
	i := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, "  orphans  ") })
	require.GreaterOrEqual(t, i, 0, s.out)
	require.Contains(t, lines[i], "  note     orphans      among the first 100,000 keys of "+first.Addr())
	require.Contains(t, lines[i], ", and all keys of the other servers: processes that are gone stand in 2 wait queues, as ")
}
