package transport

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// The requests of a crowd that go round a connection which does not answer share one other connection. It is replaced when it
// does not answer either, and closed with the transport.
func TestSpares(t *testing.T) {
	t.Parallel()
	const crowd = 50
	server := redistest.Server(t)
	proxy := redistest.Proxy(t, server.Addr())
	rc := redistest.NewClient(t, proxy.Addr(), func(o *rueidis.ClientOption) { o.ConnWriteTimeout = time.Hour })
	u := &fake{changes: make(chan []string, 100), rechecks: make(chan func(string) bool, 100)}
	process := protocol.NewProcess(protocol.NewUUID(protocol.ListensPlain), protocol.PublishPlain, time.Minute, 30*time.Second)
	stopped := make(chan struct{})
	net := New(Config{Client: rc, UUID: process.UUID, User: u, Stopped: stopped, OpTimeout: 10 * time.Second})
	inspect := func(i int) protocol.Command { return process.Leader(fmt.Sprint("k", i)) }
	require.NoError(t, net.Run(inspect(0)).Err())
	before := proxy.Conns()

	together := func() {
		var wg sync.WaitGroup
		for i := range crowd {
			wg.Go(func() {
				if err := net.RunBeside(inspect(i)).Err(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	together()
	require.Less(t, proxy.Conns(), before+crowd/5, "one, or a few on a machine that stands still meanwhile")

	lost := proxy.DropReply(redistest.Command("EVALSHA"), 1, redistest.Mute)
	unanswered := make(chan error, 1)
	go func() { unanswered <- net.RunBeside(inspect(0)).Err() }()
	<-lost.Done()
	require.Eventually(t, func() bool { // the request is late
		return time.Since(net.spares.to[""].pending.oldest()) > net.Patience()
	}, time.Minute, time.Millisecond)
	mute := net.spares.to[""]
	together()
	require.NotSame(t, mute, net.spares.to[""])
	require.Less(t, proxy.Conns(), before+crowd/5)
	proxy.Cut()
	require.Error(t, <-unanswered)
	require.Eventually(t, func() bool { return net.RunBeside(inspect(0)).Err() == nil }, time.Minute, time.Millisecond)
	together()
	close(stopped)
	net.Quit()
	u.wg.Wait()
	require.Eventually(t, func() bool { return proxy.Conns() <= before }, time.Minute, time.Millisecond)
	require.NoError(t, net.RunBeside(inspect(0)).Err(), "what is left to do when the client is closed")
	u.wg.Wait()
	require.Eventually(t, func() bool { return proxy.Conns() <= before }, time.Minute, time.Millisecond)
	net.Unlisten()
}

// A request that goes round a mute connection is sent at once, also over a connection that has become mute, too, a moment before.
func TestSpares_SendBehindARequestWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for name, two := range map[string]bool{"RESP3": false, "RESP2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sendsBehind(t, func(o *rueidis.ClientOption) { o.ConnWriteTimeout, o.DisableCache, o.AlwaysRESP2 = time.Hour, two, two })
		})
	}
}

// sendsBehind shows that a request is sent behind one without an answer, over one spare connection.
func sendsBehind(t *testing.T, adjust func(o *rueidis.ClientOption)) {
	t.Helper()
	proxy := redistest.Proxy(t, redistest.Shared(t).Addr())
	rc := redistest.NewClient(t, proxy.Addr(), adjust)
	u := &fake{changes: make(chan []string, 100), rechecks: make(chan func(string) bool, 100)}
	process := protocol.NewProcess(protocol.NewUUID(protocol.ListensPlain), protocol.PublishPlain, time.Minute, 30*time.Second)
	stopped := make(chan struct{})
	net := New(Config{Client: rc, UUID: process.UUID, User: u, Stopped: stopped, OpTimeout: 10 * time.Second})
	inspect := func(key string) protocol.Command { return process.Leader(key) }
	require.NoError(t, net.Run(inspect("zero")).Err())
	before := proxy.Conns()
	require.NoError(t, net.RunBeside(inspect("first")).Err())
	require.Equal(t, before+1, proxy.Conns())
	sent := make(chan string, 10)
	proxy.OnRequest(func(cmd []string) {
		if redistest.Command("EVALSHA")(cmd) {
			sent <- cmd[3]
		}
	})
	lost := proxy.DropReply(redistest.Command("EVALSHA"), 1, redistest.Mute)
	var requests sync.WaitGroup
	requests.Go(func() { net.RunBeside(inspect("second")) })
	<-lost.Done()
	requests.Go(func() { net.RunBeside(inspect("third")) })
	require.Equal(t, "second", <-sent)
	select {
	case key := <-sent:
		require.Equal(t, "third", key)
	case <-time.After(time.Minute):
		t.Error("it waits for the answer to the one before")
	}
	proxy.Cut()
	requests.Wait()
	close(stopped)
	net.Quit()
	net.Unlisten()
	u.wg.Wait()
}

// A handshaking client makes connections when the test lets it.
type handshaking struct {
	rueidis.Client

	dials chan chan struct{} // a connection is made when the channel that comes here is closed
}

func (c handshaking) Dedicate() (rueidis.DedicatedClient, func()) {
	over := make(chan struct{})
	c.dials <- over
	<-over
	return c.Client.Dedicate()
}

// A connection that takes longer to make than a request may take, as with TLS on a busy machine, serves the requests that come later: each of
// them would have another one made.
func TestSpares_ThatAreMadeSlowly(t *testing.T) {
	t.Parallel()
	client := handshaking{redistest.Shared(t).NewClient(), make(chan chan struct{}, 10)}
	u := &fake{changes: make(chan []string, 100), rechecks: make(chan func(string) bool, 100)}
	process := protocol.NewProcess(protocol.NewUUID(protocol.ListensPlain), protocol.PublishPlain, time.Minute, 30*time.Second)
	stopped := make(chan struct{})
	net := New(Config{Client: client, UUID: process.UUID, User: u, Stopped: stopped, OpTimeout: time.Hour})
	require.NoError(t, net.Run(process.Leader("k")).Err())
	beside := func() <-chan error {
		done := make(chan error, 1)
		go func() { done <- net.RunBeside(process.Leader("k")).Err() }()
		return done
	}
	first := beside()
	firstMade := <-client.dials
	x := net.spares.to[""]
	require.Eventually(t, func() bool { return x.pending.late(net.Patience()) }, time.Minute, time.Millisecond)
	second := beside()
	secondMade := <-client.dials
	close(firstMade)
	require.NoError(t, <-first)
	require.NoError(t, <-beside(), "over the first connection")
	require.Empty(t, client.dials)
	close(secondMade)
	require.NoError(t, <-second)
	require.Same(t, x, net.spares.to[""])
	close(stopped)
	net.Quit()
	net.Unlisten()
	u.wg.Wait()
}

// A copy of a command that was answered while the connection for the copy was made is not sent: it could lock a key that its caller has unlocked.
func TestSpares_SendNothingThatIsAnswered(t *testing.T) {
	t.Parallel()
	proxy := redistest.Proxy(t, redistest.Shared(t).Addr())
	client := handshaking{redistest.NewClient(t, proxy.Addr(), func(o *rueidis.ClientOption) { o.DisableCache = true }), make(chan chan struct{}, 10)}
	u := &fake{changes: make(chan []string, 100), rechecks: make(chan func(string) bool, 100)}
	process := protocol.NewProcess(protocol.NewUUID(protocol.ListensPlain), protocol.PublishPlain, time.Minute, 30*time.Second)
	stopped := make(chan struct{})
	net := New(Config{Client: client, UUID: process.UUID, User: u, Stopped: stopped, OpTimeout: time.Hour})
	require.NoError(t, net.Run(process.Leader("k")).Err())
	var sent atomic.Int32
	proxy.OnRequest(func(cmd []string) {
		if redistest.Command("EVALSHA")(cmd) {
			sent.Add(1)
		}
	})
	proxy.Blackhole(redistest.Replies)
	answered := make(chan error, 1)
	go func() { answered <- net.Ask(process.Leader("k")).Err() }()
	made := <-client.dials
	proxy.Deliver()
	require.NoError(t, <-answered)
	close(made)
	close(stopped)
	net.Quit()
	net.Unlisten()
	u.wg.Wait()
	require.EqualValues(t, 1, sent.Load())
}

// A connection that has broken takes no place again, also if a request that was answered before leaves it later than the one that found it broken.
func TestSpares_ThatHaveBroken(t *testing.T) {
	t.Parallel()
	x, next := &spare{users: 2}, &spare{made: make(chan struct{}), users: 1}
	s := &spares{to: map[string]*spare{"": x}}
	s.leave(x, true)
	s.to[""] = next
	s.leave(x, false)
	require.Same(t, next, s.to[""])
	require.Zero(t, x.users)
}

// A connection that has answered does not take the place of one to other servers that is being made.
func TestSpares_ToOtherServers(t *testing.T) {
	t.Parallel()
	x, next := &spare{servers: "before", users: 1}, &spare{servers: "now", made: make(chan struct{}), users: 1}
	s := &spares{to: map[string]*spare{"": next}}
	s.leave(x, false)
	require.Same(t, next, s.to[""])
}

// A client of the server that its name says.
type named struct {
	dedicating

	name string
}

func (c *named) Nodes() map[string]rueidis.Client { return map[string]rueidis.Client{c.name: c} }

// Each connection is closed, once: at rest, when other servers take the place of its own, and with the client; and not while a request uses it.
func TestSpares_AreClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, u := &named{name: "one"}, &fake{}
		s := &spares{link: &link{rc: client, cfg: Config{User: u, OpTimeout: time.Second}}, rest: 10 * time.Second, to: map[string]*spare{}}
		take := func() (x *spare, leave func()) {
			x, answered := s.take(client, "")
			<-x.made
			return x, func() {
				answered()
				s.leave(x, false)
			}
		}
		use := func() *spare {
			x, leave := take()
			leave()
			return x
		}
		pass := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		closed := func(x *spare) bool {
			synctest.Wait()
			n := x.conn.(*answering).closed.Load()
			require.LessOrEqual(t, n, int32(1))
			return n == 1
		}

		first := use()
		pass(9 * time.Second)
		require.Same(t, first, use())
		pass(9999 * time.Millisecond)
		require.False(t, closed(first))
		pass(time.Millisecond)
		require.True(t, closed(first), "at rest")
		require.Empty(t, s.to)

		second := use()
		pass(9 * time.Second)
		again, leave := take()
		require.Same(t, second, again)
		pass(time.Hour)
		require.Same(t, second, s.to[""], "a request has it")
		leave()
		require.False(t, closed(second))
		client.name = "two"
		third, leave := take()
		require.NotSame(t, second, third)
		require.True(t, closed(second))
		client.name = "three"
		fourth := use()
		require.NotSame(t, third, fourth)
		require.False(t, closed(third), "a request has it")
		leave()
		require.True(t, closed(third))

		s.close()
		require.True(t, closed(fourth))
		require.True(t, closed(use()), "at once, when the client is closed")
		pass(time.Hour)
		for _, x := range []*spare{first, second, third, fourth} {
			require.True(t, closed(x))
		}
		u.wg.Wait()
	})
}

