package lockrt

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A contest tells while it is locked: however much it tells, it does not wait for whom it tells, who hears all of it in order.
func TestInbox_HasRoomForAllThatIsTold(t *testing.T) {
	t.Parallel()
	w := &waiter{inbox: newInbox()}
	for i := range 100 {
		w.tell(news{kind: failed})
		w.tell(news{kind: refusedFor, final: i%2 == 0})
	}
	w.poke()
	w.poke() // once is enough
	require.False(t, w.inbox.empty())
	for i := range 100 {
		<-w.inbox.bell
		n, ok := w.hears()
		require.True(t, ok)
		require.Equal(t, failed, n.kind)
		<-w.inbox.bell
		n, ok = w.hears()
		require.True(t, ok)
		require.Equal(t, news{kind: refusedFor, final: i%2 == 0}, n)
	}
	<-w.inbox.bell
	n, ok := w.hears()
	require.True(t, ok)
	require.Equal(t, reason, n.kind)
	_, ok = w.hears()
	require.False(t, ok)
	require.True(t, w.inbox.empty())
	w.poke()
	require.False(t, w.inbox.empty())
}
