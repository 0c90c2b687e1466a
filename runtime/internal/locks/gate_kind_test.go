package locks

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/connect"
	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/core/coretest"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/fleet"
	"github.com/lockgen/lockgen/runtime/internal/resource"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/runtime/observe"
)

// mostOfAKind is how many lines of code a kind of lock takes, without its imports.
const mostOfAKind = 80

// TestKind_TakesFewLines shows that a kind of lock can be built as docs/architecture.md says, in few lines.
func TestKind_TakesFewLines(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("gate_test.go")
	require.NoError(t, err)
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "gate_test.go", text, parser.ParseComments)
	require.NoError(t, err)
	from := 0
	for _, decl := range file.Decls {
		if d, ok := decl.(*ast.GenDecl); ok && d.Tok == token.IMPORT {
			from = fset.Position(d.End()).Line
		}
	}
	lines := 0
	for _, line := range strings.Split(string(text), "\n")[from:] {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			lines++
		}
	}
	require.Greater(t, lines, mostOfAKind/2)
	require.LessOrEqual(t, lines, mostOfAKind)
}

// TestKind_Waits shows that a gate goes from one holder to the next, in the process and between processes, and that nothing is left.
func TestKind_Waits(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "gate")
	hooks, waiting := watch()
	one, other := clientOf(t, server.URL(), core.Settings{Hooks: hooks, Tracks: true}), clientOf(t, server.URL(), core.Settings{Hooks: hooks, Tracks: true})
	gate, size, _ := gates(one)
	rival, _, _ := gates(other)

	lease, err := gate(key).Lock(patient(t))
	require.NoError(t, err)
	require.ErrorIs(t, tryOnce(t, gate(key)), failure.ErrNotAcquired)
	require.ErrorIs(t, tryOnce(t, rival(key)), failure.ErrNotAcquired)
	ctx, cancel := context.WithCancel(patient(t))
	var holders atomic.Int32
	inTurn := make(chan error, 6)
	for i := range cap(inTurn) {
		lock := gate(key)
		if i%2 == 0 {
			lock = rival(key)
		}
		go func() {
			lease, err := lock.Lock(patient(t))
			if err == nil {
				err = lease.Do(patient(t), func(context.Context) error {
					defer holders.Add(-1)
					if n := holders.Add(1); n != 1 {
						return fmt.Errorf("%d holders", n)
					}
					return nil
				})
			}
			inTurn <- err
		}()
		receive(t, waiting, "a call that waits")
	}
	leaves := lockLater(ctx, rival(key))
	receive(t, waiting, "the call that leaves")
	cancel()
	require.ErrorIs(t, receive(t, leaves, "the call that leaves").err, context.Canceled)

	require.NoError(t, lease.Unlock(t.Context()))
	require.ErrorIs(t, lease.Unlock(t.Context()), failure.ErrReleased)
	for range cap(inTurn) {
		require.NoError(t, receive(t, inTurn, "a call that waited"))
	}
	gone(t, server, key)
	until(t, "the resource is forgotten", func() bool { return size() == 0 && subscribers(one) == 0 && subscribers(other) == 0 })
}

// TestKind_IsRenewedAndLost shows that the watchdog renews a gate, and that the holder learns of a loss, after which the next call has it.
func TestKind_IsRenewedAndLost(t *testing.T) {
	t.Parallel()
	server, key := redistest.Server(t), "gate"
	hooks, waiting := watch()
	renewed := make(chan error, 1000)
	hooks.Renewed = func(_ context.Context, e observe.RenewEvent) { renewed <- e.Err }
	c := clientOf(t, server.URL(), core.Settings{Hooks: hooks, Watchdog: 9 * time.Second})
	gate, _, closes := gates(c)
	lease, err := gate(key).Lock(patient(t))
	require.NoError(t, err)
	require.NoError(t, receive(t, renewed, "a renewal"))
	next := lockLater(patient(t), gate(key))
	receive(t, waiting, "the next call")

	require.EqualValues(t, 1, number(t, server, "DEL", key))
	require.ErrorIs(t, lease.Extend(patient(t), time.Minute), failure.ErrLost)
	receive(t, lease.Context().Done(), "the loss")
	require.ErrorIs(t, lease.Err(), failure.ErrLost)
	got := gotten(t, next, "the next call")
	require.ErrorIs(t, lease.Unlock(t.Context()), failure.ErrLost)
	require.NoError(t, got.Err())
	closes()
	require.ErrorIs(t, got.Err(), failure.ErrClosed)
	require.NoError(t, got.Unlock(t.Context()))
	gone(t, server, key)
}

// TestKind_LostReply shows that a gate whose reply is lost is asked for again, and released.
func TestKind_LostReply(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]redistest.Mode{"closed": redistest.Close, "mute": redistest.Mute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, key := redistest.Server(t), "gate"
			proxy := redistest.Proxy(t, server.Addr())
			settings := coretest.Defaults(core.Settings{OpTimeout: long / 2, Tracks: true})
			conn, err := connect.Over(redistest.NewClient(t, proxy.Addr(), func(o *rueidis.ClientOption) { o.PipelineMultiplex, o.ConnWriteTimeout = -1, 5*time.Second }),
				connect.Options{Watchdog: settings.Watchdog, OpTimeout: settings.OpTimeout, Retry: settings.Retry.Pause, Host: fleet.Host(), Logger: settings.Logger})
			require.NoError(t, err)
			c := New(conn, settings)
			gate, _, _ := gates(c)
			require.NoError(t, server.Do("SCRIPT", "LOAD", gateEnter.Source()).Error()) // else the lost reply says that there is no such script
			lost := proxy.DropReply(redistest.EvalSHA(gateEnter.SHA1()), 1, mode)
			lease, err := gate(key).Lock(patient(t))
			require.NoError(t, err)
			receive(t, lost.Done(), "the loss")
			require.NoError(t, lease.Unlock(t.Context()))
			gone(t, server, key)
			proxy.Cut() // also what is mute
			require.NoError(t, c.Close())
		})
	}
}

// gates returns what makes gates, how many of them there are, and what closes them before their client.
func gates(c *Client) (gate func(key string) Locker, size func() int, closes func()) {
	all := resource.NewRegistry(c.Base(), newGateResource)
	return func(key string) Locker { return gateLock{all, key} }, all.Size, func() {
		for _, one := range all.Entries("") {
			one.Close()
		}
	}
}
