package redistest

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A port stays reserved while nothing listens on it.
func TestReserve_KeepsThePortUntilItIsReleased(t *testing.T) {
	t.Parallel()
	p, err := reserve()
	require.NoError(t, err)
	listener, err := net.Listen("tcp", address(p.number))
	require.NoError(t, err, "it is its own to listen on")
	require.NoError(t, listener.Close())
	_, err = net.ListenPacket("udp", address(p.number))
	require.Error(t, err, "it is nobody else's")
	p.release()
	requireFree(t, p.number)
}

// A port for other programs is reserved as those of servers are.
func TestReservePort(t *testing.T) {
	t.Parallel()
	number, release, err := ReservePort()
	require.NoError(t, err)
	_, err = net.ListenPacket("udp", address(number))
	require.Error(t, err, "it is nobody else's")
	release()
	requireFree(t, number)
}

// requireFree waits until a port is free: a process that another test starts at this moment has a copy of the socket until it runs its
// program.
func requireFree(t *testing.T, number int) {
	t.Helper()
	require.Eventually(t, func() bool {
		keeper, err := net.ListenPacket("udp", address(number))
		return err == nil && keeper.Close() == nil
	}, opTimeout, 5*time.Millisecond)
}
