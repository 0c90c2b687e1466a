package main

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSharing shows that the experiment of S4b is a lock: one goroutine of two processes has the key at a time, and the processes take turns.
func TestSharing(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	var inside, most, last, turns atomic.Int64
	var wg sync.WaitGroup
	var clients [2]*client
	for i := range clients {
		var err error
		clients[i], err = openSharing(s.addr, time.Minute)
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
