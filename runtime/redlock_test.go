package lockrt_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestRedLock_KeepsThePromisesOfALocker has the parts on one server, so that what befalls it befalls all.
func TestRedLock_KeepsThePromisesOfALocker(t *testing.T) {
	t.Parallel()
	locktest.TestLocker(t, func(c *lockrt.Client, key string) lockrt.Locker {
		return lockrt.RedLockOf(c.Mutex(key), c.Mutex(key+":2"), c.Mutex(key+":3"))
	}, locktest.MajorityOfKeys)
}

// A site is an independent server and the way to it.
type site struct {
	*redistest.RedisServer

	proxy *redistest.FaultProxy
}

func sites(t *testing.T, n int) []site {
	t.Helper()
	all := make([]site, n)
	for i := range all {
		server := redistest.Server(t)
		all[i] = site{server, redistest.Proxy(t, server.Addr())}
	}
	return all
}

// redLock returns the lock key of one process on all sites.
func redLock(t *testing.T, all []site, key string, opts lockrt.Options) *lockrt.RedLock {
	t.Helper()
	m, _ := redLockAndClients(t, all, key, opts)
	return m
}

func redLockAndClients(t *testing.T, all []site, key string, opts lockrt.Options) (m *lockrt.RedLock, clients []*lockrt.Client) {
	t.Helper()
	for _, s := range all {
		c, err := opened(t.Context(), s.proxy.URL(), opts)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() }) // its server may be gone
		clients = append(clients, c)
	}
	m = lockrt.NewRedLock(key, clients)
	return m, clients
}

// freeAgain waits until nobody has the key on any site.
func freeAgain(t *testing.T, all []site, key string) {
	t.Helper()
	for _, s := range all {
		gone(t, s.RedisServer, key)
	}
}

// lockAll returns a lease that all n servers have granted: more than it needs. A server that has not yet got back
// what it had granted before has no part in it, and it is tried again.
func lockAll(t *testing.T, m *lockrt.RedLock, n int) (lease *lockrt.Lease) {
	t.Helper()
	until(t, "all servers have granted it", func() bool {
		var err error
		lease, err = m.Lock(patient(t))
		require.NoError(t, err)
		_, err = lease.TTL(patient(t)) // as long as the others take to answer
		require.NoError(t, err)
		if lockrt.PartsOf(lease) < n {
			require.NoError(t, lease.Unlock(patient(t)))
			return false
		}
		return true
	})
	return lease
}

func TestNewRedLock_BadServers(t *testing.T) {
	t.Parallel()
	url := redistest.Shared(t).URL()
	c := func() *lockrt.Client { return clientOf(t, url, lockrt.Options{}) }
	for want, clients := range map[string][]*lockrt.Client{
		"0 servers":  nil,
		"1 servers":  {c()},
		"4 servers":  {c(), c(), c(), c()},
		"is nil":     {c(), nil, nil},
		"the server": {c(), c(), c()},
	} {
		_, err := lockrt.NewRedLock("k", clients).Lock(patient(t))
		require.ErrorIs(t, err, lockrt.ErrBadOption)
		require.ErrorContains(t, err, want)
	}
}

// TestRedLock_TokensRise shows that the token of each holder is larger than that of the one before, whichever
// majority grants it, and equal across reentry.
func TestRedLock_TokensRise(t *testing.T) {
	t.Parallel()
	all := sites(t, 3)
	m := redLock(t, all, "k", lockrt.Options{})
	last := int64(0)
	for round := range 12 {
		if round == 4 {
			all[0].Do("SET", "redisson_lock_token:{k}", strconv.FormatInt(last+1_000_000_000_000, 10)) // a clock that is ahead by 11 days
		}
		all[round%3].Do("HSET", "k", "somebody", "1") // so it has no say
		lease, err := m.Lock(patient(t), lockrt.WithFencing())
		require.NoError(t, err)
		require.Greater(t, lease.Token(), last, "round %d", round)
		last = lease.Token()
		token, ok := lockrt.TokenFrom(lease.Context())
		require.True(t, ok)
		require.Equal(t, last, token)
		inner, err := m.TryLock(lease.Context(), lockrt.WithFencing())
		require.NoError(t, err)
		require.Equal(t, last, inner.Token())
		require.NoError(t, inner.Unlock(patient(t)))
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Unlock(patient(t)))
		all[round%3].Do("DEL", "k")
		freeAgain(t, all, "k")
	}
}