// In a cluster, requests beside to one server share a connection, too.
func TestSpares_OfACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.SharedCluster(t)
	u := &fake{changes: make(chan []string, 100), rechecks: make(chan func(string) bool, 100)}
	process := protocol.NewProcess(protocol.NewUUID(protocol.ListensPlain), protocol.PublishPlain, time.Minute, 30*time.Second)
	stopped := make(chan struct{})
	net := New(Config{Client: cluster.NewClient(), UUID: process.UUID, User: u, Stopped: stopped, OpTimeout: 10 * time.Second})
	require.NoError(t, net.Run(process.Leader("k")).Err())
	net.cluster.ask()
	var spare *spare
	for range 3 {
		require.NoError(t, net.RunBeside(process.Leader("k")).Err())
		x := net.spares.to[net.cluster.nodeOf("k")]
		require.NotNil(t, x)
		if spare == nil {
			spare = x
		}
		require.Same(t, spare, x)
	}
	close(stopped)
	net.Quit()
	net.Unlisten()
	u.wg.Wait()
}

// A connection has more time for an answer where answers take long.
func TestPatience(t *testing.T) {
	t.Parallel()
	var net Transport
	require.Equal(t, leastPatience, net.Patience())
	for range 100 {
		net.pace.note(200 * time.Millisecond)
	}
	require.InDelta(t, 800*time.Millisecond, net.Patience(), float64(time.Millisecond))
	for range 100 {
		net.pace.note(time.Millisecond)
	}
	require.Equal(t, leastPatience, net.Patience())
}
