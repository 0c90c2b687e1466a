package lockrt

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// Requests are counted by the second.
func TestPace(t *testing.T) {
	t.Parallel()
	var p pace
	at := monotonic.Time(time.Hour)
	for i := range 25 {
		require.Equal(t, i+1, p.take(at.Add(time.Duration(i)*39*time.Millisecond)))
	}
	require.Equal(t, 1, p.take(at.Add(time.Second)))
	require.Equal(t, 2, p.take(at.Add(2*time.Second-1)))
	require.Equal(t, 1, p.take(at.Add(2*time.Second)))
}

// BenchmarkAnswer is what a process does when it is asked: with 100 locks, with as many as it names, and with 100 times that.
func BenchmarkAnswer(b *testing.B) {
	for _, n := range []int{100, mostReported, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c, err := Open(b.Context(), redistest.Shared(b).URL(), Options{Name: "orders"})
			require.NoError(b, err)
			defer func() { require.NoError(b, c.Close()) }()
			var leases []*Lease
			for i := range n {
				l, err := c.Mutex(fmt.Sprintf("%s:%d", b.Name(), i), WithName("orders.Service.Pay")).Lock(b.Context())
				require.NoError(b, err)
				leases = append(leases, l)
			}
			b.ReportAllocs()
			for b.Loop() {
				partsOf(c.look("", mostReported), "1")
			}
			b.StopTimer()
			for _, l := range leases {
				require.NoError(b, l.Unlock(b.Context()))
			}
		})
	}
}