// TestRedLock_AMinoritySlowsNobody shows that two of five that are stopped, cut off, slow or dead delay neither lock,
// nor extend, nor unlock, and that what they grant late is released.
func TestRedLock_AMinoritySlowsNobody(t *testing.T) {
	t.Parallel()
	const soon = 10 * time.Second // the shortest that a request to one of them can take is longer, or much shorter
	for name, harm := range map[string]func(s site) (heal func()){
		"stopped":   func(s site) func() { s.Stop(); return s.Cont },
		"half open": func(s site) func() { s.proxy.Blackhole(redistest.Both); return s.proxy.Deliver },
		"refused":   func(s site) func() { s.proxy.Refuse(true); s.proxy.Cut(); return func() { s.proxy.Refuse(false) } },
		"slow":      func(s site) func() { s.proxy.Delay(11 * time.Second); return func() { s.proxy.Delay(0) } },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := sites(t, 5)
			m := redLock(t, all, "k", lockrt.Options{OpTimeout: 12 * time.Second})
			cycle := func() {
				lease, err := m.Lock(patient(t))
				require.NoError(t, err)
				require.NoError(t, lease.Extend(patient(t), time.Minute))
				require.NoError(t, lease.Unlock(patient(t)))
			}
			cycle()
			held := lockAll(t, m, len(all))
			heal := []func(){harm(all[1]), harm(all[4])}
			require.NoError(t, held.Extend(patient(t), time.Minute))
			start := time.Now()
			require.NoError(t, held.Unlock(patient(t)))
			for range 5 {
				cycle()
			}
			require.Less(t, time.Since(start), soon)
			for _, h := range heal {
				h()
			}
			freeAgain(t, all, "k")
		})
	}
}

// A request that one of three servers refuses, since it has lost its part, and that another one does not answer, does not say that the whole is lost.
func TestRedLock_APartIsLostAndAnotherIsSilent(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]func(t *testing.T, l *lockrt.Lease) error{
		"TTL": func(t *testing.T, l *lockrt.Lease) error {
			_, err := l.TTL(patient(t))
			return err
		},
		"Extend": func(t *testing.T, l *lockrt.Lease) error { return l.Extend(patient(t), time.Minute) },
		"Unlock": func(t *testing.T, l *lockrt.Lease) error { return l.Unlock(patient(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := sites(t, 3)
			lease := lockAll(t, redLock(t, all, "k", lockrt.Options{Tracking: lockrt.TrackingOff, OpTimeout: 2 * time.Second}), len(all))
			all[1].proxy.Blackhole(redistest.Both)
			all[0].Do("EVAL", "redis.call('del', KEYS[1]) redis.call('hset', KEYS[1], 'somebody', 1)", "1", "k")
			err := request(t, lease)
			require.Error(t, err)
			require.NotErrorIs(t, err, lockrt.ErrLost)
			require.ErrorContains(t, err, "lease lost", "it says all the same why one of them refused")
			if name != "Unlock" {
				require.NoError(t, lease.Err())
				all[1].proxy.Deliver()
				require.NoError(t, lease.Unlock(patient(t)))
			}
		})
	}
}

// TestRedLock_LostWithTheMajority shows that a holder is told when two of three have somebody else's, and not before,
// and that a majority that does not answer ends its trust before it can be granted again.
func TestRedLock_LostWithTheMajority(t *testing.T) {
	t.Parallel()
	all := sites(t, 3)
	m, other := redLock(t, all, "k", steady), redLock(t, all, "k", steady)
	lease := lockAll(t, m, len(all))
	usurped := func(s site) {
		s.Do("EVAL", "redis.call('del', KEYS[1]) redis.call('hset', KEYS[1], 'somebody', 1)", "1", "k")
	}
	usurped(all[0])
	first := lease.Until()
	until(t, "it is renewed all the same", func() bool { return lease.Until().After(first.Add(time.Second)) })
	require.NoError(t, lease.Context().Err())
	_, err := lease.TTL(patient(t))
	require.NoError(t, err)
	_, err = other.TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	usurped(all[2])
	<-lease.Context().Done()
	require.ErrorIs(t, context.Cause(lease.Context()), lockrt.ErrLost)
	require.ErrorIs(t, lease.Unlock(patient(t)), lockrt.ErrLost)
	for _, s := range []site{all[0], all[2]} {
		require.EqualValues(t, 1, number(t, s.RedisServer, "HDEL", "k", "somebody"))
	}
	freeAgain(t, all, "k")

	lease = lockAll(t, m, len(all))
	for _, s := range all[1:] {
		s.proxy.Blackhole(redistest.Both)
	}
	<-lease.Context().Done()
	require.ErrorIs(t, lease.Err(), lockrt.ErrLost)
	for _, s := range all[1:] {
		s.proxy.Deliver()
	}
	require.ErrorIs(t, lease.Unlock(patient(t)), lockrt.ErrLost)
	require.NoError(t, other.Do(patient(t), func(context.Context, *lockrt.Lease) error { return nil }))
	freeAgain(t, all, "k")
}

