package lockrt_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// This file does what Redisson's own tests of RReadWriteLock do, one test for each of theirs, under its name.
// A Java thread is a context here, times and numbers are smaller. The test that Redisson has
// disabled, MultiInstanceZombieReadLockPerformance, is left out.

func rwStanding(t *testing.T, m *lockrt.RWMutex) lockrt.RWStanding {
	t.Helper()
	s, err := m.Inspect(patient(t))
	require.NoError(t, err)
	return s
}

// readBy and writtenBy report whether anybody has the lock in that way.
func readBy(t *testing.T, m *lockrt.RWMutex) bool    { return len(rwStanding(t, m).Readers) > 0 }
func writtenBy(t *testing.T, m *lockrt.RWMutex) bool { return rwStanding(t, m).Writer != "" }

// lasted fails unless as much time has passed since start.
func lasted(t *testing.T, start time.Time, least, most time.Duration) {
	t.Helper()
	took := time.Since(start)
	require.GreaterOrEqual(t, took, least)
	require.Less(t, took, most)
}

// late is how much later than it should a loaded machine may do something.
const late = 5 * time.Second

func TestRedisson_RW_ReadLockExpiration(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	start := time.Now()
	ok(t)(newClient(t, lockrt.Options{}).RWMutex(key).RLock(patient(t), lockrt.WithLease(time.Second)))
	ok(t)(newClient(t, lockrt.Options{}).RWMutex(key).RLock(patient(t), lockrt.WithLease(300*time.Millisecond)))
	w := ok(t)(newClient(t, lockrt.Options{}).RWMutex(key).Lock(patient(t)))
	lasted(t, start, 990*time.Millisecond, time.Second+late)
	free(t, w)
}

func TestRedisson_RW_ReadLockIsLocked(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).RWMutex(redistest.Key(t, "k"))
	w := ok(t)(m.Lock(patient(t)))
	until(t, "nobody reads", func() bool { return !readBy(t, m) })
	r := ok(t)(m.RLock(w.Context()))
	require.True(t, readBy(t, m))
	free(t, r, w)
	until(t, "nobody reads", func() bool { return !readBy(t, m) })
}

func TestRedisson_RW_ReadLockExpirationRenewal(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	renewed := make(chan lockrt.RenewEvent, 10000)
	const watchdog = 9 * time.Second
	c := newClient(t, lockrt.Options{Watchdog: watchdog, Hooks: lockrt.Hooks{Renewed: func(_ context.Context, e lockrt.RenewEvent) { renewed <- e }}})
	start := time.Now()
	leases := make([]*lockrt.Lease, 50)
	jobs(t, len(leases), func(i int) (err error) {
		if i%10 == 0 {
			leases[i], err = newClient(t, lockrt.Options{Watchdog: watchdog}).RWMutex(key).RLock(patient(t))
			return err
		}
		leases[i], err = c.RWMutex(key).RLock(patient(t))
		return err
	})
	for time.Since(start) < 4*watchdog/3 {
		e := receive(t, renewed, "a renewal")
		require.NoError(t, e.Err)
		require.Equal(t, lockrt.KindRead, e.Kind)
	}
	free(t, leases...)
	nothingLeft(t, redistest.Shared(t), key)
}

func TestRedisson_RW_Name(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	m := clientOf(t, server.URL(), lockrt.Options{}).RWMutex("{test}:abc:key")
	jobs(t, 10, func(int) error {
		for range 10 {
			if err := m.RDo(patient(t), func(_ context.Context, l *lockrt.Lease) error { return l.Err() }); err != nil {
				return err
			}
		}
		return nil
	})
	emptied(t, server)
}

func TestRedisson_RW_WriteLockExpiration(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	m := newClient(t, lockrt.Options{}).RWMutex(key)
	w := ok(t)(m.Lock(patient(t), lockrt.WithLease(time.Minute)))
	in := ok(t)(m.Lock(w.Context(), lockrt.WithLease(100*time.Millisecond)))
	start := time.Now()
	_, err := newClient(t, lockrt.Options{}).RWMutex(key).Lock(patient(t), lockrt.WithWait(300*time.Millisecond))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired, "a short reentry does not cut the lease")
	lasted(t, start, 300*time.Millisecond, 300*time.Millisecond+late)
	require.NoError(t, in.Err())
	require.NoError(t, w.Err())
	free(t, in, w)
}

