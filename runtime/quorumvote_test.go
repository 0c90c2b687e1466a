package lockrt

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// votedRound returns a call that waits for a RedLock and hears of releases, and its round: each server has granted (g) or refused (r) its
// part, or has not answered (-).
func votedRound(t *testing.T, server *redistest.RedisServer, votes string) (*quorumAcquire, *round) {
	t.Helper()
	c, err := Open(t.Context(), server.URL(), Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	var mutexes []*Mutex
	for i := range votes {
		mutexes = append(mutexes, c.Mutex(redistest.Key(t, fmt.Sprint(i))))
	}
	m := newRedLock(mutexes)
	cfg := lockConfig{wait: UntilDone}
	e := &quorumAcquire{m: m, ctx: t.Context(), cfg: cfg, whole: newLease(c, kindRedLock, m.key, t.Context())}
	e.w = newWaiter(t.Context(), e.whole, cfg)
	t.Cleanup(func() { e.leave(e.w) })
	r := &round{votes: make([]vote, len(votes)), cancel: func() {}}
	for i, said := range votes {
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
	return e, r
}

// announce publishes a release of the part at the server with an index, and waits until e has heard of it.
func announce(t *testing.T, server *redistest.RedisServer, e *quorumAcquire, r *round, from int) {
	t.Helper()
	server.Do("PUBLISH", protocol.LockChannel(e.m.parts[from].key), "0")
	require.Eventually(t, func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return r.votes[from].released
	}, time.Minute, time.Millisecond)
}

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
			e, r := votedRound(t, server, x.votes)
			r.lost = true
			for i, from := range x.releases {
				e.mu.Lock()
				prompted := r.prompted
				r.votes[from].released = false // to see that it is heard once more
				e.mu.Unlock()
				require.False(t, prompted, "after %d releases", i)
				announce(t, server, e, r, from)
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

// A round that waits for servers that have not answered ends when those that answered would grant a majority now. Until then it keeps
// its parts from others, which may keep theirs from it.
func TestRedLock_ARoundDoesNotWaitForAnswersThatItDoesNotNeed(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		votes    string
		releases []int // by which server, in this order: the last of them ends the round
	}{
		"it lacks one server":  {votes: "ggr--", releases: []int{2}},
		"it lacks two servers": {votes: "rgr--", releases: []int{2, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Shared(t)
			e, r := votedRound(t, server, x.votes)
			r.began = now()
			e.mu.Lock()
			r.over = time.AfterFunc(time.Hour, func() { e.cut(r, r.took) })
			e.mu.Unlock()
			for _, from := range x.releases {
				require.True(t, e.w.Events.Empty())
				announce(t, server, e, r, from)
			}
			select {
			case <-e.w.Events.Bell:
			case <-time.After(time.Minute):
				t.Fatal("the round goes on")
			}
			ev, ok := e.w.NextEvent()
			require.True(t, ok)
			require.Contains(t, []engine.EventKind{engine.Refused, engine.Reason}, ev.Kind)
			e.mu.Lock()
			defer e.mu.Unlock()
			require.True(t, r.lost)
			require.True(t, r.prompted)
		})
	}
}
