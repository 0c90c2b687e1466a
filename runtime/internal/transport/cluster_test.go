package transport

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A distant cluster has servers whose answers come when the test lets them.
type distant struct {
	rueidis.Client
	arrive <-chan struct{} // closed when they come
}

func (d distant) Nodes() map[string]rueidis.Client {
	nodes := d.Client.Nodes()
	for addr, node := range nodes {
		nodes[addr] = distantNode{node, d.arrive}
	}
	return nodes
}

type distantNode struct {
	rueidis.Client
	arrive <-chan struct{}
}

func (n distantNode) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	reply := n.Client.Do(ctx, cmd)
	<-n.arrive
	return reply
}

// The client learns which server has which slot also from answers that come later than a request waits for them. They do not replace those to a
// later question.
func TestCluster_LearnsFromLateAnswers(t *testing.T) {
	t.Parallel()
	servers := redistest.SharedCluster(t)
	arrive := make(chan struct{})
	u := &fake{changes: make(chan []string, 100), rechecks: make(chan func(string) bool, 100)}
	stopped := make(chan struct{})
	net := New(Config{
		Client: distant{servers.NewClient(), arrive}, UUID: protocol.NewUUID(protocol.ListensSharded), User: u, Channels: ShardedChannels,
		Stopped: stopped, OpTimeout: 10 * time.Second, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	net.cluster.ask()
	require.Empty(t, net.cluster.nodeOf("k"), "the request goes on")
	close(arrive)
	require.Eventually(t, func() bool { return net.cluster.nodeOf("k") != "" }, time.Minute, time.Millisecond)
	u.wg.Wait()

	elsewhere := newOwners()
	for slot := range elsewhere.of {
		elsewhere.of[slot] = elsewhere.place("elsewhere:1")
	}
	net.cluster.mu.Lock()
	net.cluster.owners = elsewhere
	net.cluster.mu.Unlock()
	net.cluster.count(net.cluster.known-1, make(chan struct{}))
	require.Equal(t, "elsewhere:1", net.cluster.nodeOf("k"))
	net.cluster.ask()
	require.NotEqual(t, "elsewhere:1", net.cluster.nodeOf("k"))
	close(stopped)
	net.Quit()
	net.Unlisten()
	u.wg.Wait()
}

// owning returns the owners of the slots of some keys.
func owning(addrs map[string]string) *owners {
	o := newOwners()
	for key, addr := range addrs {
		o.of[protocol.Slot(key)] = o.place(addr)
	}
	return o
}

// The word of a server that another one has a slot counts until the answer to a later question comes. The client takes the slot for one that has
// moved, like one of which it learns by an answer.
func TestCluster_LearnsFromARedirection(t *testing.T) {
	t.Parallel()
	cl := newCluster(nil)
	learn := func(number uint64, addrs map[string]string) (moved []bool) {
		slots := cl.learn(number, owning(addrs))
		for _, key := range []string{"one", "two"} {
			moved = append(moved, slots != nil && slots[protocol.Slot(key)])
		}
		return moved
	}
	require.Equal(t, []bool{false, false}, learn(1, map[string]string{"one": "a:1", "two": "a:1"}))
	cl.latest = 2 // the question is under way
	cl.note(protocol.Slot("one"), "b:1")
	require.Equal(t, "b:1", cl.nodeOf("one"))
	require.Equal(t, []bool{true, false}, learn(2, map[string]string{"one": "a:1", "two": "a:1"}), "it may be older")
	require.Equal(t, "b:1", cl.nodeOf("one"))
	require.Equal(t, []bool{false, false}, learn(3, map[string]string{"one": "b:1", "two": "a:1"}), "once")
	require.Empty(t, cl.said)

	cl.latest = 3
	cl.note(protocol.Slot("two"), "c:1")
	cl.note(protocol.Slot("two"), "b:1")
	require.Equal(t, []bool{false, true}, learn(4, map[string]string{"one": "b:1", "two": "b:1"}))
	cl.note(protocol.Slot("two"), "c:1")
	require.Equal(t, []bool{false, false}, learn(5, map[string]string{"one": "b:1", "two": "b:1"}), "it was wrong, or is not true any more")
	require.Equal(t, "b:1", cl.nodeOf("two"))
}

// The number of a server stays, in whatever order an answer has the servers, and whether one of them has no slots for a while.
func TestCluster_NumbersOfServersStay(t *testing.T) {
	t.Parallel()
	cl := newCluster(nil)
	net := &Transport{cluster: cl}
	require.Zero(t, net.Server("a"), "no server is known")
	ordered := func(addrs ...string) *owners { // each has the key that its address begins with
		o := newOwners()
		for _, addr := range addrs {
			key, _, _ := strings.Cut(addr, ":")
			o.of[protocol.Slot(key)] = o.place(addr)
		}
		return o
	}
	cl.learn(1, ordered("a:1", "b:1"))
	a, b := net.Server("a"), net.Server("b")
	require.NotEqual(t, a, b)
	require.NotZero(t, a)
	cl.learn(2, ordered("b:1", "a:1"))
	require.Equal(t, a, net.Server("a"))
	require.Equal(t, b, net.Server("b"))
	cl.learn(3, ordered("c:1", "b:1", "a:2"))
	require.Equal(t, b, net.Server("b"))
	require.NotContains(t, []uint16{0, a, b, net.Server("c")}, net.Server("a"), "it is another server")
	cl.learn(4, ordered("a:1"))
	require.Equal(t, a, net.Server("a"))
}

// The client learns which server has a slot though no connection has broken, while it holds or waits for anything: then it confirms what it holds there, and
// listens there.
func TestCluster_LearnsThoughNoConnectionBreaks(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t)
	net, u := over(t, Config{Client: servers.NewClient(), UUID: protocol.NewUUID(protocol.ListensCluster), Channels: PlainChannels})
	net.cluster.ask()
	from, to := servers.Master("one"), servers.Master("two")
	require.NotSame(t, from, to)
	l := net.Listen("one", func(hub.Event) {})
	<-l.Ready()
	servers.Move(servers.Slot("one"), to).End()
	require.Equal(t, from.Addr(), net.cluster.nodeOf("one"))
	net.Watch()
	require.Eventually(t, func() bool { return net.cluster.nodeOf("one") == to.Addr() }, time.Minute, 10*time.Millisecond)
	some := <-u.rechecks
	require.True(t, some("one"))
	require.False(t, some("two"))
	subscribed := func(s *redistest.RedisServer) bool {
		names, err := s.Do("PUBSUB", "CHANNELS", "one").AsStrSlice()
		require.NoError(t, err)
		return len(names) > 0
	}
	require.Eventually(t, func() bool { return l.Live() && subscribed(to) && !subscribed(from) }, time.Minute, 10*time.Millisecond)
	l.Close()
}

// A slot that has no owner for a while has moved when it has another one than before.
func TestCluster_LearnsOfASlotThatHadNoOwner(t *testing.T) {
	t.Parallel()
	cl := newCluster(nil)
	require.Nil(t, cl.learn(1, owning(map[string]string{"k": "a:1"})))
	require.Nil(t, cl.learn(2, owning(nil)))
	require.Equal(t, "a:1", cl.nodeOf("k"))
	moved := cl.learn(3, owning(map[string]string{"k": "b:1"}))
	require.NotNil(t, moved)
	require.True(t, moved[protocol.Slot("k")])
}

// A request that replicas have to confirm learns from a redirection that its slot has moved: the leases there are confirmed.
func TestCluster_ConfirmsLeasesAfterARedirection(t *testing.T) {
	t.Parallel()
	servers := redistest.SharedCluster(t)
	key := redistest.Key(t, "k")
	u := &fake{changes: make(chan []string, 100), rechecks: make(chan func(string) bool, 100)}
	stopped := make(chan struct{})
	process := protocol.NewProcess(protocol.NewUUID(protocol.ListensSharded), protocol.PublishSharded, time.Minute, 30*time.Second)
	net := New(Config{
		Client: servers.NewClient(), UUID: process.UUID, User: u, Channels: ShardedChannels, Replicas: 1,
		Stopped: stopped, OpTimeout: 10 * time.Second, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	net.load(0)
	u.wg.Wait() // it asks, too
	right := net.cluster.nodeOf(key)
	for _, addr := range net.cluster.present().addrs[1:] {
		if addr != right {
			net.cluster.owners.of[protocol.Slot(key)] = net.cluster.owners.place(addr)
		}
	}
	require.NotEqual(t, right, net.cluster.nodeOf(key))
	require.NoError(t, net.RunGrant(process.Leader(key), func(int64) bool { return false }).Err())
	some := <-u.rechecks
	require.True(t, some(key))
	require.Equal(t, right, net.cluster.nodeOf(key))
	close(stopped)
	net.Quit()
	net.Unlisten()
	u.wg.Wait()
}

// A failsOver is a client whose connection breaks with the last one of several commands. Its only server is a new master from then on, and answers.
type failsOver struct {
	rueidis.Client

	cluster *cluster
	says    func(text string) rueidis.RedisResult
}

func (c *failsOver) Nodes() map[string]rueidis.Client {
	return map[string]rueidis.Client{"there:1": newMaster{c.Client, c.says}}
}

func (c *failsOver) DoMulti(_ context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	c.cluster.mu.Lock()
	defer c.cluster.mu.Unlock()
	c.cluster.fresh["there:1"] = true
	c.cluster.redirects.Store(1)
	replies := make([]rueidis.RedisResult, len(commands))
	for i := range replies {
		replies[i] = c.says("before")
	}
	replies[len(replies)-1] = rueidis.NewErrorResult(io.EOF)
	return replies
}

// A newMaster answers one command at a time.
type newMaster struct {
	rueidis.Client

	says func(text string) rueidis.RedisResult
}

func (m newMaster) Do(context.Context, rueidis.Completed) rueidis.RedisResult { return m.says("after") }

// Of several commands, those whose connection broke are sent again after a failover, and the others keep their answers.
func TestCluster_SomeAreSentAgain(t *testing.T) {
	t.Parallel()
	rc := redistest.Shared(t).NewClient()
	client := &failsOver{Client: rc, says: func(text string) rueidis.RedisResult {
		return rc.Do(t.Context(), rc.B().Echo().Message(text).Build())
	}}
	u := &fake{}
	net := &Transport{link: link{rc: client, cfg: Config{User: u, Stopped: make(chan struct{})}}}
	net.askAll = func() {}
	net.loads.Store(1)
	net.cluster = newCluster(&net.link)
	client.cluster = net.cluster
	process := protocol.NewProcess(protocol.NewUUID(protocol.ListensPlain), protocol.PublishPlain, time.Minute, 30*time.Second)
	cmds := slices.Repeat([]protocol.Command{process.Inspect("k")}, 3)
	net.cluster.note(protocol.Slot("k"), "there:1")
	var said []string
	for _, reply := range net.runRouted(cmds) {
		text, err := reply.ToString()
		require.NoError(t, err)
		said = append(said, text)
	}
	require.Equal(t, []string{"before", "before", "after"}, said)
	require.EqualValues(t, 1, net.Resent())
	u.wg.Wait()
}
