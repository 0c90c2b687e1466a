package connect

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

func TestRefusals(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	synctest.Test(t, func(t *testing.T) {
		dials := map[string]int{}
		answer := error(refused)
		here, there := net.Pipe()
		t.Cleanup(func() { _, _ = here.Close(), there.Close() })
		dial := pausing(rueidis.ClientOption{DialCtxFn: func(_ context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			dials[addr]++
			if answer != nil {
				return nil, answer
			}
			return here, nil
		}}).DialCtxFn
		try := func(ctx context.Context, addr string) error {
			_, err := dial(ctx, addr, nil, nil)
			return err
		}
		ctx := t.Context()

		for range 100 {
			require.ErrorIs(t, try(ctx, "down:1"), syscall.ECONNREFUSED)
		}
		require.Equal(t, 1, dials["down:1"], "a server that refuses is dialled once in a pause")
		require.ErrorIs(t, try(ctx, "other:1"), syscall.ECONNREFUSED)
		require.Equal(t, 1, dials["other:1"], "the refusal of one server says nothing of another one")
		time.Sleep(refusalPause)
		require.ErrorIs(t, try(ctx, "down:1"), syscall.ECONNREFUSED)
		require.Equal(t, 2, dials["down:1"], "it is dialled again after the pause")

		answer = nil // it is back
		require.ErrorIs(t, try(ctx, "down:1"), syscall.ECONNREFUSED)
		time.Sleep(refusalPause)
		require.NoError(t, try(ctx, "down:1"))
		require.NoError(t, try(ctx, "down:1"), "after a connection there is no pause")
		require.Equal(t, 4, dials["down:1"])

		// A refusal that only one caller has met does not keep others from dialling.
		ended, end := context.WithCancel(ctx)
		end()
		answer = &net.OpError{Op: "dial", Net: "tcp", Err: context.Canceled}
		require.ErrorIs(t, try(ended, "down:1"), context.Canceled)
		answer = &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
		require.ErrorIs(t, try(ctx, "down:1"), os.ErrDeadlineExceeded)
		answer = errors.New("tls: the certificate of the server is not trusted")
		require.Error(t, try(ctx, "down:1"))
		answer = nil
		require.NoError(t, try(ctx, "down:1"))
		require.Equal(t, 8, dials["down:1"])
	})
}

// TestRefusals_Address dials by the options of a url.
func TestRefusals_Address(t *testing.T) {
	t.Parallel()
	at, err := options().address("redis://127.0.0.1:1")
	require.NoError(t, err)
	require.NotNil(t, at.option.DialCtxFn)
	require.NotNil(t, at.option.Sentinel.Dialer)

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	dial := func(addr string) (net.Conn, error) {
		return at.option.DialCtxFn(t.Context(), addr, &at.option.Dialer, nil)
	}
	conn, err := dial(listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, conn.Close())

	_, err = dial("127.0.0.1:1") // no port that the system gives to others
	require.Error(t, err)
	require.True(t, refuses(t.Context(), err), "the system refuses with %v", err)
}

// TestRefusals_Forgets remembers no server for longer than the pause: servers come and go.
func TestRefusals_Forgets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &refusals{of: map[string]refusal{}, dial: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
		}}
		for i := range 100 {
			_, err := r.connect(t.Context(), fmt.Sprint("down:", i), nil, nil)
			require.ErrorIs(t, err, syscall.ECONNREFUSED)
			time.Sleep(refusalPause)
		}
		require.Len(t, r.of, 1)
	})
}

// A connection that was cut while it was dialled is no refusal by the server: the next one is dialled at once.
func TestRefusals_ACutIsNone(t *testing.T) {
	t.Parallel()
	dials := 0
	option := pausing(rueidis.ClientOption{DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
		if dials++; dials == 1 {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNRESET)}
		}
		return nil, nil
	}})
	_, err := option.DialCtxFn(t.Context(), "a:1", &net.Dialer{}, nil)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	_, err = option.DialCtxFn(t.Context(), "a:1", &net.Dialer{}, nil)
	require.NoError(t, err)
	require.Equal(t, 2, dials)
}
