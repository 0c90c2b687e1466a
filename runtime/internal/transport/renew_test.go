package transport

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

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
			for _, err := range net.Renew(kind, process.Renewals(kind), []Renewal{{one, process.Owner(1), time.Minute}, {two, process.Owner(2), time.Minute}}, time.Minute) {
				require.ErrorIs(t, err, ErrRefused, "nothing is held")
			}
			close(stopped)
			net.Quit()
			net.Unlisten()
			u.wg.Wait()
		})
	}
}
