package lockrt_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// tokens are those of one key, in the order in which they were granted. The lock guards them.
type tokens []int64

// draw locks, notes the token and unlocks.
func (seen *tokens) draw(t *testing.T, m *lockrt.Mutex, opts ...lockrt.LockOption) {
	t.Helper()
	lease, err := m.Lock(patient(t), append(opts, lockrt.WithFencing())...)
	if err != nil {
		t.Errorf("no token: %v", err)
		return
	}
	*seen = append(*seen, lease.Token())
	if err := lease.Unlock(t.Context()); err != nil {
		t.Errorf("a token, and then: %v", err)
	}
}

// rise fails the test unless each is larger than the one before.
func (seen tokens) rise(t *testing.T) {
	t.Helper()
	require.Positive(t, seen[0])
	for i, token := range seen[1:] {
		require.Greater(t, token, seen[i], "after %d tokens", i+1)
	}
}

func TestFencing_TokensRise(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	var seen tokens
	for range 3 {
		m := newClient(t, lockrt.Options{}).Mutex(key)
		seen.draw(t, m)
		seen.draw(t, m, lockrt.WithLease(time.Hour))
		seen.draw(t, m, lockrt.WithWait(0))
		seen.draw(t, m, lockrt.WithWatchdog(time.Minute))
	}
	seen.rise(t)
	require.InDelta(t, float64(time.Now().UnixMicro()), seen[0], float64(time.Minute.Microseconds()))
}

// TestFencing_TokensRiseInAStorm has goroutines of several processes take turns, by local passing, by
// hand-over and by asking, with renewed and fixed leases, with tokens and without.
func TestFencing_TokensRiseInAStorm(t *testing.T) {
	t.Parallel()
	const clients, goroutines, turns = 3, 6, 60
	server := redistest.Server(t)
	var seen tokens
	var wg sync.WaitGroup
	for range clients {
		c := clientOf(t, server.URL(), lockrt.Options{Cohort: 5})
		m := c.Mutex("k")
		for g := range goroutines {
			wg.Go(func() {
				for i := range turns {
					switch {
					case g == 0 && i%3 == 0:
						seen.draw(t, m, lockrt.WithLease(time.Hour))
					case g == 1 && i%3 == 0:
						if err := m.Do(patient(t), func(_ context.Context, l *lockrt.Lease) error {
							if l.Token() != 0 {
								t.Error("a token that nobody wanted")
							}
							return nil
						}); err != nil {
							t.Error(err)
						}
					default:
						seen.draw(t, m)
					}
				}
			})
		}
	}
	wg.Wait()
	seen.rise(t)
	require.Len(t, seen, clients*(goroutines*turns-turns/3))
	var keys []string
	until(t, "nothing else is left", func() (alone bool) {
		var err error
		keys, err = server.Do("KEYS", "*").AsStrSlice()
		require.NoError(t, err)
		return slices.Equal([]string{"redisson_lock_token:{k}"}, keys)
	})
	require.LessOrEqual(t, number(t, server, "PTTL", keys[0]), lockrt.DefaultTokenTTL.Milliseconds())
	require.Positive(t, number(t, server, "PTTL", keys[0]))
}

// TestFencing_LocalHandOversNeedNoWordToRedis counts what is sent while ten goroutines pass a key on.
func TestFencing_LocalHandOversNeedNoWordToRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	hooks, waiting, _ := watch()
	m := clientOf(t, server.URL(), lockrt.Options{Hooks: hooks, Tracking: lockrt.TrackingOff}).Mutex("k", lockrt.WithFencing())
	held, err := m.Lock(patient(t))
	require.NoError(t, err)
	seen := tokens{held.Token()}
	const n = 10
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() { seen.draw(t, m) })
		receive(t, waiting, "the wait")
	}
	server.Do("CONFIG", "RESETSTAT")
	start := time.Now()
	require.NoError(t, held.Unlock(t.Context()))
	wg.Wait()
	seen.rise(t)
	require.Len(t, seen, n+1)
	require.LessOrEqual(t, server.CommandStats()["evalsha"], 4+time.Since(start).Milliseconds()/10,
		"the block runs out once, and the time to go round is over every 10ms")
}

