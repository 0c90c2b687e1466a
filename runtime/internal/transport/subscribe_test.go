package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A server of a cluster that is busy with a script for long refuses what ends a subscription, too. It refuses a PING for want of a permission before that.
func TestClusterSubscriber_EndsWhileTheServerIsBusy(t *testing.T) {
	t.Parallel()
	for may, rights := range map[string][]string{"all permissions": nil, "no PING": {"-ping"}} {
		t.Run(may, func(t *testing.T) {
			t.Parallel()
			servers := redistest.Cluster(t, redistest.WithConfig("lua-time-limit", "20"))
			rc := servers.NewClient()
			net, logged := limited(t, servers, ShardedChannels, protocol.NewUUID(protocol.ListensSharded), append(rights, "~*", "&*")...)
			const name = "a channel"
			left := net.Listen(name, func(hub.Event) {})
			<-left.Ready()
			server := servers.Master(name)
			busy := make(chan error, 1)
			go func() {
				busy <- rc.Do(context.Background(), rc.B().Eval().Script("while true do end").Numkeys(1).Key(name).Build()).Error()
			}()
			require.Eventually(t, func() bool {
				_, err := server.Try("GET", name)
				return err != nil
			}, time.Minute, time.Millisecond)
			left.Close()
			require.Contains(t, <-logged, "subscribing failed")
			ready := net.Listen(name, func(hub.Event) {})
			server.Do("SCRIPT", "KILL")
			require.Error(t, <-busy)
			<-ready.Ready()
		})
	}
}

// A connection over which the end of a subscription has no answer is closed: the server may be about to refuse it, since a script has begun.
func TestSubscriber_EndsAMuteConnection(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(conn rueidis.DedicatedClient, broken <-chan error) hub.Conn{
		"one server": func(conn rueidis.DedicatedClient, broken <-chan error) hub.Conn {
			return subscriber{conn, whole{context.Background(), broken}, nil}
		},
		"a cluster": func(conn rueidis.DedicatedClient, broken <-chan error) hub.Conn {
			cl := newCluster(&link{cfg: Config{UUID: protocol.NewUUID(protocol.ListensCluster), Channels: PlainChannels}})
			return clusterSubscriber{cl, conn, whole{context.Background(), broken}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := redistest.Proxy(t, redistest.Shared(t).Addr())
			rc, err := rueidis.NewClient(rueidis.ClientOption{
				InitAddress: []string{proxy.Addr()}, ForceSingleClient: true, DisableCache: true, ConnWriteTimeout: time.Hour,
			})
			require.NoError(t, err)
			defer rc.Close()
			dedicated, _ := rc.Dedicate()
			broken := dedicated.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}})
			conn, channels := of(dedicated, broken), []string{redistest.Key(t, "channel")}
			refused, err := conn.Subscribe(channels)
			require.NoError(t, err)
			require.Empty(t, refused)
			proxy.DropRequest(redistest.Command("UNSUBSCRIBE"), 1, redistest.Mute)
			ended := make(chan error, 1)
			go func() { ended <- conn.Unsubscribe(channels) }()
			select {
			case err := <-ended:
				require.Error(t, err)
				require.Error(t, <-broken)
			case <-time.After(time.Minute):
				t.Fatal("the connection is not closed")
			}
			conn.Close()
		})
	}
}

// A subscription ends where the user may not subscribe to all channels that have no listener any more, or to none.
func TestSubscriber_EndsWhatItMay(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	server.Do("ACL", "SETUSER", "limited", "on", ">secret", "+@all", "-ping", "&may*")
	net, _ := over(t, Config{
		Client: server.NewClient(func(o *rueidis.ClientOption) { o.Username, o.Password = "limited", "secret" }), UUID: protocol.NewUUID(protocol.ListensPlain),
	})
	conn, broken, err := net.tracker.subscriber("", quitter{make(chan string, 10)})
	require.NoError(t, err)
	refused, err := conn.Subscribe([]string{"may", "must not", "may too"})
	require.ErrorIs(t, err, hub.ErrRefused)
	require.Equal(t, []string{"must not"}, refused)
	require.NoError(t, conn.Unsubscribe([]string{"must not"}))
	require.NoError(t, conn.Unsubscribe([]string{"may", "must not"}))
	names, err := server.Do("PUBSUB", "CHANNELS").AsStrSlice()
	require.NoError(t, err)
	require.Equal(t, []string{"may too"}, names)
	require.Empty(t, broken)
	conn.Close()
}

