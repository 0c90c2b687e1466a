package lockrt_test

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// later runs f in another goroutine and returns where its error comes.
func later(f func() error) <-chan error {
	got := make(chan error, 1)
	go func() { got <- f() }()
	return got
}

// requireAvailable checks how many permits a semaphore of either kind has.
func requireAvailable(t *testing.T, want int, s interface {
	Available(ctx context.Context) (int, error)
},
) {
	t.Helper()
	n, err := s.Available(patient(t))
	require.NoError(t, err)
	require.Equal(t, want, n)
}

// tidy checks that nothing is left of a key that counts but what expires.
func tidy(t *testing.T, c *lockrt.Client, server *redistest.RedisServer, key string) {
	t.Helper()
	until(t, "the client has forgotten "+key, func() bool { return lockrt.Counters(c) == 0 })
	until(t, "the subscriptions end", func() bool {
		for _, channel := range []string{"redisson_sc:{" + key + "}", "redisson_countdownlatch__channel__{" + key + "}"} {
			if subscribers(t, server, channel) > 0 {
				return false
			}
		}
		return true
	})
	left, err := server.Do("KEYS", "*{"+key+"}*").AsStrSlice()
	require.NoError(t, err)
	for _, k := range left {
		require.Positive(t, number(t, server, "PTTL", k), "%s is left for ever", k)
	}
}

func TestRedisson_Semaphore_AcquireAfterAddPermits(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	c := newClient(t, lockrt.Options{Hooks: hooks})
	s := c.Semaphore(redistest.Key(t, "s"), 0)
	created, err := s.TrySetPermits(t.Context(), 0, 0)
	require.NoError(t, err)
	require.True(t, created)
	got := later(func() error { return s.Acquire(patient(t), 2) })
	receive(t, waiting, "it to wait")
	exists, err := s.Resize(t.Context(), 1)
	require.NoError(t, err)
	require.True(t, exists)
	require.ErrorIs(t, s.TryAcquire(patient(t), 1), lockrt.ErrNotAcquired, "one waits for two")
	require.Empty(t, got)
	_, err = s.Resize(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, receive(t, got, "two permits"))
	requireAvailable(t, 0, s)
}

func TestRedisson_Semaphore_Zero(t *testing.T) {
	t.Parallel()
	s := newClient(t, lockrt.Options{}).Semaphore(redistest.Key(t, "s"), 0)
	require.NoError(t, s.TryAcquire(patient(t), 0))
	require.NoError(t, s.Acquire(patient(t), 0))
	require.NoError(t, s.Release(t.Context(), 0))
	require.Zero(t, number(t, redistest.Shared(t), "EXISTS", s.Key()))
}

// No permit is acquired, and none released, without a request: also while Redis is away, and whatever the key is.
func TestSemaphore_ZeroAsksNobody(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	proxy := redistest.Proxy(t, server.Addr())
	c := clientOf(t, proxy.URL(), lockrt.Options{})
	server.Do("RPUSH", "list", "a")
	proxy.Refuse(true)
	proxy.Cut()
	for _, s := range []*lockrt.Semaphore{c.Semaphore("k", 0), c.Semaphore("k", 5), c.Semaphore("list", 5)} {
		require.NoError(t, s.Do(context.Background(), 0, func(context.Context) error { return nil }))
		require.NoError(t, s.Release(context.Background(), 0))
	}
	require.ErrorIs(t, c.Semaphore("k", -1).Release(t.Context(), 0), lockrt.ErrBadOption)
	bad := new(lockrt.KeyError)
	require.ErrorAs(t, c.Semaphore("", 5).Release(t.Context(), 0), &bad)
	require.ErrorIs(t, (*lockrt.Client)(nil).Semaphore("k", 5).Release(t.Context(), 0), lockrt.ErrBadOption)
	proxy.Refuse(false)
}

