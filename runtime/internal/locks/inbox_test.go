package locks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/policy"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/resource"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestInbox_AMessageToNobody shows that a waiter of a cluster asks again if a message came between its request and the moment when it began to
// listen: the channel stays subscribed for a second after the waiter before it, and Redis hands a lock over to a process that has subscribed.
func TestInbox_AMessageToNobody(t *testing.T) {
	t.Parallel()
	cluster := redistest.SharedCluster(t)
	c, err := opened(t.Context(), cluster.URL(), core.Settings{OpTimeout: time.Minute, Tracks: true}, new(transport.ShardedChannels))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	r, w := policy.NewMutex(c.Base(), redistest.Key(t, "k")), resource.NewWaiter(t.Context(), nil, &leases.Config{Wait: leases.UntilDone})
	r.Queue.Push(w)
	w.Place = engine.PlaceLeading
	n := r.TicketFor(w.Terms).Number
	t.Cleanup(func() { c.base.Subscribers.Disconnect(n) })
	asked := func() bool {
		ev, ok := w.NextEvent()
		return ok && ev.Kind == engine.Reason
	}
	tag := protocol.HashTag(r.Key)
	over := time.After(time.Minute)
	leave := c.base.Listen(tag)
	defer func() { leave() }()
	select {
	case <-w.Events.Bell():
		require.True(t, asked())
	case <-over:
		require.Fail(t, "the channel is not subscribed")
	}
	for {
		leave()
		server := cluster.Master(r.Key)
		require.NoError(t, server.Do("SPUBLISH", protocol.TagChannel(c.base.Wire.UUID, tag), "a message").Error())
		server.Do("PING") // perhaps it has arrived meanwhile
		leave = c.base.Listen(tag)
		select {
		case <-w.Events.Bell():
			if asked() {
				return
			}
		case <-over:
			require.Fail(t, "messages to nobody are forgotten")
		default:
		}
	}
}
