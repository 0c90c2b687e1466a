package lockrt

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// poked is a ticket that is told when messages to it may have been missed.
type poked struct {
	key  string
	told chan struct{}
}

func (p poked) lockKey() string          { return p.key }
func (poked) wanted(uint64)              {}
func (poked) taken(uint64)               {}
func (poked) look(uint64)                {}
func (poked) soon(uint64, time.Duration) {}
func (poked) handed(protocol.Message)    {}
func (p poked) resubscribed(uint64) {
	select {
	case p.told <- struct{}{}:
	default:
	}
}

// TestInbox_AMessageToNobody shows that a waiter of a cluster asks again if a message came between its request and the moment when it began to
// listen: the channel stays subscribed for a second after the waiter before it, and Redis hands a lock over to a process that has subscribed.
func TestInbox_AMessageToNobody(t *testing.T) {
	t.Parallel()
	cluster := redistest.SharedCluster(t)
	c, err := Open(t.Context(), cluster.URL(), Options{OpTimeout: time.Minute, PubSub: PubSubSharded})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	p := poked{redistest.Key(t, "k"), make(chan struct{}, 1)}
	n := c.ticketNumbers.Add(1)
	c.subscribers.Connect(n, p)
	t.Cleanup(func() { c.subscribers.Disconnect(n) })
	tag := protocol.HashTag(p.key)
	over := time.After(time.Minute)
	leave := c.listen(tag)
	defer func() { leave() }()
	select {
	case <-p.told:
	case <-over:
		require.Fail(t, "the channel is not subscribed")
	}
	for {
		leave()
		server := cluster.Master(p.key)
		require.NoError(t, server.Do("SPUBLISH", protocol.TagChannel(c.wire.UUID, tag), "a message").Error())
		server.Do("PING") // perhaps it has arrived meanwhile
		leave = c.listen(tag)
		select {
		case <-p.told:
			return
		case <-over:
			require.Fail(t, "messages to nobody are forgotten")
		default:
		}
	}
}
