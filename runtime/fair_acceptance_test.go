package lockrt_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// This file does what Redisson's own tests of RFairLock and the non-reentrant fair lock do, one test for each of
// theirs, under its name; those that look at times to the millisecond are in package scripts, where the clock is the
// test's. Times and numbers are smaller.

// fairQueue returns the waiters in the queue of a fair lock.
func fairQueue(t *testing.T, server *redistest.RedisServer, key string) []string {
	t.Helper()
	queue, err := server.Do("LRANGE", "redisson_lock_queue:{"+key+"}", "0", "-1").AsStrSlice()
	require.NoError(t, err)
	return queue
}

// queued has one more wait for a fair lock, and returns when it stands in the queue, as the nth.
func queued(t *testing.T, server *redistest.RedisServer, m *lockrt.FairMutex, n int, opts ...lockrt.LockOption) <-chan locked {
	t.Helper()
	got := lockLater(patient(t), m, opts...)
	until(t, "one more waits", func() bool { return len(fairQueue(t, server, m.Key())) == n })
	return got
}

// fairTimes returns in how long the places in the queue are over.
func fairTimes(t *testing.T, server *redistest.RedisServer, key string) []time.Duration {
	t.Helper()
	places, err := server.Do("ZRANGE", "redisson_lock_timeout:{"+key+"}", "0", "-1", "WITHSCORES").AsZScores()
	require.NoError(t, err)
	var times []time.Duration
	for _, p := range places {
		times = append(times, time.Until(time.UnixMilli(int64(p.Score))))
	}
	return times
}

func fairStanding(t *testing.T, m *lockrt.FairMutex) lockrt.Standing {
	t.Helper()
	s, err := m.Inspect(patient(t))
	require.NoError(t, err)
	return s
}

func TestRedisson_Fair_LeaseTimeout(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "k")
	m := newClient(t, lockrt.Options{}).FairMutex(key)
	start := time.Now()
	lease := lockrt.WithLease(200 * time.Millisecond)
	ok(t)(m.Lock(patient(t), lease))
	var got []<-chan locked
	for range 7 {
		got = append(got, lockLater(patient(t), m, lease, lockrt.WithWait(20*time.Second)))
	}
	var began []time.Duration
	for _, g := range got {
		gotten(t, g, "one that nobody unlocks for")
		began = append(began, time.Since(start))
	}
	require.Greater(t, slices.Max(began), 7*200*time.Millisecond, "one after the other")
	require.Less(t, slices.Max(began), 15*time.Second)
	nothingLeft(t, server, key)
}

func TestRedisson_Fair_MultipleLocks(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "k")
	m := newClient(t, lockrt.Options{}).FairMutex(key)
	var c counted
	jobs(t, 200, func(int) error {
		return m.Do(patient(t), func(_ context.Context, l *lockrt.Lease) error { return c.enter(l) }, lockrt.WithLease(5*time.Second))
	})
	require.EqualValues(t, 200, c.total.Load())
	nothingLeft(t, server, key)
}

// Many waiters with short wait times, and one that dies: no place lasts for longer than the lease and Options.FairWait.
func TestRedisson_Fair_WaitTimeoutDrift(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "k")
	opts := lockrt.Options{FairWait: 5 * time.Second}
	m := newClient(t, opts).FairMutex(key)
	lease := ok(t)(m.Lock(patient(t)))
	for range 10 {
		jobs(t, 5, func(int) error {
			_, err := m.Lock(patient(t), lockrt.WithWait(20*time.Millisecond))
			if !errors.Is(err, lockrt.ErrNotAcquired) {
				return fmt.Errorf("instead of not acquired: %w", err)
			}
			return nil
		})
	}
	until(t, "all have left", func() bool { return len(fairQueue(t, server, key)) == 0 })
	server.Do("RPUSH", "redisson_lock_queue:{"+key+"}", stranger)
	server.Do("ZADD", "redisson_lock_timeout:{"+key+"}", fmt.Sprint(time.Now().Add(time.Minute).UnixMilli()), stranger)
	queued(t, server, m, 2)
	for _, in := range fairTimes(t, server, key) {
		require.LessOrEqual(t, in, time.Minute+opts.FairWait)
	}
	server.Do("DEL", "redisson_lock_queue:{"+key+"}", "redisson_lock_timeout:{"+key+"}") // it stands in it anew
	free(t, lease)
}

