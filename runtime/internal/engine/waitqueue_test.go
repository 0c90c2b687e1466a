package engine

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWaitQueue compares the queue with a slice.
func TestWaitQueue(t *testing.T) {
	t.Parallel()
	var queue WaitQueue[string]
	var want []*Waiter[string]
	for range 10_000 {
		if n := len(want); n == 0 || n < 5 && rand.IntN(2) == 0 {
			w := NewWaiter[string]()
			queue.Push(w)
			require.True(t, w.Place.Queued())
			want = append(want, w)
		} else {
			at := rand.IntN(n)
			queue.Remove(want[at])
			gone := want[at]
			require.Zero(t, gone.Place)
			require.Nil(t, gone.before)
			require.Nil(t, gone.After)
			want = slices.Delete(want, at, at+1)
		}
		require.Equal(t, len(want) == 0, queue.Empty())
		require.Equal(t, len(want), queue.Length())
		require.Equal(t, min(2, len(want)), queue.LengthTo(2))
		var got []*Waiter[string]
		queue.Each(func(w *Waiter[string]) { got = append(got, w) })
		require.Len(t, got, len(want))
		for i, w := range want {
			require.Same(t, w, got[i])
		}
	}
}
