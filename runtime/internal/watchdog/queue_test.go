package watchdog

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// TestQueue compares a queue with a set of leases that come and go, are put off and become due, in random order: serve comes to each lease of
// which something is due, and knows then when something is due next.
func TestQueue(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1, 3, bucketSize, 5 * bucketSize} {
		var q queue
		growing, largest := true, 0
		model := map[*Lease]bool{}
		some := func() *Lease { return q.at(rand.IntN(q.size)) }
		later := func(l *Lease, now monotonic.Time) { l.until.Store(int64(now) + 1 + rand.Int64N(1000)) }
		for now := monotonic.Time(1); now < 2000; now += monotonic.Time(rand.IntN(5)) {
			if largest == most && rand.IntN(100) == 0 { // it has been full
				growing = !growing
			}
			for range 8 {
				switch n := rand.IntN(8); {
				case q.size == 0, q.size < most && (n == 0 || growing && n < 4):
					l := &Lease{index: -1}
					later(l, now)
					q.add(l)
					model[l] = true
				case n == 1, !growing && n < 4:
					l := some()
					q.remove(l)
					require.EqualValues(t, -1, l.index)
					delete(model, l)
				default:
					l := some()
					later(l, now)
					q.fix(l)
				}
			}
			largest = max(largest, q.size)
			visits := map[*Lease]int{}
			left := map[*Lease]bool{} // the leases that are due, and not served yet
			for l := range model {
				if !l.due().After(now) {
					left[l] = true
				}
			}
			if rand.IntN(2) == 0 { // otherwise it is served later, after other changes
				if len(left) > 0 {
					require.False(t, q.first().After(now))
				}
				q.serve(now, func(l *Lease) {
					require.True(t, model[l])
					visits[l]++
					require.LessOrEqual(t, visits[l], 2) // once more if it has moved to another bucket
					if !left[l] {
						return
					}
					delete(left, l)
					if rand.IntN(3) > 0 {
						later(l, now)
						return
					}
					q.remove(l)
					delete(model, l)
				})
				require.Empty(t, left)
				require.True(t, q.first().After(now))
			}
			require.Equal(t, len(model), q.size)
			at := 0
			for l := range q.all() {
				require.True(t, model[l])
				require.EqualValues(t, at, l.index)
				require.False(t, l.due().Before(q.dues[at/bucketSize]))
				at++
			}
			require.Equal(t, q.size, at)
			require.LessOrEqual(t, len(q.buckets), q.size/bucketSize+2)
			require.Len(t, q.dues, len(q.buckets))
			for i := q.size; i < len(q.buckets)*bucketSize; i++ {
				require.Nil(t, q.at(i))
			}
		}
		require.Equal(t, most, largest)
	}
}

// TestQueue_TakesLittleMemory: a process may hold very many locks. An array of 512 bytes is a size of the allocator of Go.
func TestQueue_TakesLittleMemory(t *testing.T) {
	t.Parallel()
	require.EqualValues(t, 512, unsafe.Sizeof(bucket{}))
}
