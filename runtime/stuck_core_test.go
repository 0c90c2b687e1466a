package lockrt

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/engine"
)

// One timer suspects each call in its turn, though calls leave from the head, the middle and the end of the list, and others come
// when it has been empty.
func TestSuspects_EachInItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const after = time.Second
		c := &Client{opts: Options{DeadlockAfter: after}}
		s := &c.suspects
		pass := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		begin := func() *waiter {
			w := &waiter{events: engine.NewEventQueue()}
			s.begin(context.Background(), c, w, UntilDone)
			s.begin(context.Background(), c, w, UntilDone) // once is enough
			pass(100 * time.Millisecond)
			return w
		}
		suspects := func(all ...*waiter) (n int) {
			for _, w := range all {
				for ev, ok := w.nextEvent(); ok; ev, ok = w.nextEvent() {
					require.Equal(t, engine.Suspected, ev.Kind)
					n++
				}
			}
			return n
		}
		all := []*waiter{begin(), begin(), begin(), begin(), begin()} // due at 1s, 1.1s, 1.2s, 1.3s and 1.4s
		for _, i := range []int{0, 2, 4} {
			s.end(all[i])
			s.end(all[i])
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

		s.end(all[3])
		s.begin(context.Background(), c, all[3], UntilDone) // in another wait
		pass(after)
		require.Equal(t, 1, suspects(all[3]))

		bounded, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		w := &waiter{events: engine.NewEventQueue()}
		s.begin(bounded, c, w, UntilDone)
		s.begin(context.Background(), c, w, time.Minute)
		c.opts.DeadlockAfter = -1
		s.begin(context.Background(), c, w, UntilDone)
		pass(time.Minute)
		require.Zero(t, suspects(w))
		require.Nil(t, s.first)
	})
}
