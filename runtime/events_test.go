package lockrt

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A contest tells while it is locked: however much it tells, it does not wait for whom it tells, who hears all of it in order.
func TestEventQueue_HasRoomForEverything(t *testing.T) {
	t.Parallel()
	w := &waiter{events: newEventQueue(), call: call{wait: UntilDone}}
	for i := range 100 {
		w.notify(event{kind: failed})
		w.notify(event{kind: refusedFor, final: i%2 == 0})
	}
	w.poke()
	w.poke() // once is enough
	require.False(t, w.events.empty())
	for i := range 100 {
		<-w.events.bell
		ev, ok := w.nextEvent()
		require.True(t, ok)
		require.Equal(t, failed, ev.kind)
		<-w.events.bell
		ev, ok = w.nextEvent()
		require.True(t, ok)
		require.Equal(t, event{kind: refusedFor, final: i%2 == 0}, ev)
	}
	<-w.events.bell
	ev, ok := w.nextEvent()
	require.True(t, ok)
	require.Equal(t, reason, ev.kind)
	_, ok = w.nextEvent()
	require.False(t, ok)
	require.True(t, w.events.empty())
	w.poke()
	require.False(t, w.events.empty())
}