// A node that has all slots is one server; clusters are refused so far.
func TestRedisson_RW_InCluster(t *testing.T) {
	t.Parallel()
	m := inCluster(t, redistest.SharedCluster(t), lockrt.Options{}).RWMutex(redistest.Key(t, "order:42"))
	w := ok(t)(m.Lock(patient(t), lockrt.WithFencing()))
	r := ok(t)(m.RLock(w.Context()))
	free(t, r, w)
	until(t, "nobody writes", func() bool { return !writtenBy(t, m) })
	free(t, ok(t)(m.RLock(patient(t))))
	_, err := m.ForceRUnlock(patient(t))
	require.NoError(t, err)
}

func TestRedisson_RW_ReadLockLeaseTimeoutDiffThreadsWRR(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	start := time.Now()
	w := ok(t)(newClient(t, lockrt.Options{}).RWMutex(key).Lock(patient(t), lockrt.WithLease(time.Second)))
	m, other := newClient(t, lockrt.Options{}).RWMutex(key), newClient(t, lockrt.Options{}).RWMutex(key)
	one, two := readLater(patient(t), m), readLater(patient(t), other)
	leases := []*lockrt.Lease{gotten(t, one, "the first reader"), gotten(t, two, "the second reader")}
	lasted(t, start, 990*time.Millisecond, time.Second+late)
	require.ErrorIs(t, w.Err(), lockrt.ErrLost)
	free(t, leases...)
	require.ErrorIs(t, w.Unlock(t.Context()), lockrt.ErrLost)
}

func TestRedisson_RW_ReadLockLeaseTimeoutDiffThreadsRRW(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	start := time.Now()
	m := newClient(t, lockrt.Options{}).RWMutex(key)
	r := ok(t)(m.RLock(patient(t), lockrt.WithLease(400*time.Millisecond)))
	r2 := ok(t)(m.RLock(patient(t), lockrt.WithLease(time.Second)))
	w := ok(t)(m.Lock(patient(t)))
	lasted(t, start, 900*time.Millisecond, time.Second+late) // this process is told a margin before
	require.ErrorIs(t, r.Err(), lockrt.ErrLost)
	require.ErrorIs(t, r2.Err(), lockrt.ErrLost)
	free(t, w)
}

func TestRedisson_RW_ReadLockLeaseTimeout(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	m := newClient(t, lockrt.Options{}).RWMutex(key)
	r := ok(t)(m.RLock(patient(t), lockrt.WithLease(500*time.Millisecond)))
	start := time.Now()
	in := ok(t)(m.RLock(r.Context(), lockrt.WithLease(time.Second)))
	w := ok(t)(newClient(t, lockrt.Options{}).RWMutex(key).Lock(patient(t)))
	lasted(t, start, 990*time.Millisecond, time.Second+late)
	require.ErrorIs(t, r.Unlock(t.Context()), lockrt.ErrLost)
	require.ErrorIs(t, in.Unlock(t.Context()), lockrt.ErrLost)
	require.NoError(t, w.Err(), "it is not the readers' to unlock")
	free(t, w)
	nothingLeft(t, redistest.Shared(t), key)
}

func TestRedisson_RW_WR(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).RWMutex(redistest.Key(t, "k"))
	w := ok(t)(m.Lock(patient(t)))
	r := ok(t)(m.RLock(w.Context()))
	require.True(t, writtenBy(t, m))
	free(t, r)
	require.True(t, writtenBy(t, m))
	free(t, w)
	until(t, "nobody has the lock", func() bool { s := rwStanding(t, m); return s.Writer == "" && len(s.Readers) == 0 && s.TTL == 0 })
}