// stranger is a Java thread.
const stranger = "0b5d8a0e-1111-4222-8333-444444444444:7"

func TestRedisson_Fair_LockAcquiredTimeoutDrift(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "k")
	opts := lockrt.Options{FairWait: 5 * time.Second}
	processes := []*lockrt.FairMutex{newClient(t, opts).FairMutex(key), newClient(t, opts).FairMutex(key)}
	lease := ok(t)(processes[1].Lock(patient(t)))
	var got []<-chan locked
	for n := range 10 {
		got = append(got, queued(t, server, processes[n%2], n+1)) // so that each grant is Redis'
	}
	for n := range 10 {
		for _, in := range fairTimes(t, server, key) {
			require.LessOrEqual(t, in, lockrt.DefaultWatchdog+time.Duration(10-n)*opts.FairWait)
		}
		free(t, lease)
		lease = gotten(t, got[n], "the next")
	}
	free(t, lease)
	nothingLeft(t, server, key)
}

// Waiters that died at the head of the queue delay the living until their times are over, and no
// longer.
func TestRedisson_Fair_FirstThreadDeathTimeoutDrift(t *testing.T) {
	t.Parallel()
	l := newLine(t, lockrt.Options{FairWait: 500 * time.Millisecond})
	server, key := l.server, l.key
	m := l.client.FairMutex(key)
	server.Do("RPUSH", "redisson_lock_queue:{"+key+"}", stranger)
	start := time.Now()
	server.Do("ZADD", "redisson_lock_timeout:{"+key+"}", fmt.Sprint(start.Add(time.Second).UnixMilli()), stranger)
	_, err := m.TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired, "it is another's turn")
	runs := l.seen(asksFair)
	lease := ok(t)(m.Lock(patient(t)))
	require.GreaterOrEqual(t, time.Since(start), 999*time.Millisecond)
	require.Less(t, time.Since(start), 10*time.Second)
	require.Less(t, len(runs), 40, "a waiter behind a dead one pauses between requests")
	free(t, lease)
	nothingLeft(t, server, key)
}

// A Java thread that died, and whose place was to last for an hour, delays the others for Options.FairWait.
func TestFair_ADeadThreadThatIsNext(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "k")
	m := newClient(t, lockrt.Options{FairWait: 2 * time.Second}).FairMutex(key)
	server.Do("RPUSH", "redisson_lock_queue:{"+key+"}", stranger)
	server.Do("ZADD", "redisson_lock_timeout:{"+key+"}", fmt.Sprint(time.Now().Add(time.Hour).UnixMilli()), stranger)
	start := time.Now()
	lease := ok(t)(m.Lock(patient(t)))
	require.GreaterOrEqual(t, time.Since(start), 1999*time.Millisecond)
	free(t, lease)
	nothingLeft(t, server, key)
}

// Each thread of a Java program that died delays the others for Options.FairWait: nothing tells that the program is dead.
func TestFair_DeadThreadsOfOneProgram(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "k")
	m := newClient(t, lockrt.Options{FairWait: 2 * time.Second}).FairMutex(key)
	start := time.Now()
	for _, thread := range []string{stranger, stranger + "1"} {
		server.Do("RPUSH", "redisson_lock_queue:{"+key+"}", thread)
		server.Do("ZADD", "redisson_lock_timeout:{"+key+"}", fmt.Sprint(start.Add(time.Hour).UnixMilli()), thread)
	}
	lease := ok(t)(m.Lock(patient(t)))
	require.GreaterOrEqual(t, time.Since(start), 3998*time.Millisecond)
	free(t, lease)
	nothingLeft(t, server, key)
}