func TestRedisson_Semaphore_AcquireWithoutSetPermits(t *testing.T) {
	t.Parallel()
	s := newClient(t, lockrt.Options{}).Semaphore(redistest.Key(t, "s"), 0)
	require.ErrorIs(t, s.TryAcquire(patient(t), 1), lockrt.ErrNotAcquired)
	require.NoError(t, s.Release(t.Context(), 1))
	require.NoError(t, s.Release(t.Context(), 10))
	require.NoError(t, s.Acquire(patient(t), 1))
	require.NoError(t, s.Release(t.Context(), 5))
	require.NoError(t, s.Acquire(patient(t), 5))
	requireAvailable(t, 10, s)
}

func TestRedisson_Semaphore_TrySetPermits(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	s := newClient(t, lockrt.Options{}).Semaphore(redistest.Key(t, "s"), 0)
	created, err := s.TrySetPermits(t.Context(), 10, 0)
	require.NoError(t, err)
	require.True(t, created)
	created, err = s.TrySetPermits(t.Context(), 15, 0)
	require.NoError(t, err)
	require.False(t, created)
	requireAvailable(t, 10, s)
	require.EqualValues(t, -1, number(t, server, "PTTL", s.Key()))

	server.Do("DEL", s.Key())
	created, err = s.TrySetPermits(t.Context(), 10, 200*time.Millisecond)
	require.NoError(t, err)
	require.True(t, created)
	gone(t, server, s.Key())
	requireAvailable(t, 0, s)
}

func TestRedisson_Semaphore_AddPermits(t *testing.T) {
	t.Parallel()
	s := newClient(t, lockrt.Options{}).Semaphore(redistest.Key(t, "s"), 0)
	exists, err := s.Resize(t.Context(), 5)
	require.NoError(t, err)
	require.False(t, exists, "it is created, as by Redisson")
	created, err := s.TrySetPermits(t.Context(), 10, 0)
	require.NoError(t, err)
	require.False(t, created)
	requireAvailable(t, 5, s)
	exists, err = s.Resize(t.Context(), 5)
	require.NoError(t, err)
	require.True(t, exists)
	_, err = s.Resize(t.Context(), 5)
	require.NoError(t, err)
	requireAvailable(t, 15, s)
	_, err = s.Resize(t.Context(), -10)
	require.NoError(t, err)
	requireAvailable(t, 5, s)
}