func TestRedisson_RW_WriteRead(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	key := redistest.Key(t, "k")
	clients := []*lockrt.Client{newClient(t, lockrt.Options{Hooks: hooks}), newClient(t, lockrt.Options{Hooks: hooks})}
	w := ok(t)(newClient(t, lockrt.Options{}).RWMutex(key).Lock(patient(t)))
	var readers []<-chan locked
	for i := range 20 {
		readers = append(readers, readLater(patient(t), clients[i%2].RWMutex(key)))
		receive(t, waiting, "a reader")
	}
	start := time.Now()
	free(t, w)
	for _, r := range readers {
		free(t, gotten(t, r, "a reader"))
	}
	lasted(t, start, 0, time.Second+late)
}

func TestRedisson_RW_WriteReadReentrancy(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	key := redistest.Key(t, "k")
	m, other := newClient(t, lockrt.Options{}).RWMutex(key), newClient(t, lockrt.Options{Hooks: hooks}).RWMutex(key)
	ctx := lockrt.WithOwner(patient(t), lockrt.NewOwner())
	w, r := ok(t)(m.Lock(ctx)), ok(t)(m.RLock(ctx))
	free(t, w)
	until(t, "nobody writes", func() bool { return !writtenBy(t, m) })
	_, err := other.TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	next := lockLater(patient(t), other)
	receive(t, waiting, "the writer")
	free(t, r)
	free(t, gotten(t, next, "the lock for writing"))
}

func TestRedisson_RW_WriteLock(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	m, other := newClient(t, lockrt.Options{}).RWMutex(key), newClient(t, lockrt.Options{}).RWMutex(key)
	w := ok(t)(m.TryLock(patient(t)))
	in := ok(t)(m.TryLock(w.Context()))
	require.Equal(t, 2, rwStanding(t, m).WriteCount)
	_, err := other.TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	free(t, in)
	require.Equal(t, 1, rwStanding(t, m).WriteCount)
	_, err = other.TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	free(t, w)
	until(t, "nobody has the lock", func() bool { return rwStanding(t, m).WriteCount == 0 })
	free(t, tries(patient(t), t, other))
}

func TestRedisson_RW_MultiRead(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	one, two := newClient(t, lockrt.Options{}).RWMutex(key), newClient(t, lockrt.Options{}).RWMutex(key)
	a, b := ok(t)(one.TryRLock(patient(t))), ok(t)(two.TryRLock(patient(t)))
	writer := newClient(t, lockrt.Options{}).RWMutex(key)
	for _, l := range []*lockrt.Lease{a, b} {
		_, err := writer.TryLock(patient(t))
		require.ErrorIs(t, err, lockrt.ErrNotAcquired)
		free(t, l)
	}
	free(t, tries(patient(t), t, writer))
}

func TestRedisson_RW_ForceUnlock(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).RWMutex(redistest.Key(t, "k"))
	w := ok(t)(m.Lock(patient(t)))
	taken, err := m.ForceRUnlock(patient(t))
	require.NoError(t, err)
	require.False(t, taken)
	require.True(t, writtenBy(t, m))
	taken, err = m.ForceUnlock(patient(t))
	require.NoError(t, err)
	require.True(t, taken)
	until(t, "nobody writes", func() bool { return !writtenBy(t, m) })
	require.ErrorIs(t, w.Err(), lockrt.ErrLost)

	r := ok(t)(m.RLock(patient(t)))
	taken, err = m.ForceUnlock(patient(t))
	require.NoError(t, err)
	require.False(t, taken)
	require.True(t, readBy(t, m))
	taken, err = m.ForceRUnlock(patient(t))
	require.NoError(t, err)
	require.True(t, taken)
	until(t, "nobody reads", func() bool { return !readBy(t, m) })
	require.ErrorIs(t, r.Err(), lockrt.ErrLost)
}

