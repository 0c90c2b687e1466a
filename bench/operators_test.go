package main

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestServer_Slow shows that a command counts whose work takes the server too long, and one that changes something, but none for which the
// server had to wait, and that the server records commands as before afterwards.
func TestServer_Slow(t *testing.T) {
	t.Parallel()
	ctx, s := t.Context(), startServer(t)
	do := func(words ...string) error { return s.rc.Do(ctx, s.rc.B().Arbitrary(words...).Build()).Error() }
	fields := []string{"HSET", "large"}
	for i := range 100_000 {
		fields = append(fields, strconv.Itoa(i), "value")
	}
	require.NoError(t, do(fields...))
	settings := func() map[string]string {
		all, err := s.rc.Do(ctx, s.rc.B().Arbitrary("CONFIG", "GET", "slowlog-*").Build()).AsStrMap()
		require.NoError(t, err)
		return all
	}
	before := settings()

	for name, words := range map[string][]string{
		"work":      {"HGETALL", "large"},
		"not known": {"EVAL", "local n = 0 for i = 1, 2000000 do n = n + i end return n", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			of, err := s.slow(ctx, func() error { return do(words...) })
			require.NoError(t, err)
			require.Equal(t, 1, of.over)
			require.GreaterOrEqual(t, of.late, 1)
			require.Greater(t, of.slowest, tooSlow)
		})
	}
	require.NoError(t, do("HSET", "small", "field", "value"))
	for _, words := range [][]string{{"HLEN", "small"}, {"hkeys", "small"}, {"HGETALL", "small"}, {"PTTL", "small"}, {"SCAN", "0", "COUNT", "250", "TYPE", "hash"}} {
		least, err := s.least(ctx, timed{words, time.Second})
		require.NoError(t, err)
		require.Less(t, least, tooSlow, "the server waited for a second")
	}
	for _, words := range [][]string{{"DEL", "small"}, {"unknown"}, {}} {
		least, err := s.least(ctx, timed{words, time.Second})
		require.NoError(t, err)
		require.Equal(t, time.Second, least)
	}
	require.NoError(t, do("HGET", "small", "field"), "it is there still")
	require.Equal(t, before, settings())

	_, err := s.slow(ctx, func() error { return context.Canceled })
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, before, settings())
}
