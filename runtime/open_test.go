package lockrt_test

import (
	"context"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// namesAt returns the names of the connections of c that servers list, in order, and how many connections of other programs or
// without a name there are.
func namesAt(t *testing.T, c *lockrt.Client, servers ...*redistest.RedisServer) (names []string) {
	t.Helper()
	for _, s := range servers {
		list, err := s.Do("CLIENT", "LIST").ToString()
		require.NoError(t, err)
		for _, found := range regexp.MustCompile(` name=(\S*) `).FindAllStringSubmatch(list, -1) {
			if strings.Contains(found[1], c.ID()) {
				names = append(names, found[1])
			}
		}
	}
	return names
}

// TestOpen_NamesItsConnections looks at all connections of a client that holds, waits and hears of changes.
func TestOpen_NamesItsConnections(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, c *lockrt.Client, servers ...*redistest.RedisServer) {
		t.Helper()
		lease, err := c.Mutex("order:42").Lock(patient(t))
		require.NoError(t, err)
		host, err := os.Hostname()
		require.NoError(t, err)
		want := "lockgen:" + c.ID() + ":" + host + ":" + strconv.Itoa(os.Getpid())
		until(t, "there is a connection for commands, and one for messages", func() bool { return len(namesAt(t, c, servers...)) > 1 })
		for _, name := range namesAt(t, c, servers...) {
			require.Equal(t, want, name)
		}
		require.NoError(t, lease.Unlock(patient(t)))
	}
	t.Run("standalone", func(t *testing.T) {
		t.Parallel()
		s := redistest.Server(t)
		check(t, clientOf(t, s.URL(), lockrt.Options{}), s)
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		g := redistest.Sentinel(t)
		c := clientOf(t, g.URL(), lockrt.Options{})
		check(t, c, g.Master())
		require.NotEmpty(t, namesAt(t, c, g.Sentinels...))
	})
	for name, mode := range map[string]lockrt.PubSub{"auto": lockrt.PubSubAuto, "plain": lockrt.PubSubPlain, "both": lockrt.PubSubBoth} {
		t.Run("cluster/"+name, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.SharedCluster(t)
			check(t, clientOf(t, cluster.URL(), lockrt.Options{PubSub: mode}), cluster.Nodes()...)
		})
	}
	t.Run("no cluster", func(t *testing.T) { // although the URL says so: the name is still that of the client
		t.Parallel()
		s := redistest.Server(t)
		check(t, clientOf(t, s.URL()+"?cluster=true", lockrt.Options{}), s)
	})
}

// TestOpen_WithoutTheRightToAName shows servers that do not let a connection have a name: those that know no HELLO, by which
// a name needs no right.
func TestOpen_WithoutTheRightToAName(t *testing.T) {
	t.Parallel()
	for name, option := range map[string][]redistest.Option{
		"not permitted": {redistest.WithConfig("rename-command", "HELLO", "")},
		"not there":     {redistest.WithConfig("rename-command", "HELLO", ""), redistest.WithConfig("rename-command", "CLIENT", "")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Server(t, option...)
			url := s.URL()
			if name == "not permitted" {
				s.Do("ACL", "SETUSER", "u", "on", ">secret", "~*", "&*", "+@all", "-client|setname")
				url = strings.Replace(url, "//", "//u:secret@", 1)
			}
			c := clientOf(t, url, lockrt.Options{})
			lease, err := c.Mutex("order:42").Lock(patient(t))
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(patient(t)))
		})
	}
}

func TestOpen_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	server := redistest.Server(t)
	_, err := lockrt.Open(ended, server.URL(), lockrt.Options{})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "lockgen: open: ")

	proxy := redistest.Proxy(t, server.Addr())

	proxy.Blackhole(redistest.Both)
	ctx, cancel := context.WithCancel(context.Background())
	opened := later(func() error { _, err := lockrt.Open(ctx, proxy.URL(), lockrt.Options{OpTimeout: patience}); return err })
	until(t, "it connects", func() bool { return proxy.Conns() > 0 })
	cancel()
	require.ErrorIs(t, receive(t, opened, "Open"), context.Canceled)
	proxy.Deliver()
	until(t, "the connection that came too late is closed", func() bool { return proxy.Conns() == 0 })

	//lint:ignore SA1012 a nil context is what the test is about
	_, err = lockrt.Open(nil, server.URL(), lockrt.Options{})
	require.ErrorIs(t, err, lockrt.ErrBadOption)
}

// A client with connections of its own outlives the context that opened it.
func TestOpen_OutlivesItsContext(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	ctx, cancel := context.WithCancel(context.Background())
	c, err := opened(ctx, server.URL(), lockrt.Options{OpTimeout: unhurried})
	require.NoError(t, err)
	defer c.Close()
	cancel()
	server.Do("CLIENT", "KILL", "TYPE", "normal") // so that it has to connect again
	require.NoError(t, c.Mutex("a").Do(patient(t), func(context.Context, *lockrt.Lease) error { return nil }))
}

// TestOpen_ConnectionsAreSmall counts the memory of clients: a process may have one for each server of many, and a program that
// tests may have hundreds.
func TestOpen_ConnectionsAreSmall(t *testing.T) { // alone, since it looks at the memory of the process
	s := redistest.Server(t)
	heap := func() int64 {
		runtime.GC()
		runtime.GC() // the first one finds what the second one frees
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const clients = 40
	before := heap()
	open := make([]*lockrt.Client, clients)
	for i := range open {
		open[i] = clientOf(t, s.URL(), lockrt.Options{})
	}
	each := (heap() - before) / clients
	t.Logf("%d bytes of heap for a client", each)
	require.Less(t, each, int64(512<<10), "bytes of heap for a client with one connection; rueidis' default is above 1 MiB")
	runtime.KeepAlive(open)
}
