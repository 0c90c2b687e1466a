package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestHolding shows that the experiment of S6 renews what it holds, and that a holder learns of a deleted key from the server, long before
// the next renewal.
func TestHolding(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c, err := openHolding(s.addr, time.Hour)
	require.NoError(t, err)
	lost, err := c.lock("holding:lost")
	require.NoError(t, err)
	kept, err := c.lock("holding:kept")
	require.NoError(t, err)
	lost.(*heldOne).p.changed(nil) // so that the client renews both now, and not in a minute
	require.Eventually(t, func() bool {
		stats, err := s.rc.Do(t.Context(), s.rc.B().Info().Section("stats").Build()).ToString()
		return err == nil && strings.Contains(stats, "tracking_total_keys:2\r\n")
	}, 10*time.Second, time.Millisecond)
	require.True(t, lost.trusted())
	require.NoError(t, s.rc.Do(t.Context(), s.rc.B().Del().Key("holding:lost").Build()).Error())
	require.Eventually(t, func() bool { return !lost.trusted() }, 10*time.Second, time.Millisecond)
	require.True(t, kept.trusted())
	require.NoError(t, kept.unlock())
}
