package transport

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// TestLoad_OfAServerThatIsDown sends requests to a server that went down before it had any script: none of them makes the texts of all
// scripts, and the log has one line. When the server is back it gets the scripts. It is no parallel test, since it counts all that is
// allocated.
func TestLoad_OfAServerThatIsDown(t *testing.T) {
	texts := 0
	for _, s := range scripts.All() {
		texts += len(s.Source())
	}
	server := redistest.Server(t)
	process := protocol.NewProcess(protocol.NewUUID(protocol.ListensPlain), protocol.PublishPlain, time.Minute, 30*time.Second)
	var log bytes.Buffer
	u := &fake{changes: make(chan []string, 100), rechecks: make(chan func(string) bool, 100)}
	net := New(Config{Client: server.Client(), UUID: process.UUID, User: u, Stopped: make(chan struct{}), OpTimeout: 10 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	lines := func() int { return strings.Count(log.String(), "scripts could not be loaded") }
	require.Greater(t, texts, 200<<10, "the texts are what a request would notice")

	server.Kill()
	made := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			require.Error(b, net.Run(process.Leader("k")).Err())
		}
	})
	u.wg.Wait()
	require.Less(t, made.AllocedBytesPerOp(), int64(texts/4), "bytes for a request")
	require.Equal(t, 1, lines())

	server.Restart()
	require.NoError(t, net.Run(process.Leader("k")).Err())
	u.wg.Wait()
	require.Equal(t, 1, lines())
}

// TestLoad_OfWhatIsLacking loads the scripts that a server lacks, and no others, which nearly always all clients but the first one find there. A
// user who may not ask loads all of them.
func TestLoad_OfWhatIsLacking(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t, redistest.WithConfig("user", "guest", "on", "nopass", "~*", "&*", "+@all", "-script|exists"))
	load := func(user string) (sent int64) {
		before := server.CommandStats()["script|load"]
		client := server.NewClient(func(o *rueidis.ClientOption) { o.Username, o.Password = user, "any" })
		u := &fake{changes: make(chan []string, 100), rechecks: make(chan func(string) bool, 100)}
		process := protocol.NewProcess(protocol.NewUUID(protocol.ListensPlain), protocol.PublishPlain, time.Minute, 30*time.Second)
		net := New(Config{Client: client, UUID: process.UUID, User: u, Stopped: make(chan struct{}), OpTimeout: 10 * time.Second, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, net.Run(process.Leader("k")).Err())
		u.wg.Wait()
		require.EqualValues(t, 1, net.loads.Load())
		return server.CommandStats()["script|load"] - before
	}
	all := len(scripts.All())
	server.Do("SCRIPT", "LOAD", scripts.Take.Source())
	server.Do("SCRIPT", "LOAD", scripts.Leader.Source())
	require.EqualValues(t, all-2, load("default"), "the first client")
	require.Zero(t, load("default"), "the second one")
	require.EqualValues(t, all, load("guest"), "one who may not ask")
	server.Do("SCRIPT", "FLUSH")
	require.EqualValues(t, all, load("default"))
}

// An oddClient is a client of servers that answer otherwise when they are asked for their scripts, as a proxy may.
type oddClient struct {
	rueidis.Client

	asked func(b rueidis.Builder) rueidis.Completed
}

func (c oddClient) Nodes() map[string]rueidis.Client {
	nodes := c.Client.Nodes()
	for addr, node := range nodes {
		nodes[addr] = oddClient{node, c.asked}
	}
	return nodes
}

func (c oddClient) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if redistest.Command("SCRIPT")(cmd.Commands()) {
		cmd = c.asked(c.B())
	}
	return c.Client.Do(ctx, cmd)
}

// TestLoad_WithoutAWord loads all scripts if the answer does not tell which of them the server lacks.
func TestLoad_WithoutAWord(t *testing.T) {
	t.Parallel()
	for name, asked := range map[string]func(b rueidis.Builder) rueidis.Completed{
		"nothing":      func(b rueidis.Builder) rueidis.Completed { return b.Get().Key("none").Build() },
		"a text":       func(b rueidis.Builder) rueidis.Completed { return b.Echo().Message("1").Build() },
		"a number":     func(b rueidis.Builder) rueidis.Completed { return b.Dbsize().Build() },
		"too few":      func(b rueidis.Builder) rueidis.Completed { return b.Smismember().Key("none").Member("a").Build() },
		"of texts":     func(b rueidis.Builder) rueidis.Completed { return b.Command().Build() },
		"no such word": func(b rueidis.Builder) rueidis.Completed { return b.Arbitrary("SCRIPT", "EXIST").Build() },
	} {
		server := redistest.Server(t)
		net, _ := over(t, Config{Client: oddClient{server.Client(), asked}, UUID: "u"})
		net.load(0)
		require.EqualValues(t, 1, net.loads.Load(), name)
		require.EqualValues(t, len(scripts.All()), server.CommandStats()["script|load"], name)
	}
}

