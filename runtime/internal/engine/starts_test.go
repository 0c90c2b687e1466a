package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A start is left until it is over, or until it was used.
func TestStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Starts
		last := func() (time.Duration, bool) { return s.Last("k") }
		lasts := func(want time.Duration) {
			t.Helper()
			got, known := last()
			require.True(t, known)
			require.Equal(t, want, got)
		}
		forgotten := func() {
			t.Helper()
			_, known := last()
			require.False(t, known)
			require.Zero(t, s.Left("k"))
		}
		forgotten()
		s.Heard("k", 1)
		s.End("k", false)
		forgotten()

		s.Begin("k", 20*time.Millisecond, 0)
		require.Equal(t, 20*time.Millisecond, s.Left("k"))
		require.Zero(t, s.Left("other"))
		time.Sleep(15 * time.Millisecond)
		require.Equal(t, 5*time.Millisecond, s.Left("k"))
		time.Sleep(time.Hour)
		require.Zero(t, s.Left("k"), "it is over")
		lasts(20 * time.Millisecond)

		s.Begin("k", 0, 0)
		require.Zero(t, s.Left("k"))
		s.Heard("k", 1)
		lasts(0) // there was no start to use
		s.Forget("k")
		forgotten()

		s.Begin("k", time.Second, 7)
		s.Heard("k", 7)
		require.Equal(t, time.Second, s.Left("k"), "the message of the release itself")
		s.Heard("other", 8)
		lasts(time.Second)
		s.Heard("k", 8)
		forgotten()

		s.Begin("k", time.Second, 0)
		s.End("k", false)
		require.Zero(t, s.Left("k"), "another owner has it")
		lasts(0)
		s.End("k", true)
		forgotten()
	})
}

// A program without this library is believed to take turns for about a second after it had the key.
func TestStarts_Foreign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Starts
		s.Refused("k", false, time.Now())
		require.False(t, s.Foreign("k", time.Now()))
		s.Begin("k", time.Hour, 0)
		s.Refused("k", true, time.Now())
		require.True(t, s.Foreign("k", time.Now()))
		require.False(t, s.Foreign("other", time.Now()))
		require.Zero(t, s.Left("k"), "it used the start")
		time.Sleep(500 * time.Millisecond)
		require.True(t, s.Foreign("k", time.Now()))
		time.Sleep(5 * time.Second)
		require.False(t, s.Foreign("k", time.Now()))
	})
}

// Where nobody uses the starts, there are fewer and fewer, until somebody uses one.
func TestStarts_Unused(t *testing.T) {
	t.Parallel()
	var s Starts
	pauses := func() (n int) { // how many releases are between two series
		for s.Begin("k", 0, 0); !s.Due("k"); s.Begin("k", 0, 0) {
			n++
		}
		s.Begin("k", time.Nanosecond, 0)
		s.Begin("k", time.Hour, 0)
		return n
	}
	require.False(t, s.Due("k"))
	require.Zero(t, pauses())
	require.False(t, s.Due("k"))
	for _, want := range []int{0, 1, 3, 7, 15, 31, 63, 63} {
		require.Equal(t, want, pauses())
	}
	s.End("k", false) // one of this library was sooner
	require.True(t, s.Due("k"))
	s.Begin("k", time.Hour, 0)
	require.Equal(t, 63, pauses())
	s.Heard("k", 1) // used
	require.False(t, s.Due("k"))
	for _, want := range []int{0, 0, 1} {
		require.Equal(t, want, pauses())
	}
}

// Keys share slots, and none is taken for another.
func TestStarts_ForgetsForOtherKeys(t *testing.T) {
	t.Parallel()
	var s Starts
	known := 0
	for i := range 5000 {
		key := string(rune('a'+i%26)) + time.Duration(i).String()
		_, ok := s.Last(key)
		require.False(t, ok)
		s.Begin(key, time.Duration(i), 0)
		last, ok := s.Last(key)
		require.True(t, ok)
		require.Equal(t, time.Duration(i), last)
	}
	for i := range s.slots {
		if s.slots[i].Load() != nil {
			known++
		}
	}
	require.LessOrEqual(t, known, len(s.slots))
	require.Greater(t, known, len(s.slots)/2)
}
