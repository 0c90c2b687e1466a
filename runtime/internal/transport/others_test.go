package transport

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A muted cluster has one server that answers, when the others have been asked, too.
type muted struct {
	rueidis.Client
	asked chan struct{} // has room for all
}

func (m muted) Nodes() map[string]rueidis.Client {
	nodes := m.Client.Nodes()
	for i, addr := range slices.Sorted(maps.Keys(nodes)) {
		if i == 0 {
			nodes[addr] = last{nodes[addr], m.asked, len(nodes) - 1}
		} else {
			nodes[addr] = mute{nodes[addr], m.asked}
		}
	}
	return nodes
}

// A mute server does not answer.
type mute struct {
	rueidis.Client
	asked chan<- struct{}
}

func (m mute) Do(ctx context.Context, _ rueidis.Completed) rueidis.RedisResult {
	m.asked <- struct{}{}
	<-ctx.Done()
	return rueidis.NewErrorResult(ctx.Err())
}

// The last server answers when the others have been asked.
type last struct {
	rueidis.Client
	asked  <-chan struct{}
	others int
}

func (l last) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	for range l.others {
		select {
		case <-l.asked:
		case <-ctx.Done():
			return rueidis.NewErrorResult(ctx.Err())
		}
	}
	return l.Client.Do(context.Background(), cmd)
}

// A server of a cluster that does not answer does not hide what the others say about channels.
func TestChannels_WithoutTheAnswersOfSome(t *testing.T) {
	t.Parallel()
	rc := redistest.SharedCluster(t).NewClient()
	u := &fake{changes: make(chan []string, 100), rechecks: make(chan func(string) bool, 100)}
	uuid, stopped := protocol.NewUUID(protocol.ListensSharded), make(chan struct{})
	net := New(Config{
		Client: muted{rc, make(chan struct{}, 100)}, UUID: uuid, User: u, Channels: ShardedChannels, Stopped: stopped, OpTimeout: 2 * time.Second,
	})
	own := protocol.ProcessChannel(uuid)
	server := rc.Nodes()[slices.Min(slices.Collect(maps.Keys(rc.Nodes())))]
	subscriber, release := server.Dedicate()
	defer release()
	heard := subscriber.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}})
	require.NotNil(t, heard)
	require.NoError(t, subscriber.Do(t.Context(), subscriber.B().Subscribe().Channel(own).Build()).Error())
	names, err := net.Channels(own)
	require.NoError(t, err)
	require.Equal(t, []string{own}, names)
	close(stopped)
	net.Quit()
	net.Unlisten()
	u.wg.Wait()
}
