package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// resolver returns one that knows these IPv4 addresses of each name that begins with "redis.", in this order.
func resolver(t *testing.T, addrs ...[4]byte) *net.Resolver {
	t.Helper()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	go func() {
		const header, typeA, pointer = 12, 1, 0xc00c
		for packet := make([]byte, 512); ; {
			n, from, err := socket.ReadFrom(packet)
			if err != nil {
				return
			}
			end := header
			for packet[end] != 0 {
				end += 1 + int(packet[end])
			}
			end += 5 // the root, the type and the class
			answer := append([]byte{}, packet[:min(end, n)]...)
			binary.BigEndian.PutUint16(answer[2:], 0x8180)
			clear(answer[6:header])
			if binary.BigEndian.Uint16(packet[end-4:]) == typeA {
				answer[7] = byte(len(addrs))
				for _, addr := range addrs {
					answer = binary.BigEndian.AppendUint16(answer, pointer)
					answer = append(answer, 0, typeA, 0, 1, 0, 0, 0, 60, 0, 4)
					answer = append(answer, addr[:]...)
				}
			}
			_, _ = socket.WriteTo(answer, from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", socket.LocalAddr().String())
	}}
}

// secured returns the port of a server, and the authority of its certificate, which is of example.com and all names below.
func secured(t *testing.T) (port string, authority *x509.CertPool) {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(t, err)
	authority = x509.NewCertPool()
	authority.AddCert(server.Certificate())
	return port, authority
}

// TestDial_ADeadAddress shows that a name of two addresses is dialled at the one that answers, when the other one does not, or refuses. The
// certificate is that of the name.
func TestDial_ADeadAddress(t *testing.T) {
	t.Parallel()
	port, trusted := secured(t)
	dead, alive := [4]byte{127, 0, 0, 2}, [4]byte{127, 0, 0, 1}
	for name, outcome := range map[string]func(context.Context) error{
		"mute":    func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"refuses": func(context.Context) error { return syscall.ECONNREFUSED },
	} {
		for _, order := range [][][4]byte{{dead, dead, alive}, {alive, dead}} {
			for _, url := range []string{"redis://redis.example.com:", "rediss://redis.example.com:"} {
				at, err := options().address(url + port)
				require.NoError(t, err)
				d := &at.option.Dialer
				d.Resolver = resolver(t, order...)
				d.ControlContext = func(ctx context.Context, _, addr string, _ syscall.RawConn) error {
					if strings.HasPrefix(addr, "127.0.0.2:") {
						return outcome(ctx)
					}
					return nil
				}
				if secure := at.option.TLSConfig; secure != nil {
					secure.RootCAs = trusted
					secure.ServerName = "" // as of a cluster
				}
				dial := func() (net.Conn, error) {
					return at.option.DialCtxFn(t.Context(), "redis.example.com:"+port, d, at.option.TLSConfig)
				}
				conn, err := dial()
				for tries := 0; err != nil && tries < 10; tries++ { // the machine may be busy
					conn, err = dial()
				}
				require.NoError(t, err, "%s %v", name, order)
				require.Equal(t, "127.0.0.1:"+port, conn.RemoteAddr().String())
				require.NoError(t, conn.Close())
			}
		}
	}
}

// TestDial_NoAddress shows that the errors of a name are those of a dial, of which no request was sent.
func TestDial_NoAddress(t *testing.T) {
	t.Parallel()
	at, err := options().address("redis://redis.example.com:1")
	require.NoError(t, err)
	d := &at.option.Dialer
	dial := func(ctx context.Context) error {
		_, err := dialTCP(ctx, "redis.example.com:1", d, nil)
		require.Error(t, err)
		require.False(t, transport.Unknown(err), "%v", err)
		return err
	}
	d.Resolver = resolver(t)
	unknown, is := errors.AsType[*net.DNSError](dial(t.Context()))
	require.True(t, is)
	require.True(t, unknown.IsNotFound)

	d.Resolver = resolver(t, [4]byte{127, 0, 0, 1}, [4]byte{127, 0, 0, 2})
	d.ControlContext = func(context.Context, string, string, syscall.RawConn) error { return syscall.ECONNREFUSED }
	require.ErrorIs(t, dial(t.Context()), syscall.ECONNREFUSED)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, dial(ctx), context.Canceled)
}

// TestDial_AnUntrustedAddress shows that the certificate of a server which is not trusted is what a client says of a name, also if another address
// of the name refuses.
func TestDial_AnUntrustedAddress(t *testing.T) {
	t.Parallel()
	port, _ := secured(t)
	refuses, alive := [4]byte{127, 0, 0, 2}, [4]byte{127, 0, 0, 1}
	for _, order := range [][][4]byte{{refuses, alive}, {alive, refuses}, {refuses, alive, refuses}} {
		at, err := options().address("rediss://redis.example.com:" + port)
		require.NoError(t, err)
		d := &at.option.Dialer
		d.Timeout = time.Minute
		d.Resolver = resolver(t, order...)
		d.ControlContext = func(_ context.Context, _, addr string, _ syscall.RawConn) error {
			if strings.HasPrefix(addr, "127.0.0.2:") {
				return syscall.ECONNREFUSED
			}
			return nil
		}
		_, err = at.option.DialCtxFn(t.Context(), "redis.example.com:"+port, d, at.option.TLSConfig)
		_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
		require.True(t, untrusted, "%v: %v", order, err)
	}
}
