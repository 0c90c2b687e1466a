//go:build linux

package serverclock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestClock shows that a server goes by the clock, and that the clock can be set while the server runs.
func TestClock(t *testing.T) {
	t.Parallel()
	c := New(t)
	server := redistest.Server(t, redistest.WithEnv(c.Env()...))
	ahead := func() time.Duration {
		now, err := server.Do("TIME").AsIntSlice()
		require.NoError(t, err)
		return time.Until(time.Unix(now[0], 0))
	}
	for _, want := range []time.Duration{0, time.Hour, -time.Hour} {
		c.Jump(t, want-c.ahead)
		require.InDelta(t, want.Minutes(), ahead().Minutes(), 5)
	}
}
