package runtime_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// taken locks the key for somebody else on each of some servers, and returns what ends that.
func taken(t *testing.T, some []site, key string) (end func()) {
	t.Helper()
	var leases []*lockrt.Lease
	for _, s := range some {
		leases = append(leases, ok(t)(clientOf(t, s.URL(), lockrt.Options{}).Mutex(key).Lock(patient(t))))
	}
	return func() { free(t, leases...) }
}

// parts waits until n servers have a part of a lease.
func parts(t *testing.T, lease *lockrt.Lease, n int) {
	t.Helper()
	until(t, fmt.Sprint(n, " servers have a part of it"), func() bool { return lockrt.PartsOf(lease) == n })
}

// A server that was somebody else's is asked again while the lease lasts, also if that has gone to another one of
// the process by then.
func TestRedLock_WhoRefusedIsAskedAgain(t *testing.T) {
	t.Parallel()
	all, key := sites(t, 5), redistest.Key(t, "k")
	hooks, waiting, _ := watch()
	m := redLock(t, all, key, lockrt.Options{Hooks: hooks})
	for _, goes := range []bool{false, true} {
		end := taken(t, all[3:], key)
		lease := ok(t)(m.Lock(patient(t)))
		require.Equal(t, 3, lockrt.PartsOf(lease))
		if goes {
			next := lockLater(patient(t), m)
			receive(t, waiting, "it waits")
			free(t, lease)
			lease = gotten(t, next, "the next")
			require.Equal(t, 3, lockrt.PartsOf(lease))
		}
		end()
		parts(t, lease, 5)
		for _, s := range all {
			require.EqualValues(t, 1, number(t, s.RedisServer, "HLEN", key))
		}
		require.NoError(t, lease.Err())
		free(t, lease)
		freeAgain(t, all, key)
	}
}

// What a server grants that was asked again goes back to it if nobody has the lease by then.
func TestRedLock_WhoIsAskedAgainInVainIsToldSo(t *testing.T) {
	t.Parallel()
	all, key := sites(t, 3), redistest.Key(t, "k")
	m := redLock(t, all, key, lockrt.Options{})
	asked, given := make(chan struct{}, 1000), make(chan struct{}, 1000)
	end := taken(t, all[2:], key)
	all[2].proxy.OnRequest(func(cmd []string) {
		if asks(cmd) {
			asked <- struct{}{}
		}
		if gives(cmd) {
			given <- struct{}{}
		}
	})
	lease := ok(t)(m.Lock(patient(t)))
	receive(t, asked, "the first question")
	end()
	all[2].proxy.Blackhole(redistest.Both)
	for len(asked) > 0 {
		<-asked
	}
	receive(t, asked, "another question, which does not arrive yet")
	free(t, lease)
	for len(given) > 0 {
		<-given
	}
	all[2].proxy.Deliver()
	receive(t, given, "what gives back")
	freeAgain(t, all, key)
}

// Servers that forget a lease one after the other, even all of them, do not end it: each learns of it again before the next one
// forgets. Whose token it has they learn, too.
func TestRedLock_OneServerAfterTheOther(t *testing.T) {
	t.Parallel()
	all, key := sites(t, 3), redistest.Key(t, "k")
	m := redLock(t, all, key, brisk)
	all[0].Do("SET", "redisson_lock_token:{"+key+"}", "9000000000000000") // so its clock gives no larger one
	lease := ok(t)(m.Lock(patient(t), lockrt.WithFencing()))
	parts(t, lease, 3)
	for _, s := range slices.Concat(all, all) {
		s.Do("FLUSHALL")
		until(t, "it knows of the lease again", func() bool { return number(t, s.RedisServer, "EXISTS", key) == 1 })
		until(t, "it knows of its token", func() bool {
			return number(t, s.RedisServer, "GET", "redisson_lock_token:{"+key+"}") >= lease.Token()
		})
		parts(t, lease, 3)
		require.NoError(t, lease.Err())
	}
	inner := ok(t)(m.TryLock(lease.Context(), lockrt.WithFencing()))
	require.Equal(t, lease.Token(), inner.Token())
	free(t, inner, lease)
	next := ok(t)(m.Lock(patient(t), lockrt.WithFencing()))
	require.Greater(t, next.Token(), lease.Token())
	free(t, next)
	freeAgain(t, all, key)
}

// A limit of the whole is one of each part, whenever that came.
func TestRedLock_WhatJoinsEndsWithTheOthers(t *testing.T) {
	t.Parallel()
	all, key := sites(t, 3), redistest.Key(t, "k")
	m := redLock(t, all, key, brisk)
	lease := ok(t)(m.Lock(patient(t), lockrt.WithMaxHold(3*time.Second)))
	parts(t, lease, 3)
	for _, s := range all {
		require.EqualValues(t, 1, number(t, s.RedisServer, "DEL", key))
		until(t, "it has it again", func() bool { return lockrt.PartsOf(lease) == 3 && number(t, s.RedisServer, "EXISTS", key) == 1 })
	}
	receive(t, lease.Context().Done(), "its end")
	require.ErrorIs(t, lease.Err(), lockrt.ErrLost)
	require.ErrorIs(t, lease.Unlock(patient(t)), lockrt.ErrLost)
	freeAgain(t, all, key)
}

