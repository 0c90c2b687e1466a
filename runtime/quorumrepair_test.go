package lockrt_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
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

// tokensOf names the counter of a lock's fencing tokens.
func tokensOf(key string) string { return "redisson_lock_token:{" + key + "}" }

// acquaint has m learn how long all servers take to answer.
func acquaint(t *testing.T, m *lockrt.RedLock, all []site, key string) {
	t.Helper()
	free(t, lockAll(t, m, len(all)))
	freeAgain(t, all, key)
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

// A server that refuses, and refuses again when it is asked again, is asked until it grants its part.
func TestRedLock_WhoRefusesAgainIsAskedAgain(t *testing.T) {
	t.Parallel()
	all, key := sites(t, 3), redistest.Key(t, "k")
	m := redLock(t, all, key, lockrt.Options{})
	again := make(chan struct{})
	var questions atomic.Int32
	end := taken(t, all[2:], key)
	all[2].proxy.OnRequest(func(cmd []string) {
		if asks(cmd) && questions.Add(1) == 4 {
			close(again)
		}
	})
	lease := ok(t)(m.Lock(patient(t)))
	receive(t, again, "more questions after a refusal of the second one")
	end()
	parts(t, lease, 3)
	free(t, lease)
	freeAgain(t, all, key)
}

// The late grant of a server that was asked again is released if the lease is over by then.
func TestRedLock_WhoIsAskedAgainInVainIsToldSo(t *testing.T) {
	t.Parallel()
	all, key := sites(t, 3), redistest.Key(t, "k")
	m := redLock(t, all, key, lockrt.Options{})
	again, given := make(chan struct{}), make(chan struct{}, 1000)
	var questions atomic.Int32
	end := taken(t, all[2:], key)
	all[2].proxy.OnRequest(func(cmd []string) {
		if asks(cmd) && questions.Add(1) == 2 {
			all[2].proxy.Blackhole(redistest.Both) // before the key is free: else the question could be granted it in time
			close(again)
		}
		if gives(cmd) {
			given <- struct{}{}
		}
	})
	lease := ok(t)(m.Lock(patient(t)))
	receive(t, again, "another question, which does not arrive yet")
	end()
	free(t, lease)
	for len(given) > 0 {
		<-given
	}
	all[2].proxy.Deliver()
	receive(t, given, "what gives back")
	freeAgain(t, all, key)
}

// Servers that forget a lease one after the other, even all of them, do not end it: each learns of it again before the
// next one forgets. Each learns its token, too.
func TestRedLock_OneServerAfterTheOther(t *testing.T) {
	t.Parallel()
	all, key := sites(t, 3), redistest.Key(t, "k")
	m := redLock(t, all, key, steady)
	all[0].Do("SET", tokensOf(key), "9000000000000000") // so its clock gives no larger one
	lease := ok(t)(m.Lock(patient(t), lockrt.WithFencing()))
	parts(t, lease, 3)
	for _, s := range slices.Concat(all, all) {
		s.Do("FLUSHALL")
		until(t, "it knows of the lease again", func() bool { return number(t, s.RedisServer, "EXISTS", key) == 1 })
		until(t, "it knows of its token", func() bool {
			return number(t, s.RedisServer, "GET", tokensOf(key)) >= lease.Token()
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
	m := redLock(t, all, key, steady)
	lease := ok(t)(m.Lock(patient(t), lockrt.WithMaxHold(9*time.Second)))
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

// Unlock does not wait for servers that are away if another process can get the lock without them, also if these are most of the servers
// that granted it.
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

// Lock waits for no server that is away when the servers that answer do not agree: it asks again when they may.
func TestRedLock_LockDoesNotWaitForWhoIsNotNeeded(t *testing.T) {
	t.Parallel()
	all, key := sites(t, 5), redistest.Key(t, "k")
	hooks, waiting, _ := watch()
	m := redLock(t, all, key, lockrt.Options{OpTimeout: 2 * patience, Watchdog: time.Hour, Hooks: hooks})
	acquaint(t, m, all, key)
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

// A majority that is away is an error and not a refusal.
func TestRedLock_TooManyAwayIsAnError(t *testing.T) {
	t.Parallel()
	all, key := sites(t, 5), redistest.Key(t, "k")
	opts := lockrt.Options{Watchdog: 5 * time.Second, Retry: lockrt.ConstantBackoff(time.Millisecond).Attempts(3)}
	m := redLock(t, all, key, opts)
	for _, s := range all[1:3] {
		s.proxy.Refuse(true)
		s.proxy.Cut()
	}
	for _, s := range all[3:] {
		s.proxy.Blackhole(redistest.Both)
	}
	_, err := m.TryLock(patient(t))
	require.Error(t, err)
	require.NotErrorIs(t, err, lockrt.ErrNotAcquired)
	_, err = m.Lock(patient(t))
	require.NotErrorIs(t, err, lockrt.ErrNotAcquired)
	require.ErrorIs(t, err, lockrt.ErrUnavailable)
	require.ErrorContains(t, err, "in 3 attempts")
}

// A server that is needed is waited for, however much slower than the others it is.
func TestRedLock_ASlowServerThatIsNeeded(t *testing.T) {
	t.Parallel()
	all, key := sites(t, 3), redistest.Key(t, "k")
	locks := []*lockrt.RedLock{redLock(t, all, key, lockrt.Options{}), redLock(t, all, key, lockrt.Options{})}
	defer taken(t, all[:1], key)()
	for _, m := range locks {
		free(t, ok(t)(m.Lock(patient(t)))) // so that it knows it as a fast one
	}
	all[2].proxy.Delay(20 * time.Millisecond)
	jobs(t, 2, func(i int) error {
		for range 5 {
			lease, err := locks[i].Lock(patient(t))
			if err != nil {
				return err
			}
			if err := lease.Unlock(patient(t)); err != nil {
				return err
			}
		}
		return nil
	})
}

// A try while another goroutine of the process tries, or releases, is refused or gets the lock; missing answers to the
// other goroutine are no error.
func TestRedLock_TryLockBesideOthers(t *testing.T) {
	t.Parallel()
	all, key := sites(t, 3), redistest.Key(t, "k")
	m := redLock(t, all, key, lockrt.Options{})
	jobs(t, 3, func(int) error {
		for range 300 {
			switch lease, err := m.TryLock(patient(t)); {
			case err == nil:
				if err := lease.Unlock(patient(t)); err != nil {
					return err
				}
			case !errors.Is(err, lockrt.ErrNotAcquired):
				return err
			}
		}
		return nil
	})
	freeAgain(t, all, key)
}

// Unlock says that the lease was lost also if a majority of what there was of it could be released.
func TestRedLock_UnlockSaysThatItWasLost(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 5} {
		atBest(t, "was it lost", func() bool { // of a release that is answered late, it is not known
			all, key := sites(t, n), redistest.Key(t, "k")
			m := redLock(t, all, key, lockrt.Options{Tracking: lockrt.TrackingOff})
			end := taken(t, all[n/2+1:], key)
			lease := ok(t)(m.Lock(patient(t)))
			for _, s := range all[:n/2] {
				require.EqualValues(t, 1, number(t, s.RedisServer, "DEL", key))
			}
			all[n/2].proxy.Delay(200 * time.Millisecond) // Unlock waits for a moment for the others once enough servers have it back
			err := lease.Unlock(patient(t))
			all[n/2].proxy.Delay(0)
			end()
			freeAgain(t, all, key)
			if !errors.Is(err, lockrt.ErrLost) {
				return false
			}
			require.Regexp(t, `: lease lost: \d of its \d parts were lost$`, err)
			return true
		})
	}
}

// Closing one of the Clients leaves its part to expire, as with every lock, and does not wait for its server.
func TestRedLock_CloseOfOneClient(t *testing.T) {
	t.Parallel()
	all, key := sites(t, 3), redistest.Key(t, "k")
	m, clients := redLockAndClients(t, all, key, lockrt.Options{})
	lease := ok(t)(m.Lock(patient(t)))
	parts(t, lease, 3)
	require.NoError(t, clients[0].Close())
	require.NoError(t, lease.Err())
	require.EqualValues(t, 1, number(t, all[0].RedisServer, "EXISTS", key))
	require.NoError(t, clients[1].Close())
	require.ErrorIs(t, lease.Err(), lockrt.ErrClosed)
	require.EqualValues(t, 1, number(t, all[1].RedisServer, "EXISTS", key))
}

// The part of a client that is closed gives no more trust, however long its last renewal would have lasted.
func TestRedLock_UntilAfterTheCloseOfAClient(t *testing.T) {
	t.Parallel()
	all, key := sites(t, 3), redistest.Key(t, "k")
	var clients []*lockrt.Client
	for i, watchdog := range []time.Duration{time.Hour, time.Hour, time.Minute} {
		clients = append(clients, clientOf(t, all[i].URL(), lockrt.Options{Watchdog: watchdog, Tracking: lockrt.TrackingOff}))
	}
	lease := ok(t)(lockrt.NewRedLock(key, clients).Lock(patient(t)))
	parts(t, lease, 3)
	require.Greater(t, time.Until(lease.Until()), 30*time.Minute, "that of two of three")
	require.NoError(t, clients[0].Close())
	require.NoError(t, lease.Err())
	require.Less(t, time.Until(lease.Until()), 2*time.Minute, "that of the other two")
	require.NoError(t, clients[1].Close())
	require.ErrorIs(t, lease.Err(), lockrt.ErrClosed)
	require.False(t, lease.Until().IsZero())
}

// Extend also applies to parts that join later.
func TestRedLock_ExtendHoldsForWhatJoins(t *testing.T) {
	t.Parallel()
	all, key := sites(t, 3), redistest.Key(t, "k")
	m := redLock(t, all, key, steady)
	lease := ok(t)(m.Lock(patient(t)))
	parts(t, lease, 3)
	require.NoError(t, lease.Extend(patient(t), time.Hour))
	for _, s := range all {
		atBest(t, "was no request sent twice: the second one may lock what was deleted", func() bool {
			require.EqualValues(t, 1, number(t, s.RedisServer, "DEL", key))
			until(t, "it has it again", func() bool { return lockrt.PartsOf(lease) == 3 && number(t, s.RedisServer, "EXISTS", key) == 1 })
			return number(t, s.RedisServer, "PTTL", key) > (59 * time.Minute).Milliseconds()
		})
	}
	free(t, lease)
	freeAgain(t, all, key)
}

// A lease that is over by the clock is lost, even if no watchdog of its parts has said so when servers are back that
// grant one part after the other again: somebody else may have had the lock by then.
func TestRedLock_OverByTheClock(t *testing.T) {
	t.Parallel()
	all, key := sites(t, 3), redistest.Key(t, "k")
	held := make(chan struct{})
	var clients, others []*lockrt.Client
	for i, s := range all {
		opts := lockrt.Options{Watchdog: 6 * time.Second, Tracking: lockrt.TrackingOff}
		c := clientOf(t, s.proxy.URL(), opts)
		if i > 0 { // its watchdog is kept from its work
			lockrt.AtEnd(c, func(ended string) {
				if ended != key {
					<-held
				}
			})
		}
		clients = append(clients, c)
		others = append(others, clientOf(t, s.URL(), lockrt.Options{}))
	}
	m := lockrt.NewRedLock(key, clients)
	theirs := lockrt.NewRedLock(key, others)
	for _, c := range clients[1:] {
		ok(t)(c.Mutex(key+":other", lockrt.WithLease(3*time.Second)).Lock(patient(t)))
	}
	lease := ok(t)(m.Lock(t.Context()))
	parts(t, lease, 3)
	done := lease.Context().Done()
	for _, s := range all {
		s.proxy.Blackhole(redistest.Both)
	}
	free(t, ok(t)(theirs.Lock(patient(t)))) // when it has expired
	for _, s := range all {
		s.proxy.Discard()
	}
	receive(t, done, "the loss")
	require.ErrorIs(t, lease.Err(), lockrt.ErrLost)
	close(held)
	require.ErrorIs(t, lease.Unlock(patient(t)), lockrt.ErrLost)
	freeAgain(t, all, key)
}

// takeFromHolder makes the key somebody else's.
func takeFromHolder(all []site, key string) {
	for _, s := range all {
		s.Do("EVAL", "redis.call('del', KEYS[1]) redis.call('hset', KEYS[1], 'somebody', 1)", "1", key)
	}
}

// The rest of a lost lease expires, even if its holder does nothing: other processes need the
// servers.
func TestRedLock_WhatIsLeftOfALostOneExpires(t *testing.T) {
	t.Parallel()
	all, key := sites(t, 3), redistest.Key(t, "k")
	m := redLock(t, all, key, steady)
	lease := ok(t)(m.Lock(t.Context()))
	parts(t, lease, 3)
	takeFromHolder(all[:2], key)
	receive(t, lease.Context().Done(), "the loss")
	gone(t, all[2].RedisServer, key)
	require.ErrorIs(t, lease.Unlock(patient(t)), lockrt.ErrLost)
	require.False(t, lease.Until().After(time.Now().Add(time.Hour))) // there is an answer for what is over, too
}

// The rest of a lease that was entered again expires, too: both were lost.
func TestRedLock_WhatIsLeftOfAReentryExpires(t *testing.T) {
	t.Parallel()
	all, key := sites(t, 3), redistest.Key(t, "k")
	m := redLock(t, all, key, steady)
	outer := ok(t)(m.Lock(t.Context()))
	parts(t, outer, 3)
	inner := ok(t)(m.Lock(outer.Context()))
	parts(t, inner, 3)
	takeFromHolder(all[:2], key)
	receive(t, outer.Context().Done(), "the loss of the outer one")
	receive(t, inner.Context().Done(), "the loss of the inner one")
	gone(t, all[2].RedisServer, key)
	require.ErrorIs(t, inner.Unlock(patient(t)), lockrt.ErrLost)
	require.ErrorIs(t, outer.Unlock(patient(t)), lockrt.ErrLost)
}

// The rest of a lease that is lost expires as soon as no lease under it needs it.
func TestRedLock_WhatIsLeftExpiresWithTheLastLeaseUnderIt(t *testing.T) {
	t.Parallel()
	all, key := sites(t, 3), redistest.Key(t, "k")
	m, clients := redLockAndClients(t, all, key, steady)
	outer := ok(t)(m.Lock(t.Context()))
	parts(t, outer, 3)
	inner := ok(t)(clients[2].Mutex(key).Lock(outer.Context()))
	takeFromHolder(all[:2], key)
	receive(t, outer.Context().Done(), "the loss")
	require.NoError(t, inner.Unlock(patient(t)))
	gone(t, all[2].RedisServer, key)
	require.ErrorIs(t, outer.Unlock(patient(t)), lockrt.ErrLost)
}

// The rest of a lease that is lost is renewed again for a lease that enters it.
func TestRedLock_WhatIsLeftIsRenewedForWhatEntersIt(t *testing.T) {
	t.Parallel()
	for name, under := range map[string]func(ctx context.Context, outer *lockrt.Lease) context.Context{
		"owner": func(ctx context.Context, _ *lockrt.Lease) context.Context { return ctx },
		"context": func(_ context.Context, outer *lockrt.Lease) context.Context {
			return context.WithoutCancel(outer.Context())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, key := sites(t, 3), redistest.Key(t, "k")
			m, clients := redLockAndClients(t, all, key, steady)
			ctx := lockrt.WithOwner(t.Context(), lockrt.NewOwner())
			outer := ok(t)(m.Lock(ctx))
			parts(t, outer, 3)
			takeFromHolder(all[:2], key)
			receive(t, outer.Context().Done(), "the loss")
			inner := ok(t)(clients[2].Mutex(key).Lock(under(ctx, outer)))
			first := inner.Until()
			until(t, "the lease is renewed", func() bool { return inner.Until().After(first) || inner.Err() != nil })
			require.NoError(t, inner.Err())
			require.ErrorIs(t, outer.Unlock(patient(t)), lockrt.ErrLost)
			require.NoError(t, inner.Unlock(patient(t)))
			gone(t, all[2].RedisServer, key)
		})
	}
}

// A call that cannot get a majority any more, since most Clients are closed, fails with that
// reason.
func TestRedLock_MostClientsClosed(t *testing.T) {
	t.Parallel()
	all, key := sites(t, 3), redistest.Key(t, "k")
	m, clients := redLockAndClients(t, all, key, lockrt.Options{})
	require.NoError(t, clients[2].Close())
	free(t, ok(t)(m.Lock(patient(t))))
	require.NoError(t, clients[1].Close())
	_, err := m.Lock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrClosed)
	_, err = m.TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrClosed)
	freeAgain(t, all, key)
}

// A waiter for a lease of a bare majority is granted the rest again and again, and releases it: that is no reason to
// ask.
func TestRedLock_WhoIsRefusedAsksEverLessOften(t *testing.T) {
	t.Parallel()
	all, key := sites(t, 3), redistest.Key(t, "k")
	holder, waiter := redLock(t, all, key, lockrt.Options{}), redLock(t, all, key, lockrt.Options{})
	end := taken(t, all[2:], key)
	lease := ok(t)(holder.Lock(patient(t), lockrt.WithLease(time.Hour)))
	end()
	asked := make(chan struct{}, 1_000_000)
	all[2].proxy.OnRequest(func(cmd []string) {
		if asks(cmd) {
			asked <- struct{}{}
		}
	})
	start := time.Now()
	got := lockLater(patient(t), waiter)
	for range 12 {
		receive(t, asked, "a question")
	}
	require.Greater(t, time.Since(start), 300*time.Millisecond) // half of the pauses up to a quarter of a second
	free(t, lease)
	free(t, gotten(t, got, "the lock"))
	freeAgain(t, all, key)
}

// TryLock does not fail because of a pause between the grants and the token, nor, for longer than it takes to notice, because
// a server is slower than it was.
func TestRedLock_TryLockBearsWithSlowServers(t *testing.T) {
	t.Parallel()
	all, key := sites(t, 3), redistest.Key(t, "k")
	m := redLock(t, all, key, lockrt.Options{})
	acquaint(t, m, all, key)
	all[0].Do("SET", tokensOf(key), "9000000000000000")
	for _, s := range all {
		s.proxy.OnRequest(func(cmd []string) {
			if redistest.EvalSHA(scripts.Raise.SHA1())(cmd) {
				s.proxy.Delay(30 * time.Millisecond)
			}
		})
	}
	free(t, ok(t)(m.TryLock(patient(t), lockrt.WithFencing())))
	freeAgain(t, all, key)
	for _, s := range all {
		s.proxy.OnRequest(func([]string) {})
		s.proxy.Delay(0)
	}
	for range 20 {
		free(t, ok(t)(m.Lock(patient(t))))
		freeAgain(t, all, key)
	}
	all[2].proxy.Delay(30 * time.Millisecond)
	defer taken(t, all[:1], key)()
	until(t, "it knows how slow the third one is", func() bool {
		lease, err := m.TryLock(patient(t))
		if err == nil {
			free(t, lease)
		}
		return err == nil
	})
}

// Two calls of one owner have one token, also if the second one comes while the first does not know it yet.
func TestRedLock_OneTokenOfOneOwner(t *testing.T) {
	t.Parallel()
	all, key := sites(t, 3), redistest.Key(t, "k")
	m := redLock(t, all, key, lockrt.Options{})
	acquaint(t, m, all, key)
	all[0].Do("SET", tokensOf(key), "9000000000000000")
	all[1].Do("SET", tokensOf(key), "8000000000000000")
	raises := make(chan struct{}, 100)
	all[2].proxy.OnRequest(func(cmd []string) {
		if redistest.EvalSHA(scripts.Raise.SHA1())(cmd) {
			all[2].proxy.Delay(50 * time.Millisecond)
			all[0].proxy.Deliver() // its grant comes late
			raises <- struct{}{}
		}
	})
	all[0].proxy.Blackhole(redistest.Replies)
	ctx := lockrt.WithOwner(patient(t), lockrt.NewOwner())
	first := lockLater(ctx, m, lockrt.WithFencing())
	receive(t, raises, "the token that is told")
	second := ok(t)(m.Lock(ctx, lockrt.WithFencing()))
	one := gotten(t, first, "the first")
	require.Equal(t, one.Token(), second.Token())
	free(t, one, second)
	freeAgain(t, all, key)
}

// A fencing token that cannot be had is said at once.
func TestRedLock_NoTokenUnderALeaseWithoutOne(t *testing.T) {
	t.Parallel()
	all, key := sites(t, 3), redistest.Key(t, "k")
	m := redLock(t, all, key, lockrt.Options{})
	outer := ok(t)(m.Lock(patient(t)))
	_, err := m.Lock(outer.Context(), lockrt.WithFencing())
	require.ErrorIs(t, err, lockrt.ErrBadOption)
	free(t, outer)
}

// A server that the outer lease of the lock has no part of gives it to that first, so that no inner one outlives it.
func TestRedLock_AnInnerLeaseLeavesTheRestToTheOuter(t *testing.T) {
	t.Parallel()
	for name, under := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, key := sites(t, 3), redistest.Key(t, "k")
			m := redLock(t, all, key, lockrt.Options{})
			ctx := lockrt.WithOwner(patient(t), lockrt.NewOwner())
			end := taken(t, all[2:], key)
			outer := ok(t)(m.Lock(ctx))
			end()
			inner := ok(t)(m.Lock(under(ctx, outer)))
			parts(t, outer, 3)
			parts(t, inner, 3)
			free(t, inner)
			require.NoError(t, outer.Err())
			require.Equal(t, 3, lockrt.PartsOf(outer))
			free(t, outer)
			freeAgain(t, all, key)
		})
	}
}

