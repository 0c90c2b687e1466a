package lockrt

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A waiter that lost a round asks again when as many of the servers that refused have announced a release as it lacks for a majority.
func TestRedLock_ReleasesOfTooFewServersDoNotCount(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		votes    string // of five servers: g has granted, r has refused, - has failed
		releases []int  // by which server, in this order
		asks     bool   // because of the last of them, and of none before
	}{
		"a bare majority has it, and one of that gives it back":   {votes: "rrrgg", releases: []int{0}, asks: true},
		"a bare majority has it, and others ask for the rest":     {votes: "rrrrr", releases: []int{3, 4, 3, 4}},
		"a bare majority has it, and another asks for the rest":   {votes: "rrrgr", releases: []int{4, 4}},
		"a bare majority gives it back, one after the other":      {votes: "rrrrr", releases: []int{0, 1, 2}, asks: true},
		"one of a bare majority is enough, when the rest is free": {votes: "rrrrr", releases: []int{3, 4, 0}, asks: true},
		"what this process gives back itself does not count":      {votes: "rrrgg", releases: []int{3, 4}},
		"two ask at the same time, and one server is away":        {votes: "ggrr-", releases: []int{3}, asks: true},
		"others have failed": {votes: "r----", releases: []int{0}, asks: true},
		"others have failed, and one of those that refused has it": {votes: "rr---", releases: []int{1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Shared(t)
			c, err := Open(t.Context(), server.URL(), Options{})
			require.NoError(t, err)
			t.Cleanup(func() { _ = c.Close() })
			var mutexes []*Mutex
			for i := range x.votes {
				mutexes = append(mutexes, c.Mutex(redistest.Key(t, fmt.Sprint(i))))
			}
			m := newRedLock(mutexes)
			cfg := lockConfig{wait: UntilDone}
			e := &quorumAcquire{m: m, ctx: t.Context(), cfg: cfg, whole: newLease(c, kindRedLock, m.key, t.Context())}
			e.w = newWaiter(t.Context(), e.whole, cfg)
			t.Cleanup(func() { e.leave(e.w) })
			r := &round{votes: make([]vote, len(x.votes)), lost: true}
			for i, said := range x.votes {
				r.votes[i] = vote{granted: said == 'g', refused: said == 'r'}
			}
			e.latest = r
			e.mu.Lock()
			e.listen()
			e.mu.Unlock()
			for _, l := range e.listeners {
				select {
				case <-l.Ready():
				case <-time.After(time.Minute):
					t.Fatal("releases are not heard")
				}
			}
			for i, from := range x.releases {
				e.mu.Lock()
				prompted := r.prompted
				r.votes[from].released = false // to see that it is heard once more
				e.mu.Unlock()
				require.False(t, prompted, "after %d releases", i)
				server.Do("PUBLISH", protocol.LockChannel(mutexes[from].key), "0")
				require.Eventually(t, func() bool {
					e.mu.Lock()
					defer e.mu.Unlock()
					return r.votes[from].released
				}, time.Minute, time.Millisecond)
			}
			e.mu.Lock()
			prompted := r.prompted
			e.mu.Unlock()
			require.Equal(t, x.asks, prompted)
			if x.asks {
				select {
				case <-e.w.Events.Bell:
				case <-time.After(time.Minute):
					t.Fatal("the waiter is not told")
				}
			}
		})
	}
}
