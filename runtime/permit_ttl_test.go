package lockrt_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// This file has semaphores with a time to live, whose permits end with them.

// forAnHour returns a semaphore of three permits that lasts for an hour, and the key of its taken permits.
func forAnHour(t *testing.T, c *lockrt.Client) (s *lockrt.PermitSemaphore, taken string) {
	t.Helper()
	s = c.PermitSemaphore(redistest.Key(t, "p"), 0)
	created, err := s.TrySetPermits(patient(t), 3, time.Hour)
	require.NoError(t, err)
	require.True(t, created)
	return s, "{" + s.Key() + "}:timeout"
}

// requireLasts requires that a key lasts for some time, but no longer than d.
func requireLasts(t *testing.T, d time.Duration, key string) {
	t.Helper()
	left := number(t, redistest.Shared(t), "PTTL", key)
	require.Positive(t, left, key)
	require.LessOrEqual(t, left, d.Milliseconds(), key)
}

// Taken permits stay when a Java program changes how many permits there are, which removes the time to live of the semaphore, but not theirs.
func TestPermits_StayWhenTheirSemaphoreLastsForLonger(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	s, taken := forAnHour(t, newClient(t, lockrt.Options{}))
	before := permit(t, s, 1)
	requireLasts(t, time.Hour, s.Key())
	requireLasts(t, time.Hour, taken)

	server.Do("SET", s.Key(), "3") // as addPermits(1)
	requireInt(t, -1, server, "PTTL", s.Key())
	requireLasts(t, time.Hour, taken)

	after := permit(t, s, 1)
	requireInt(t, -1, server, "PTTL", s.Key())
	require.Greater(t, number(t, server, "PTTL", taken), (1000 * time.Hour).Milliseconds())
	requireCounts(t, s, 2, 2)
	require.NoError(t, before.Release(patient(t)))
	require.NoError(t, after.Release(patient(t)))
	requireCounts(t, s, 4, 0)
}

// A release creates a semaphore whose key was deleted: it ends when the other taken permits end.
func TestPermits_AReleaseCreatesASemaphoreThatEndsWithThem(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	s, taken := forAnHour(t, newClient(t, lockrt.Options{}))
	p, other := permit(t, s, 1), permit(t, s, 2)
	for _, release := range []func() error{
		func() error { return p.Release(patient(t)) },
		func() error { return s.Release(patient(t), other.PermitIDs()[0]) },
	} {
		server.Do("DEL", s.Key())
		require.NoError(t, release())
		requireInt(t, 1, server, "GET", s.Key())
		requireLasts(t, time.Hour, s.Key())
		requireLasts(t, time.Hour, taken)
	}
}
