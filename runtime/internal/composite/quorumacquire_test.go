package composite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/locks"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A call that lost a round hears of releases, and asks again when enough of the servers that refused announce one.
func TestQuorumAcquire_HearsOfReleases(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	c, err := opened(t.Context(), server.URL(), core.Settings{OpTimeout: time.Minute, Tracks: true}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	m := newRedLock([]*locks.Mutex{c.Mutex(redistest.Key(t, "0")), c.Mutex(redistest.Key(t, "1")), c.Mutex(redistest.Key(t, "2"))})
	cfg := leases.Config{Wait: leases.UntilDone}
	e := newQuorumAcquire(t.Context(), m, nil, cfg, leases.New(c.Core(), core.KindRedLock, t.Context()))
	t.Cleanup(func() { e.Leave(e.w) })
	r := e.rounds.Begin(func() {})
	e.answered(r, 0, nil, failure.ErrNotAcquired)
	e.answered(r, 1, nil, failure.ErrNotAcquired)
	for _, l := range e.listeners {
		select {
		case <-l.Ready():
		case <-time.After(time.Minute):
			t.Fatal("releases are not heard")
		}
	}
	var kinds []engine.EventKind
	next := func() {
		select {
		case <-e.w.Events.Bell():
			for ev, ok := e.w.NextEvent(); ok; ev, ok = e.w.NextEvent() {
				kinds = append(kinds, ev.Kind)
			}
		case <-time.After(time.Minute):
			t.Fatal("there is no event")
		}
	}
	next()
	require.Equal(t, []engine.EventKind{engine.Refused}, kinds)
	server.Do("PUBLISH", protocol.LockChannel(m.parts[0].Key()), "0")
	server.Do("PUBLISH", protocol.LockChannel(m.parts[1].Key()), "0")
	next()
	require.Equal(t, []engine.EventKind{engine.Refused, engine.Reason}, kinds)
}