// TestLoad_RefusedByAServerThatWasDown logs the reason that lasts, of which an operator has to know, although the log has a line that the
// server was down.
func TestLoad_RefusedByAServerThatWasDown(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t, redistest.WithConfig("user", "guest", "on", "nopass", "~*", "&*", "+@all", "-script|load"))
	process := protocol.NewProcess(protocol.NewUUID(protocol.ListensPlain), protocol.PublishPlain, time.Minute, 30*time.Second)
	var log bytes.Buffer
	u := &fake{changes: make(chan []string, 100), rechecks: make(chan func(string) bool, 100)}
	guest := server.NewClient(func(o *rueidis.ClientOption) { o.Username, o.Password = "guest", "any" })
	net := New(Config{Client: guest, UUID: process.UUID, User: u, Stopped: make(chan struct{}), OpTimeout: 10 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	lines := func() int { return strings.Count(log.String(), "scripts could not be loaded") }
	server.Kill()
	for range 2 {
		require.Error(t, net.Run(process.Leader("k")).Err())
	}
	u.wg.Wait()
	require.Equal(t, 1, lines())
	require.NotContains(t, log.String(), "NOPERM")
	server.Restart()
	for range 2 {
		require.Error(t, net.Run(process.Leader("k")).Err())
		net.load(net.loads.Load())
	}
	u.wg.Wait()
	require.Equal(t, 2, lines())
	require.Contains(t, log.String(), "NOPERM")
}

// A slowLoader is a client of which some servers do not answer to the loading of scripts until the gate is closed.
type slowLoader struct {
	rueidis.Client

	slow  func(addr string) bool
	gate  <-chan struct{}
	loads *atomic.Int64 // how often a slow server was asked
}

// Nodes returns the servers, the slow ones without an answer.
func (c slowLoader) Nodes() map[string]rueidis.Client {
	nodes := c.Client.Nodes()
	for addr, node := range nodes {
		if c.slow(addr) {
			nodes[addr] = slowNode{node, c}
		}
	}
	return nodes
}

type slowNode struct {
	rueidis.Client

	of slowLoader
}

// Do asks, among others, which scripts the server lacks: with that each load begins.
func (n slowNode) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if redistest.Command("SCRIPT")(cmd.Commands()) {
		n.of.loads.Add(1)
		<-n.of.gate
	}
	return n.Client.Do(ctx, cmd)
}

// startSlow returns a transport to new servers, which have no scripts, and of which some are slow. After settle they are not, and no load is
// under way any more.
func startSlow(t *testing.T, servers rueidis.Client, slow ...string) (net *Transport, p protocol.Process, loads *atomic.Int64, settle func()) {
	t.Helper()
	gate, loads := make(chan struct{}), new(atomic.Int64)
	client := slowLoader{servers, func(addr string) bool { return slices.Contains(slow, addr) }, gate, loads}
	p = protocol.NewProcess(protocol.NewUUID(protocol.ListensPlain), protocol.PublishPlain, time.Minute, 30*time.Second)
	u := &fake{changes: make(chan []string, 100), rechecks: make(chan func(string) bool, 100)}
	net = New(Config{Client: client, UUID: p.UUID, User: u, Stopped: make(chan struct{}), OpTimeout: 10 * time.Second, Logger: slog.New(slog.DiscardHandler)})
	settle = sync.OnceFunc(func() {
		close(gate)
		u.wg.Wait()
	})
	t.Cleanup(settle)
	return net, p, loads, settle
}

// TestLoad_OfASlowCluster sends requests to a cluster whose servers take long to load the scripts, since they are busy or far away: each request
// is done, with its own script, and none of them has all scripts sent once more.
func TestLoad_OfASlowCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	all := cluster.Addrs()
	net, p, loads, settle := startSlow(t, cluster.NewClient(), all...)
	for range 10 {
		require.NoError(t, net.Run(p.Leader(redistest.Key(t, "k"))).Err())
	}
	require.Zero(t, net.loads.Load())
	require.LessOrEqual(t, loads.Load(), int64(len(all)), "requests to load scripts")
	settle()
	require.EqualValues(t, 1, net.loads.Load(), "the scripts are loaded when a server has them")
	require.NoError(t, net.Run(p.Leader(redistest.Key(t, "k"))).Err())
}

