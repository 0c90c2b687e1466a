package transport

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each of a few callers has a script of its own. In a crowd one more script waits for a part of the crowd where answers come soon, and for a
// smaller part where they take long, or nobody knows. A crowd that becomes smaller counts as such.
func TestWindow(t *testing.T) {
	t.Parallel()
	var net Transport
	least := func(others int) int { // how many have to wait
		for waiting := 1; ; waiting++ {
			if net.another(others, waiting) {
				return waiting
			}
		}
	}
	all := func() (n [mostNear + 1]int) {
		for others := range n {
			n[others] = least(others)
		}
		return n
	}
	at := func(took time.Duration, yields bool) {
		net.pace.took.Store(int64(took))
		require.Equal(t, yields, net.yields())
	}
	for range 2 { // it is no matter of the first time
		net.crowd.joins(mostFew)
		for _, took := range []time.Duration{0, soon / 2, 2 * soon} {
			at(took, false)
			for others := range mostFew {
				require.Equal(t, 1, least(others))
			}
			require.False(t, net.another(mostFew, 10*mostBatched))
		}

		net.crowd.joins(mostSmall - mostFew)
		for _, took := range []time.Duration{0, soon / 2, soon} {
			at(took, took == soon)
			require.Equal(t, [...]int{1, someWait, someWait, someWait, mostBatched}, all())
		}
		require.Equal(t, mostBatched, least(mostSending-1))
		require.False(t, net.another(mostSending, 10*mostBatched))

		net.crowd.joins(100 - mostSmall)
		for _, took := range []time.Duration{0, soon} {
			at(took, took == soon)
			require.Equal(t, [...]int{1, 12, 12, 12, 12}, all())
			require.Equal(t, 12, least(mostSending-1))
			require.False(t, net.another(mostSending, 10*mostBatched))
		}
		at(soon/2, false)
		require.Equal(t, [...]int{1, 25, 25, 25, mostBatched}, all())

		net.crowd.joins(10*mostBatched - 100)
		at(soon/2, true)
		require.Equal(t, [...]int{1, mostBatched, mostBatched, mostBatched, mostBatched}, all())

		net.crowd.answered(10 * mostBatched)
		require.Greater(t, net.crowd.size(), mostSmall, "these callers may be about to send again")
		for range 10 * crowdScripts {
			net.crowd.joins(1)
			net.crowd.answered(1)
		}
		require.LessOrEqual(t, net.crowd.size(), 1)
	}
	require.Zero(t, net.crowd.under.Load())
}

// A script behind a mute connection is no other one.
func TestTraffic(t *testing.T) {
	t.Parallel()
	var x traffic
	require.False(t, x.begin())
	require.True(t, x.begin())
	x.end()
	x.stuck.Add(1)
	require.False(t, x.begin())
	require.True(t, x.begin())
}