func TestFencing_HandedOver(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	one, two := clientOf(t, server.URL(), unwatched).Mutex("k"), clientOf(t, server.URL(), unwatched).Mutex("k")
	atBest(t, "nothing but the release was sent", func() bool {
		held := ok(t)(one.Lock(patient(t), lockrt.WithFencing()))
		got := lockLater(patient(t), two, lockrt.WithFencing())
		inLine(t, server, "k", 1)
		server.Do("CONFIG", "RESETSTAT")
		free(t, held)
		next := gotten(t, got, "the lock")
		require.Greater(t, next.Token(), held.Token())
		sent := server.CommandStats()["evalsha"]
		free(t, next)
		return sent == 1
	})
}

// TestFencing_HandedOverWithoutATokenAsksForOne: the place in the wait queue was taken by a call that
// wanted none.
func TestFencing_HandedOverWithoutATokenAsksForOne(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	held, err := clientOf(t, server.URL(), lockrt.Options{}).Mutex("k").Lock(patient(t))
	require.NoError(t, err)
	hooks, waiting, _ := watch()
	m := clientOf(t, server.URL(), lockrt.Options{Hooks: hooks}).Mutex("k")
	ctx, cancel := context.WithCancel(patient(t))
	first := lockLater(ctx, m)
	receive(t, waiting, "the first one's wait")
	inLine(t, server, "k", 1)
	second := lockLater(patient(t), m, lockrt.WithFencing())
	receive(t, waiting, "the second one's wait")
	cancel()
	require.ErrorIs(t, receive(t, first, "its end").err, context.Canceled)
	require.NoError(t, held.Unlock(t.Context()))
	next := receive(t, second, "the lock")
	require.NoError(t, next.err)
	require.Positive(t, next.lease.Token())
	require.NoError(t, next.lease.Unlock(t.Context()))
}

// TestFencing_SurvivesWhatRedisForgets: the counter expires, is deleted or flushed with everything.
func TestFencing_SurvivesWhatRedisForgets(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	m := clientOf(t, server.URL(), lockrt.Options{}).Mutex("k")
	var seen tokens
	seen.draw(t, m)
	server.Do("DEL", "redisson_lock_token:{k}")
	seen.draw(t, m)
	lease, err := m.Lock(patient(t), lockrt.WithFencing())
	require.NoError(t, err)
	seen = append(seen, lease.Token())
	until(t, "it is lost", func() bool { // also what a late copy of the request has locked again
		server.Do("FLUSHALL")
		return lease.Err() != nil
	})
	seen.draw(t, clientOf(t, server.URL(), lockrt.Options{}).Mutex("k"))
	require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost)
	server.Do("SCRIPT", "FLUSH")
	seen.draw(t, m)
	seen.rise(t)
}

// TestFencing_RedissonBeginsAgain shows a row of docs/java.md: without its counter Redisson draws 1, until this library has drawn a token.
func TestFencing_RedissonBeginsAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	const counter = "redisson_lock_token:{k}"
	m := clientOf(t, server.URL(), lockrt.Options{TokenTTL: lockrt.Forever}).Mutex("k")
	var seen tokens
	seen.draw(t, m)
	server.Do("FLUSHALL")
	require.EqualValues(t, 1, number(t, server, "INCR", counter))
	seen.draw(t, m)
	seen.rise(t)
	require.Greater(t, number(t, server, "INCR", counter), seen[1])
}