// A server of a cluster that refuses one channel, since a permission is missing, goes on to send the messages on the others over the same
// connection.
func TestClusterSubscriber_GoesOnWithoutAPermission(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t)
	net, logged := limited(t, servers, ShardedChannels, protocol.NewUUID(protocol.ListensSharded), "~*", "&may*")
	events := make(chan hub.Event, 1000)
	net.Listen("may{tag}", func(e hub.Event) { events <- e })
	require.True(t, (<-events).Subscribed)
	refused := net.Listen("must not{tag}", func(hub.Event) {})
	require.Contains(t, <-logged, "NOPERM")
	late := net.Listen("may too{tag}", func(hub.Event) {})
	<-late.Ready()
	require.NoError(t, servers.Master("{tag}").Do("SPUBLISH", "may{tag}", "a message").Error())
	require.Equal(t, hub.Event{Payload: "a message"}, <-events)
	for _, s := range servers.Nodes() {
		require.NoError(t, s.Do("ACL", "SETUSER", "limited", "allchannels").Error())
	}
	<-refused.Ready()
}

// A single server that refuses one channel, since a permission is missing, has all others subscribed: those that are asked for together with it, and
// those that come later.
func TestSubscriber_GoesOnWithoutAPermission(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	server.Do("ACL", "SETUSER", "limited", "on", ">secret", "+@all", "~*", "&may*")
	net, _ := over(t, Config{
		Client: server.NewClient(func(o *rueidis.ClientOption) { o.Username, o.Password = "limited", "secret" }), UUID: protocol.NewUUID(protocol.ListensPlain),
	})
	refused := net.Listen("must not", func(hub.Event) {})
	for _, name := range []string{"may", "may too"} {
		<-net.Listen(name, func(hub.Event) {}).Ready()
	}
	server.Do("CLIENT", "KILL", "TYPE", "pubsub")
	until := func(name string) {
		require.Eventually(t, func() bool {
			counts, err := server.Do("PUBSUB", "NUMSUB", name).AsIntMap()
			return err == nil && counts[name] == 1
		}, time.Minute, time.Millisecond)
	}
	until("may")
	until("may too")
	server.Do("ACL", "SETUSER", "limited", "allchannels")
	<-refused.Ready()
}

// A connection says of some channels that they are elsewhere, and only at the next try that it refuses others.
func TestClusterSubscriber_SaysFirstWhatIsElsewhere(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t)
	net, _ := limited(t, servers, ShardedChannels, protocol.NewUUID(protocol.ListensSharded), "~*", "&o*")
	conn, _, err := net.cluster.subscriber(servers.Master("two").Addr(), quitter{make(chan string, 10)})
	require.NoError(t, err)
	require.NotSame(t, servers.Master("one"), servers.Master("two"))
	elsewhere, err := conn.Subscribe([]string{"two", "one"})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"one", "one", "two"}, elsewhere)
	refused, err := conn.Subscribe([]string{"two"})
	require.ErrorIs(t, err, hub.ErrRefused)
	require.Equal(t, []string{"two"}, refused)
	conn.Close()
}

