package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestErrors shows for each kind of error whether it goes away by itself, whether the request may have been done, whether
// it may have been begun, and whether callers learn that there was no answer.
func TestErrors(t *testing.T) {
	t.Parallel()
	server, _, _ := start(t, nil, Config{})
	replied := func(text string) error {
		b := server.rc.B()
		err := server.rc.Do(t.Context(), b.Eval().Script("return redis.error_reply(ARGV[1])").Numkeys(0).Arg(text).Build()).Error()
		require.Error(t, err)
		return err
	}
	for name, c := range map[string]struct {
		err                                               error
		passing, unknown, begun, cut, denied, unavailable bool
	}{
		"none":                       {err: nil, passing: true},
		"no answer":                  {err: ErrNoAnswer, passing: true, unknown: true, unavailable: true},
		"the connection ended":       {err: fmt.Errorf("read: %w", io.EOF), passing: true, unknown: true, cut: true, unavailable: true},
		"it was given up":            {err: errFailedOver, passing: true, unknown: true, cut: true, unavailable: true},
		"it broke":                   {err: errBroke, passing: true, unknown: true, cut: true, unavailable: true},
		"it was reset":               {err: &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}, passing: true, unknown: true, cut: true, unavailable: true},
		"it was mute":                {err: &net.OpError{Op: "read", Err: late{}}, passing: true, unknown: true, unavailable: true},
		"it timed out":               {err: os.ErrDeadlineExceeded, passing: true, unknown: true, unavailable: true},
		"there was none":             {err: &net.OpError{Op: "dial", Err: errors.New("refused")}, passing: true, unavailable: true},
		"the server is not trusted":  {err: fmt.Errorf("dial: %w", &tls.CertificateVerificationError{Err: errors.New("expired")}), passing: true, unavailable: true},
		"the client closes":          {err: rueidis.ErrClosing},
		"the request was given up":   {err: protocol.ErrOutdated},
		"LOADING":                    {err: replied("LOADING the data set"), passing: true, unavailable: true},
		"READONLY":                   {err: fmt.Errorf("acquire: %w", replied("READONLY You can't write")), passing: true, unavailable: true},
		"OOM, of Redis 6 in scripts": {err: replied("ERR Error running script: -OOM command not allowed"), passing: true, unavailable: true},
		"too many connections":       {err: replied("ERR max number of clients reached"), passing: true, unavailable: true},
		"LOADINGS":                   {err: replied("LOADINGS is no such kind")},
		"WRONGTYPE":                  {err: replied("WRONGTYPE Operation against a key")},
		"denied":                     {err: replied("NOPERM this user has no permissions to run the 'hset' command"), begun: true, denied: true},
		"denied, the script itself":  {err: replied("NOPERM this user has no permissions to run the 'evalsha' command"), denied: true},
		"denied, before 7.2":         {err: replied("ERR The user executing the script can't run this command"), begun: true, denied: true},
		"too few replicas":           {err: &replicaError{got: 1, want: 2}, passing: true},
		"replicas, WAIT denied":      {err: &replicaError{want: 2, err: replied("NOPERM no 'wait' command")}, begun: true, denied: true},
		"replicas, it becomes one":   {err: &replicaError{want: 2, err: replied("UNBLOCKED force unblock from blocking operation")}, passing: true, unavailable: true},
		"replicas, it has become one": {
			err: &replicaError{want: 2, err: replied("ERR WAIT cannot be used with replica instances.")}, passing: true, unavailable: true,
		},
		"replicas, no answer": {err: &replicaError{want: 2, err: io.EOF}, passing: true},
	} {
		require.Equal(t, c.passing, Passing(c.err), "%s: passing", name)
		require.Equal(t, c.unknown, Unknown(c.err), "%s: unknown", name)
		require.Equal(t, c.begun, Begun(c.err), "%s: begun", name)
		require.Equal(t, c.cut, Cut(c.err), "%s: cut", name)
		require.Equal(t, c.denied, Denied(c.err), "%s: denied", name)
		require.Equal(t, c.unavailable, errors.Is(Refused(c.err), failure.ErrUnavailable), "%s: unavailable", name)
	}
	require.True(t, Unconfirmed(fmt.Errorf("lock: %w", &replicaError{got: 1, want: 2})))
	require.False(t, Unconfirmed(io.EOF))
	require.EqualError(t, &replicaError{got: 1, want: 2}, "not confirmed by replicas: 1 of 2 did so within 1s")
	require.EqualError(t, &replicaError{want: 2, err: io.EOF}, "not confirmed by replicas: EOF")
	require.True(t, moving(replied("TRYAGAIN Multiple keys request during rehashing")))
	require.True(t, unheardOf(replied("ERR Unknown subcommand or wrong number of arguments for 'SHARDNUMSUB'")))
	require.False(t, unheardOf(io.EOF))
}

// A request for which there was no connection, since the server did not answer to the dial in time, was never sent: it is not known only of one that
// was. The error is no end of the caller's context.
func TestErrors_OfASlowDial(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	proxy := redistest.Proxy(t, server.Addr())
	var away atomic.Bool
	rc := redistest.NewClient(t, proxy.Addr(), func(o *rueidis.ClientOption) {
		o.ForceSingleClient, o.DisableCache = true, true
		o.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			if away.Load() {
				over, cancel := context.WithDeadline(ctx, time.Unix(1, 0))
				defer cancel()
				return d.DialContext(over, "tcp", addr)
			}
			return d.DialContext(ctx, "tcp", addr)
		}
	})
	process := protocol.NewProcess(protocol.NewUUID(protocol.ListensPlain), protocol.PublishPlain, time.Minute, 30*time.Second)
	net, _ := over(t, Config{Client: rc, UUID: process.UUID})
	run := func() error { // over a connection that was not cut
		for {
			if err := net.Run(process.Leader("k")).Err(); !Cut(err) {
				return err
			}
		}
	}
	require.NoError(t, run())
	away.Store(true)
	proxy.Cut()
	err := run()
	require.False(t, Unknown(err), "%v", err)
	require.True(t, Passing(err))
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, ErrNoAnswer)
	require.ErrorIs(t, Refused(err), failure.ErrUnavailable)
	require.ErrorContains(t, err, "dial tcp")
	require.ErrorContains(t, err, "i/o timeout")
	away.Store(false)
	require.NoError(t, run())
}

// late is the error of a deadline.
type late struct{}

func (late) Error() string   { return "i/o timeout" }
func (late) Timeout() bool   { return true }
func (late) Temporary() bool { return true }

// An answer without an error is classified without an allocation.
func TestErrors_NoneTakesNoMemory(t *testing.T) {
	require.Zero(t, testing.AllocsPerRun(50_000, func() {
		if Unknown(nil) || Begun(nil) || Cut(nil) || Unconfirmed(nil) {
			t.Error("no error is no error")
		}
	}))
}