func TestRedisson_RW_ReadWriteTTL(t *testing.T) {
	t.Parallel()
	const watchdog = 9 * time.Second
	server := redistest.Server(t)
	renewed := make(chan lockrt.RenewEvent, 10000)
	c := clientOf(t, server.URL(), lockrt.Options{Watchdog: watchdog, Hooks: lockrt.Hooks{Renewed: func(_ context.Context, e lockrt.RenewEvent) { renewed <- e }}})
	m := c.RWMutex("k")
	ctx := lockrt.WithOwner(patient(t), lockrt.NewOwner())
	w, r := ok(t)(m.Lock(ctx)), ok(t)(m.RLock(ctx))
	start := time.Now()
	both := map[lockrt.Kind]int{}
	for time.Since(start) < 4*watchdog/3 || both["read"] < 3 || both["write"] < 3 {
		e := receive(t, renewed, "a renewal")
		require.NoError(t, e.Err)
		both[e.Kind]++
		require.Greater(t, number(t, server, "PTTL", "k"), int64(0))
	}
	free(t, w)
	start = time.Now()
	for reads := 0; time.Since(start) < 4*watchdog/3 || reads < 3; {
		if e := receive(t, renewed, "a renewal"); e.Kind == "read" {
			reads++
			require.NoError(t, e.Err)
		}
		ttl, err := r.TTL(patient(t))
		require.NoError(t, err)
		require.Greater(t, ttl, time.Duration(0))
	}
	free(t, r)
	noLocks(t, server)
}

// noLocks shows that no key of a lock is left. The hash in which a client says who it is outlives the locks of one that held any for
// long.
func noLocks(t *testing.T, server *redistest.RedisServer) {
	t.Helper()
	keys, err := server.Do("KEYS", "*").AsStrSlice()
	require.NoError(t, err)
	require.Empty(t, slices.DeleteFunc(keys, func(key string) bool { return strings.HasPrefix(key, "lockgen_process:") }))
}

func TestRedisson_RW_ExpireRead(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	start := time.Now()
	r := ok(t)(newClient(t, lockrt.Options{}).RWMutex(key).RLock(patient(t), lockrt.WithLease(500*time.Millisecond)))
	w := ok(t)(newClient(t, lockrt.Options{}).RWMutex(key).Lock(patient(t)))
	lasted(t, start, 490*time.Millisecond, 500*time.Millisecond+late)
	require.ErrorIs(t, r.Unlock(t.Context()), lockrt.ErrLost)
	free(t, w)
}

func TestRedisson_RW_ExpireWrite(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	start := time.Now()
	w := ok(t)(newClient(t, lockrt.Options{}).RWMutex(key).Lock(patient(t), lockrt.WithLease(500*time.Millisecond)))
	next := ok(t)(newClient(t, lockrt.Options{}).RWMutex(key).Lock(patient(t)))
	lasted(t, start, 490*time.Millisecond, 500*time.Millisecond+late)
	require.ErrorIs(t, w.Unlock(t.Context()), lockrt.ErrLost)
	require.NoError(t, next.Err(), "it is not the old owner's to unlock")
	free(t, next)
}

func TestRedisson_RW_AutoExpire(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	c, err := opened(t.Context(), redistest.Shared(t).URL(), lockrt.Options{Watchdog: 2 * time.Second})
	require.NoError(t, err)
	start := time.Now()
	ok(t)(c.RWMutex(key).Lock(patient(t)))
	require.NoError(t, c.Close())
	w := ok(t)(newClient(t, lockrt.Options{}).RWMutex(key).Lock(patient(t)))
	lasted(t, start, 0, 3*time.Second+late)
	free(t, w)
}

func TestRedisson_RW_HoldCount(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).RWMutex(redistest.Key(t, "k"))
	for _, side := range []struct {
		lock  lockFunc
		count func(lockrt.RWStanding) int
	}{
		{m.Lock, func(s lockrt.RWStanding) int { return s.WriteCount }},
		{m.RLock, func(s lockrt.RWStanding) int { return s.ReadCount }},
	} {
		count := func() int { return side.count(rwStanding(t, m)) }
		require.Equal(t, 0, count())
		l := ok(t)(side.lock(patient(t)))
		require.Equal(t, 1, count())
		in := ok(t)(side.lock(l.Context()))
		require.Equal(t, 2, count())
		free(t, in)
		require.Equal(t, 1, count())
		free(t, l)
		require.Equal(t, 0, count())
	}
}

func TestRedisson_RW_IsHeldByCurrentThread(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).RWMutex(redistest.Key(t, "k"))
	r := ok(t)(m.RLock(patient(t)))
	require.NoError(t, r.Err())
	free(t, r)
	require.ErrorIs(t, r.Err(), lockrt.ErrReleased)
}