// A channel that the client can subscribe only as one of two kinds does not stay subscribed when nobody listens any more, nor does the connection end:
// where the client may not, and where the server does not know the commands.
func TestClusterSubscriber_EndsTheOtherKind(t *testing.T) {
	t.Parallel()
	for said, test := range map[string]struct {
		rights  []string
		servers []redistest.Option
	}{
		"NOPERM":          {rights: []string{"-ssubscribe", "-sunsubscribe"}},
		"unknown command": {servers: []redistest.Option{redistest.WithConfig("rename-command", "SSUBSCRIBE", ""), redistest.WithConfig("rename-command", "SUNSUBSCRIBE", "")}},
	} {
		t.Run(said, func(t *testing.T) {
			t.Parallel()
			servers := redistest.Cluster(t, test.servers...)
			uuid := protocol.NewUUID(protocol.ListensSharded)
			own := protocol.ProcessChannel(uuid) // of one kind
			server, name := servers.Master(own), "x"
			for servers.Master(name) != server {
				name += "x"
			}
			subscribed := func() bool {
				names, err := server.Do("PUBSUB", "CHANNELS", name).AsStrSlice()
				require.NoError(t, err)
				return len(names) > 0
			}
			net, logged := limited(t, servers, BothChannels, uuid, append(test.rights, "~*", "&*")...)
			events := make(chan hub.Event, 100)
			net.Listen(own, func(e hub.Event) { events <- e })
			require.True(t, (<-events).Subscribed)
			l := net.Listen(name, func(hub.Event) {})
			require.Contains(t, <-logged, said)
			require.True(t, subscribed())
			l.Close()
			require.Eventually(t, func() bool { return !subscribed() }, time.Minute, 10*time.Millisecond)
			require.NoError(t, server.Do("PUBLISH", own, "a message").Error())
			require.Equal(t, hub.Event{Payload: "a message"}, <-events)
		})
	}
}

// limited returns a transport of a user with some rights besides all commands, named "limited", and what it logs. It ends with the test.
func limited(t *testing.T, servers *redistest.RedisCluster, channels Channels, uuid string, rights ...string) (*Transport, <-chan string) {
	t.Helper()
	for _, s := range servers.Nodes() {
		require.NoError(t, s.Do(append([]string{"ACL", "SETUSER", "limited", "on", ">secret", "+@all"}, rights...)...).Error())
	}
	u := &fake{changes: make(chan []string, 100), rechecks: make(chan func(string) bool, 100)}
	stopped, logged := make(chan struct{}), make(chan string, 1000)
	net := New(Config{
		Client: servers.NewClient(func(o *rueidis.ClientOption) { o.Username, o.Password = "limited", "secret" }),
		UUID:   uuid, User: u, Channels: channels, Stopped: stopped, OpTimeout: 10 * time.Second,
		Logger: slog.New(slog.NewTextHandler(lines(logged), nil)),
	})
	t.Cleanup(func() {
		close(stopped)
		net.Quit()
		net.Unlisten()
		u.wg.Wait()
	})
	return net, logged
}

// lines are those of a log.
type lines chan<- string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// A replying connection answers all commands with the replies that it has.
type replying struct {
	rueidis.DedicatedClient

	rc      rueidis.Client
	replies []rueidis.RedisResult
}

func (c replying) B() rueidis.Builder { return c.rc.B() }

func (c replying) DoMulti(context.Context, ...rueidis.Completed) []rueidis.RedisResult {
	return c.replies
}

// The replies of a server to a subscription, and to the question behind it, say whether the channel is subscribed, or elsewhere, or refused.
func TestClusterSubscriber_Replies(t *testing.T) {
	t.Parallel()
	rc := redistest.Shared(t).NewClient()
	says := func(text string) error {
		return rc.Do(t.Context(), rc.B().Eval().Script("return redis.error_reply(ARGV[1])").Numkeys(0).Arg(text).Build()).Error()
	}
	const noPermission = "NOPERM this user has no permissions"
	for name, test := range map[string]struct {
		subscription, question error
		elsewhere              []string
		err                    error
		owner                  string
	}{
		"subscribed":                      {},
		"it has moved":                    {subscription: says("MOVED 1 there:1"), question: says("MOVED 1 there:1"), elsewhere: []string{"x", "x"}, owner: "there:1"},
		"a replica":                       {question: says("MOVED 1 there:2"), elsewhere: []string{"x"}, owner: "there:2"},
		"busy":                            {subscription: says("BUSY running a script"), elsewhere: []string{"x"}},
		"down":                            {question: says("CLUSTERDOWN it is down"), elsewhere: []string{"x"}},
		"it may not be asked":             {question: says(noPermission)},
		"it may not be subscribed":        {subscription: says(noPermission), elsewhere: []string{"x"}, err: hub.ErrRefused},
		"neither":                         {subscription: says(noPermission), question: says(noPermission), elsewhere: []string{"x"}, err: hub.ErrRefused},
		"it may not, and has moved":       {subscription: says(noPermission), question: says("MOVED 1 there:3"), elsewhere: []string{"x", "x"}, owner: "there:3"},
		"the connection broke":            {subscription: io.EOF, question: io.EOF, err: io.EOF},
		"the connection broke after that": {question: io.EOF, err: io.EOF},
	} {
		cl := newCluster(&link{cfg: Config{UUID: protocol.NewUUID(protocol.ListensSharded), Channels: ShardedChannels}})
		answer := func(err error) rueidis.RedisResult {
			if err == nil {
				return rueidis.RedisResult{}
			}
			return rueidis.NewErrorResult(err)
		}
		conn := replying{rc: rc, replies: []rueidis.RedisResult{answer(test.subscription), answer(test.question)}}
		elsewhere, err := clusterSubscriber{cl, conn, whole{}}.Subscribe([]string{"x"})
		require.Equal(t, test.elsewhere, elsewhere, name)
		require.ErrorIs(t, err, test.err, name)
		require.Equal(t, test.owner, cl.nodeOf("x"), name)
	}
}

