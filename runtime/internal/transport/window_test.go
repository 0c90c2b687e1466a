package transport

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each of a few callers has a script of its own. In a crowd one more script waits for a part of the crowd where answers come soon, and for a
// smaller part where they take long. A crowd that becomes smaller counts as such.
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
	all := func() (n [crowdParts + 1]int) {
		for others := range n {
			n[others] = least(others)
		}
		return n
	}
	at := func(took time.Duration, turns, yields bool) {
		net.pace.took.Store(int64(took))
		require.Equal(t, turns, net.takesTurns())
		require.Equal(t, yields, net.yields())
	}
	for range 2 { // it is no matter of the first time
		net.crowd.joins(mostFew)
		for _, took := range []time.Duration{0, soon / 2, time.Second} {
			at(took, false, false)
			for others := range mostFew {
				require.Equal(t, 1, least(others))
			}
			require.False(t, net.another(mostFew, 10*mostBatched))
		}

		net.crowd.joins(100 - mostFew)
		at(soon/2, true, false)
		require.Equal(t, [...]int{1, 25, 25, 25, mostBatched}, all())
		at(soon+100*soonEach-1, true, true)
		require.Equal(t, [...]int{1, 25, 25, 25, mostBatched}, all())
		require.Equal(t, mostBatched, least(mostSending-1))
		require.False(t, net.another(mostSending, 10*mostBatched))
		at(soon+100*soonEach, false, true)
		require.Equal(t, [...]int{1, 12, 12, 12, 12}, all())
		require.Equal(t, 12, least(mostSending-1))
		require.False(t, net.another(mostSending, 10*mostBatched))

		net.crowd.joins(10*mostBatched - 100)
		at(soon/2, true, true)
		require.Equal(t, [...]int{1, mostBatched, mostBatched, mostBatched, mostBatched}, all())
		at(time.Second, false, true)
		require.Equal(t, mostBatched, least(mostSending-1))
		net.cluster = new(cluster)
		at(soon/2, false, true)
		net.cluster = nil

		net.crowd.answered(10 * mostBatched)
		require.Greater(t, net.crowd.size(), 10*mostFew, "these callers may be about to send again")
		for range 10 * crowdScripts {
			net.crowd.joins(1)
			net.crowd.answered(1)
		}
		require.LessOrEqual(t, net.crowd.size(), 1)
	}
	require.Zero(t, net.crowd.under.Load())
}

// Callers of a few make a small part.
func TestWindow_Part(t *testing.T) {
	t.Parallel()
	var net Transport
	part := func(crowd int32) int {
		net.crowd.most.Store(crowd)
		return net.part()
	}
	require.Equal(t, someWait, part(1))
	require.Equal(t, 25, part(100))
	require.Equal(t, mostBatched, part(10*mostBatched))
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
