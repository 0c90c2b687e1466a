package counting

import (
	"log/slog"
	"testing"
	"time"

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