// Those of one process have it in the order in which they came, whatever becomes of those before them.
func TestRedLock_GoroutinesAreServedInOrder(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	hooks, waiting, _ := watch()
	c := newClient(t, lockrt.Options{Hooks: hooks})
	m := lockrt.RedLockOf(c.Mutex(key), c.Mutex(key+":2"), c.Mutex(key+":3"))
	lease := ok(t)(m.Lock(patient(t)))
	inner := ok(t)(m.Lock(lease.Context()))
	free(t, inner)
	var got []<-chan locked
	var leave []context.CancelFunc
	for range 5 {
		ctx, cancel := context.WithCancel(patient(t))
		defer cancel()
		leave = append(leave, cancel)
		got = append(got, lockLater(ctx, m))
		receive(t, waiting, "it waits")
	}
	_, err := m.TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	leave[1]()
	require.ErrorIs(t, receive(t, got[1], "the one that gave up").err, context.Canceled)
	free(t, lease)

	lease = gotten(t, got[0], "the first")
	require.Empty(t, got[2])
	for i, key := range []string{key, key + ":2"} {
		require.EqualValues(t, 1, number(t, redistest.Shared(t), "DEL", key), i)
	}
	receive(t, lease.Context().Done(), "the loss")
	lost := lease
	lease = gotten(t, got[2], "the next, since it is lost and not when it is unlocked")
	require.ErrorIs(t, lost.Unlock(patient(t)), lockrt.ErrLost)
	require.Empty(t, got[3])
	leave[3]() // the one that asks now, or is to ask next
	free(t, lease)
	if l := receive(t, got[3], "the one that gives up"); l.err == nil {
		free(t, l.lease)
	}
	free(t, gotten(t, got[4], "the last"))
	for _, key := range []string{key, key + ":2", key + ":3"} {
		gone(t, redistest.Shared(t), key)
	}
	require.Zero(t, lockrt.QuorumQueues(c))
}

// The grants of one caller of a process go to the next one, while they are recent and the next one wants the same.
func TestRedLock_GoesRoundInAProcess(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, second []lockrt.LockOption
		goes          bool
	}{
		"the same":            {nil, nil, true},
		"fencing":             {[]lockrt.LockOption{lockrt.WithFencing()}, []lockrt.LockOption{lockrt.WithFencing()}, false},
		"another watchdog":    {nil, []lockrt.LockOption{lockrt.WithWatchdog(time.Hour)}, false},
		"leases":              {[]lockrt.LockOption{lockrt.WithLease(time.Hour)}, []lockrt.LockOption{lockrt.WithLease(time.Hour)}, false},
		"a limit":             {nil, []lockrt.LockOption{lockrt.WithMaxHold(time.Hour)}, false},
		"a limit of the last": {[]lockrt.LockOption{lockrt.WithMaxHold(time.Hour)}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key, server := redistest.Key(t, "k"), redistest.Shared(t)
			hooks, waiting, _ := watch()
			client := newClient(t, lockrt.Options{Hooks: hooks})
			m := lockrt.RedLockOf(client.Mutex(key), client.Mutex(key+":2"), client.Mutex(key+":3"))
			goes := false
			for i := 0; i < 100 && !goes; i++ { // a goroutine may be kept from running for longer than it goes round
				lease := ok(t)(m.Lock(patient(t), c.first...))
				got := lockLater(patient(t), m, c.second...)
				receive(t, waiting, "it waits")
				before := fields(t, server, key)
				local := client.Stats().HandOversLocal
				free(t, lease)
				next := gotten(t, got, "the next")
				if went := client.Stats().HandOversLocal > local; went {
					require.True(t, c.goes)
					if goes = len(before) == 1; goes { // otherwise the grant of this key, which the majority does not need, comes later
						require.Equal(t, before, fields(t, server, key), "the servers know nothing of it")
					}
				}
				require.NoError(t, next.Err())
				require.ErrorIs(t, lease.Err(), lockrt.ErrReleased)
				free(t, next)
				if !c.goes && i == 4 {
					break
				}
			}
			require.Equal(t, c.goes, goes)
			for _, key := range []string{key, key + ":2", key + ":3"} {
				gone(t, server, key)
			}
			for _, key := range []string{key, key + ":2", key + ":3"} {
				server.Do("DEL", "redisson_lock_token:{"+key+"}")
			}
			require.Zero(t, lockrt.QuorumQueues(client))
		})
	}
}

