package main

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSharing shows that the experiments of S4b are locks: one goroutine of two processes has the key at a time, and the processes take turns.
func TestSharing(t *testing.T) {
	t.Parallel()
	for name, looks := range map[string]bool{sharing: false, looking: true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			takesTurns(t, openSharing(looks))
		})
	}
}

func takesTurns(t *testing.T, open func(addr string, lease time.Duration) (*client, error)) {
	t.Helper()
	s := startServer(t)
	var inside, most, last, turns atomic.Int64
	var wg sync.WaitGroup
	var clients [2]*client
	for i := range clients {
		var err error
		clients[i], err = open(s.addr, time.Minute)
		require.NoError(t, err)
	}
	for i, c := range clients {
		for range 4 {
			wg.Go(func() {
				for turns.Load() < 100 {
					h, err := c.lock("shared")
					if err != nil {
						t.Error(err)
						return
					}
					if n := inside.Add(1); n > most.Load() {
						most.Store(n)
					}
					if last.Swap(int64(i)) != int64(i) {
						turns.Add(1)
					}
					inside.Add(-1)
					if err := h.unlock(); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	require.EqualValues(t, 1, most.Load())
}

// TestLooking shows that the experiment notices that the key was deleted, and takes none for lost that it has.
func TestLooking(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	rc, err := rueidisClient(s.addr)
	require.NoError(t, err)
	c, err := openSharing(true)(s.addr, time.Minute)
	require.NoError(t, err)
	for _, deleted := range []bool{false, true} {
		h, err := c.lock("key")
		require.NoError(t, err)
		client := h.(*sharingClient) //nolint:forcetypeassert // as openSharing makes it
		if deleted {
			require.NoError(t, rc.Do(t.Context(), rc.B().Del().Key("key").Build()).Error())
			require.Eventually(t, func() bool { return !h.trusted() }, 10*time.Second, time.Millisecond)
			return
		}
		require.Eventually(t, func() bool { return !client.about.Load() }, 10*time.Second, time.Millisecond)
		client.look(client.held) // once more, since the timer's look may not be over
		require.False(t, client.about.Load(), "it has looked")
		require.True(t, h.trusted())
		require.NoError(t, h.unlock())
	}
}
