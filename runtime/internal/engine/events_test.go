package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A contest notifies waiters under its lock: however much it says, it does not wait for them, and each event comes, in order.
func TestEventQueue_HasRoomForEverything(t *testing.T) {
	t.Parallel()
	w := NewWaiter[int]()
	for i := range 100 {
		w.Notify(Event{Kind: Failed})
		w.Notify(Event{Kind: Refused, Final: i%2 == 0})
	}
	w.Poke()
	w.Poke() // once is enough
	require.False(t, w.Events.Empty())
	for i := range 100 {
		<-w.Events.Bell
		ev, ok := w.NextEvent()
		require.True(t, ok)
		require.Equal(t, Failed, ev.Kind)
		<-w.Events.Bell
		ev, ok = w.NextEvent()
		require.True(t, ok)
		require.Equal(t, Event{Kind: Refused, Final: i%2 == 0}, ev)
	}
	<-w.Events.Bell
	ev, ok := w.NextEvent()
	require.True(t, ok)
	require.Equal(t, Reason, ev.Kind)
	_, ok = w.NextEvent()
	require.False(t, ok)
	require.True(t, w.Events.Empty())
	w.Poke()
	require.False(t, w.Events.Empty())
}

// A waiter that is to ask now does not take that for a reason to recheck, in whatever order the two come.
func TestWaiter_PokeIsNoRecheck(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pokes   func(w *Waiter[int])
		recheck bool
	}{
		"poke":              {func(w *Waiter[int]) { w.Poke() }, false},
		"recheck":           {func(w *Waiter[int]) { w.recheck() }, true},
		"poke, recheck":     {func(w *Waiter[int]) { w.Poke(); w.recheck() }, false},
		"recheck, poke":     {func(w *Waiter[int]) { w.recheck(); w.Poke() }, false},
		"recheck after one": {func(w *Waiter[int]) { w.Poke(); w.NextEvent(); w.recheck() }, true},
	} {
		w := NewWaiter[int]()
		test.pokes(w)
		ev, ok := w.NextEvent()
		require.True(t, ok, name)
		require.Equal(t, Event{Kind: Reason, Recheck: test.recheck}, ev, name)
		_, ok = w.NextEvent()
		require.False(t, ok, name)
	}
}

// TestEventQueue_TakeIf: the oldest event is taken if it is of the kind; another one stays and rings.
func TestEventQueue_TakeIf(t *testing.T) {
	t.Parallel()
	b := NewEventQueue()
	require.False(t, b.TakeIf(Given))
	b.Put(Event{Kind: Given})
	b.Put(Event{Kind: Turn})
	<-b.Bell
	require.True(t, b.TakeIf(Given))
	<-b.Bell
	require.False(t, b.TakeIf(Given))
	<-b.Bell
	ev, ok := b.Take()
	require.True(t, ok)
	require.Equal(t, Turn, ev.Kind)
	require.True(t, b.Empty())
}
