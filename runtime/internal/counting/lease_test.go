package counting

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// A moving is a client of one server that looks like one of a cluster with two masters, of which the first has all slots. When that
// gets a command of which breaks is true, its connection breaks, and the second one has all slots from then on.
type moving struct {
	rueidis.Client

	breaks func(cmd []string) bool
	master int
}

func (*moving) Mode() rueidis.ClientMode { return rueidis.ClientModeCluster }

func (c *moving) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if c.breaks != nil && c.breaks(cmd.Commands()) {
		c.breaks, c.master = nil, 2
		return rueidis.NewErrorResult(io.EOF)
	}
	return c.Client.Do(ctx, cmd)
}

func (c *moving) Nodes() map[string]rueidis.Client {
	return map[string]rueidis.Client{"10.0.0.1:1": master{c.Client, c}, "10.0.0.2:1": master{c.Client, c}}
}

// A master is a client of one master of a moving.
type master struct {
	rueidis.Client

	of *moving
}

func (m master) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if slices.Equal(cmd.Commands(), []string{"CLUSTER", "SLOTS"}) {
		cmd = m.B().Eval().Script(fmt.Sprintf("return {{0, 16383, {'10.0.0.%d', 1, 'id'}}}", m.of.master)).Numkeys(0).Build()
	}
	return m.Client.Do(ctx, cmd)
}

// A user is the user of a transport, which does all at once.
type user struct{ transport.User }

func (user) Go(f func())               { f() }
func (user) Recheck(func(string) bool) {}

// TestClient_SetLeaseAfterAFailover shows that an update of a lease gives back the trust that it took when the server refuses it, but not when
// the client of a cluster has sent it twice: the first master may have run it.
func TestClient_SetLeaseAfterAFailover(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ breaks, trusted bool }{"refused": {false, true}, "sent again, and refused": {true, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, key, raw := redistest.Shared(t), redistest.Key(t, "p"), NewIDs("", 1)
			rc := &moving{Client: redistest.NewClient(t, server.Addr()), master: 1}
			_, k, of := granted(t, raw)
			k.c.Wire = protocol.NewProcess(protocol.NewUUID(protocol.ListensPlain), protocol.PublishPlain, time.Minute, 30*time.Second)
			k.c.Net = transport.New(transport.Config{Client: rc, UUID: k.c.Wire.UUID, User: user{}, OpTimeout: 10 * time.Second, Logger: slog.New(slog.DiscardHandler)})
			t.Cleanup(k.c.Net.Unlisten)
			left, err := k.c.Lease(key, raw, nil) // loads the scripts, and learns who has the slots
			require.NoError(t, err)
			require.EqualValues(t, protocol.NoPermit, left)

			server.Do("SET", key, "a text")
			if test.breaks {
				rc.breaks = redistest.EvalSHA(scripts.PermitLease.SHA1())
			}
			before := of.permit.guard.Until()
			_, err = k.c.SetLease(key, raw, time.Minute, k)
			require.ErrorIs(t, transport.Refused(err), failure.ErrWrongType)
			require.Equal(t, test.breaks, k.c.Net.Resent() == 1)
			if test.trusted {
				require.Equal(t, before, of.permit.guard.Until())
			} else {
				require.False(t, of.permit.guard.Until().After(monotonic.Now().Std().Add(time.Minute-watchdog.Margin(time.Minute))))
			}
			server.Do("DEL", key)
		})
	}
}