// A Java thread whose wait time ends just when it is next leaves the queue, and tells nobody.
func TestFair_AThreadThatIsNextGivesUp(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "k")
	lease := ok(t)(newClient(t, lockrt.Options{Watchdog: time.Minute}).FairMutex(key).Lock(patient(t)))
	server.Do("RPUSH", "redisson_lock_queue:{"+key+"}", stranger)
	server.Do("ZADD", "redisson_lock_timeout:{"+key+"}", fmt.Sprint(time.Now().Add(time.Hour).UnixMilli()), stranger)
	l := newLine(t, lockrt.Options{})
	asked := l.seen(asksFair)
	got := queued(t, server, l.client.FairMutex(key), 2)
	for range 2 { // to stand in the queue, and when it listens to Redisson's channel
		receive(t, asked, "a request")
	}
	until(t, "it listens", func() bool {
		channels, err := server.Do("PUBSUB", "CHANNELS", "redisson_lock__channel:{"+key+"}*").AsStrSlice()
		return err == nil && len(channels) > 0
	})
	free(t, lease)
	server.Do("LREM", "redisson_lock_queue:{"+key+"}", "0", stranger)
	server.Do("ZREM", "redisson_lock_timeout:{"+key+"}", stranger)
	free(t, gotten(t, got, "the waiter behind it"))
	nothingLeft(t, server, key)
}

func TestRedisson_Fair_TryLockNonDelayed(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "k")
	one, two := newClient(t, lockrt.Options{}).FairMutex(key), newClient(t, lockrt.Options{}).FairMutex(key)
	lease := ok(t)(one.Lock(patient(t)))
	_, err := two.Lock(patient(t), lockrt.WithWait(100*time.Millisecond))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	until(t, "it has left", func() bool { return len(fairQueue(t, server, key)) == 0 })
	free(t, lease)
	free(t, tries(patient(t), t, two))
	nothingLeft(t, server, key)
}

func TestRedisson_Fair_TryLockWait(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	lease := ok(t)(newClient(t, lockrt.Options{}).FairMutex(key).Lock(patient(t)))
	start := time.Now()
	_, err := newClient(t, lockrt.Options{}).FairMutex(key).Lock(patient(t), lockrt.WithWait(500*time.Millisecond))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	require.GreaterOrEqual(t, time.Since(start), 500*time.Millisecond)
	require.Less(t, time.Since(start), 5*time.Second)
	free(t, lease)
}

func TestRedisson_Fair_ForceUnlock(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "k")
	m, other := newClient(t, lockrt.Options{}).FairMutex(key), newClient(t, lockrt.Options{}).FairMutex(key)
	lease := ok(t)(m.Lock(patient(t)))
	got := queued(t, server, other, 1)
	taken, err := other.ForceUnlock(patient(t))
	require.NoError(t, err)
	require.True(t, taken)
	receive(t, lease.Context().Done(), "the end of the lease")
	require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost)
	next := gotten(t, got, "the next waiter")
	taken, err = other.ForceUnlock(patient(t))
	require.NoError(t, err)
	require.True(t, taken)
	require.ErrorIs(t, next.Err(), lockrt.ErrLost, "told before ForceUnlock returns")
	require.ErrorIs(t, next.Unlock(t.Context()), lockrt.ErrLost)
	taken, err = m.ForceUnlock(patient(t))
	require.NoError(t, err)
	require.False(t, taken)
	nothingLeft(t, server, key)
}

// Other than Redisson's the late unlock says that the lock was lost.
func TestRedisson_Fair_Expire(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "k")
	start := time.Now()
	lease := ok(t)(newClient(t, lockrt.Options{}).FairMutex(key).Lock(patient(t), lockrt.WithLease(4*time.Second)))
	next := gotten(t, queued(t, server, newClient(t, lockrt.Options{}).FairMutex(key), 1), "the lock, when the lease is over")
	lasted(t, start, 4*time.Second, 4*time.Second+late)
	require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost)
	require.NoError(t, next.Err())
	free(t, next)
	nothingLeft(t, server, key)
}

func TestRedisson_Fair_AutoExpire(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	c := newClient(t, lockrt.Options{Watchdog: 2 * time.Second})
	ok(t)(c.FairMutex(key).Lock(patient(t)))
	require.NoError(t, c.Close())
	free(t, ok(t)(newClient(t, lockrt.Options{}).FairMutex(key).Lock(patient(t))))
}

func TestRedisson_Fair_GetHoldCount(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).FairMutex(redistest.Key(t, "k"))
	require.Equal(t, 0, fairStanding(t, m).Count)
	outer := ok(t)(m.Lock(patient(t)))
	require.Equal(t, 1, fairStanding(t, m).Count)
	inner := ok(t)(m.TryLock(outer.Context()))
	require.Equal(t, 2, fairStanding(t, m).Count)
	free(t, outer)
	require.Equal(t, 1, fairStanding(t, m).Count)
	require.NoError(t, inner.Err())
	free(t, inner)
	unheld(t, m)
}

