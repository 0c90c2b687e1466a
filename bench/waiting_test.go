package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWaiting shows that the experiment of S7 is a lock that hands its keys over: each goroutine of two processes gets each of the keys,
// one at a time.
func TestWaiting(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	var inside [4]atomic.Int64
	var wg sync.WaitGroup
	for range 2 {
		c, err := openWaiting(s.addr, kLease)
		require.NoError(t, err)
		for i := range inside {
			for range 20 {
				wg.Go(func() {
					h, err := c.lock(fmt.Sprint("waiting:", i))
					if err != nil {
						t.Error(err)
						return
					}
					if n := inside[i].Add(1); n > 1 {
						t.Errorf("%d goroutines have the key", n)
					}
					inside[i].Add(-1)
					if err := h.unlock(); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
	wg.Wait()
	left, err := s.rc.Do(t.Context(), s.rc.B().Dbsize().Build()).AsInt64()
	require.NoError(t, err)
	require.Zero(t, left)
}
