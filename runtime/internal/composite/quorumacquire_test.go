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
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
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

// A majority that grants its parts when the call is over, or that is lost before it can be the lease, is released.
func TestQuorumAcquire_AMajorityThatIsNone(t *testing.T) {
	t.Parallel()
	c, err := opened(t.Context(), redistest.Shared(t).URL(), core.Settings{OpTimeout: time.Minute, Tracks: true}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	for name, spoil := range map[string]func(e *quorumAcquire, part *leases.Lease){
		"the call is over": func(e *quorumAcquire, _ *leases.Lease) { e.Leave(e.w) },
		"a part is lost":   func(_ *quorumAcquire, part *leases.Lease) { part.Core().End(failure.Lost(watchdog.ErrRefused)) },
	} {
		m := newRedLock([]*locks.Mutex{c.Mutex(redistest.Key(t, "0")), c.Mutex(redistest.Key(t, "1")), c.Mutex(redistest.Key(t, "2"))})
		whole := leases.New(c.Core(), core.KindRedLock, t.Context())
		cfg, err := leases.Configure(c.Core(), nil, nil)
		require.NoError(t, err)
		e := newQuorumAcquire(t.Context(), m, nil, cfg, whole)
		r := e.rounds.Begin(func() {})
		var parts []*leases.Lease
		for i := range 2 {
			part, err := m.parts[i].Acquire(t.Context(), e.opts)
			require.NoError(t, err)
			parts = append(parts, part)
		}
		spoil(e, parts[0])
		for i, part := range parts {
			e.answered(r, i, part, nil)
		}
		require.Nil(t, compositeOf(whole), name)
		ev, some := e.w.NextEvent()
		require.True(t, some, name)
		require.Equal(t, engine.Failed, ev.Kind, name)
		for i := range parts {
			freeSoon(t, m.parts[i])
		}
		e.Leave(e.w)
	}
}

// The next call in the queue is given the parts of the call before it, but those that have another holder still, and none if it is over.
func TestQuorumAcquire_WhatPassesToTheNextCall(t *testing.T) {
	t.Parallel()
	c, err := opened(t.Context(), redistest.Shared(t).URL(), core.Settings{OpTimeout: time.Minute, Tracks: true}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	cfg, err := leases.Configure(c.Core(), nil, nil)
	require.NoError(t, err)
	for _, over := range []bool{false, true} {
		m := newRedLock([]*locks.Mutex{c.Mutex(redistest.Key(t, "0")), c.Mutex(redistest.Key(t, "1")), c.Mutex(redistest.Key(t, "2"))})
		var wholes [2]*leases.Lease
		var calls [2]*quorumAcquire
		for i := range calls {
			wholes[i] = leases.New(c.Core(), core.KindRedLock, t.Context())
			calls[i] = newQuorumAcquire(t.Context(), m, nil, cfg, wholes[i])
			calls[i].inLine = true
			calls[i].Join(calls[i].w)
		}
		r := calls[0].rounds.Begin(func() {})
		for i := range m.parts {
			part, err := m.parts[i].Acquire(t.Context(), calls[0].opts)
			require.NoError(t, err)
			calls[0].answered(r, i, part, nil)
		}
		inner, err := m.parts[0].Lock(wholes[0].Context())
		require.NoError(t, err)
		if over {
			calls[1].Leave(calls[1].w)
		}
		calls[0].began.Store(int64(monotonic.Now().Add(time.Hour))) // so that it has not circulated for long, however slow the machine is
		require.NoError(t, wholes[0].Core().Grant.Unlock(wholes[0]))
		require.NoError(t, inner.Err())
		if !over {
			require.NotNil(t, compositeOf(wholes[1]))
			require.Equal(t, 2, PartsOf(wholes[1]), "the other one has a holder still")
			require.NoError(t, wholes[1].Core().Grant.Unlock(wholes[1]))
		}
		require.Equal(t, over, compositeOf(wholes[1]) == nil)
		require.NoError(t, inner.Unlock(t.Context()))
		for _, part := range m.parts {
			freeSoon(t, part)
		}
		calls[0].Leave(calls[0].w)
		calls[1].Leave(calls[1].w)
		queuesOf(c).leave(calls[1], 0)
	}
}