// A quitter notes which subscriptions a server has ended.
type quitter struct{ dropped chan string }

func (quitter) Message(string, string)   {}
func (q quitter) Dropped(channel string) { q.dropped <- channel }

// A connection goes on when it ends a subscription that its server has ended already, since the channel has moved.
func TestClusterSubscriber_EndsWhatHasMoved(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t)
	net, _ := over(t, Config{Client: servers.NewClient(), UUID: protocol.NewUUID(protocol.ListensSharded), Channels: ShardedChannels})
	net.cluster.ask()
	from, to := servers.Master("one"), servers.Master("two")
	require.NotSame(t, from, to)
	sink := quitter{make(chan string, 10)}
	conn, _, err := net.cluster.subscriber(from.Addr(), sink)
	require.NoError(t, err)
	elsewhere, err := conn.Subscribe([]string{"one"})
	require.NoError(t, err)
	require.Empty(t, elsewhere)
	servers.Move(servers.Slot("one"), to).End()
	require.Equal(t, "one", <-sink.dropped)
	require.NoError(t, conn.Unsubscribe([]string{"one", "one"}))
	elsewhere, err = conn.Subscribe([]string{"one"})
	require.NoError(t, err)
	require.Equal(t, []string{"one", "one"}, elsewhere, "for the question, too")
	conn.Close()
}

// A channel of both kinds leaves the server that had it: that ends only the sharded one by itself.
func TestClusterSubscriber_BothKindsLeave(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t)
	net, _ := over(t, Config{Client: servers.NewClient(), UUID: protocol.NewUUID(protocol.ListensSharded), Channels: BothChannels})
	net.cluster.ask()
	from, to := servers.Master("one"), servers.Master("two")
	require.NotSame(t, from, to)
	subscribed := func(s *redistest.RedisServer) bool {
		names, err := s.Do("PUBSUB", "CHANNELS", "one").AsStrSlice()
		require.NoError(t, err)
		return len(names) > 0
	}
	l := net.Listen("one", func(hub.Event) {})
	<-l.Ready()
	require.True(t, subscribed(from))
	servers.Move(servers.Slot("one"), to).End()
	require.Eventually(t, func() bool { return l.Live() && subscribed(to) && !subscribed(from) }, time.Minute, 10*time.Millisecond)
	l.Close()
}

