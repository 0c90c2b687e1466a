package ctl

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A full is where nothing can be written.
type full struct{}

var errFull = errors.New("no space left")

func (full) Write([]byte) (int, error) { return 0, errFull }

// TestOutput_Full shows that a verb whose output is cut off says so, and that watch ends.
func TestOutput_Full(t *testing.T) {
	t.Parallel()
	url := redistest.Server(t).URL()
	for _, args := range [][]string{
		{"list"}, {"list", "-json"}, {"deadlocks"}, {"doctor"}, {"watch"}, {"watch", "-json"},
	} {
		var errs bytes.Buffer
		code := Run(t.Context(), Env{Args: args, Stdin: strings.NewReader(""), Stdout: full{}, Stderr: &errs, Getenv: func(string) string { return url }})
		require.Equal(t, exitOutput, code, "%v: %s", args, &errs)
		require.Contains(t, errs.String(), "lockctl "+args[0]+": no space left\n")
	}
}

// TestList_ScanReadsNoValues shows that a sweep does not read the values of hashes that are no locks, which are most of the hashes of a cache, unless the
// user may not read the names of their fields alone.
func TestList_ScanReadsNoValues(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	const size = 1 << 20
	server.Do("HSET", "fat", "session", strings.Repeat("x", size))
	server.Do("HSET", "java", "11111111-1111-4111-9111-111111111111:42", "1")
	server.Do("HSET", "read", "mode", "read", "11111111-1111-4111-9111-111111111111:43", "1")
	server.Do("ACL", "SETUSER", "denied", "on", ">p", "~*", "&*", "+@all", "-hkeys")
	sent := func() (bytes int) {
		info, err := server.Do("INFO", "stats").ToString()
		require.NoError(t, err)
		_, err = fmt.Sscan(parseInfo(info)["total_net_output_bytes"], &bytes)
		require.NoError(t, err)
		return bytes
	}
	before := sent()
	for url, reads := range map[string]bool{server.URL(): false, "redis://denied:p@" + server.Addr(): true} {
		s := ctl(t, url, "list", "-scan")
		require.Zero(t, s.code, s.err)
		require.Contains(t, s.out, "thread 42")
		require.Contains(t, s.out, "thread 43")
		require.NotContains(t, s.out, "fat")
		require.Equal(t, exitFound, ctl(t, url, "why", "fat").code)
		after := sent()
		require.Equal(t, reads, after-before > size, "%d bytes", after-before)
		before = after
	}
}

// TestReplica shows that no verb takes a replica for a server without locks.
func TestReplica(t *testing.T) {
	t.Parallel()
	server, replica := redistest.Server(t), redistest.Server(t)
	host, port, err := net.SplitHostPort(server.Addr())
	require.NoError(t, err)
	require.NoError(t, replica.Do("REPLICAOF", host, port).Error())
	for _, args := range [][]string{{"list"}, {"list", "-scan"}, {"show", "k"}, {"why", "k"}, {"deadlocks"}, {"force", "-yes", "k"}} {
		s := ctl(t, replica.URL(), args...)
		require.Equal(t, exitNoRedis, s.code, "%v: %s", args, s.out)
		require.Contains(t, s.err, "the server is a replica", "%v", args)
		require.Contains(t, s.err, server.Addr(), "%v", args)
	}
	s := ctl(t, replica.URL(), "doctor")
	require.Equal(t, exitFound, s.code, s.out)
	require.Contains(t, s.out, "it grants no locks")
	require.Contains(t, s.out, server.Addr())

	replica.Do("CONFIG", "SET", "replica-read-only", "no") // processes may have locks there
	require.Zero(t, all(t, replica.URL(), "list").code)
}

// TestDoctor_WithoutInfo shows that doctor examines what it can where INFO is not permitted, above all the rights of the user.
func TestDoctor_WithoutInfo(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	server.Do("ACL", "SETUSER", "denied", "on", ">p", "~*", "&*", "+@all", "-info", "-publish")
	s := ctl(t, "redis://denied:p@"+server.Addr(), "doctor")
	require.Contains(t, s.out, "permit INFO to this user")
	for _, about := range []string{"latency", "pub/sub", "clock", "Lua", "of what a Mutex needs, the user denied may not call publish"} {
		require.Contains(t, s.out, about)
	}
	for _, about := range []string{"version", "eviction", "persistence", "replication"} {
		require.NotContains(t, s.out, about)
	}
}

// TestDoctor_LessInfo shows that doctor does not take a server whose INFO lacks a field, as behind a proxy, for an old one, a replica, or one without a bound of
// memory.
func TestDoctor_LessInfo(t *testing.T) {
	t.Parallel()
	e := &examination{info: parseInfo("# Clients\r\nconnected_clients:1\r\n")}
	e.about(t.Context())
	require.Equal(t, []Finding{
		{"", "version", stateUnknown, "INFO has no redis_version", ""},
		{"", "eviction", stateUnknown, "INFO has no maxmemory", ""},
		{"", "persistence", stateUnknown, "INFO has no aof_enabled", ""},
		{"", "replication", stateUnknown, "INFO has no role", ""},
	}, e.found)
}

