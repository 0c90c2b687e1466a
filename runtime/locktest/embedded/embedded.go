// Package embedded runs a Redis inside the process, for programs that want to be tried
// without one.
//
// It is miniredis: one process, no durability, no persistence, no cluster, no client
// tracking, errors that read differently. Good for an example or a first test; tests
// that mean it use a real server.
package embedded

import (
	"fmt"

	"github.com/alicebob/miniredis/v2"
)

// Start starts a server on a free port of the loopback interface and returns its
// address in the form redis://host:port. Other processes can connect to it as long
// as this one lives and stop has not been called. Keys expire by the clock.
func Start() (url string, stop func(), err error) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	if err := m.Start(); err != nil {
		return "", nil, fmt.Errorf("embedded: %w", err)
	}
	return "redis://" + m.Addr(), m.Close, nil
}