func TestRedLock_OfOtherServersIsAnotherLine(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	hooks, waiting, _ := watch()
	c := newClient(t, lockrt.Options{Hooks: hooks})
	one := lockrt.RedLockOf(c.Mutex(key), c.Mutex(key+":2"), c.Mutex(key+":3"))
	two := lockrt.RedLockOf(c.Mutex(key), c.Mutex(key+":4"), c.Mutex(key+":5"))
	lease := ok(t)(one.Lock(patient(t)))
	waits := lockLater(patient(t), one)
	receive(t, waiting, "it waits")
	other := ok(t)(two.Lock(patient(t)))
	free(t, lease)
	free(t, gotten(t, waits, "the one behind"), other)
	for _, key := range []string{key, key + ":2", key + ":3", key + ":4", key + ":5"} {
		gone(t, redistest.Shared(t), key)
	}
}

// A lease that another caller of this process has re-entered goes to the next one only after that
// caller has left it.
func TestRedLock_WhatWasEnteredDoesNotGoRound(t *testing.T) {
	t.Parallel()
	for name, enter := range map[string]func(c *lockrt.Client, m *lockrt.RedLock, key string) []lockrt.Locker{
		"the lock": func(_ *lockrt.Client, m *lockrt.RedLock, _ string) []lockrt.Locker { return []lockrt.Locker{m} },
		"two of its parts": func(c *lockrt.Client, _ *lockrt.RedLock, key string) []lockrt.Locker {
			return []lockrt.Locker{c.Mutex(key), c.Mutex(key + ":2")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := redistest.Key(t, "k")
			hooks, waiting, _ := watch()
			c := newClient(t, lockrt.Options{Hooks: hooks})
			m := lockrt.RedLockOf(c.Mutex(key), c.Mutex(key+":2"), c.Mutex(key+":3"))
			for range 5 {
				outer := lockAll(t, m, 3)
				var inner []*lockrt.Lease
				for _, l := range enter(c, m, key) {
					inner = append(inner, ok(t)(l.Lock(outer.Context())))
				}
				got := lockLater(patient(t), m)
				receive(t, waiting, "it waits")
				free(t, outer)
				require.Zero(t, c.Stats().HandOversLocal)
				require.Empty(t, got)
				for _, l := range inner {
					require.NoError(t, l.Err())
				}
				free(t, inner...)
				free(t, gotten(t, got, "the next"))
			}
			for _, key := range []string{key, key + ":2", key + ":3"} {
				gone(t, redistest.Shared(t), key)
			}
		})
	}
}

// The next caller gets the parts of all servers, also of those that were late.
func TestRedLock_WhoInheritsHasTheLateOnesToo(t *testing.T) {
	t.Parallel()
	all, key := sites(t, 3), redistest.Key(t, "k")
	all[2].proxy.Delay(30 * time.Millisecond)
	hooks, waiting, _ := watch()
	m := redLock(t, all, key, lockrt.Options{Hooks: hooks})
	for range 100 {
		lease := ok(t)(m.Lock(patient(t)))
		got := lockLater(patient(t), m)
		receive(t, waiting, "it waits")
		local := lease.Client().Stats().HandOversLocal
		free(t, lease)
		next := gotten(t, got, "the next")
		if lease.Client().Stats().HandOversLocal == local { // somebody kept us from running for longer than it goes round
			free(t, next)
			freeAgain(t, all, key)
			continue
		}
		until(t, "the late one has granted it", func() bool { return lockrt.PartsOf(next) == 3 })
		require.EqualValues(t, 1, number(t, all[2].RedisServer, "EXISTS", key))
		free(t, next)
		freeAgain(t, all, key)
		return
	}
	require.Fail(t, "it never went round")
}

