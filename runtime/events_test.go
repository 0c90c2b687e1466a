package lockrt

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/engine"
)

// A contest tells while it is locked: however much it tells, it does not wait for whom it tells, who hears all of it in order.
func TestEventQueue_HasRoomForEverything(t *testing.T) {
	t.Parallel()
	w := &waiter{events: engine.NewEventQueue(), call: call{wait: UntilDone}}
	for i := range 100 {
		w.notify(engine.Event{Kind: engine.Failed})
		w.notify(engine.Event{Kind: engine.Refused, Final: i%2 == 0})
	}
	w.poke()
	w.poke() // once is enough
	require.False(t, w.events.Empty())
	for i := range 100 {
		<-w.events.Bell
		ev, ok := w.nextEvent()
		require.True(t, ok)
		require.Equal(t, engine.Failed, ev.Kind)
		<-w.events.Bell
		ev, ok = w.nextEvent()
		require.True(t, ok)
		require.Equal(t, engine.Event{Kind: engine.Refused, Final: i%2 == 0}, ev)
	}
	<-w.events.Bell
	ev, ok := w.nextEvent()
	require.True(t, ok)
	require.Equal(t, engine.Reason, ev.Kind)
	_, ok = w.nextEvent()
	require.False(t, ok)
	require.True(t, w.events.Empty())
	w.poke()
	require.False(t, w.events.Empty())
}
