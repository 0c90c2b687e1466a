package main

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCounted shows that the experiment of S9, reading, has the key in Redis with a lease while one of its readers has it, in whatever
// order they go, and not longer; and that it asks Redis once for all.
func TestCounted(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c, err := openCounting(s.addr, time.Minute)
	require.NoError(t, err)
	left := func() int64 {
		ms, err := s.rc.Do(t.Context(), s.rc.B().Pttl().Key("counted").Build()).AsInt64()
		require.NoError(t, err)
		return ms
	}
	const none = -2
	require.EqualValues(t, none, left())
	readers := make([]held, 100)
	var all sync.WaitGroup
	for i := range readers {
		all.Go(func() {
			h, err := c.lock("counted")
			if err != nil {
				t.Error(err)
			}
			readers[i] = h
		})
	}
	all.Wait()
	takes, err := s.rc.Do(t.Context(), s.rc.B().Arbitrary("info", "commandstats").Build()).ToString()
	require.NoError(t, err)
	require.Contains(t, takes, "cmdstat_hset:calls=1,")
	for i := range readers {
		require.Positive(t, left())
		require.NoError(t, readers[i*37%len(readers)].unlock())
	}
	require.EqualValues(t, none, left())
}