// Two processes take turns, also while each has many waiters.
func TestRedLock_GoesRoundForAWhileOnly(t *testing.T) {
	t.Parallel()
	all, key := sites(t, 3), redistest.Key(t, "k")
	locks := []*lockrt.RedLock{redLock(t, all, key, lockrt.Options{}), redLock(t, all, key, lockrt.Options{})}
	var inside atomic.Int64
	var turns [2]atomic.Int64
	jobs(t, 8, func(i int) error {
		for turns[1-i%2].Load() < 50 || turns[i%2].Load() < 50 { // until both have had some
			err := locks[i%2].Do(patient(t), func(context.Context, *lockrt.Lease) error {
				if inside.Add(1) != 1 {
					return errors.New("two have it")
				}
				turns[i%2].Add(1)
				inside.Add(-1)
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	freeAgain(t, all, key)
}

// Calls that wait for a RedLock which somebody has do not wake each other by the servers that they are granted in turn:
// each asks after its own pauses.
func TestRedLock_WaitersDoNotWakeEachOther(t *testing.T) {
	t.Parallel()
	const waiters = 8
	for name, processes := range map[string]int{"of one process": 1, "of several processes": waiters} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := sites(t, 5)
			var locks []*lockrt.RedLock
			for range processes {
				locks = append(locks, redLock(t, all, "k", lockrt.Options{}))
			}
			all[0].Do("HSET", "k", "somebody", "1")
			held := ok(t)(locks[0].Lock(patient(t), lockrt.WithLease(time.Hour)))
			all[0].Do("DEL", "k") // a lease that is not renewed does without
			before := all[0].CommandStats()["evalsha"]
			jobs(t, waiters, func(i int) error {
				_, err := locks[i%processes].Lock(lockrt.WithOwner(patient(t), lockrt.NewOwner()), lockrt.WithWait(2*time.Second))
				if err == nil {
					return errors.New("granted while another call has it")
				}
				return nil // refused, or the last answer did not come in time
			})
			sent := all[0].CommandStats()["evalsha"] - before
			t.Logf("%d calls sent %d scripts within 2s", waiters, sent)
			require.Less(t, sent, int64(waiters*100))
			free(t, held)
			freeAgain(t, all, "k")
		})
	}
}

// TestRedLock_History has several processes lock while two of five servers, others all the time, are stopped,
// half open, slow by 200ms or cut: no two have the lock at a time, by their own clock, the tokens rise from holder to holder, and all
// come to an end.
func TestRedLock_History(t *testing.T) {
	t.Parallel()
	const processes, goroutines, faults = 3, 2, 8
	all := sites(t, 5)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // all of it, also where the machine is slow
	defer cancel()
	var last atomic.Pointer[lockrt.Lease]
	grants := make(chan struct{}, 100_000)
	var wg sync.WaitGroup
	for range processes {
		m := redLock(t, all, "k", lockrt.Options{Watchdog: 3 * time.Second})
		for range goroutines {
			wg.Go(func() {
				for ctx.Err() == nil {
					lease, err := m.Lock(ctx, lockrt.WithFencing())
					if err != nil {
						if ctx.Err() == nil {
							t.Errorf("lock: %v", err)
						}
						continue
					}
					if before := last.Swap(lease); before != nil {
						if before.Err() == nil && lease.Err() == nil {
							t.Error("two have the lock at a time")
						}
						if before.Token() >= lease.Token() && lease.Err() == nil {
							t.Errorf("the token %d follows %d", lease.Token(), before.Token())
						}
					}
					grants <- struct{}{}
					if err := lease.Unlock(ctx); err != nil {
						t.Logf("unlock: %v", err) // its servers may have been harmed since
					}
				}
			})
		}
	}
	harms := []func(s site) func(){
		func(s site) func() { s.Stop(); return s.Cont },
		func(s site) func() { s.proxy.Blackhole(redistest.Both); return s.proxy.Deliver },
		func(s site) func() { s.proxy.Delay(200 * time.Millisecond); return func() { s.proxy.Delay(0) } },
		func(s site) func() { s.proxy.Refuse(true); s.proxy.Cut(); return func() { s.proxy.Refuse(false) } },
	}
	granted := func(n int) {
		t.Helper()
		for range n {
			select {
			case <-grants:
			case <-ctx.Done():
				t.Fatal("nobody is granted the lock any more")
			}
		}
	}
	granted(20)
	for range faults {
		two := rand.Perm(len(all))[:2]
		heal := []func(){harms[rand.N(len(harms))](all[two[0]]), harms[rand.N(len(harms))](all[two[1]])}
		granted(15) // of them at most 6 from before
		for _, h := range heal {
			h()
		}
		granted(5)
	}
	cancel()
	wg.Wait()
	freeAgain(t, all, "k")
}

// The following do what Redisson's own tests of RRedLock do, one for each of theirs, under its name.

func redLockOf(t *testing.T, n int) (m *lockrt.RedLock, parts []*lockrt.Mutex) {
	t.Helper()
	c := clientOf(t, redistest.Shared(t).URL(), lockrt.Options{})
	for i := range n {
		parts = append(parts, c.Mutex(redistest.Key(t, strconv.Itoa(i))))
	}
	return lockrt.RedLockOf(parts...), parts
}

// increment has ten jobs count to five each, under a lock of seven parts.
func increment(t *testing.T, opts ...lockrt.LockOption) {
	t.Helper()
	m, _ := redLockOf(t, 7)
	counter := 0
	jobs(t, 10, func(int) error {
		for range 5 {
			if err := m.Do(patient(t), func(context.Context, *lockrt.Lease) error { counter++; return nil }, opts...); err != nil {
				return err
			}
		}
		return nil
	})
	require.Equal(t, 50, counter)
}

func TestRedisson_RedLock_LockLeasetimeWithMilliSeconds(t *testing.T) {
	t.Parallel()
	increment(t, lockrt.WithLease(2000*time.Millisecond))
}

func TestRedisson_RedLock_LockLeasetimeWithSeconds(t *testing.T) {
	t.Parallel()
	increment(t, lockrt.WithLease(2*time.Second))
}

func TestRedisson_RedLock_LockLeasetimeWithMinutes(t *testing.T) {
	t.Parallel()
	increment(t, lockrt.WithLease(2*time.Minute))
}

func TestRedisson_RedLock_TryLockLeasetime(t *testing.T) {
	t.Parallel()
	increment(t, lockrt.WithWait(20*time.Second), lockrt.WithLease(2*time.Second))
}

func TestRedisson_RedLock_LockFailed(t *testing.T) {
	t.Parallel()
	m, parts := redLockOf(t, 3)
	for _, part := range parts[:2] {
		lease, err := part.Lock(patient(t))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, lease.Unlock(context.Background())) })
	}
	_, err := m.Lock(patient(t), lockrt.WithWait(50*time.Millisecond), lockrt.WithLease(5*time.Second))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
}