func TestFencing_CountsOnFromRedisson(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	const counter = "redisson_lock_token:{k}"
	ahead := time.Now().Add(time.Hour).UnixMicro() // INCR by Java, from a clock that was ahead
	require.NoError(t, server.Do("SET", counter, "41").Error())
	m := clientOf(t, server.URL(), lockrt.Options{}).Mutex("k")
	var seen tokens
	seen.draw(t, m)
	require.EqualValues(t, -1, number(t, server, "PTTL", counter), "a counter that Java made is kept for ever")
	require.Greater(t, number(t, server, "INCR", counter), seen[0], "what Java draws next")
	require.NoError(t, server.Do("INCRBY", counter, "3600000000").Error())
	seen.draw(t, m)
	seen.rise(t)
	require.Greater(t, seen[1], ahead)
}

func TestFencing_TokenTTL(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	var seen tokens
	seen.draw(t, clientOf(t, server.URL(), lockrt.Options{TokenTTL: time.Hour}).Mutex("k"))
	require.Greater(t, number(t, server, "PTTL", "redisson_lock_token:{k}"), (50 * time.Minute).Milliseconds())
	seen.draw(t, clientOf(t, server.URL(), lockrt.Options{TokenTTL: lockrt.Forever}).Mutex("k"))
	require.EqualValues(t, -1, number(t, server, "PTTL", "redisson_lock_token:{k}"))
	seen.rise(t)
	for _, bad := range []time.Duration{-2, -1, 1, time.Second - 1} {
		_, err := lockrt.Open(t.Context(), server.URL(), lockrt.Options{TokenTTL: bad})
		require.ErrorIs(t, err, lockrt.ErrBadOption)
		require.ErrorContains(t, err, "TokenTTL")
	}
}

func TestFencing_ReentryHasTheSameToken(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).Mutex(redistest.Key(t, "k"))
	outer, err := m.Lock(patient(t), lockrt.WithFencing())
	require.NoError(t, err)
	for _, opts := range [][]lockrt.LockOption{nil, {lockrt.WithFencing()}} {
		inner, err := m.Lock(outer.Context(), opts...)
		require.NoError(t, err)
		require.Equal(t, outer.Token(), inner.Token())
		require.NoError(t, inner.Unlock(t.Context()))
	}
	require.NoError(t, outer.Unlock(t.Context()))
}

func TestFencing_CannotBeHadByReentryAlone(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).Mutex(redistest.Key(t, "k"))
	outer, err := m.Lock(patient(t))
	require.NoError(t, err)
	require.Zero(t, outer.Token())
	_, err = m.Lock(outer.Context(), lockrt.WithFencing())
	require.ErrorIs(t, err, lockrt.ErrBadOption)
	require.ErrorContains(t, err, "WithFencing")
	require.NoError(t, outer.Err(), "it is held on")
	require.EqualValues(t, 1, exists(t, m.Key()))
	require.NoError(t, outer.Unlock(t.Context()))
	freed(t, m.Key())
}

func TestTokenFrom(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	_, ok := lockrt.TokenFrom(t.Context())
	require.False(t, ok)
	outer, err := c.Mutex(redistest.Key(t, "outer")).Lock(patient(t), lockrt.WithFencing())
	require.NoError(t, err)
	plain, err := c.Mutex(redistest.Key(t, "plain")).Lock(outer.Context())
	require.NoError(t, err)
	token, ok := lockrt.TokenFrom(plain.Context())
	require.True(t, ok)
	require.Equal(t, outer.Token(), token, "of the innermost that has one")
	inner, err := c.Mutex(redistest.Key(t, "inner")).Lock(plain.Context(), lockrt.WithFencing())
	require.NoError(t, err)
	token, ok = lockrt.TokenFrom(context.WithoutCancel(inner.Context()))
	require.True(t, ok)
	require.Equal(t, inner.Token(), token)
	for _, lease := range []*lockrt.Lease{inner, plain, outer} {
		require.NoError(t, lease.Unlock(t.Context()))
	}
}