// ways are the ways to enter a lease again.
var ways = map[string]func(ctx context.Context, outer *lockrt.Lease) context.Context{
	"owner": func(ctx context.Context, _ *lockrt.Lease) context.Context { return ctx },
	"context": func(_ context.Context, outer *lockrt.Lease) context.Context {
		return context.WithoutCancel(outer.Context())
	},
}

// All leases of an owner have one token, also if a server that the first one does not have is free when the next one is taken.
func TestRedLock_OneTokenAlthoughAServerCameBack(t *testing.T) {
	t.Parallel()
	for name, under := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, key := sites(t, 3), redistest.Key(t, "k")
			m := redLock(t, all, key, lockrt.Options{})
			ctx := lockrt.WithOwner(patient(t), lockrt.NewOwner())
			all[2].Do("SET", tokensOf(key), "9000000000000000")
			end := taken(t, all[2:], key)
			outer := ok(t)(m.Lock(ctx, lockrt.WithFencing(), lockrt.WithLease(patience)))
			end()
			all[0].proxy.Delay(30 * time.Millisecond)
			inner := ok(t)(m.Lock(under(ctx, outer), lockrt.WithFencing(), lockrt.WithLease(2*patience)))
			all[0].proxy.Delay(0)
			require.Equal(t, outer.Token(), inner.Token())
			free(t, inner, outer)
			freeAgain(t, all, key)
		})
	}
}