// TestDoctor_GrantsNothing shows that doctor finds a server wrong that refuses all locks, and one that may forget them a note.
func TestDoctor_GrantsNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	server.Do("CONFIG", "SET", "min-replicas-to-write", "1")
	s := all(t, server.URL(), "doctor")
	require.Equal(t, exitFound, s.code)
	require.Contains(t, s.out, "wrong    replication  min-replicas-to-write is 1, and 0 replicas are good: the server grants no locks\n")
	server.Do("CONFIG", "SET", "min-replicas-max-lag", "0") // the server does not look at its replicas then
	require.NoError(t, server.Do("SET", "k", "1").Error())
	s = all(t, server.URL(), "doctor")
	require.Zero(t, s.code, s.out)
	require.Contains(t, s.out, "note     replication  no replica")
	server.Do("CONFIG", "SET", "min-replicas-to-write", "0", "appendonly", "yes")
	s = all(t, server.URL(), "doctor")
	require.Zero(t, s.code, s.out)
	require.Contains(t, s.out, "note     persistence  append-only file, appendfsync everysec: a server whose machine crashes has forgotten")
	server.Do("CONFIG", "SET", "appendfsync", "always")
	require.Contains(t, all(t, server.URL(), "doctor").out, "ok       persistence  append-only file always\n")
}

// TestDoctor_WithoutConfig shows that doctor finds what INFO tells where CONFIG is refused, and that the rest is unknown.
func TestDoctor_WithoutConfig(t *testing.T) {
	t.Parallel()
	server, replica := redistest.Server(t), redistest.Server(t)
	server.Do("ACL", "SETUSER", "denied", "on", ">p", "~*", "&*", "+@all", "-config")
	server.Do("CONFIG", "SET", "appendonly", "yes", "min-replicas-to-write", "1")
	const todo = "                        -> permit CONFIG GET to this user\n"
	url := "redis://denied:p@" + server.Addr()
	s := all(t, url, "doctor")
	require.Equal(t, exitFound, s.code, s.out)
	require.Contains(t, s.out, "  unknown  persistence  appendfsync cannot be read, and the server has an append-only file\n"+todo)
	require.Contains(t, s.out, "  wrong    replication  min-replicas-to-write is not 0, and 0 replicas are good: the server grants no locks\n")

	host, port, err := net.SplitHostPort(server.Addr())
	require.NoError(t, err)
	require.NoError(t, replica.Do("REPLICAOF", host, port).Error())
	until(t, "the replica is good", func() bool {
		s = all(t, url, "doctor")
		return strings.Contains(s.out, "  unknown  replication  min-replicas-to-write cannot be read, and 1 replica is good\n"+todo)
	})
}

// TestDoctor_ClusterWithoutASlot shows that doctor finds a cluster wrong in which a slot has no server, or which refuses all locks because of that.
func TestDoctor_ClusterWithoutASlot(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	require.Contains(t, all(t, cluster.URL(), "doctor").out, "ok       cluster      all slots have a server\n")
	for _, node := range cluster.Nodes() {
		node.Do("CLUSTER", "DELSLOTS", "16000")
	}
	finds := func(text string) {
		t.Helper()
		until(t, "doctor finds it", func() bool {
			s := ctl(t, cluster.URL(), "doctor")
			return s.code == exitFound && strings.Contains(s.out, "wrong    cluster      "+text+"\n")
		})
	}
	finds("1 slot has no server: locks with such keys fail")
	for _, node := range cluster.Nodes() {
		node.Do("CONFIG", "SET", "cluster-require-full-coverage", "yes")
		node.Do("CLUSTER", "DELSLOTS", "16001") // has the server look at the state of the cluster
	}
	finds("cluster_state is fail: the server grants no locks")
}

// TestWatch_Remarks shows that watch leaves the remarks of a listing on the screen.
func TestWatch_Remarks(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	o := &options{Env: Env{Stdout: &out, Stderr: &errs, Colour: true}}
	o.redraw(&Listing{Silent: []string{"b636a699"}, Omitted: 7})
	_, shown, found := strings.Cut(out.String(), "\x1b[2J")
	require.True(t, found)
	require.Contains(t, shown, "b636a699")
	require.Contains(t, shown, "7 locks and calls")
	require.Empty(t, errs.String())
}

// TestDoctor_Busy shows that doctor does not take a server that runs a script for one that permits nothing.
func TestDoctor_Busy(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t, redistest.WithConfig("lua-time-limit", "1"))
	script, ended := server.NewClient(), make(chan struct{})
	go func() {
		defer close(ended)
		_ = script.Do(t.Context(), script.B().Eval().Script("while true do end").Numkeys(0).Build())
	}()
	until(t, "it is busy", func() bool {
		_, err := server.Try("GET", "k")
		return err != nil
	})
	s := ctl(t, server.URL(), "doctor")
	_, _ = server.Try("SCRIPT", "KILL")
	<-ended
	require.Contains(t, s.out+s.err, "BUSY")
	require.NotContains(t, s.out, "permit")
}
