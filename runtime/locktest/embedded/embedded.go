// Package embedded runs a Redis inside the process, for a first try of a program without a server.
//
// It is miniredis: one process, no durability, no persistence, no cluster, no client tracking,
// errors with other texts. It suits an example or a first test; serious tests use a real server.
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