// A server of the majority that goes away before it learns of the token has no say in it: others have.
func TestRedLock_LockDoesNotWaitForWhoDoesNotLearnOfTheToken(t *testing.T) {
	t.Parallel()
	raises := redistest.EvalSHA(scripts.Raise.SHA1())
	for name, mode := range map[string]redistest.Mode{"mute": redistest.Mute, "closed": redistest.Close} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, key := sites(t, 3), redistest.Key(t, "k")
			m := redLock(t, all, key, lockrt.Options{OpTimeout: 2 * patience, Watchdog: time.Hour})
			all[0].Do("SET", tokensOf(key), "9000000000000000")
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

// The call returns the error of a server that cannot store the token, and holds nothing.
func TestRedLock_ATokenThatCannotBeToldIsNone(t *testing.T) {
	t.Parallel()
	all, key := sites(t, 3), redistest.Key(t, "k")
	m := redLock(t, all, key, lockrt.Options{})
	defer taken(t, all[2:], key)()
	all[0].Do("SET", tokensOf(key), "9000000000000000")
	all[1].proxy.OnRequest(func(cmd []string) {
		if redistest.EvalSHA(scripts.Raise.SHA1())(cmd) {
			all[1].Do("SET", tokensOf(key), "no number")
		}
	})
	_, err := m.TryLock(patient(t), lockrt.WithFencing())
	require.ErrorContains(t, err, "the counter of fencing tokens is not an integer")
	freeAgain(t, all[:2], key)
}

// TestRedLock_WhatDoesNotPassIsNotWaitedFor shows that a waiter is told at once what a majority of the servers will say the next
// time, too.
func TestRedLock_WhatDoesNotPassIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	all := sites(t, 3)
	m := redLock(t, all, "k", lockrt.Options{})
	for name, opts := range map[string][]lockrt.LockOption{"plain": nil, "fenced": {lockrt.WithFencing()}} {
		for _, s := range all[:2] {
			s.Do("SET", "k", "a string")
		}
		_, err := m.Lock(patient(t), opts...)
		require.ErrorIs(t, err, lockrt.ErrWrongType, name)
		require.NotErrorIs(t, err, context.DeadlineExceeded, name)
	}
}