func TestRedisson_RedLock_LockSuccess2(t *testing.T) {
	t.Parallel()
	m, parts := redLockOf(t, 3)
	held, err := parts[1].Lock(patient(t))
	require.NoError(t, err)
	lease, err := m.Lock(patient(t), lockrt.WithWait(20*time.Second), lockrt.WithLease(5*time.Second))
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(patient(t)))
	require.NoError(t, held.Unlock(patient(t)))
}

func TestRedisson_RedLock_LockSuccess(t *testing.T) {
	t.Parallel()
	m, parts := redLockOf(t, 3)
	for _, part := range parts {
		held, err := part.Lock(patient(t))
		require.NoError(t, err)
		require.NoError(t, m.Do(patient(t), func(context.Context, *lockrt.Lease) error { return nil }))
		_, err = part.ForceUnlock(patient(t))
		require.NoError(t, err)
		require.ErrorIs(t, held.Unlock(patient(t)), lockrt.ErrLost)
		require.NoError(t, m.Do(patient(t), func(context.Context, *lockrt.Lease) error { return nil }))
	}
}

func TestRedisson_RedLock_ConnectionFailed(t *testing.T) {
	t.Parallel()
	all := sites(t, 3)
	m, other := redLock(t, all, "k", lockrt.Options{}), redLock(t, all, "other", lockrt.Options{})
	all[2].Kill()
	lease, err := m.Lock(patient(t))
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(patient(t)))
	all[1].Kill()
	_, err = other.TryLock(patient(t)) // of k something may still be on its way to the dead server
	require.Error(t, err)
	require.False(t, errors.Is(err, lockrt.ErrNotAcquired), "a majority is down, and held by nobody")
	freeAgain(t, all[:1], "k")
	freeAgain(t, all[:1], "other")
}
