package sim

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestConn_Order shows that a server which stands still for a while reads what a client sends in the order of sending, as with TCP: also what
// was under way when it stopped.
func TestConn_Order(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{plan: &plan{latency: time.Millisecond}, net: newNetwork()}
		defer w.net.close()
		l := &link{w: w, p: &process{w: w, id: 1}}
		c := &conn{l: l, rng: [2]*rand.Rand{rand.New(rand.NewPCG(1, 1)), rand.New(rand.NewPCG(1, 2))}}
		l.conns = []*conn{c}
		var arrived []int
		send := func(n int) { c.pass(up, func() { arrived = append(arrived, n) }) }
		locked := func(f func()) {
			w.mu.Lock()
			defer w.mu.Unlock()
			f()
		}
		pause := func() {
			time.Sleep(time.Second)
			synctest.Wait()
		}

		locked(func() {
			send(1)
			l.held[up] = true
			send(2)
		})
		pause()
		require.Empty(t, arrived)
		locked(func() {
			send(3)
			l.release(up)
			send(4)
		})
		pause()
		require.Equal(t, []int{1, 2, 3, 4}, arrived)
	})
}
