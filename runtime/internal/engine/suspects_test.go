package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// One timer suspects each call in its turn, though calls leave from the head, the middle and the end of the list, and others come
// when it has been empty.
func TestSuspects_EachInItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const after = time.Second
		s := new(Suspects[int])
		pass := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		begin := func() *Waiter[int] {
			w := NewWaiter[int]()
			w.Call.Since = monotonic.Now()
			s.Begin(w, after)
			s.Begin(w, after) // once is enough
			pass(100 * time.Millisecond)
			return w
		}
		suspects := func(all ...*Waiter[int]) (n int) {
			for _, w := range all {
				for ev, ok := w.NextEvent(); ok; ev, ok = w.NextEvent() {
					require.Equal(t, Suspected, ev.Kind)
					n++
				}
			}
			return n
		}
		all := []*Waiter[int]{begin(), begin(), begin(), begin(), begin()} // due at 1s, 1.1s, 1.2s, 1.3s and 1.4s
		for _, i := range []int{0, 2, 4} {
			s.End(all[i])
			s.End(all[i])
		}
		pass(590 * time.Millisecond) // until 1.09s
		require.Zero(t, suspects(all...))
		pass(20 * time.Millisecond)
		require.Equal(t, 1, suspects(all[1]))
		require.Zero(t, suspects(all...))
		pass(time.Hour)
		require.Equal(t, 1, suspects(all[3]))
		require.Zero(t, suspects(all...), "once for each wait")
		require.Nil(t, s.first)
		require.Nil(t, s.last)

		s.End(all[3])
		all[3].Call.Since = monotonic.Now()
		s.Begin(all[3], after) // in another wait
		pass(after)
		require.Equal(t, 1, suspects(all[3]))
	})
}
