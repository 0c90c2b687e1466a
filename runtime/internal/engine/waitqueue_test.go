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

// The deputy is the first waiter that listens, behind a head that does not.
func TestWaitQueue_Deputy(t *testing.T) {
	t.Parallel()
	for waiters, want := range map[string]int{ // p polls, l listens, t tries once, and T tries once and polls
		"": -1, "l": -1, "p": -1, "pp": -1, "lpl": -1, "tl": -1, "Tl": -1,
		"pl": 1, "pll": 1, "ppl": 2, "ptpl": 3, "pTl": 2,
	} {
		var queue WaitQueue[struct{}]
		var all []*Waiter[struct{}]
		for i, kind := range waiters {
			w := waits(kind == 't' || kind == 'T')
			w.Terms.Polling = kind == 'p' || kind == 'T'
			queue.Push(w)
			all = append(all, w)
			require.Equal(t, want == i, queue.IsDeputy(w), waiters)
		}
		if want < 0 {
			require.Nil(t, queue.Deputy(), waiters)
		} else {
			require.Same(t, all[want], queue.Deputy(), waiters)
		}
	}
}

// The deputy gets each refusal of the head, and of no other waiter. It does not have the turn.
func TestWaitQueue_Refuse(t *testing.T) {
	t.Parallel()
	var queue WaitQueue[struct{}]
	head, deputy, last := waits(false), waits(false), waits(false)
	head.Terms.Polling = true
	for _, w := range []*Waiter[struct{}]{head, deputy, last} {
		queue.Push(w)
	}
	deputy.Place = PlaceLeading
	no := Event{Kind: Refused, TTL: 7}
	queue.Refuse(head, no)
	ev, _ := head.NextEvent()
	require.Equal(t, no, ev)
	ev, _ = deputy.NextEvent()
	require.Equal(t, Event{Kind: Refused, TTL: 7, Deputy: true}, ev)
	require.Equal(t, PlaceQueued, deputy.Place)
	queue.Refuse(last, no)
	ev, _ = last.NextEvent()
	require.Equal(t, no, ev)
	for _, w := range []*Waiter[struct{}]{head, deputy, last} {
		require.True(t, w.Events.Empty())
	}
}

// A waiter is fit for another call only when no request knows it any more, and takes nothing of its last call with it.
func TestWaiter_Reset(t *testing.T) {
	t.Parallel()
	w := NewWaiter[string]()
	w.For, w.Call.Wait = "something", 1
	w.Patient, w.Attends, w.Quorum = true, true, true
	w.Number.Store(7)
	w.Asks.Add(1)
	require.False(t, w.Reset(), "a request may answer still")
	w.Asks.Add(-1)
	w.Notify(Event{Kind: Refused})
	w.Poke()
	require.True(t, w.Reset())
	_, ok := w.NextEvent()
	require.False(t, ok)
	require.Zero(t, w.Number.Load())
	require.Zero(t, w.For)
	require.True(t, w.Once())
	require.False(t, w.Patient || w.Attends || w.Quorum)
}