func TestRedisson_RW_IsHeldByCurrentThreadOtherThread(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	m := newClient(t, lockrt.Options{}).RWMutex(key)
	r := ok(t)(m.RLock(patient(t)))
	_, err := m.TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired, "another context does not have it, so this is no upgrade")
	_, err = m.TryLock(r.Context())
	require.ErrorIs(t, err, lockrt.ErrUpgrade)
	free(t, r)
}

func TestRedisson_RW_IsLocked(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).RWMutex(redistest.Key(t, "k"))
	until(t, "nobody reads", func() bool { return !readBy(t, m) })
	r := ok(t)(m.RLock(patient(t)))
	require.True(t, readBy(t, m))
	free(t, r)
	until(t, "nobody reads", func() bool { return !readBy(t, m) })
}

func TestRedisson_RW_IsLockedOtherThread(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	m, other := newClient(t, lockrt.Options{}).RWMutex(key), newClient(t, lockrt.Options{}).RWMutex(key)
	r := ok(t)(m.RLock(patient(t)))
	require.True(t, readBy(t, other))
	require.Zero(t, rwStanding(t, other).ReadCount)
	free(t, r)
	until(t, "nobody reads", func() bool { return !readBy(t, other) })
}

func TestRedisson_RW_UnlockFail(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).RWMutex(redistest.Key(t, "k"))
	r := ok(t)(m.RLock(patient(t)))
	free(t, r)
	require.ErrorIs(t, r.Unlock(t.Context()), lockrt.ErrReleased)
	other := ok(t)(m.RLock(patient(t)))
	require.ErrorIs(t, r.Unlock(t.Context()), lockrt.ErrReleased)
	require.True(t, readBy(t, m), "it is another's")
	free(t, other)
}

func TestRedisson_RW_LockUnlock(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).RWMutex(redistest.Key(t, "k"))
	for range 2 {
		free(t, ok(t)(m.RLock(patient(t))))
	}
}

func TestRedisson_RW_Reentrancy(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	m, other := newClient(t, lockrt.Options{}).RWMutex(key), newClient(t, lockrt.Options{}).RWMutex(key)
	r := ok(t)(m.RLock(patient(t)))
	in := ok(t)(m.RLock(r.Context()))
	free(t, in)
	_, err := other.TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired, "it was entered twice and left once")
	free(t, r)
	free(t, tries(patient(t), t, other))
}

// mix reads and writes at random, and fails if a writer is beside anybody.
type mix struct{ readers, writers, total atomic.Int32 }

func (x *mix) turn(ctx context.Context, m *lockrt.RWMutex) error {
	if rand.IntN(2) == 0 {
		return m.RDo(ctx, func(_ context.Context, l *lockrt.Lease) error {
			x.readers.Add(1)
			defer x.readers.Add(-1)
			x.total.Add(1)
			if n := x.writers.Load(); n != 0 {
				return fmt.Errorf("a reader beside %d writers", n)
			}
			return l.Err()
		})
	}
	return m.Do(ctx, func(_ context.Context, l *lockrt.Lease) error {
		n := x.writers.Add(1)
		defer x.writers.Add(-1)
		x.total.Add(1)
		if r := x.readers.Load(); n != 1 || r != 0 {
			return fmt.Errorf("%d writers beside %d readers", n, r)
		}
		return l.Err()
	})
}

func TestRedisson_RW_Concurrency_SingleInstance(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).RWMutex(redistest.Key(t, "k"))
	var x mix
	jobs(t, 30, func(int) error { return x.turn(patient(t), m) })
	require.EqualValues(t, 30, x.total.Load())
	nothingLeft(t, redistest.Shared(t), m.Key())
}

func TestRedisson_RW_ConcurrencyLoop_MultiInstance(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	var x mix
	jobs(t, 8, func(int) error {
		m := newClient(t, lockrt.Options{}).RWMutex(key)
		for range 20 {
			if err := x.turn(patient(t), m); err != nil {
				return err
			}
		}
		return nil
	})
	require.EqualValues(t, 160, x.total.Load())
	nothingLeft(t, redistest.Shared(t), key)
}

