package sim

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWaitsForAway shows which head of the queue of a fair lock explains that the lock stays free: a thread of Redisson that has left, and one
// that got the lock before a server forgot it.
func TestWaitsForAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, fairBesides.name)
		_, w.stop = context.WithCancel(t.Context())
		w.plan.watchdog = time.Second
		f := &javaFair{h: &javaHeld{j: &javaThread{p: &process{w: w}, owner: javaUUID + ":1"}, key: "key0"}}
		m := w.servers[0].m
		queue := []string{f.h.j.owner, "another"}
		_, err := m.ZAdd("redisson_lock_timeout:{key0}", float64(time.Now().Add(time.Minute).UnixMilli()), f.h.j.owner)
		require.NoError(t, err)
		forgets := func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.watch.forgets()
		}
		for _, step := range []struct {
			name string
			do   func()
			away bool
		}{
			{"it asks", func() { f.away(false) }, false},
			{"it has left", func() { f.away(true) }, true},
			{"it asks again", func() { f.away(false) }, false},
			{"it got the lock", f.gets, false},
			{"a server forgot that", forgets, true},
			{"it asks after that", func() { f.away(false) }, false},
			{"it got it again", f.gets, false},
		} {
			time.Sleep(time.Second)
			step.do()
			d, n := w.waitsForAway(m, "key0", queue)
			require.Equal(t, step.away, n == 1, step.name)
			require.Equal(t, step.away, d > 50*time.Second, step.name)
		}
		w.stop()
		w.end()
		require.Empty(t, w.failures)
	})
}