func TestRedisson_Semaphore_ReducePermits(t *testing.T) {
	t.Parallel()
	s := newClient(t, lockrt.Options{}).Semaphore(redistest.Key(t, "s"), 5)
	require.NoError(t, s.Acquire(patient(t), 5))
	_, err := s.Resize(t.Context(), -3)
	require.NoError(t, err)
	requireAvailable(t, -3, s)
	n, err := s.Drain(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
	requireAvailable(t, -3, s)
	require.NoError(t, s.Release(t.Context(), 3))
	require.ErrorIs(t, s.TryAcquire(patient(t), 1), lockrt.ErrNotAcquired)
	require.NoError(t, s.Release(t.Context(), 2))
	require.NoError(t, s.TryAcquire(patient(t), 2))
}

func TestRedisson_Semaphore_BlockingAcquire(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	one, two := newClient(t, lockrt.Options{}), newClient(t, lockrt.Options{Hooks: hooks})
	key := redistest.Key(t, "s")
	require.NoError(t, one.Semaphore(key, 1).Acquire(patient(t), 1))
	got := later(func() error { return two.Semaphore(key, 1).Acquire(patient(t), 1) })
	receive(t, waiting, "the other to wait")
	require.NoError(t, one.Semaphore(key, 1).Release(t.Context(), 1))
	require.NoError(t, receive(t, got, "the permit"))
	requireAvailable(t, 0, one.Semaphore(key, 1))
}

func TestRedisson_Semaphore_BlockingNAcquire(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	one, two := newClient(t, lockrt.Options{}), newClient(t, lockrt.Options{Hooks: hooks})
	key := redistest.Key(t, "s")
	require.NoError(t, one.Semaphore(key, 5).Acquire(patient(t), 3))
	got := later(func() error { return two.Semaphore(key, 5).Acquire(patient(t), 4) })
	receive(t, waiting, "the other to wait")
	require.NoError(t, one.Semaphore(key, 5).Release(t.Context(), 1))
	require.NoError(t, one.Semaphore(key, 5).Release(t.Context(), 1))
	require.NoError(t, receive(t, got, "four permits"))
	requireAvailable(t, 0, one.Semaphore(key, 5))
}

func TestRedisson_Semaphore_TryNAcquire(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	c := newClient(t, lockrt.Options{Hooks: hooks})
	s := c.Semaphore(redistest.Key(t, "s"), 5)
	require.NoError(t, s.TryAcquire(patient(t), 3))
	require.ErrorIs(t, s.TryAcquire(patient(t), 4), lockrt.ErrNotAcquired)
	got := later(func() error { return s.Acquire(patient(t), 4, lockrt.WithWait(patience)) })
	receive(t, waiting, "it to wait")
	require.NoError(t, s.Release(t.Context(), 2))
	require.NoError(t, receive(t, got, "four permits"))
	err := s.Acquire(patient(t), 1, lockrt.WithWait(50*time.Millisecond))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
}

func TestRedisson_Semaphore_ReleaseWithoutPermits(t *testing.T) {
	t.Parallel()
	s := newClient(t, lockrt.Options{}).Semaphore(redistest.Key(t, "s"), 0)
	require.NoError(t, s.Release(t.Context(), 1))
	requireAvailable(t, 1, s)
}

func TestRedisson_Semaphore_DrainPermits(t *testing.T) {
	t.Parallel()
	s := newClient(t, lockrt.Options{}).Semaphore(redistest.Key(t, "s"), 0)
	for _, step := range []struct{ set, want int }{{0, 0}, {10, 7}, {0, 0}} {
		if step.set > 0 {
			_, err := s.TrySetPermits(t.Context(), step.set, 0)
			require.NoError(t, err)
			require.NoError(t, s.Acquire(patient(t), 3))
		}
		n, err := s.Drain(t.Context())
		require.NoError(t, err)
		require.Equal(t, step.want, n)
		requireAvailable(t, 0, s)
	}
}

func TestRedisson_Semaphore_ReleaseAcquire(t *testing.T) {
	t.Parallel()
	s := newClient(t, lockrt.Options{}).Semaphore(redistest.Key(t, "s"), 10)
	require.NoError(t, s.Acquire(patient(t), 1))
	requireAvailable(t, 9, s)
	require.NoError(t, s.Release(t.Context(), 1))
	requireAvailable(t, 10, s)
	require.NoError(t, s.Acquire(patient(t), 5))
	requireAvailable(t, 5, s)
	require.NoError(t, s.Release(t.Context(), 5))
	requireAvailable(t, 10, s)
}

// A semaphore whose key somebody deleted, or the server evicted, is created anew by the next call that asks. A release is a reason to ask.
func TestSemaphore_AReleaseAfterItsKeyWasDeletedWakesTheWaiter(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	a, b := clientOf(t, server.URL(), lockrt.Options{}), clientOf(t, server.URL(), lockrt.Options{})
	scriptsRun := func() int64 { return server.CommandStats()["evalsha"] }
	round := 0
	atBest(t, "was the waiter served at once", func() bool { // it also asks every 5s
		key := fmt.Sprint("jobs", round)
		require.NoError(t, a.Semaphore(key, 2).Acquire(patient(t), 2))
		before := scriptsRun()
		got := later(func() error { return b.Semaphore(key, 2).Acquire(patient(t), 1) })
		until(t, "it was refused twice, the second time when it listened", func() bool {
			return subscribers(t, server, "redisson_sc:{"+key+"}") == 1 && scriptsRun() >= before+2
		})
		server.Do("DEL", key)
		since := time.Now()
		require.NoError(t, a.Semaphore(key, 2).Release(patient(t), 2))
		require.NoError(t, receive(t, got, "the waiter"))
		round++
		return round > 1 && time.Since(since) < 3*time.Second // in the first round the clients run other scripts, too
	})
}

func TestRedisson_Semaphore_ReleaseIfExists(t *testing.T) {
	t.Parallel()
	s := newClient(t, lockrt.Options{}).Semaphore(redistest.Key(t, "s"), 0)
	exists, err := s.ReleaseIfExists(t.Context(), 1)
	require.NoError(t, err)
	require.False(t, exists)
	requireAvailable(t, 0, s)
	_, err = s.TrySetPermits(t.Context(), 2, 0)
	require.NoError(t, err)
	exists, err = s.ReleaseIfExists(t.Context(), 1)
	require.NoError(t, err)
	require.True(t, exists)
	requireAvailable(t, 3, s)
}

// crowd has goroutines of several clients enter a section that holds so many at once, and checks that it does.
func crowd(t *testing.T, clients, goroutines, rounds, permits int, enter func(c *lockrt.Client) (leave func() error, err error)) {
	t.Helper()
	var inside, most atomic.Int64
	var wg sync.WaitGroup
	for range clients {
		c := newClient(t, lockrt.Options{})
		for range goroutines {
			wg.Go(func() {
				for range rounds {
					leave, err := enter(c)
					if err != nil {
						t.Error(err)
						return
					}
					n := inside.Add(1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					inside.Add(-1)
					if err := leave(); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	require.LessOrEqual(t, most.Load(), int64(permits))
}

// semaphoreConcurrency has a crowd take turns at a semaphore, and checks that all permits are there in the end.
func semaphoreConcurrency(t *testing.T, clients, goroutines, rounds, permits int) {
	t.Helper()
	key := redistest.Key(t, "s")
	crowd(t, clients, goroutines, rounds, permits, func(c *lockrt.Client) (func() error, error) {
		s := c.Semaphore(key, permits)
		err := s.Acquire(patient(t), 1)
		return func() error { return s.Release(context.Background(), 1) }, err
	})
	requireAvailable(t, permits, newClient(t, lockrt.Options{}).Semaphore(key, 0))
}

func TestRedisson_Semaphore_Concurrency_SingleInstance(t *testing.T) {
	t.Parallel()
	semaphoreConcurrency(t, 1, 15, 1, 1)
}

func TestRedisson_Semaphore_ConcurrencyLoop_MultiInstance(t *testing.T) {
	t.Parallel()
	semaphoreConcurrency(t, 8, 2, 25, 1)
}

func TestRedisson_Semaphore_Concurrency_MultiInstance_1_permits(t *testing.T) {
	t.Parallel()
	semaphoreConcurrency(t, 30, 1, 1, 1)
}

func TestSemaphore_NoMoreInsideThanThereArePermits(t *testing.T) {
	t.Parallel()
	semaphoreConcurrency(t, 4, 8, 20, 3)
}

func TestRedisson_Semaphore_ConcurrencyLoopMax_MultiInstance(t *testing.T) {
	t.Parallel()
	const most = math.MaxInt32
	key := redistest.Key(t, "s")
	var turn atomic.Int64
	crowd(t, 4, 4, 10, math.MaxInt, func(c *lockrt.Client) (func() error, error) {
		s := c.Semaphore(key, most)
		n := 1
		if turn.Add(1)%2 == 0 {
			n = most
		}
		err := s.Acquire(patient(t), n)
		return func() error { return s.Release(context.Background(), n) }, err
	})
	requireAvailable(t, most, newClient(t, lockrt.Options{}).Semaphore(key, 0))
}

// tooMany are permits that Redisson could not count. Where int has 32 bits they are fewer than none.
var tooMany = func() int { n := int64(1) << 31; return int(n) }()

func TestSemaphore_RefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	overflow := "2147483648 permits are more than Redisson can count, 2147483647"
	if tooMany < 0 {
		overflow = "-2147483648 permits are fewer than 0"
	}
	c := newClient(t, lockrt.Options{})
	s := c.Semaphore("k", 0)
	for want, err := range map[string]error{
		`lockgen: acquire "k": unusable option: -1 permits are fewer than 0`:                                                s.Acquire(t.Context(), -1),
		`lockgen: try acquire "k": unusable option: -1 permits are fewer than 0`:                                            s.TryAcquire(t.Context(), -1),
		`lockgen: release "k": unusable option: -1 permits are fewer than 0`:                                                s.Release(t.Context(), -1),
		`lockgen: acquire "k": unusable option: ` + overflow:                                                                s.Acquire(t.Context(), tooMany),
		`lockgen: acquire "k": unusable option: -2 permits are fewer than 0`:                                                c.Semaphore("k", -2).Acquire(t.Context(), 1),
		`lockgen: acquire "k": unusable option: WithFencing means nothing for a semaphore`:                                  s.Acquire(t.Context(), 1, lockrt.WithFencing()),
		`lockgen: acquire "": the key is empty`:                                                                             c.Semaphore("", 1).Acquire(t.Context(), 0),
		`lockgen: release "": the key is empty`:                                                                             c.Semaphore("", 1).Release(t.Context(), 0),
		`lockgen: acquire "a{b": the key has a "{" that begins no hash tag; a cluster could not unlock it: close it, as in`: c.Semaphore("a{b", 1).Acquire(t.Context(), 1),
	} {
		require.ErrorContains(t, err, want)
	}
	_, err := s.Resize(t.Context(), tooMany)
	require.ErrorIs(t, err, lockrt.ErrBadOption)
	_, err = s.TrySetPermits(t.Context(), 1, time.Millisecond)
	require.ErrorIs(t, err, lockrt.ErrBadOption)
	_, err = s.TrySetPermits(t.Context(), -1, 0)
	require.ErrorIs(t, err, lockrt.ErrBadOption)
}

func TestSemaphore_KeysOfOtherTypes(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	s := newClient(t, lockrt.Options{}).Semaphore(redistest.Key(t, "s"), 1)
	for _, set := range [][]string{{"RPUSH", s.Key(), "a"}, {"SET", s.Key(), "text"}} {
		server.Do("DEL", s.Key())
		server.Do(set...)
		require.ErrorIs(t, s.Acquire(patient(t), 1), lockrt.ErrWrongType)
		require.ErrorIs(t, s.Release(t.Context(), 1), lockrt.ErrWrongType)
		_, err := s.Drain(t.Context())
		require.ErrorIs(t, err, lockrt.ErrWrongType)
		_, err = s.Available(patient(t))
		require.ErrorIs(t, err, lockrt.ErrWrongType)
	}
}

// A wish for many is not overtaken by wishes for few of the same process.
func TestSemaphore_ServesItsGoroutinesInOrder(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	c := newClient(t, lockrt.Options{Hooks: hooks})
	s := c.Semaphore(redistest.Key(t, "s"), 4)
	require.NoError(t, s.Acquire(patient(t), 4))
	order := make(chan int, 10)
	for i, n := range []int{4, 1, 2, 1} {
		go func() {
			if s.Acquire(patient(t), n) == nil {
				order <- i
			}
		}()
		receive(t, waiting, "it to wait")
	}
	require.ErrorIs(t, s.TryAcquire(patient(t), 1), lockrt.ErrNotAcquired)
	for range 4 {
		requireNothing(t, order)
		require.NoError(t, s.Release(t.Context(), 1))
	}
	require.Equal(t, 0, receive(t, order, "the big one"))
	require.NoError(t, s.Release(t.Context(), 4))
	for range 3 {
		require.NotZero(t, receive(t, order, "the others"))
	}
	requireAvailable(t, 0, s)
}

// requireNothing checks that nothing came.
func requireNothing[T any](t *testing.T, ch <-chan T) {
	t.Helper()
	select {
	case v := <-ch:
		require.Fail(t, "too early", "%v", v)
	default:
	}
}

// Calls that try once do not fail because others try at the same moment, or for more permits than
// there are.
func TestSemaphore_TriesDoNotStandInEachOthersWay(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	s := c.Semaphore(redistest.Key(t, "s"), 100)
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			if err := s.TryAcquire(patient(t), 1); err != nil {
				t.Error(err)
			}
		})
		if i%5 == 0 {
			wg.Go(func() {
				if err := s.TryAcquire(patient(t), 101); err == nil {
					t.Error("there are no 101")
				}
			})
		}
	}
	wg.Wait()
	requireAvailable(t, 0, s)
}

func TestSemaphore_ACancelledWaiterMakesRoom(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	c := newClient(t, lockrt.Options{Hooks: hooks})
	s := c.Semaphore(redistest.Key(t, "s"), 2)
	require.NoError(t, s.Acquire(patient(t), 1))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	big := later(func() error { return s.Acquire(ctx, 2) })
	receive(t, waiting, "the big one to wait")
	small := later(func() error { return s.Acquire(patient(t), 1) })
	receive(t, waiting, "the small one to wait")
	cancel()
	require.ErrorIs(t, receive(t, big, "the big one"), context.Canceled)
	require.NoError(t, receive(t, small, "the small one"), "nothing else would wake it soon")
	requireAvailable(t, 0, s)
	require.NoError(t, s.Release(t.Context(), 2))
	tidy(t, c, redistest.Shared(t), s.Key())
}

func TestSemaphore_CancellationRacingWithGrantsLosesNothing(t *testing.T) {
	t.Parallel()
	one, two := newClient(t, lockrt.Options{}), newClient(t, lockrt.Options{})
	key := redistest.Key(t, "s")
	var wg sync.WaitGroup
	for _, c := range []*lockrt.Client{one, two} {
		for g := range 8 {
			wg.Go(func() {
				s := c.Semaphore(key, 3)
				for i := range 40 {
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration((i*g)%7)*300*time.Microsecond)
					if s.Acquire(ctx, 1+i%3) == nil {
						if err := s.Release(context.Background(), 1+i%3); err != nil {
							t.Error(err)
						}
					}
					cancel()
				}
			})
		}
	}
	wg.Wait()
	s := one.Semaphore(key, 3)
	until(t, "all is given back", func() bool {
		n, err := s.Available(patient(t))
		return err == nil && n == 3
	})
	until(t, "requests that arrive late have given it back, too", func() bool { return s.TryAcquire(patient(t), 3) == nil })
	require.NoError(t, s.Release(t.Context(), 3))
	tidy(t, one, redistest.Shared(t), key)
	tidy(t, two, redistest.Shared(t), key)
}

// A message must be one that Java's listener can parse and use: a number, and no negative one.
func TestSemaphore_SaysOnlyWhatJavaUnderstands(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	s := c.Semaphore(redistest.Key(t, "s"), 0)
	said := listen(t, "redisson_sc:{"+s.Key()+"}")
	_, err := s.TrySetPermits(t.Context(), 2, 0)
	require.NoError(t, err)
	_, err = s.Resize(t.Context(), -5)
	require.NoError(t, err)
	require.NoError(t, s.Release(t.Context(), 1))
	require.NoError(t, s.Release(t.Context(), 4))
	require.Equal(t, "2", receive(t, said, "the first permits"))
	require.Equal(t, "2", receive(t, said, "the second"))
	requireNothing(t, said)
}

// listen returns where the messages of a channel come, from now on.
func listen(t *testing.T, channel string) <-chan string {
	t.Helper()
	rc := redistest.Shared(t).Client()
	conn, release := rc.Dedicate()
	t.Cleanup(release)
	said := make(chan string, 100)
	conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { said <- m.Message }})
	require.NoError(t, conn.Do(t.Context(), rc.B().Subscribe().Channel(channel).Build()).Error())
	return said
}

