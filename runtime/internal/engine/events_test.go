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
