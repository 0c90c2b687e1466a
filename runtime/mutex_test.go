package lockrt_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

func TestMutex_LeavesRedissonsLayout(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	m := newClient(t, lockrt.Options{}).Mutex(redistest.Key(t, "order:42"))
	lease, err := m.Lock(patient(t))
	require.NoError(t, err)
	hash, err := server.Do("HGETALL", m.Key()).AsStrMap()
	require.NoError(t, err)
	require.Len(t, hash, 1)
	for owner, count := range hash {
		require.Regexp(t, regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}:[1-9][0-9]*$`), owner)
		require.Equal(t, "1", count)
	}
	ttl, err := lease.TTL(patient(t))
	require.NoError(t, err)
	require.Greater(t, ttl, 25*time.Second)
	require.LessOrEqual(t, ttl, 30*time.Second)
	require.NoError(t, lease.Unlock(t.Context()))
	freed(t, m.Key())
}

func TestMutex_EachGrantHasAnOwnerOfItsOwn(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).Mutex(redistest.Key(t, "k"))
	owners := map[string]bool{}
	for range 3 {
		lease, err := m.Lock(patient(t))
		require.NoError(t, err)
		fields, err := redistest.Shared(t).Do("HKEYS", m.Key()).AsStrSlice()
		require.NoError(t, err)
		owners[fields[0]] = true
		require.NoError(t, lease.Unlock(t.Context()))
	}
	require.Len(t, owners, 3)
}

func TestMutex_ExcludesOtherClientsAndWakesThemByMessage(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	key := redistest.Key(t, "k")
	lease, err := newClient(t, lockrt.Options{}).Mutex(key).Lock(patient(t))
	require.NoError(t, err)
	other := newClient(t, lockrt.Options{Hooks: hooks}).Mutex(key)
	_, err = other.TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	require.EqualError(t, err, fmt.Sprintf("lockgen: try lock %q: not acquired", key))

	got := lockLater(patient(t), other) // the watchdog time is longer than the test is patient
	receive(t, waiting, "the waiter")
	require.NoError(t, lease.Unlock(t.Context()))
	next := receive(t, got, "the lock")
	require.NoError(t, next.err)
	require.NoError(t, next.lease.Unlock(t.Context()))
}

func TestMutex_HeldHereIsRefusedWithoutARoundTrip(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), unwatched)
	atBest(t, "was nothing sent", func() bool { // but a late copy of the request that locked
		lease, err := c.Mutex("k").Lock(patient(t))
		require.NoError(t, err)
		server.Do("CONFIG", "RESETSTAT")
		_, err = c.Mutex("k").TryLock(patient(t))
		require.ErrorIs(t, err, lockrt.ErrNotAcquired)
		_, err = c.Mutex("k").Lock(patient(t), lockrt.WithWait(0))
		require.ErrorIs(t, err, lockrt.ErrNotAcquired)
		sent := server.CommandStats()["evalsha"]
		require.NoError(t, lease.Unlock(t.Context()))
		return sent == 0
	})
}

func TestMutex_GoroutinesAreServedInOrder(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{Hooks: hooks, Cohort: 100, Tracking: lockrt.TrackingOff})
	held := ok(t)(clientOf(t, server.URL(), unwatched).Mutex("other").Lock(patient(t)))
	listens := lockLater(patient(t), c.Mutex("other"))
	receive(t, waiting, "the waiter for the other key")
	inLine(t, server, "other", 1) // only a client that listens stands there
	m := c.Mutex("k")
	first, err := m.Lock(patient(t))
	require.NoError(t, err)
	var order []int
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			lease, err := m.Lock(patient(t))
			if err != nil {
				t.Error(err)
				return
			}
			order = append(order, i) // guarded by the lock
			if err := lease.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		})
		receive(t, waiting, "the next in the queue")
	}
	server.Do("CONFIG", "RESETSTAT")
	start := time.Now()
	require.NoError(t, first.Unlock(t.Context()))
	wg.Wait()
	require.IsIncreasing(t, order)
	require.Len(t, order, 20)
	// One release after the last of them, and every 10ms whether others wait.
	require.LessOrEqual(t, server.CommandStats()["evalsha"], 2+time.Since(start).Milliseconds()/10)
	free(t, held)
	free(t, gotten(t, listens, "the other key"))
}

func TestMutex_OtherProcessesGetTheirTurn(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	busy := newClient(t, lockrt.Options{Cohort: 4})
	stop, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for stop.Err() == nil {
				lease, err := busy.Mutex(key).Lock(stop)
				if err != nil {
					continue
				}
				if err := lease.Unlock(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	other := newClient(t, lockrt.Options{}).Mutex(key)
	for range 10 {
		lease, err := other.Lock(patient(t))
		require.NoError(t, err, "eight goroutines that never pause do not keep the key for ever")
		require.NoError(t, lease.Unlock(t.Context()))
	}
	cancel()
	wg.Wait()
}

func TestMutex_WithWait(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	c, other := newClient(t, lockrt.Options{}), newClient(t, lockrt.Options{})
	lease, err := c.Mutex(key).Lock(patient(t))
	require.NoError(t, err)
	for name, m := range map[string]*lockrt.Mutex{"here": c.Mutex(key), "elsewhere": other.Mutex(key)} {
		start := time.Now()
		_, err := m.Lock(patient(t), lockrt.WithWait(50*time.Millisecond))
		require.ErrorIs(t, err, lockrt.ErrNotAcquired, name)
		require.ErrorContains(t, err, `": not acquired after `, name)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.GreaterOrEqual(t, time.Since(start), 50*time.Millisecond, name)
		_, err = c.Mutex(key, lockrt.WithWait(time.Hour)).Lock(patient(t), lockrt.WithWait(time.Millisecond))
		require.ErrorIs(t, err, lockrt.ErrNotAcquired, "the call's option wins")
	}
	require.NoError(t, lease.Unlock(t.Context()))

	lease, err = other.Mutex(key).Lock(patient(t), lockrt.WithWait(patience))
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(t.Context()))
}

