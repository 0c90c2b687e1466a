package lockrt

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A process whose locks are all short says nothing, even when it happens to hold one while its timer looks.
func TestPresence_ShortLocksSayNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c, err := Open(t.Context(), server.URL(), Options{OpTimeout: time.Minute})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	for range 100 {
		l, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		c.introduceLate()
		held, _ := c.watchdog.Leases(0)
		require.Len(t, held, 1)
		c.introduceWith(held)
		require.NoError(t, l.Unlock(t.Context()))
	}
	c.introduceLate()
	require.False(t, c.presence.armed.Load(), "the timer rests while nothing is held")
	n, err := server.Do("EXISTS", protocol.ProcessKey(c.wire.UUID)).AsInt64()
	require.NoError(t, err)
	require.Zero(t, n)
}

// A lock that nobody else wants costs two commands, and nothing is sent besides, whatever the client says of itself.
func TestPresence_CostsNoCommandOfACycle(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c, err := Open(t.Context(), server.URL(), Options{OpTimeout: time.Minute, Name: "orders", Tracking: TrackingOff})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	cycle := func() {
		l, err := c.Mutex("k", WithName("orders.Service.Pay")).Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, l.Unlock(t.Context()))
	}
	cycle() // loads the scripts
	sent := int64(0)
	for round := 0; sent != 1000 && round < 20; round++ { // more where the machine stood still: one whose answer is late is sent again
		server.Do("CONFIG", "RESETSTAT")
		for range 500 {
			cycle()
		}
		sent = server.CommandStats()["evalsha"]
		require.GreaterOrEqual(t, sent, int64(1000))
	}
	require.EqualValues(t, 1000, sent)
}
