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

// A permit lasts no longer than its semaphore, which a Java program has end sooner, and its holder learns of that with the next answer about it.
func TestPermit_EndsWithASemaphoreThatIsShortened(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	const soon = 10 * time.Minute
	for name, ask := range map[string]func(s *lockrt.PermitSemaphore, p *lockrt.Permit) error{
		"TTL": func(s *lockrt.PermitSemaphore, p *lockrt.Permit) error {
			left, err := s.TTL(patient(t), p.PermitID())
			require.Positive(t, left)
			require.LessOrEqual(t, left, soon)
			return err
		},
		"UpdateLease": func(s *lockrt.PermitSemaphore, p *lockrt.Permit) error {
			_, err := s.UpdateLease(patient(t), p.PermitID(), 2*time.Hour)
			return err
		},
		"Extend": func(_ *lockrt.PermitSemaphore, p *lockrt.Permit) error { return p.Extend(patient(t), 2*time.Hour) },
	} {
		for _, opt := range []lockrt.LockOption{lockrt.WithLease(time.Hour), lockrt.WithWatchdog(time.Hour)} {
			s := newPermits(t, 1)
			p := permit(t, s, 1, opt)
			require.Greater(t, time.Until(p.Until()), soon, name)
			for _, key := range []string{s.Key(), "{" + s.Key() + "}:timeout"} {
				server.Do("PEXPIRE", key, ms(soon.Milliseconds()))
			}
			dies := time.Now().Add(soon) // at the latest
			require.NoError(t, ask(s, p), name)
			require.True(t, p.Until().Before(dies), name)

			// It lasts for longer again.
			server.Do("PERSIST", s.Key())
			require.NoError(t, p.Extend(patient(t), time.Hour), name)
			require.Greater(t, time.Until(p.Until()), soon, name)
			require.NoError(t, p.Release(patient(t)), name)
		}
	}
}