// TestRedLock_TryLockWaitsForAServerThatIsNeeded shows that TryLock waits for an answer as long as a majority can still say yes,
// however much faster the others are and that server was.
func TestRedLock_TryLockWaitsForAServerThatIsNeeded(t *testing.T) {
	t.Parallel()
	all, key := sites(t, 5), redistest.Key(t, "k")
	m := redLock(t, all, key, lockrt.Options{})
	acquaint(t, m, all, key)
	defer taken(t, all[:2], key)()
	all[4].proxy.Delay(200 * time.Millisecond)
	lease := ok(t)(m.TryLock(patient(t)))
	require.Equal(t, 3, lockrt.PartsOf(lease))
	free(t, lease)
}

// TestRedLock_TimeoutOfAServer shows that Options.RedLockTimeout bounds how long an answer is waited for, and not OpTimeout.
func TestRedLock_TimeoutOfAServer(t *testing.T) {
	t.Parallel()
	all, key := sites(t, 5), redistest.Key(t, "k")
	m := redLock(t, all, key, lockrt.Options{OpTimeout: 2 * patience, Watchdog: time.Hour, RedLockTimeout: time.Second})
	acquaint(t, m, all, key)
	defer taken(t, all[:2], key)()
	all[4].proxy.Blackhole(redistest.Both)
	_, err := m.TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	all[4].proxy.Deliver()
	free(t, ok(t)(m.Lock(patient(t))))
}