func TestRedisson_RW_Concurrency_MultiInstance(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	var x mix
	jobs(t, 30, func(int) error { return x.turn(patient(t), newClient(t, lockrt.Options{}).RWMutex(key)) })
	require.EqualValues(t, 30, x.total.Load())
	nothingLeft(t, redistest.Shared(t), key)
}

func TestRedisson_RW_MultiInstanceReadLockZombieCleanup(t *testing.T) {
	t.Parallel()
	const watchdog = 6 * time.Second
	server := redistest.Server(t)
	dead, err := opened(t.Context(), server.URL(), lockrt.Options{Watchdog: watchdog})
	require.NoError(t, err)
	living := clientOf(t, server.URL(), lockrt.Options{Watchdog: watchdog})
	ok(t)(dead.RWMutex("k").RLock(patient(t)))
	r := ok(t)(living.RWMutex("k").RLock(patient(t)))
	require.NoError(t, dead.Close())
	hold := func(c *lockrt.Client) string {
		for _, reader := range rwStanding(t, living.RWMutex("k")).Readers {
			if len(reader) > 36 && reader[:36] == c.ID() {
				return "{k}:" + reader + ":rwlock_timeout:1"
			}
		}
		return ""
	}
	gone(t, server, hold(dead))
	require.EqualValues(t, 1, number(t, server, "EXISTS", hold(living)), "a living reader keeps nobody else's hold alive")
	require.NoError(t, r.Err())
	w := lockLater(patient(t), clientOf(t, server.URL(), lockrt.Options{}).RWMutex("k"))
	free(t, r)
	free(t, gotten(t, w, "the lock for writing"))
	noLocks(t, server)
}

// A Java program that listens is let in though the readers of two processes never pause.
func TestRWMutex_AJavaProgramThatWaitsIsLetIn(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	m := clientOf(t, server.URL(), lockrt.Options{}).RWMutex("k")
	both := []*lockrt.RWMutex{m, clientOf(t, server.URL(), lockrt.Options{}).RWMutex("k")}
	stop, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 8)
	for i := range cap(ended) {
		go func() {
			var err error
			for err == nil && stop.Err() == nil {
				err = both[i%2].RDo(context.Background(), func(context.Context, *lockrt.Lease) error {
					<-time.After(time.Millisecond) // long enough that they are never all out
					return nil
				})
			}
			ended <- err
		}()
	}
	until(t, "it is read", func() bool { return readBy(t, m) })
	const java = "11111111-2222-4333-8444-555555555555:42:write"
	heard := make(chan string, 1000)
	conn, release := server.Client().Dedicate()
	defer release()
	conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { heard <- m.Message }})
	require.NoError(t, conn.Do(t.Context(), conn.B().Subscribe().Channel("redisson_rwlock:{k}").Build()).Error())
	for {
		// The effect of Redisson's script in one step, as no other call would be refused in
		// between.
		got, err := server.Do("EVAL", "if redis.call('exists', KEYS[1]) == 1 then return 0 end "+
			"redis.call('hset', KEYS[1], 'mode', 'write', ARGV[1], 1) redis.call('pexpire', KEYS[1], 30000) return 1", "1", "k", java).AsInt64()
		require.NoError(t, err)
		if got == 1 {
			break
		}
		said, err := strconv.ParseInt(receive(t, heard, "a message"), 10, 64) // as Redisson reads it
		require.NoError(t, err)
		require.Zero(t, said)
	}
	require.Equal(t, map[string]string{"mode": "write", java: "1"}, fields(t, server, "k"))
	cancel()
	server.Do("DEL", "k")
	server.Do("PUBLISH", "redisson_rwlock:{k}", strconv.Itoa(1))
	for range cap(ended) {
		require.NoError(t, receive(t, ended, "the end of a reader"))
	}
}

