package monotonic

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTime shows that a Time agrees with a time.Time, in virtual time too, where the clock of the process is another
// one.
func TestTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		std, at := time.Now(), Now()
		require.Equal(t, Of(std), at)
		require.Zero(t, at.Std().Sub(std))
		require.Equal(t, time.Second, at.Add(time.Second).Sub(at))
		require.Equal(t, time.Second, Until(at.Add(time.Second)))
		time.Sleep(time.Minute)
		require.Equal(t, time.Minute, Since(at))
		require.True(t, at.Before(Now()))
		require.True(t, Now().After(at))
		require.Positive(t, at)
	})
}

// TestForever shows that a time for ever does not end in the past.
func TestForever(t *testing.T) {
	t.Parallel()
	require.True(t, Now().Add(math.MaxInt64).After(Now().Add(1<<62)))
	require.True(t, Now().Add(-time.Second).Before(Now()))
}

// TestNone shows that no moment is none in both ways of writing it, and that every moment is after it.
func TestNone(t *testing.T) {
	t.Parallel()
	require.True(t, Of(time.Time{}).IsZero())
	require.True(t, Time(0).Std().IsZero())
	require.False(t, Of(epoch.Add(1)).IsZero())
	require.True(t, Now().After(0))
}
