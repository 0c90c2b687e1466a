package transport

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

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
