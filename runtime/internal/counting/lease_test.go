package counting

import (
	"context"
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
	"github.com/lockgen/lockgen/runtime/internal/transport/transporttest"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// A user is the user of a transport, which does all at once.
type user struct{ transport.User }

func (user) Go(f func())               { f() }
func (user) Detach(f func())           { f() }
func (user) Recheck(func(string) bool) {}

// TestClient_SetLeaseAfterAFailover shows that an update of a lease gives back the trust that it took when the server refuses it, but not when
// the client of a cluster has sent it twice: the first master may have run it.
func TestClient_SetLeaseAfterAFailover(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ breaks, trusted bool }{"refused": {false, true}, "sent again, and refused": {true, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, key, raw := redistest.Shared(t), redistest.Key(t, "p"), NewIDs("", 1)
			rc := &transporttest.Moving{Client: redistest.NewClient(t, server.Addr())}
			_, k, of := granted(t, raw)
			k.c.Wire = protocol.NewProcess(protocol.NewUUID(protocol.ListensPlain), protocol.PublishPlain, time.Minute, 30*time.Second)
			k.c.Net = transport.New(transport.Config{Client: rc, UUID: k.c.Wire.UUID, User: user{}, OpTimeout: 10 * time.Second, Logger: slog.New(slog.DiscardHandler)})
			t.Cleanup(k.c.Net.Unlisten)
			left, err := k.c.Lease(key, raw, nil) // loads the scripts, and learns who has the slots
			require.NoError(t, err)
			require.EqualValues(t, protocol.NoPermit, left)

			server.Do("SET", key, "a text")
			if test.breaks {
				rc.Breaks = redistest.EvalSHA(scripts.PermitLease.SHA1())
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

// A keeping client keeps the next command for which keeps returns true, as a network can that delivers it later, and its connection breaks.
type keeping struct {
	rueidis.Client

	keeps func(cmd []string) bool // or nil
	kept  []string
}

func (c *keeping) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if words := cmd.Commands(); c.keeps != nil && c.keeps(words) {
		c.keeps, c.kept = nil, slices.Clone(words)
		return rueidis.NewErrorResult(io.EOF)
	}
	return c.Client.Do(ctx, cmd)
}

// TestClient_SetLeaseOvertaken shows that a permit whose lease was shortened by a request without an answer, and then set to a longer one, is
// trusted for no longer than Redis has it when the first request comes after the second one.
func TestClient_SetLeaseOvertaken(t *testing.T) {
	t.Parallel()
	server, key, raw := redistest.Shared(t), redistest.Key(t, "p"), NewIDs("", 1)
	rc := &keeping{Client: redistest.NewClient(t, server.Addr())}
	_, k, of := granted(t, raw)
	k.c.Wire = protocol.NewProcess(protocol.NewUUID(protocol.ListensPlain), protocol.PublishPlain, time.Minute, 30*time.Second)
	k.c.Net = transport.New(transport.Config{Client: rc, UUID: k.c.Wire.UUID, User: user{}, OpTimeout: 10 * time.Second, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(k.c.Net.Unlisten)
	permits := k.c.Wire.PermitSemaphore(key)
	_, err := k.c.Net.Run(permits.AcquirePermits(protocol.Round{Request: numbered(1, 1), Create: 1}, []protocol.Permits{{IDs: raw, Lease: time.Hour}})).Ints()
	require.NoError(t, err)

	rc.keeps = redistest.EvalSHA(scripts.PermitLease.SHA1())
	_, err = k.c.SetLease(key, raw, time.Minute, k)
	require.ErrorIs(t, err, io.EOF)
	left, err := k.c.SetLease(key, raw, time.Hour, k)
	require.NoError(t, err)
	require.EqualValues(t, time.Hour.Milliseconds(), left)
	require.NoError(t, server.Do(rc.kept...).Error())
	left, err = k.c.Lease(key, raw, nil)
	require.NoError(t, err)
	require.LessOrEqual(t, left, time.Minute.Milliseconds())
	require.LessOrEqual(t, time.Until(of.permit.guard.Until()), time.Duration(left)*time.Millisecond)
	require.Greater(t, time.Until(of.permit.guard.Until()), time.Duration(0))
}
