package lockweb

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// TestRow15_SetClock shows that a wait counts for as long as it took, and in the last minutes, if the wall clock was set meanwhile.
func TestRow15_SetClock(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, d := range []time.Duration{0, 3 * time.Hour, -3 * time.Hour, 300_000 * time.Hour} {
		from := now.Add(-time.Second - d)
		(*struct {
			wall      uint64
			monotonic int64
		})(unsafe.Pointer(&from)).monotonic += int64(d)
		require.Equal(t, time.Second, now.Sub(from))
		require.Equal(t, time.Second+d, now.Round(0).Sub(from.Round(0)))
		var r row15
		r.add(from, now)
		total := 0.0
		for _, cell := range r.last(now) {
			total += cell
		}
		require.InDelta(t, 1, total, 1e-6, "the clock was set by %s", d)
	}
}
