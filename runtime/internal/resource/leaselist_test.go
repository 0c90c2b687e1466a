package resource

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/leases"
)

// TestGrant_Leases compares the leases of a grant with a slice, from which each removal takes one in the same way.
func TestGrant_Leases(t *testing.T) {
	t.Parallel()
	var g Grant
	var want []*leases.Lease
	for range 10_000 {
		if n := len(want); n == 0 || n < 5 && rand.IntN(2) == 0 {
			l := new(leases.Lease)
			g.add(l)
			want = append(want, l)
		} else {
			at := rand.IntN(n)
			g.remove(want[at])
			want[at] = want[n-1]
			want = want[:n-1]
		}
		require.Equal(t, len(want), g.Size())
		got := slices.Collect(g.Leases)
		require.Len(t, got, len(want))
		for i, l := range want {
			require.Same(t, l, got[i])
			require.EqualValues(t, i, l.Core().At)
			require.Equal(t, len(want) == 1, g.only(l))
		}
		require.Equal(t, len(want) == 0, g.First == nil)
		for range g.Leases {
			break // which the grant allows
		}
	}
}