func TestMutex_TheWaitDoesNotEndTheHold(t *testing.T) {
	t.Parallel()
	lease, err := newClient(t, lockrt.Options{}).Mutex(redistest.Key(t, "k")).Lock(t.Context(), lockrt.WithWait(time.Second))
	require.NoError(t, err)
	_, limited := lease.Context().Deadline()
	require.False(t, limited)
	require.NoError(t, lease.Unlock(t.Context()))
}

func TestMutex_ContextEndsTheWait(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	hooks, waiting, _ := watch()
	c, other := newClient(t, lockrt.Options{Hooks: hooks}), newClient(t, lockrt.Options{Hooks: hooks})
	lease, err := c.Mutex(key).Lock(patient(t))
	require.NoError(t, err)
	why := errors.New("the user went away")
	for _, m := range []*lockrt.Mutex{c.Mutex(key), other.Mutex(key)} {
		ctx, cancel := context.WithCancelCause(t.Context())
		got := lockLater(ctx, m)
		receive(t, waiting, "the waiter")
		cancel(why)
		err := receive(t, got, "its error").err
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, why)
		require.NotErrorIs(t, err, lockrt.ErrNotAcquired)
	}
	require.NoError(t, lease.Unlock(t.Context()))
	gone(t, redistest.Shared(t), key) // at once, unless the call that gave up is still in the wait queue
}

func TestMutex_AContextThatIsDoneGetsNothing(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).Mutex(redistest.Key(t, "k"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := m.Lock(ctx)
	require.ErrorIs(t, err, context.Canceled)
	_, err = m.TryLock(ctx)
	require.ErrorIs(t, err, context.Canceled)
	freed(t, m.Key())
}

func TestMutex_AWaiterThatGivesUpLetsTheNextOneIn(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	key := redistest.Key(t, "k")
	holder, c := newClient(t, lockrt.Options{}), newClient(t, lockrt.Options{Hooks: hooks})
	lease, err := holder.Mutex(key).Lock(patient(t))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	first := lockLater(ctx, c.Mutex(key))
	receive(t, waiting, "the first waiter")
	second := lockLater(patient(t), c.Mutex(key))
	receive(t, waiting, "the second waiter")
	cancel()
	require.ErrorIs(t, receive(t, first, "the first").err, context.Canceled)
	require.NoError(t, lease.Unlock(t.Context()))
	got := receive(t, second, "the second, which leads now")
	require.NoError(t, got.err)
	require.NoError(t, got.lease.Unlock(t.Context()))
}

func TestMutex_BadInputIsRefusedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{})
	long := strings.Repeat("x", 1025)
	for key, reason := range map[string]string{
		"":      "the key is empty",
		long:    "the key is 1025 bytes long; at most 1024 are accepted",
		"a{b":   `the key has a "{" that begins no hash tag; a cluster could not unlock it: close it, as in "{tag}"`,
		"{}x":   `the key has a "{" that begins no hash tag; a cluster could not unlock it: close it, as in "{tag}"`,
		"x}y{z": `the key has a "{" that begins no hash tag; a cluster could not unlock it: close it, as in "{tag}"`,
	} {
		for _, err := range []error{
			second(c.Mutex(key).Lock(patient(t))),
			second(c.Mutex(key).TryLock(patient(t))),
			second(c.Mutex(key).ForceUnlock(patient(t))),
		} {
			var bad *lockrt.KeyError
			require.ErrorAs(t, err, &bad)
			require.EqualError(t, bad, reason)
			require.ErrorContains(t, err, fmt.Sprintf("%q: %s", key, reason))
		}
	}
	for _, opt := range []lockrt.LockOption{
		lockrt.WithWait(-time.Second), lockrt.WithLease(0), lockrt.WithLease(-time.Second),
		lockrt.WithLease(time.Microsecond), lockrt.WithWatchdog(0), lockrt.WithWatchdog(time.Millisecond),
	} {
		_, err := c.Mutex("k").Lock(patient(t), opt)
		require.ErrorIs(t, err, lockrt.ErrBadOption)
		_, err = c.Mutex("k", opt).Lock(patient(t))
		require.ErrorIs(t, err, lockrt.ErrBadOption)
	}
	require.Zero(t, server.CommandStats()["evalsha"])
	for _, key := range []string{"plain", "{t}x", "x{y}{z}", "a}b{c}d"} {
		lease, err := c.Mutex(key).Lock(patient(t))
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
	}
}