// TestFencing_ACounterThatIsNone: a call that wants a token hears of it, the lock goes on for all others.
func TestFencing_ACounterThatIsNone(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	for _, state := range [][]string{{"RPUSH", "redisson_lock_token:{k}", "1"}, {"SET", "redisson_lock_token:{k}", "many"}} {
		server.Do("FLUSHALL")
		require.NoError(t, server.Do(state...).Error())
		m := clientOf(t, server.URL(), lockrt.Options{}).Mutex("k")
		_, err := m.Lock(patient(t), lockrt.WithFencing())
		require.Error(t, err)
		if state[0] == "RPUSH" {
			require.ErrorIs(t, err, lockrt.ErrWrongType)
		}
		gone(t, server, "k")
		held, err := m.Lock(patient(t))
		require.NoError(t, err)
		got := lockLater(patient(t), clientOf(t, server.URL(), lockrt.Options{}).Mutex("k"), lockrt.WithFencing())
		inLine(t, server, "k", 1)
		require.NoError(t, held.Unlock(t.Context()))
		require.Error(t, receive(t, got, "the error of one that was handed the lock without a token").err)
		gone(t, server, "k")
	}
}

func TestFencing_LostRepliesReuseNoToken(t *testing.T) {
	t.Parallel()
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, brisk)
			m := l.client.Mutex(l.key, unexpiring)
			var seen tokens
			seen.draw(t, m)
			for range 3 {
				l.proxy.DropReply(asks, 1, mode)
				seen.draw(t, m)
				l.proxy.DropReply(gives, 1, mode)
				seen.draw(t, m)
			}
			seen.rise(t)
		})
	}
}

func TestFencing_HooksSeeTheToken(t *testing.T) {
	t.Parallel()
	events := make(chan lockrt.AcquireEvent, 10)
	c := newClient(t, lockrt.Options{Hooks: lockrt.Hooks{AcquireEnd: func(_ context.Context, e lockrt.AcquireEvent) { events <- e }}})
	lease, err := c.Mutex(redistest.Key(t, "k")).Lock(patient(t), lockrt.WithFencing())
	require.NoError(t, err)
	require.Equal(t, lease.Token(), receive(t, events, "the end of acquiring").Token)
	require.NoError(t, lease.Unlock(t.Context()))
}

func TestOwner_EntersAgainUnderAnyContext(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).Mutex(redistest.Key(t, "k"), lockrt.WithFencing())
	o := lockrt.NewOwner()
	ctx := lockrt.WithOwner(patient(t), o)
	got, ok := lockrt.OwnerFrom(ctx)
	require.True(t, ok)
	require.Same(t, o, got)
	_, ok = lockrt.OwnerFrom(t.Context())
	require.False(t, ok)

	outer, err := m.Lock(ctx)
	require.NoError(t, err)
	inner, err := m.TryLock(lockrt.WithOwner(patient(t), o))
	require.NoError(t, err)
	require.Equal(t, outer.Token(), inner.Token())
	for _, stranger := range []context.Context{patient(t), lockrt.WithOwner(patient(t), lockrt.NewOwner())} {
		_, err = m.TryLock(stranger)
		require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	}
	require.NoError(t, outer.Unlock(t.Context()))
	require.NoError(t, inner.Err(), "the last one frees the key, whichever it is")
	require.EqualValues(t, 1, exists(t, m.Key()))
	require.NoError(t, inner.Unlock(t.Context()))
	freed(t, m.Key())

	free(t, tries(lockrt.WithOwner(patient(t), lockrt.NewOwner()), t, m))
}

// An owner that entered under the context of another lease holds the key: its other calls enter again, those that wait too.
func TestOwner_EntersAgainWhatItEnteredByAContext(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	c := newClient(t, lockrt.Options{Hooks: hooks})
	for name, m := range map[string]lockrt.Locker{
		"mutex": c.Mutex(redistest.Key(t, "m")), "fair": c.FairMutex(redistest.Key(t, "f")), "writer": c.RWMutex(redistest.Key(t, "w")),
	} {
		o := lockrt.NewOwner()
		first := ok(t)(m.Lock(patient(t)))
		waits := lockLater(lockrt.WithOwner(patient(t), o), m)
		receive(t, waiting, name)
		second := ok(t)(m.Lock(lockrt.WithOwner(first.Context(), o)))
		third := gotten(t, waits, name)
		fourth := ok(t)(m.TryLock(lockrt.WithOwner(patient(t), o)))
		_, err := m.TryLock(lockrt.WithOwner(patient(t), lockrt.NewOwner()))
		require.ErrorIs(t, err, lockrt.ErrNotAcquired, name)
		for _, l := range []*lockrt.Lease{first, third, fourth} {
			require.NoError(t, l.Unlock(t.Context()), name)
		}
		require.NoError(t, second.Err(), name)
		free(t, second)
		freed(t, m.Key())
	}
}