// Unlock waits for nobody who is away as long as somebody else can have the lock without: also if those are most of who granted it.
func TestRedLock_UnlockDoesNotWaitForWhoIsNotNeeded(t *testing.T) {
	t.Parallel()
	all, key := sites(t, 5), redistest.Key(t, "k")
	m := redLock(t, all, key, lockrt.Options{OpTimeout: 2 * patience, Watchdog: time.Hour})
	end := taken(t, all[3:], key)
	lease := ok(t)(m.Lock(patient(t)))
	require.Equal(t, 3, lockrt.PartsOf(lease))
	for _, s := range all[:2] {
		s.proxy.Blackhole(redistest.Both)
	}
	done := make(chan error, 1)
	go func() { done <- lease.Unlock(patient(t)) }()
	require.NoError(t, receive(t, done, "the end of unlock"))
	end()
	for _, s := range all[:2] {
		s.proxy.Deliver()
	}
	freeAgain(t, all, key)
}

// Lock waits for nobody who is away when those who answer do not agree: it asks again when they may.
func TestRedLock_LockDoesNotWaitForWhoIsNotNeeded(t *testing.T) {
	t.Parallel()
	all, key := sites(t, 5), redistest.Key(t, "k")
	hooks, waiting, _ := watch()
	m := redLock(t, all, key, lockrt.Options{OpTimeout: 2 * patience, Watchdog: time.Hour, Hooks: hooks})
	end := taken(t, all[:1], key)
	for _, s := range all[3:] {
		s.proxy.Blackhole(redistest.Both)
	}
	got := lockLater(patient(t), m)
	receive(t, waiting, "it waits")
	end()
	free(t, gotten(t, got, "the lock"))
	for _, s := range all[3:] {
		s.proxy.Deliver()
	}
	freeAgain(t, all, key)
}

// A majority that is away is an error and not a refusal, also if some of the others refuse.
func TestRedLock_TooManyAwayIsAnError(t *testing.T) {
	t.Parallel()
	all, key := sites(t, 5), redistest.Key(t, "k")
	opts := lockrt.Options{Watchdog: time.Second, Retry: lockrt.ConstantBackoff(time.Millisecond).Attempts(3)}
	m := redLock(t, all, key, opts)
	defer taken(t, all[:1], key)()
	for _, s := range all[1:3] {
		s.proxy.Refuse(true)
		s.proxy.Cut()
	}
	for _, s := range all[3:] {
		s.proxy.Blackhole(redistest.Both)
	}
	_, err := m.Lock(patient(t))
	require.NotErrorIs(t, err, lockrt.ErrNotAcquired)
	require.ErrorContains(t, err, "no answer in 3 attempts")
}

// A server of the majority that goes away before it learns of the token has no say in it: others have.
func TestRedLock_LockDoesNotWaitForWhoDoesNotLearnOfTheToken(t *testing.T) {
	t.Parallel()
	raises := redistest.EvalSHA(scripts.Raise.SHA1)
	for name, mode := range map[string]redistest.Mode{"mute": redistest.Mute, "closed": redistest.Close} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, key := sites(t, 3), redistest.Key(t, "k")
			m := redLock(t, all, key, lockrt.Options{OpTimeout: 2 * patience, Watchdog: time.Hour})
			all[0].Do("SET", "redisson_lock_token:{"+key+"}", "9000000000000000")
			end := taken(t, all[2:], key)
			drop := all[1].proxy.DropRequest(raises, 1, mode)
			got := lockLater(patient(t), m, lockrt.WithFencing())
			receive(t, drop.Done(), "what is lost")
			end()
			lease := gotten(t, got, "the lock")
			require.Positive(t, lease.Token())
			free(t, lease)
			all[1].proxy.Cut()
			freeAgain(t, all, key)
		})
	}
}

// What a server answers that cannot learn of the token is told, and nothing is held.
func TestRedLock_ATokenThatCannotBeToldIsNone(t *testing.T) {
	t.Parallel()
	all, key := sites(t, 3), redistest.Key(t, "k")
	m := redLock(t, all, key, lockrt.Options{})
	defer taken(t, all[2:], key)()
	all[0].Do("SET", "redisson_lock_token:{"+key+"}", "9000000000000000")
	all[1].proxy.OnRequest(func(cmd []string) {
		if redistest.EvalSHA(scripts.Raise.SHA1)(cmd) {
			all[1].Do("SET", "redisson_lock_token:{"+key+"}", "no number")
		}
	})
	_, err := m.TryLock(patient(t), lockrt.WithFencing())
	require.ErrorContains(t, err, "the counter of fencing tokens is not an integer")
	freeAgain(t, all[:2], key)
}
