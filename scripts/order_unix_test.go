//go:build unix

package scripts_test

import (
	"bufio"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A socket is a connection to Redis that can be looked at without a pause.
type socket struct {
	t    *testing.T
	conn *net.TCPConn
	raw  syscall.RawConn
	in   *bufio.Reader
}

func dial(t *testing.T, addr string) *socket {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(2*time.Minute))) // of reads
	s := &socket{t: t, conn: conn.(*net.TCPConn), in: bufio.NewReader(conn)}
	s.raw, err = s.conn.SyscallConn()
	require.NoError(t, err)
	return s
}

func (s *socket) send(commands string) {
	s.t.Helper()
	_, err := s.conn.Write([]byte(commands))
	require.NoError(s.t, err)
}

// reads reads lines.
func (s *socket) reads(lines int) {
	s.t.Helper()
	for range lines {
		_, err := s.in.ReadString('\n')
		require.NoError(s.t, err)
	}
}

// has reports whether something has come that is not read, or the end of the connection.
func (s *socket) has() (some bool) {
	require.NoError(s.t, s.raw.Control(func(fd uintptr) {
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		some = !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR)
	}))
	return some
}

// TestOrder_MessageBeforeReply shows why the client sends a release that may hand a lock over behind a PING: Redis writes the message that the
// script publishes before it writes the replies. Once the replies have come, the message has come.
func TestOrder_MessageBeforeReply(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	waits, releases := dial(t, server.Addr()), dial(t, server.Addr())
	waits.send("SUBSCRIBE next\r\n")
	waits.reads(6)
	for range 200 {
		releases.send("PING\r\nEVAL \"return redis.call('publish', 'next', 'granted')\" 0\r\n")
		for limit := time.Now().Add(time.Minute); !releases.has() && time.Now().Before(limit); {
		}
		first := waits.has()
		releases.reads(2)
		require.True(t, first, "the reply came before the message")
		waits.reads(7)
	}
}