// A call that waits with WithLease has the key for that long from when its owner enters, although the key was locked before.
func TestOwner_WhatItsWaiterEntersLastsAsLongAsAsked(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	c := newClient(t, lockrt.Options{Hooks: hooks})
	fixed := lockrt.WithLease(20 * time.Second)
	for name, m := range map[string]lockrt.Locker{
		"mutex": c.Mutex(redistest.Key(t, "m")), "fair": c.FairMutex(redistest.Key(t, "f")), "writer": c.RWMutex(redistest.Key(t, "w")),
	} {
		o := lockrt.NewOwner()
		first := ok(t)(m.Lock(patient(t), fixed))
		waits := lockLater(lockrt.WithOwner(patient(t), o), m, fixed)
		receive(t, waiting, name)
		until := first.Until()
		second := ok(t)(m.Lock(lockrt.WithOwner(first.Context(), o)))
		third := gotten(t, waits, name)
		require.True(t, third.Until().After(until), name)
		free(t, first, second, third)
	}
}

func TestOwner_NoneOfItsWaitersEntersWithoutTheTokenItWants(t *testing.T) {
	t.Parallel()
	for name, lock := range exclusives {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hooks, waiting, _ := watch()
			m := lock(newClient(t, lockrt.Options{Hooks: hooks}), redistest.Key(t, "k"))
			held, err := m.Lock(patient(t))
			require.NoError(t, err)
			ctx := lockrt.WithOwner(patient(t), lockrt.NewOwner())
			plain := lockLater(ctx, m)
			receive(t, waiting, "the wait of the first")
			fenced := lockLater(ctx, m, lockrt.WithFencing())
			receive(t, waiting, "the wait of the second")
			require.NoError(t, held.Unlock(t.Context()))
			got := receive(t, plain, "the lock")
			require.NoError(t, got.err)
			require.ErrorIs(t, receive(t, fenced, "the one that wants a token").err, lockrt.ErrBadOption)
			require.NoError(t, got.lease.Unlock(t.Context()))
			freed(t, m.Key()) // a request of the one that was turned away may be under way: what it gets is given back
		})
	}
}

func TestOwner_ItsWaitersEnterTogether(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	m := newClient(t, lockrt.Options{Hooks: hooks}).Mutex(redistest.Key(t, "k"))
	held, err := m.Lock(patient(t))
	require.NoError(t, err)
	o := lockrt.NewOwner()
	var got []<-chan locked
	for i := range 4 {
		ctx := patient(t)
		if i != 1 {
			ctx = lockrt.WithOwner(ctx, o)
		}
		got = append(got, lockLater(ctx, m))
		receive(t, waiting, "the wait")
	}
	require.NoError(t, held.Unlock(t.Context()))
	var leases []*lockrt.Lease
	for _, i := range []int{0, 2, 3} {
		next := receive(t, got[i], "the lock")
		require.NoError(t, next.err)
		leases = append(leases, next.lease)
	}
	select {
	case <-got[1]:
		t.Fatal("a stranger entered with them")
	default:
	}
	for _, lease := range slices.Backward(leases) {
		require.NoError(t, lease.Unlock(t.Context()))
	}
	next := receive(t, got[1], "the lock")
	require.NoError(t, next.err)
	require.NoError(t, next.lease.Unlock(t.Context()))
}
