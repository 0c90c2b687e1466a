package redistest

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// A port stays with who has it while nobody listens on it.
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
	keeper, err := net.ListenPacket("udp", address(p.number))
	require.NoError(t, err)
	require.NoError(t, keeper.Close())
}