// The effects of Redisson's scripts to lock, for writing and for reading, and to unlock.
const (
	javaWrites = `local mode = redis.call('hget', KEYS[1], 'mode') if mode then return 0 end
		redis.call('hset', KEYS[1], 'mode', 'write', ARGV[1] .. ':write', 1) redis.call('pexpire', KEYS[1], 30000) return 1`
	javaReads = `local mode = redis.call('hget', KEYS[1], 'mode') if mode == 'write' then return 0 end
		redis.call('hset', KEYS[1], 'mode', 'read') redis.call('hincrby', KEYS[1], ARGV[1], 1)
		redis.call('set', '{' .. KEYS[1] .. '}:' .. ARGV[1] .. ':rwlock_timeout:1', 1, 'px', 30000)
		redis.call('pexpire', KEYS[1], 30000) return 1`
	javaEndsWrite = `redis.call('del', KEYS[1]) redis.call('publish', 'redisson_rwlock:{' .. KEYS[1] .. '}', '1') return 1`
	javaEndsRead  = `redis.call('hdel', KEYS[1], ARGV[1]) redis.call('del', '{' .. KEYS[1] .. '}:' .. ARGV[1] .. ':rwlock_timeout:1')
		if redis.call('hlen', KEYS[1]) == 1 then
			redis.call('del', KEYS[1]) redis.call('publish', 'redisson_rwlock:{' .. KEYS[1] .. '}', '0') end return 1`
)

// javaLooks has a script of Java's say besides, by adding 2, that the lock was left to Redisson's waiters at that moment.
func javaLooks(script string) string {
	return "local turn, left = 'lockgen_turn:{' .. KEYS[1] .. '}', 0 local whose = redis.call('get', turn) or '' " +
		"if string.sub(whose, 1, 8) == 'redisson' and (whose == 'redisson' or redis.call('pttl', turn) > 2000) then left = 2 end " +
		"return left + (function() " + script + " end)()"
}

// A Java program that gets the message of a release asks later than another caller of the releasing process. It is
// served all the same, for writing and for reading, after every kind of holder: for a moment no other process takes the
// lock.
func TestRWMutex_JavaHasAStart(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		readers    bool // of this library, besides writers
		lock, free string
	}{
		"writes among writers": {false, javaWrites, javaEndsWrite},
		"reads among writers":  {false, javaReads, javaEndsRead},
		"writes among both":    {true, javaWrites, javaEndsWrite},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t)
			rc := server.NewClient()
			heard := make(chan string, 100000)
			conn, release := rc.Dedicate()
			defer release()
			conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { heard <- m.Message }})
			require.NoError(t, conn.Do(t.Context(), rc.B().Subscribe().Channel("redisson_rwlock:{k}").Build()).Error())

			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 8)
			for i := range cap(ended) {
				c := clientOf(t, server.URL(), lockrt.Options{})
				go func() {
					lock := c.RWMutex("k").Lock
					if test.readers && i%2 == 0 {
						lock = c.RWMutex("k").RLock
					}
					for {
						lease, err := lock(ctx)
						if err == nil {
							err = lease.Unlock(ctx)
						}
						if err != nil {
							ended <- err
							return
						}
					}
				}()
			}
			java := func(script string) int64 {
				got, err := rc.Do(t.Context(), rc.B().Eval().Script(script).Numkeys(1).Key("k").Arg("11111111-2222-4333-8444-555555555555:42").Build()).AsInt64()
				require.NoError(t, err)
				return got
			}
			served, turns := 0, 0
			for inTime := 0; turns < 20 || inTime < 3; turns++ {
				require.Less(t, turns, 1000, "it is left to it")
				receive(t, heard, "a release")
				for range turns % 9 { // it is slow
					require.NoError(t, rc.Do(t.Context(), rc.B().Ping().Build()).Error())
				}
				got := java(javaLooks(test.lock))
				if got >= 2 {
					inTime++
					if !test.readers { // else it may be left to it while others still read
						require.EqualValues(t, 3, got, "somebody else has it, and it was left to Java")
					}
				}
				if got%2 == 1 {
					served++
					java(test.free)
				}
				require.NoError(t, rc.Do(t.Context(), rc.B().Ping().Build()).Error())
				for len(heard) > 0 {
					<-heard // the messages of that time are over
				}
			}
			cancel()
			for range cap(ended) {
				require.ErrorIs(t, receive(t, ended, "the end of a goroutine"), context.Canceled)
			}
			t.Logf("%d of %d turns", served, turns)
			require.Positive(t, served)
		})
	}
}