func second[T any](_ T, err error) error { return err }

func TestMutex_KeyOfAnotherType(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	key := redistest.Key(t, "k")
	server.Do("SET", key, "precious")
	m := newClient(t, lockrt.Options{}).Mutex(key)
	_, err := m.Lock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrWrongType)
	require.ErrorContains(t, err, "WRONGTYPE")
	_, err = m.TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrWrongType)
	_, err = m.ForceUnlock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrWrongType)
	value, err := server.Do("GET", key).ToString()
	require.NoError(t, err)
	require.Equal(t, "precious", value)
}

func TestMutex_Reentry(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), unwatched)
	m := c.Mutex("k")
	atBest(t, "was none of it Redis' business", func() bool { // where it is slow to answer, a copy of the request that locked comes late
		outer, err := m.Lock(patient(t))
		require.NoError(t, err)
		server.Do("CONFIG", "RESETSTAT")
		inner, err := c.Mutex("k").Lock(outer.Context())
		require.NoError(t, err)
		innermost, err := m.TryLock(inner.Context())
		require.NoError(t, err)
		require.NoError(t, innermost.Unlock(t.Context()))
		require.ErrorIs(t, innermost.Err(), lockrt.ErrReleased)
		require.NoError(t, outer.Unlock(t.Context()), "unlocked out of order")
		sent := server.CommandStats()["evalsha"]
		require.NoError(t, inner.Err(), "a lease is held until it is unlocked")
		_, err = m.TryLock(t.Context())
		require.ErrorIs(t, err, lockrt.ErrNotAcquired)
		require.NoError(t, inner.Unlock(t.Context()))
		free(t, tries(t.Context(), t, m)) // the last Unlock freed it
		return sent == 0
	})
}

func TestMutex_AnyOtherContextIsAStranger(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	c := newClient(t, lockrt.Options{})
	m := c.Mutex(key)
	lease, err := m.Lock(patient(t))
	require.NoError(t, err)
	_, err = m.TryLock(t.Context())
	require.ErrorIs(t, err, lockrt.ErrNotAcquired, "the same goroutine, but not the same holder")
	_, err = newClient(t, lockrt.Options{}).Mutex(key).TryLock(lease.Context())
	require.ErrorIs(t, err, lockrt.ErrNotAcquired, "another client's lease does not count")
	other, err := c.Mutex(key + ":other").Lock(lease.Context())
	require.NoError(t, err, "another key")
	nested, err := m.Lock(other.Context())
	require.NoError(t, err, "the lease is further up")
	require.NoError(t, nested.Unlock(t.Context()))
	require.NoError(t, other.Unlock(t.Context()))
	require.NoError(t, lease.Unlock(t.Context()))

	_, err = m.TryLock(lease.Context())
	require.ErrorIs(t, err, context.Canceled, "the context of an ended lease is done")
	detached := context.WithoutCancel(lease.Context())
	again := tries(detached, t, m)
	_, err = m.TryLock(detached)
	require.ErrorIs(t, err, lockrt.ErrNotAcquired, "the context of an ended lease makes nobody a holder")
	require.NoError(t, again.Unlock(t.Context()))
}