func TestRedisson_Fair_Reentrancy(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "k")
	m, other := newClient(t, lockrt.Options{}).FairMutex(key), newClient(t, lockrt.Options{}).FairMutex(key)
	outer := ok(t)(m.TryLock(patient(t)))
	inner := ok(t)(m.TryLock(outer.Context()))
	free(t, inner)
	require.ErrorIs(t, inner.Unlock(t.Context()), lockrt.ErrReleased)
	for _, stranger := range []*lockrt.FairMutex{m, other} {
		_, err := stranger.TryLock(patient(t))
		require.ErrorIs(t, err, lockrt.ErrNotAcquired, "one lease is left")
	}
	free(t, outer)
	free(t, tries(patient(t), t, other))
	nothingLeft(t, server, key)
}

func TestRedisson_Fair_IsHeldByCurrentThread(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).FairMutex(redistest.Key(t, "k"))
	require.False(t, fairStanding(t, m).Ours)
	lease := ok(t)(m.Lock(patient(t)))
	require.True(t, fairStanding(t, m).Ours)
	free(t, lease)
	require.ErrorIs(t, lease.Err(), lockrt.ErrReleased)
	unheld(t, m)
}

func TestRedisson_Fair_IsHeldByCurrentThreadOtherThread(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	m, other := newClient(t, lockrt.Options{}).FairMutex(key), newClient(t, lockrt.Options{}).FairMutex(key)
	lease := ok(t)(m.Lock(patient(t)))
	require.False(t, fairStanding(t, other).Ours, "of another client")
	_, err := m.TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired, "another context is not the holder")
	free(t, lease)
}

func TestRedisson_Fair_IsLocked(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).FairMutex(redistest.Key(t, "k"))
	require.Empty(t, fairStanding(t, m).Owner)
	lease := ok(t)(m.Lock(patient(t)))
	require.NotEmpty(t, fairStanding(t, m).Owner)
	free(t, lease)
	unheld(t, m)
}

func TestRedisson_Fair_IsLockedOtherThread(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	other := newClient(t, lockrt.Options{}).FairMutex(key)
	lease := ok(t)(newClient(t, lockrt.Options{}).FairMutex(key).Lock(patient(t)))
	require.NotEmpty(t, fairStanding(t, other).Owner)
	free(t, lease)
	unheld(t, other)
}

// Only a lease can unlock. So a lease that is over stands for a thread that does not hold the lock.
func TestRedisson_Fair_UnlockFail(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "k")
	atBest(t, "was it lost", func() bool { // of a release that was answered late, and was sent once more, it is not known
		lease := ok(t)(newClient(t, lockrt.Options{}).FairMutex(key).Lock(patient(t)))
		server.Do("DEL", key)
		server.Do("HSET", key, stranger, "1")
		err := lease.Unlock(t.Context())
		require.Equal(t, map[string]string{stranger: "1"}, fields(t, server, key))
		server.Do("DEL", key)
		return errors.Is(err, lockrt.ErrLost)
	})
}

func TestRedisson_Fair_LockUnlock(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "k")
	m := newClient(t, lockrt.Options{}).FairMutex(key)
	for range 2 {
		free(t, ok(t)(m.Lock(patient(t))))
	}
	nothingLeft(t, server, key)
}

func fairConcurrency(t *testing.T, clients, each, times int) {
	t.Helper()
	server, key := redistest.Shared(t), redistest.Key(t, "k")
	all := make([]*lockrt.Client, clients)
	for i := range all {
		all[i] = newClient(t, lockrt.Options{})
	}
	var c counted
	jobs(t, clients*each, func(i int) error {
		m := all[i%clients].FairMutex(key)
		for range times {
			err := m.Do(patient(t), func(_ context.Context, l *lockrt.Lease) error { return c.enter(l) })
			if err != nil {
				return err
			}
		}
		return nil
	})
	require.EqualValues(t, clients*each*times, c.total.Load())
	nothingLeft(t, server, key)
}

