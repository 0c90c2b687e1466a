package lockrt_test

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

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
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
	hooks, waiting, _ := watch()
	one, other := clientOf(t, server.URL(), lockrt.Options{Hooks: hooks}), clientOf(t, server.URL(), lockrt.Options{Hooks: hooks})
	gate, size, _ := lockrt.Gates(one)
	rival, _, _ := lockrt.Gates(other)

	lease, err := gate(key).Lock(patient(t))
	require.NoError(t, err)
	require.ErrorIs(t, tryOnce(t, gate(key)), lockrt.ErrNotAcquired)
	require.ErrorIs(t, tryOnce(t, rival(key)), lockrt.ErrNotAcquired)
	ctx, cancel := context.WithCancel(patient(t))
	var holders atomic.Int32
	inTurn := make(chan error, 6)
	for i := range cap(inTurn) {
		lock := gate(key)
		if i%2 == 0 {
			lock = rival(key)
		}
		go func() {
			inTurn <- lockrt.DoUnder(patient(t), lock, func(context.Context, *lockrt.Lease) error {
				defer holders.Add(-1)
				if n := holders.Add(1); n != 1 {
					return fmt.Errorf("%d holders", n)
				}
				return nil
			})
		}()
		receive(t, waiting, "a call that waits")
	}
	leaves := lockLater(ctx, rival(key))
	receive(t, waiting, "the call that leaves")
	cancel()
	require.ErrorIs(t, receive(t, leaves, "the call that leaves").err, context.Canceled)

	require.NoError(t, lease.Unlock(t.Context()))
	require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrReleased)
	for range cap(inTurn) {
		require.NoError(t, receive(t, inTurn, "a call that waited"))
	}
	gone(t, server, key)
	until(t, "the resource is forgotten", func() bool { return size() == 0 && lockrt.Subscribers(one) == 0 && lockrt.Subscribers(other) == 0 })
}

// TestKind_IsRenewedAndLost shows that the watchdog renews a gate, and that the holder learns of a loss, after which the next call has it.
func TestKind_IsRenewedAndLost(t *testing.T) {
	t.Parallel()
	server, key := redistest.Server(t), "gate"
	hooks, waiting, _ := watch()
	renewed := make(chan error, 1000)
	hooks.Renewed = func(_ context.Context, e lockrt.RenewEvent) { renewed <- e.Err }
	c := clientOf(t, server.URL(), lockrt.Options{Hooks: hooks, Watchdog: 9 * time.Second, Tracking: lockrt.TrackingOff})
	gate, _, closes := lockrt.Gates(c)
	lease, err := gate(key).Lock(patient(t))
	require.NoError(t, err)
	require.NoError(t, receive(t, renewed, "a renewal"))
	next := lockLater(patient(t), gate(key))
	receive(t, waiting, "the next call")

	require.EqualValues(t, 1, number(t, server, "DEL", key))
	require.ErrorIs(t, lease.Extend(patient(t), time.Minute), lockrt.ErrLost)
	receive(t, lease.Context().Done(), "the loss")
	require.ErrorIs(t, lease.Err(), lockrt.ErrLost)
	got := gotten(t, next, "the next call")
	require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost)
	require.NoError(t, got.Err())
	closes()
	require.ErrorIs(t, got.Err(), lockrt.ErrClosed)
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
			c, err := lockrt.New(redistest.NewClient(t, proxy.Addr(), func(o *rueidis.ClientOption) { o.PipelineMultiplex, o.ConnWriteTimeout = -1, 5*time.Second }), lockrt.Options{OpTimeout: patience / 2})
			require.NoError(t, err)
			gate, _, _ := lockrt.Gates(c)
			require.NoError(t, server.Do("SCRIPT", "LOAD", lockrt.GateEnter.Source()).Error()) // else the lost reply says that there is no such script
			lost := proxy.DropReply(redistest.EvalSHA(lockrt.GateEnter.SHA1()), 1, mode)
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
