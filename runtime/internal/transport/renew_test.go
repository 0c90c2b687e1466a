package transport

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A proxied client talks to a server that stands alone, as far as it knows, and that refuses a script about two locks, since they are on their way to
// another server behind it.
type proxied struct {
	rueidis.Client
	one, two string
}

func (p proxied) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if text := strings.Join(cmd.Commands(), " "); strings.Contains(text, p.one) && strings.Contains(text, p.two) {
		return p.Client.Do(ctx, p.B().Eval().Script("return redis.error_reply('TRYAGAIN some keys are on their way')").Numkeys(0).Build())
	}
	return p.Client.Do(ctx, cmd)
}

// Each lease is renewed alone if the server refuses to renew several together, also if the server is not known to be one of a cluster.
func TestRenew_KeysOnTheirWayBehindAProxy(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]protocol.Renewal{"locks": protocol.RenewLock, "permits": protocol.RenewPermits} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := &fake{changes: make(chan []string, 100), rechecks: make(chan func(string) bool, 100)}
			process := protocol.NewProcess(protocol.NewUUID(protocol.ListensPlain), protocol.PublishPlain, time.Minute, 30*time.Second)
			stopped := make(chan struct{})
			one, two := redistest.Key(t, "one"), redistest.Key(t, "two")
			net := New(Config{
				Client: proxied{redistest.Shared(t).NewClient(), one, two}, UUID: process.UUID, User: u, Stopped: stopped, OpTimeout: 10 * time.Second,
				Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
			})
			for _, err := range errorsOf(net.Renew(kind, process.Renewals(kind), []Renewal{{one, process.Owner(1), time.Minute}, {two, process.Owner(2), time.Minute}}, time.Minute)) {
				require.ErrorIs(t, err, ErrRefused, "nothing is held")
			}
			close(stopped)
			net.Quit()
			net.Unlisten()
			u.wg.Wait()
		})
	}
}

// busy has the server run a script, until the test calls stop, and so refuse others.
func busy(t *testing.T, server *redistest.RedisServer) (stop func()) {
	t.Helper()
	rc := server.NewClient()
	over := make(chan error, 1)
	go func() {
		over <- rc.Do(context.Background(), rc.B().Eval().Script("while true do end").Numkeys(0).Build()).Error()
	}()
	require.Eventually(t, func() bool {
		_, err := server.Try("PING")
		return err != nil
	}, time.Minute, time.Millisecond)
	return func() {
		server.Do("SCRIPT", "KILL")
		require.Error(t, <-over)
	}
}

// A server that remembers all keys of a script gets large batches again after it was busy: it refuses nothing for good.
func TestRenew_InLargeBatchesAfterTheServerWasBusy(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t, redistest.WithConfig("lua-time-limit", "1"))
	net, p, u := start(t, server, Config{Tracking: true})
	net.Listen(t.Name(), func(hub.Event) {})
	require.False(t, net.TracksChanges())
	require.Nil(t, <-u.rechecks, "the server reports changes from now on")
	net.tracker.memory.Store(memoryAll) // as if it were an old one
	var many []Renewal
	for i := range trackedBatch {
		many = append(many, Renewal{fmt.Sprint("k", i), p.Owner(1), time.Minute})
	}
	renew := func() error {
		return net.Renew(protocol.RenewLock, p.Renewals(protocol.RenewLock), many, time.Minute)[0].Err
	}
	require.ErrorIs(t, renew(), ErrRefused) // loads the scripts
	require.ErrorIs(t, renew(), ErrRefused)
	require.Equal(t, bulkBatch, net.RenewBatch())
	net.tracker.memory.Store(memoryAll)

	stop := busy(t, server)
	require.ErrorContains(t, renew(), "BUSY")
	stop()
	require.Eventually(t, func() bool {
		return renew() == ErrRefused && net.RenewBatch() == bulkBatch //nolint:errorlint // it is that one
	}, time.Minute, time.Millisecond)
}
