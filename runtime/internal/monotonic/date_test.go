package monotonic

import (
	"os"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// readBefore returns the reading at from a time before the wall clock was set back by d.
func readBefore(at time.Time, d time.Duration) time.Time {
	was := at
	(*struct {
		wall      uint64
		monotonic int64
	})(unsafe.Pointer(&was)).monotonic -= int64(d)
	return was
}

// back is by how much the wall clock was set back since the process of these tests began.
const back = 3 * time.Hour

func TestMain(m *testing.M) {
	epoch = readBefore(epoch, back)
	os.Exit(m.Run())
}

// TestDate shows that dates follow the wall clock, whatever it was set to since the process began, and since the last date.
func TestDate(t *testing.T) {
	for _, d := range []time.Duration{0, back, -back, 0, time.Second, 0} {
		from := readBefore(time.Now(), d)
		steady.Store(&from)
		at, wall := Now(), time.Now().Round(0)
		near := func(want, date time.Time) {
			t.Helper()
			require.WithinDuration(t, want, date.Round(0), 5*steadiness)
		}
		near(wall.Add(back), at.Std())
		for _, date := range []func(Time) time.Time{Time.Date, Time.SteadyDate} {
			near(wall, date(at))
			near(wall.Add(time.Hour), date(at.Add(time.Hour)))
			near(wall.Add(-time.Hour), date(at.Add(-time.Hour)))
			require.Equal(t, at, Of(date(at)), "the monotonic reading")
			require.True(t, date(0).IsZero())
		}
	}
}

// TestSteadyDate shows that a moment has one date, to the nanosecond.
func TestSteadyDate(t *testing.T) {
	at := Now()
	date := at.SteadyDate()
	for range 1000 {
		if again := at.SteadyDate(); again != date {
			require.Equal(t, date, again)
		}
	}
}