// subscribers returns how many listen to a channel.
func subscribers(t *testing.T, server *redistest.RedisServer, channel string) int64 {
	t.Helper()
	reply, err := server.Do("PUBSUB", "NUMSUB", channel).ToArray()
	require.NoError(t, err)
	n, err := reply[1].AsInt64()
	require.NoError(t, err)
	return n
}

// A Java program releases with plain commands and its own message.
func TestSemaphore_IsWokenByJava(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	server := redistest.Shared(t)
	c := newClient(t, lockrt.Options{Hooks: hooks})
	s := c.Semaphore(redistest.Key(t, "s"), 1)
	require.NoError(t, s.Acquire(patient(t), 1))
	channel := "redisson_sc:{" + s.Key() + "}"
	got := later(func() error { return s.Acquire(patient(t), 1) })
	receive(t, waiting, "it to wait")
	until(t, "it listens", func() bool { return subscribers(t, server, channel) == 1 })
	start := time.Now()
	server.Do("INCRBY", s.Key(), "1")
	server.Do("PUBLISH", channel, "1")
	require.NoError(t, receive(t, got, "the permit"))
	require.Less(t, time.Since(start), 4*time.Second, "before it would ask by itself")
}

// A message may get lost, or never be sent: the wait is finite all the same.
func TestSemaphore_NeedsNoMessage(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	server := redistest.Shared(t)
	s := newClient(t, lockrt.Options{Hooks: hooks}).Semaphore(redistest.Key(t, "s"), 1)
	require.NoError(t, s.Acquire(patient(t), 1))
	got := later(func() error { return s.Acquire(patient(t), 1) })
	receive(t, waiting, "it to wait")
	until(t, "it listens", func() bool { return subscribers(t, server, "redisson_sc:{"+s.Key()+"}") == 1 })
	server.Do("SET", s.Key(), "1")
	require.NoError(t, receive(t, got, "the permit"))
}

