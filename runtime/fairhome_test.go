package lockrt

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// What happens in an order that no test from outside can force.

func testedFairHome(t *testing.T) *fairHome {
	t.Helper()
	c, err := Open(t.Context(), redistest.Shared(t).URL(), Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	h, err := c.enterFair(redistest.Key(t, "k"))
	require.NoError(t, err)
	t.Cleanup(h.exit)
	return h
}

// enters returns a claim that somebody waits with.
func (h *fairHome) enters(t *testing.T) *fairClaim {
	t.Helper()
	cfg, err := h.c.configure(nil, nil)
	require.NoError(t, err)
	e := h.contest(newWaiter(context.Background(), newLease(h.c, kindFair, h.key, context.Background()), cfg), cfg)
	require.Equal(t, toAsk, e.join(e.w))
	return e.cl
}

// have gives cl the lock, as if Redis had said that those behind have it next.
func (h *fairHome) have(cl *fairClaim, behind ...*fairClaim) *fairHold {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, x := range behind {
		cl.behind = append(cl.behind, x.n)
	}
	cl.take(time.Now(), cl.terms.ttl, tokens{})
	return h.hold
}

// refusal is what Redis says to one that is to wait.
func refusal() protocol.FairVerdict {
	return protocol.FairVerdict{Verdict: protocol.Verdict{Wait: 1000, At: time.Now().Truncate(time.Second)}}
}

// One that is given what is lost, and gives up before it knows, while a request of it is under way, leaves once.
func TestFairHome_WhoGivesUpWhatIsLostLeavesOnce(t *testing.T) {
	t.Parallel()
	h := testedFairHome(t)
	a, b := h.enters(t), h.enters(t)
	b.queued, b.asking = true, 1
	hd := h.have(a, b)
	require.NoError(t, hd.unlock(a.call.w.lease))
	require.Same(t, hd, b.hold)
	h.c.watchdog.Lose(&hd.guard, watchdog.ErrRefused)
	b.call.leave(b.call.w)
	require.Nil(t, b.settle(time.Now(), false, refusal(), nil))
	for _, cl := range []*fairClaim{a, b} {
		require.Eventually(t, func() bool { return !h.c.knows(cl.n) }, 10*time.Second, time.Millisecond, "it is withdrawn")
	}
}

// knows reports whether anybody is told of the claim n.
func (c *Client) knows(n uint64) bool {
	c.lines.Lock()
	defer c.lines.Unlock()
	return c.parties[n].party != nil
}

// Who was told of a grant too late has lost its place, and what was said of those behind it is not true any more.
func TestFairHome_WhoFollowsIsForgottenWithTheGrant(t *testing.T) {
	t.Parallel()
	h := testedFairHome(t)
	a, b := h.enters(t), h.enters(t)
	b.queued = true
	past := time.Now().Add(-10 * time.Second)
	a.seen = sighting{past, past}
	a.handed(a.n, handOver{at: past.Add(time.Second), behind: []uint64{b.n}})
	require.Nil(t, a.hold)
	require.Nil(t, a.settle(time.Now(), false, refusal(), nil))
	hd := h.have(a)
	_ = hd.unlock(a.call.w.lease) // Redis does not have it
	require.Nil(t, b.hold)
	b.call.leave(b.call.w)
}

// What Redis is known to have for somebody else is not passed on.
func TestFairHome_WhatIsLostIsNotPassedOn(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(h *fairHome, hd *fairHold, other *fairClaim){
		"granted to another claim": func(h *fairHome, _ *fairHold, other *fairClaim) {
			h.mu.Lock()
			defer h.mu.Unlock()
			other.take(time.Now(), other.terms.ttl, tokens{})
		},
		"known to have been taken": func(_ *fairHome, hd *fairHold, _ *fairClaim) { hd.taken = true },
		"told to its holder":       func(h *fairHome, hd *fairHold, _ *fairClaim) { h.tell(hd, lost(watchdog.ErrRefused)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := testedFairHome(t)
			a, b, other := h.enters(t), h.enters(t), h.enters(t)
			hd := h.have(a, b)
			lose(h, hd, other)
			_ = hd.unlock(a.call.w.lease) // Redis does not have it
			require.Nil(t, b.hold)
			b.call.leave(b.call.w)
			other.call.leave(other.call.w)
		})
	}
}
