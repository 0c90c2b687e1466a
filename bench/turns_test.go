package main

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTurns shows that the experiment of S4 is a lock, which is fair: one goroutine of three processes has the key at a time, and while goroutines of
// all processes wait, the processes have it in the same order each time, each for turnLength acquisitions.
func TestTurns(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	const processes, goroutines, rounds = 3, 4, 20
	var all [processes]*turnsClient
	for i := range all {
		var err error
		all[i], err = newTurns(s.addr, time.Minute)
		require.NoError(t, err)
		all[i].callers.Add(1) // one that always waits: the others may all be between two acquisitions
	}
	first, err := all[0].lock("turns")
	require.NoError(t, err)
	var inside atomic.Int64
	order := []int{0} // the processes that have had the key; the key guards it
	var wg sync.WaitGroup
	for i, p := range all {
		for g := range goroutines {
			n := rounds * turnLength / goroutines
			if i == 0 && g == 0 {
				n-- // the first
			}
			wg.Go(func() {
				for range n {
					h, err := p.lock("turns")
					if err != nil {
						t.Error(err)
						return
					}
					if inside.Add(1) != 1 {
						t.Error("two goroutines have the key")
					}
					order = append(order, i)
					inside.Add(-1)
					if err := h.unlock(); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	var others []string
	require.Eventually(t, func() bool {
		others, err = s.rc.Do(t.Context(), s.rc.B().Lrange().Key("turns:waiting").Start(0).Stop(-1).Build()).AsStrSlice()
		return err == nil && len(others) == processes-1
	}, time.Minute, time.Millisecond)
	next := slices.IndexFunc(all[:], func(p *turnsClient) bool { return p.args[0] == others[0] })
	require.NoError(t, first.unlock())
	wg.Wait()

	var want []int
	for range rounds {
		for _, i := range []int{0, next, processes - next} {
			want = append(want, slices.Repeat([]int{i}, turnLength)...)
		}
	}
	require.Equal(t, want, order)
}

// The process that nobody else waits for keeps the key as long as goroutines of it wait; then the key is free. Without the key it gives nothing
// to others.
func TestTurns_Alone(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p, err := newTurns(s.addr, time.Minute)
	require.NoError(t, err)
	there := func() int64 {
		n, err := s.rc.Do(t.Context(), s.rc.B().Exists().Key("turns", "turns:waiting").Build()).AsInt64()
		require.NoError(t, err)
		return n
	}
	p.callers.Add(1)
	for range 2 * turnLength {
		h, err := p.lock("turns")
		require.NoError(t, err)
		require.NoError(t, h.unlock())
		require.EqualValues(t, 1, there())
	}
	p.callers.Add(-1)
	h, err := p.lock("turns")
	require.NoError(t, err)
	require.NoError(t, h.unlock())
	require.Zero(t, there())

	h, err = p.lock("turns")
	require.NoError(t, err)
	require.NoError(t, s.empty())
	require.ErrorContains(t, h.unlock(), "not held")
}