func TestSemaphore_CloseEndsTheWait(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	c := newClient(t, lockrt.Options{Hooks: hooks})
	s := c.Semaphore(redistest.Key(t, "s"), 1)
	require.NoError(t, s.Acquire(patient(t), 1))
	got := later(func() error { return s.Acquire(patient(t), 1) })
	receive(t, waiting, "it to wait")
	require.NoError(t, c.Close())
	require.ErrorIs(t, receive(t, got, "the one that waits"), lockrt.ErrClosed)
	require.ErrorIs(t, s.Acquire(patient(t), 1), lockrt.ErrClosed)
}

func TestSemaphore_ReleaseWorksAfterClose(t *testing.T) {
	t.Parallel()
	rc := redistest.Shared(t).Client()
	c, err := lockrt.New(rc, lockrt.Options{})
	require.NoError(t, err)
	s := c.Semaphore(redistest.Key(t, "s"), 1)
	require.NoError(t, s.Acquire(patient(t), 1))
	require.NoError(t, c.Close())
	require.NoError(t, s.Release(t.Context(), 1))
	requireAvailable(t, 1, s)
}

func TestSemaphore_DoGivesBackAlsoAfterAPanic(t *testing.T) {
	t.Parallel()
	s := newClient(t, lockrt.Options{}).Semaphore(redistest.Key(t, "s"), 2)
	require.NoError(t, s.Do(patient(t), 2, func(context.Context) error {
		requireAvailable(t, 0, s)
		return nil
	}))
	require.Panics(t, func() {
		_ = s.Do(patient(t), 2, func(context.Context) error { panic("x") })
	})
	requireAvailable(t, 2, s)
}

