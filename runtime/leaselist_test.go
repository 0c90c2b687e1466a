package lockrt

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLeaseList compares the list with a slice, from which each removal takes one in the same way.
func TestLeaseList(t *testing.T) {
	t.Parallel()
	var list leaseList
	var want []*Lease
	for range 10_000 {
		if n := len(want); n == 0 || n < 5 && rand.IntN(2) == 0 {
			l := new(Lease)
			list.add(l)
			want = append(want, l)
		} else {
			at := rand.IntN(n)
			list.remove(want[at])
			want[at] = want[n-1]
			want = want[:n-1]
		}
		require.Equal(t, len(want), list.size())
		got := slices.Collect(list.all)
		require.Len(t, got, len(want))
		for i, l := range want {
			require.Same(t, l, got[i])
			require.EqualValues(t, i, l.at)
			require.Equal(t, len(want) == 1, list.only(l))
		}
		require.Equal(t, len(want) == 0, list.first == nil)
		for range list.all {
			break // which the list allows
		}
	}
}