// TestLoad_OfOneSlowServer has all scripts sent again and again, as requests do that find theirs missing: a server that is still being sent them
// gets them once. When it has them, it may get them again.
func TestLoad_OfOneSlowServer(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	net, _, loads, settle := startSlow(t, cluster.NewClient(), cluster.Addrs()[0])
	for net.loads.Load() < 5 { // the others have the scripts as often
		net.load(net.loads.Load())
	}
	require.EqualValues(t, 1, loads.Load(), "requests to load scripts")
	settle()
	before := loads.Load()
	net.load(net.loads.Load())
	require.Greater(t, loads.Load(), before)
}

// TestLoad_OverAMuteConnection sends requests to a server that gets the scripts over a connection without answers: each request is done, over
// another one, with its own script.
func TestLoad_OverAMuteConnection(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	net, p, loads, settle := startSlow(t, server.Client(), server.Addr())
	for range 3 {
		require.NoError(t, net.Run(p.Leader(redistest.Key(t, "k"))).Err())
	}
	require.Zero(t, net.loads.Load())
	require.EqualValues(t, 1, loads.Load(), "requests to load scripts")
	settle()
	require.EqualValues(t, 1, net.loads.Load(), "the scripts are loaded when the server has them")
}

// A panicking client panics when it is asked for its servers.
type panicking struct{ rueidis.Client }

func (panicking) Nodes() map[string]rueidis.Client { panic("a fault of the program") }

// A recovering user goes on after a panic.
type recovering struct{ *fake }

func (f recovering) Go(g func()) {
	f.fake.Go(func() {
		defer func() { _ = recover() }()
		g()
	})
}

// TestLoad_Panics shows that a load whose client panics keeps no later one from loading.
func TestLoad_Panics(t *testing.T) {
	t.Parallel()
	net, _, u := start(t, nil, Config{})
	working := net.rc
	net.cfg.User, net.rc = recovering{u}, panicking{working}
	require.Zero(t, net.load(0))
	u.wg.Wait()
	net.rc = working
	net.load(0)
	u.wg.Wait()
	require.EqualValues(t, 1, net.loads.Load())
}

// TestLoad_ForgetsServers keeps no server in memory that has gone: in a cluster they come and go, each with an address of its own.
func TestLoad_ForgetsServers(t *testing.T) {
	t.Parallel()
	net, _, u := start(t, nil, Config{})
	for _, addr := range append(net.Addrs(), "gone:1") {
		net.without.Store(lacking{addr, false}, struct{}{})
		net.without.Store(lacking{addr, true}, struct{}{})
		net.portions.Store(addr, 1)
	}
	net.load(net.loads.Load())
	u.wg.Wait()
	for _, about := range []*sync.Map{&net.without, &net.portions} {
		about.Range(func(x, _ any) bool {
			require.Fail(t, "it is remembered", x)
			return true
		})
	}
}

// TestLoad_OfASlowServer has the connection end each time that the server has got a few scripts, as one does that has no answer in time: the
// next attempt goes on where the last one ended, and sends fewer together.
func TestLoad_OfASlowServer(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	proxy := redistest.Proxy(t, server.Addr())
	var some int
	proxy.DropReply(func(cmd []string) bool {
		if !redistest.Command("SCRIPT")(cmd) {
			return false
		}
		some = (some + 1) % 12
		return some == 0
	}, math.MaxInt, redistest.Close)
	u := &fake{changes: make(chan []string, 100), rechecks: make(chan func(string) bool, 100)}
	client := redistest.NewClient(t, proxy.Addr())
	process := protocol.NewProcess(protocol.NewUUID(protocol.ListensPlain), protocol.PublishPlain, time.Minute, 30*time.Second)
	net := New(Config{Client: client, UUID: process.UUID, User: u, Stopped: make(chan struct{}), OpTimeout: 10 * time.Second, Logger: slog.New(slog.DiscardHandler)})
	attempts := 0
	for ; net.loads.Load() == 0; attempts++ {
		require.Less(t, attempts, 20)
		net.load(0)
		u.wg.Wait()
	}
	require.Greater(t, attempts, 1, "it has failed")
	for _, s := range scripts.All() {
		has, err := server.Do("SCRIPT", "EXISTS", s.SHA1()).AsIntSlice()
		require.NoError(t, err)
		require.Equal(t, []int64{1}, has)
	}
	net.portions.Range(func(addr, _ any) bool {
		require.Fail(t, "it is remembered", addr)
		return true
	})
}