// After Redis lost a semaphore, a client that knows its number of permits creates it whole again. A release does not create it with the
// released permits alone.
func TestSemaphore_LostByRedisIsWholeAgain(t *testing.T) {
	t.Parallel()
	s := newClient(t, lockrt.Options{}).Semaphore(redistest.Key(t, "s"), 3)
	require.NoError(t, s.Acquire(patient(t), 2))
	redistest.Shared(t).Do("DEL", s.Key())
	require.NoError(t, s.Release(t.Context(), 2))
	requireAvailable(t, 3, s)
	require.NoError(t, s.TryAcquire(patient(t), 3))
}

// A call that creates the semaphore does so although a call of the same client waits for it, and creates nothing.
func TestSemaphore_IsCreatedBehindACallThatWaits(t *testing.T) {
	t.Parallel()
	for name, acquire := range map[string]func(ctx context.Context, c *lockrt.Client, key string, permits int, opts ...lockrt.LockOption) error{
		"semaphore": func(ctx context.Context, c *lockrt.Client, key string, permits int, opts ...lockrt.LockOption) error {
			return c.Semaphore(key, permits).Acquire(ctx, 1, opts...)
		},
		"permits": func(ctx context.Context, c *lockrt.Client, key string, permits int, opts ...lockrt.LockOption) error {
			return second(c.PermitSemaphore(key, permits).Acquire(ctx, opts...))
		},
	} {
		for tries, opts := range map[string][]lockrt.LockOption{" is waited for": nil, " is tried": {lockrt.WithWait(0)}} {
			t.Run(name+tries, func(t *testing.T) {
				t.Parallel()
				hooks, waiting, _ := watch()
				c, key := newClient(t, lockrt.Options{Hooks: hooks}), redistest.Key(t, "s")
				first := later(func() error { return acquire(patient(t), c, key, 0) })
				receive(t, waiting, "it to wait")
				require.NoError(t, acquire(patient(t), c, key, 5, opts...))
				require.NoError(t, receive(t, first, "the one that waits"))
			})
		}
	}
}