func TestMutex_DoUnlocksWhateverHappens(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).Mutex(redistest.Key(t, "k"))
	mine := errors.New("mine")
	require.NoError(t, m.Do(patient(t), func(ctx context.Context, l *lockrt.Lease) error {
		require.NoError(t, l.Err())
		require.Equal(t, l.Context(), ctx)
		return nil
	}))
	require.Equal(t, mine, m.Do(patient(t), func(context.Context, *lockrt.Lease) error { return mine }))
	require.PanicsWithValue(t, "boom", func() {
		_ = m.Do(patient(t), func(context.Context, *lockrt.Lease) error { panic("boom") })
	})
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = m.Do(patient(t), func(context.Context, *lockrt.Lease) error { panicExit(); return nil })
	}()
	receive(t, exited, "the goroutine that exits")
	freed(t, m.Key())

	err := m.Do(patient(t), func(context.Context, *lockrt.Lease) error {
		require.NoError(t, second(m.ForceUnlock(patient(t))))
		return mine
	})
	require.ErrorIs(t, err, mine)
	require.ErrorIs(t, err, lockrt.ErrLost, "the loss is told even if fn did not notice")
	err = m.Do(patient(t), func(ctx context.Context, _ *lockrt.Lease) error {
		require.NoError(t, second(m.ForceUnlock(patient(t))))
		return context.Cause(ctx)
	})
	require.Equal(t, 1, strings.Count(err.Error(), "lease lost: "), "told once, whichever way the client learns first that the key is gone")
	require.ErrorIs(t, m.Do(patient(t), nil, lockrt.WithLease(-1)), lockrt.ErrBadOption)
}

func TestMutex_ForceUnlock(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	hooks, waiting, _ := watch()
	c := newClient(t, lockrt.Options{Hooks: hooks})
	other := newClient(t, lockrt.Options{})
	m := c.Mutex(key)
	taken, err := m.ForceUnlock(patient(t))
	require.NoError(t, err)
	require.False(t, taken)

	lease, err := m.Lock(patient(t))
	require.NoError(t, err)
	got := lockLater(patient(t), m)
	receive(t, waiting, "the waiter")
	taken, err = m.ForceUnlock(patient(t))
	require.NoError(t, err)
	require.True(t, taken)
	require.ErrorIs(t, lease.Err(), lockrt.ErrLost, "a holder in this process is told at once")
	require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost)
	require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrReleased)
	free(t, gotten(t, got, "the next one"))

	atBest(t, "taken from elsewhere, was it noticed when unlocking", func() bool { // of a release that is answered late, it is not known
		lease, err := m.Lock(patient(t))
		require.NoError(t, err)
		taken, err := other.Mutex(key).ForceUnlock(patient(t))
		require.NoError(t, err)
		require.True(t, taken)
		return errors.Is(lease.Unlock(t.Context()), lockrt.ErrLost)
	})
}

func TestMutex_ForceUnlockWakesThoseWhoWaitElsewhere(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	hooks, waiting, _ := watch()
	lease, err := newClient(t, lockrt.Options{}).Mutex(key).Lock(patient(t))
	require.NoError(t, err)
	m := newClient(t, lockrt.Options{Hooks: hooks}).Mutex(key)
	got := lockLater(patient(t), m)
	receive(t, waiting, "the waiter")
	require.NoError(t, second(m.ForceUnlock(patient(t))))
	next := receive(t, got, "the lock")
	require.NoError(t, next.err)
	receive(t, lease.Context().Done(), "the loss") // of a release that is answered late, it would not be known
	require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost)
	_, err = next.lease.TTL(patient(t))
	require.NoError(t, err, "the late Unlock did not free somebody else's lock")
	require.NoError(t, next.lease.Unlock(t.Context()))
}

func TestMutex_ManyGoroutinesManyClientsExcludeEachOther(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	var inside, total int
	var wg sync.WaitGroup
	for range 3 {
		c := newClient(t, lockrt.Options{Cohort: 3})
		for range 8 {
			wg.Go(func() {
				for range 50 {
					err := c.Mutex(key).Do(patient(t), func(context.Context, *lockrt.Lease) error {
						inside++ // the race detector sees it too
						if inside != 1 {
							t.Error("two inside")
						}
						total++
						inside--
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	require.Equal(t, 1200, total)
	freed(t, key)
}