func TestRedisson_Fair_Concurrency_SingleInstance(t *testing.T) {
	t.Parallel()
	fairConcurrency(t, 1, 15, 1)
}

func TestRedisson_Fair_ConcurrencyLoop_MultiInstance(t *testing.T) {
	t.Parallel()
	fairConcurrency(t, 8, 1, 50)
}

func TestRedisson_Fair_Concurrency_MultiInstance(t *testing.T) {
	t.Parallel()
	fairConcurrency(t, 30, 1, 1)
}

func TestRedisson_Fair_Concurrency_MultiInstance_Ordering(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "k")
	clients := []*lockrt.Client{newClient(t, lockrt.Options{}), newClient(t, lockrt.Options{}), newClient(t, lockrt.Options{})}
	lease := ok(t)(clients[0].FairMutex(key).Lock(patient(t)))
	var got []<-chan locked
	for n := range 12 {
		got = append(got, queued(t, server, clients[n%3].FairMutex(key), n+1))
	}
	order := fairQueue(t, server, key)
	for n, next := range got {
		free(t, lease)
		lease = gotten(t, next, "number "+fmt.Sprint(n))
		require.Equal(t, map[string]string{order[n]: "1"}, fields(t, server, key))
	}
	free(t, lease)
	nothingLeft(t, server, key)
}

// The client sends a key as it was given: a program that maps names maps them before.
func TestRedisson_Fair_NameMapper(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "k")
	c := newClient(t, lockrt.Options{})
	for _, name := range []string{"test:" + key, "{test}:" + key} {
		m := c.FairMutex(name)
		lease := ok(t)(m.Lock(patient(t)))
		got := lockLater(patient(t), m)
		queue := "redisson_lock_queue:{" + name + "}"
		if strings.Contains(name, "{") {
			queue = "redisson_lock_queue:" + name
		}
		until(t, "it waits", func() bool { return number(t, server, "LLEN", queue) == 1 })
		free(t, lease)
		free(t, gotten(t, got, "the lock"))
	}
	nothingLeft(t, server, key)
}

func TestRedisson_Fair_AcquireFailedNotCalledOnRedisTimeout(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{OpTimeout: 3 * time.Second})
	m := c.FairMutex("k")
	lease := ok(t)(m.Lock(patient(t)))
	server.Do("CLIENT", "PAUSE", "4500", "WRITE")
	_, err := m.Lock(patient(t), lockrt.WithWait(300*time.Millisecond))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	server.Do("CLIENT", "UNPAUSE")
	free(t, lease)
	nothingLeft(t, server, "k")
}

// refusedToItself locks m twice under contexts that are not the lease's. Any other context is a stranger, which is what a
// lock that is not reentrant is for; to unlock once frees it.
func refusedToItself(t *testing.T, m, again *lockrt.FairMutex) {
	t.Helper()
	lease := ok(t)(m.Lock(patient(t)))
	_, err := again.TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	_, err = again.Lock(patient(t), lockrt.WithWait(20*time.Millisecond))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	free(t, lease)
	nothingLeft(t, redistest.Shared(t), m.Key())
}

func TestRedisson_NonReentrantFairLock_SameThreadIsRefused(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).FairMutex(redistest.Key(t, "k"))
	refusedToItself(t, m, m)
}

func TestRedisson_NonReentrantFairLock_TwoHandles(t *testing.T) {
	t.Parallel()
	c, key := newClient(t, lockrt.Options{}), redistest.Key(t, "k")
	refusedToItself(t, c.FairMutex(key), c.FairMutex(key))
}

func TestRedisson_NonReentrantFairLock_ContendingThreadAcquiresOnRelease(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).FairMutex(redistest.Key(t, "k"))
	lease := ok(t)(m.Lock(patient(t)))
	got := lockLater(patient(t), m)
	until(t, "it waits", func() bool { return fairStanding(t, m).Waiting > 0 })
	free(t, lease)
	free(t, gotten(t, got, "the call that contends"))
	nothingLeft(t, redistest.Shared(t), m.Key())
}

// The requests and releases of a fair lock.
var (
	asksFair  = redistest.EvalSHA(scripts.FairAcquire.SHA1())
	givesFair = redistest.EvalSHA(scripts.FairRelease.SHA1(), scripts.FairLeave.SHA1())
)