func TestSemaphore_KeepsFewResults(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	s := newClient(t, lockrt.Options{}).Semaphore(redistest.Key(t, "s"), 8)
	for i := range 50 {
		require.NoError(t, s.Acquire(patient(t), 1+i%8), strconv.Itoa(i))
		require.NoError(t, s.Release(t.Context(), 1+i%8))
	}
	keys, err := server.Do("KEYS", "lockgen_requests:{"+s.Key()+"}:*").AsStrSlice()
	require.NoError(t, err)
	require.Len(t, keys, 1)
	require.LessOrEqual(t, number(t, server, "ZCARD", keys[0]), int64(2))
	require.Positive(t, number(t, server, "PTTL", keys[0]))
}

// The waiters of a process ask together for released permits.
func TestSemaphore_ManyPermitsAreTakenByOneRequest(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	line := newLine(t, lockrt.Options{Hooks: hooks})
	other := newClient(t, lockrt.Options{}).Semaphore(line.key, 0)
	_, err := other.TrySetPermits(t.Context(), 0, 0)
	require.NoError(t, err)
	s := line.client.Semaphore(line.key, 0)
	asked := line.seen(redistest.EvalSHA(scripts.SemaphoreAcquire.SHA1()))
	got := make(chan error, 60)
	atBest(t, "one request was enough", func() bool {
		for range cap(got) {
			go func() { got <- s.Acquire(patient(t), 1) }()
			receive(t, waiting, "it to wait")
		}
		until(t, "it listens", func() bool { return subscribers(t, line.server, "redisson_sc:{"+line.key+"}") == 1 })
		for len(asked) > 0 {
			<-asked
		}
		_, err = other.Resize(t.Context(), cap(got))
		require.NoError(t, err)
		for range cap(got) {
			require.NoError(t, receive(t, got, "permits"))
		}
		requireAvailable(t, 0, s)
		return len(asked) == 1
	})
}