// A client of a cluster that does not speak RESP3 has one connection to a server for its subscriptions and another one for its questions, and
// hears all messages.
func TestClusterSubscriber_HearsWithoutRESP3(t *testing.T) {
	t.Parallel()
	cluster := redistest.SharedCluster(t)
	for name, channels := range map[string]Channels{"sharded": ShardedChannels, "plain": PlainChannels, "both": BothChannels} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rc := cluster.NewClient(func(o *rueidis.ClientOption) { o.AlwaysRESP2, o.DisableCache = true, true })
			net, _ := over(t, Config{Client: rc, UUID: protocol.NewUUID(protocol.ListensSharded), Channels: channels})
			key := redistest.Key(t, "key")
			publish := map[Channels][]string{ShardedChannels: {"SPUBLISH"}, PlainChannels: {"PUBLISH"}, BothChannels: {"SPUBLISH", "PUBLISH"}}[channels]
			for round := range 2 { // after the end of a subscription, too
				messages := make(chan string, 100)
				listener := net.Listen(key, func(e hub.Event) {
					if !e.Subscribed {
						messages <- e.Payload
					}
				})
				other := net.Listen("another{"+key+"}", func(hub.Event) {}) // in the same slot
				for _, l := range []*hub.Listener{listener, other} {
					select {
					case <-l.Ready():
					case <-time.After(time.Minute):
						t.Fatal("no subscription")
					}
				}
				for _, command := range publish {
					require.NoError(t, cluster.Master(key).Do(command, key, strconv.Itoa(round)).Error())
					require.Equal(t, strconv.Itoa(round), <-messages)
				}
				listener.Close()
				require.Eventually(t, func() bool { return !net.hub.Subscribed(key) }, time.Minute, time.Millisecond)
				other.Close()
			}
		})
	}
}

// A client whose connections do not speak RESP3 has a connection of its own for subscriptions, and hears the messages if the server does not accept
// one of these connections and accepts the next one.
func TestSubscriber_HearsAfterAFailedDialWithoutRESP3(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	var fail atomic.Int32 // the dial that fails, counted down
	rc := server.NewClient(func(o *rueidis.ClientOption) {
		o.AlwaysRESP2, o.DisableCache = true, true
		o.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			if fail.Add(-1) == 0 {
				return nil, syscall.ECONNREFUSED
			}
			return d.DialContext(ctx, "tcp", addr)
		}
	})
	net, _ := over(t, Config{Client: rc, UUID: protocol.NewUUID(protocol.ListensPlain), Tracking: true})
	fail.Store(2) // the first one is that of the connection for the other commands
	name := redistest.Key(t, "channel")
	messages := make(chan string, 100)
	listener := net.Listen(name, func(e hub.Event) {
		if !e.Subscribed {
			messages <- e.Payload
		}
	})
	<-listener.Ready()
	require.NoError(t, server.Do("PUBLISH", name, "a message").Error())
	select {
	case message := <-messages:
		require.Equal(t, "a message", message)
	case <-time.After(time.Minute):
		t.Fatal("no message")
	}
	listener.Close()
}

// A cutter is a connection that breaks with the first request for subscriptions.
type cutter struct {
	net.Conn

	once *sync.Once
}

func (c cutter) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("SUBSCRIBE\r\n")) {
		c.once.Do(func() { _ = c.Conn.Close() })
	}
	return c.Conn.Write(b)
}

// A client whose connections do not speak RESP3 subscribes over another connection when the one for subscriptions breaks during a request, though the one
// for other commands is well.
func TestSubscriber_ConnectsAnewWithoutRESP3(t *testing.T) {
	t.Parallel()
	server, cluster := redistest.Shared(t), redistest.SharedCluster(t)
	for name, test := range map[string]struct {
		client   func(edits ...func(*rueidis.ClientOption)) rueidis.Client
		uuid     string
		channels Channels
		tracking bool
	}{
		"one server":                  {server.NewClient, protocol.NewUUID(protocol.ListensPlain), PlainChannels, false},
		"one server, tracking":        {server.NewClient, protocol.NewUUID(protocol.ListensPlain), PlainChannels, true},
		"a cluster, sharded channels": {cluster.NewClient, protocol.NewUUID(protocol.ListensSharded), ShardedChannels, false},
		"a cluster, plain channels":   {cluster.NewClient, protocol.NewUUID(protocol.ListensCluster), PlainChannels, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var once sync.Once
			rc := test.client(func(o *rueidis.ClientOption) {
				o.AlwaysRESP2, o.DisableCache = true, true
				o.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
					conn, err := d.DialContext(ctx, "tcp", addr)
					return cutter{conn, &once}, err
				}
			})
			net, _ := over(t, Config{Client: rc, UUID: test.uuid, Channels: test.channels, Tracking: test.tracking})
			listener := net.Listen(redistest.Key(t, "channel"), func(hub.Event) {})
			select {
			case <-listener.Ready():
			case <-time.After(time.Minute):
				t.Fatal("no subscription")
			}
			listener.Close()
		})
	}
}
