package transport

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A server of a cluster that is busy with a script for long refuses what ends a subscription, too.
func TestClusterSubscriber_EndsWhileTheServerIsBusy(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, redistest.WithConfig("lua-time-limit", "20"))
	rc := servers.NewClient()
	u := &fake{changes: make(chan []string, 100), rechecks: make(chan func(string) bool, 100)}
	stopped := make(chan struct{})
	net := New(Config{
		Client: rc, UUID: protocol.NewUUID(protocol.ListensSharded), User: u, Channels: ShardedChannels, Stopped: stopped,
		OpTimeout: 10 * time.Second, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
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
	require.Eventually(t, func() bool { return !net.hub.Subscribed(name) }, time.Minute, time.Millisecond)
	ready := net.Listen(name, func(hub.Event) {})
	server.Do("SCRIPT", "KILL")
	require.Error(t, <-busy)
	<-ready.Ready()
	close(stopped)
	net.Quit()
	net.Unlisten()
	u.wg.Wait()
}
