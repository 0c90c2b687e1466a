package redistest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports come from below the range that systems give to outgoing connections. A
// server that was killed can then come back to its port, and a client that
// redials it cannot be connected to itself.
const (
	firstPort = 20000
	lastPort  = 29999
)

// errNoPort means that the port was taken between being chosen and being used.
var errNoPort = errors.New("redistest: port is taken")

// A port is kept for one server or proxy until it is released, also while nothing listens on it: a
// killed server, or a proxy that refuses connections, comes back to it, and clients must not reach
// another one there.
type port struct {
	number int
	keeper net.PacketConn
}

// reserve chooses a port that no other test has, in this process or in another. All tests reserve
// theirs by the UDP port of the same number, which nothing else uses.
func reserve() (port, error) {
	for range 100 {
		number := firstPort + rand.IntN(lastPort-firstPort+1)
		keeper, err := net.ListenPacket("udp", address(number))
		if err == nil {
			return port{number, keeper}, nil
		}
	}
	return port{}, fmt.Errorf("redistest: no free port from %d to %d", firstPort, lastPort)
}

// ReservePort returns a port of the loopback interface for a server of any program. No other call returns it until release is called,
// in this process or in another, and no server of this package gets it: the server may stop and come back to it.
func ReservePort() (number int, release func(), err error) {
	p, err := reserve()
	if err != nil {
		return 0, nil, err
	}
	return p.number, p.release, nil
}

func (p port) release() {
	if p.keeper != nil {
		_ = p.keeper.Close()
	}
}

func address(number int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(number)) }
