package lockrt_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

func TestMultiLock_KeepsThePromisesOfALocker(t *testing.T) {
	t.Parallel()
	locktest.TestLocker(t, func(c *lockrt.Client, key string) lockrt.Locker {
		return lockrt.NewMultiLock(c.Mutex(key+":c"), c.Mutex(key), c.RWMutex(key+":b"), c.Mutex(key+":a"), c.Mutex(key+":d"))
	})
}

// mutexes returns one for each of n keys, the last first.
func mutexes(tb testing.TB, c *lockrt.Client, n int) (all []lockrt.Locker, keys []string) {
	for i := range n {
		keys = append(keys, redistest.Key(tb, "k"+strconv.Itoa(i)))
		all = append([]lockrt.Locker{c.Mutex(keys[i])}, all...)
	}
	return all, keys
}

// scriptsSent returns how often the server was sent each script that takes or frees from now on.
func scriptsSent(proxy *redistest.FaultProxy) func() (takes, frees int) {
	var takes, frees atomic.Int32
	proxy.OnRequest(func(cmd []string) {
		switch {
		case redistest.EvalSHA(scripts.Take.SHA1(), scripts.Acquire.SHA1())(cmd):
			takes.Add(1)
		case redistest.EvalSHA(scripts.Free.SHA1(), scripts.Release.SHA1())(cmd):
			frees.Add(1)
		}
	})
	return func() (int, int) { return int(takes.Load()), int(frees.Load()) }
}

// TestMultiLock_OneRoundTripEach shows that mutexes of one client are taken by one script and released by one, fenced
// or not.
func TestMultiLock_OneRoundTripEach(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	proxy := redistest.Proxy(t, server.Addr())
	c := clientOf(t, proxy.URL(), lockrt.Options{Tracking: lockrt.TrackingOff})
	for name, opts := range map[string][]lockrt.LockOption{"plain": nil, "fenced": {lockrt.WithFencing()}} {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // one proxy
			count := scriptsSent(proxy)
			atBest(t, "one script took all keys, and one released them", func() bool { // one whose answer is late is sent again
				takes, frees := count()
				all, keys := mutexes(t, c, 20)
				lease, err := lockrt.NewMultiLock(all...).Lock(patient(t), opts...)
				require.NoError(t, err)
				parts := lease.Parts()
				require.Len(t, parts, len(keys))
				for i, part := range parts {
					require.Equal(t, int64(1), number(t, server, "HLEN", part.Key()))
					require.Equal(t, opts != nil, part.Token() > 0)
					if i > 0 {
						require.Less(t, parts[i-1].Key(), part.Key())
					}
					require.False(t, lease.Until().After(part.Until()), "the earliest counts")
				}
				require.NoError(t, lease.Unlock(patient(t)))
				for _, key := range keys {
					gone(t, server, key)
				}
				took, freed := count()
				return took == takes+1 && freed == frees+1
			})
		})
	}
}

// A counter counts the scripts sent over a client that take or free.
type counter struct {
	rueidis.Client

	takes, frees atomic.Int64
}

func (c *counter) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	switch words := command.Commands(); {
	case redistest.EvalSHA(scripts.Take.SHA1(), scripts.Acquire.SHA1())(words):
		c.takes.Add(1)
	case redistest.EvalSHA(scripts.Free.SHA1(), scripts.Release.SHA1())(words):
		c.frees.Add(1)
	}
	return c.Client.Do(ctx, command)
}

// TestMultiLock_OneRoundTripEachInACluster shows the same for those whose members share a slot, however busy the process is: no
// member is sent before the others have gathered.
func TestMultiLock_OneRoundTripEachInACluster(t *testing.T) {
	t.Parallel()
	const crowd, rounds = 16, 5
	rc := &counter{Client: redistest.SharedCluster(t).NewClient()}
	c, err := lockrt.New(rc, lockrt.Options{Watchdog: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	each := func(rounds int) {
		var all sync.WaitGroup
		for range crowd {
			tag := "{" + redistest.Key(t, "") + "}"
			m := lockrt.NewMultiLock(c.Mutex(tag+"a"), c.Mutex(tag+"b"), c.Mutex(tag+"c"))
			all.Go(func() {
				for range rounds {
					lease, err := m.Lock(patient(t))
					if !assert.NoError(t, err) || !assert.NoError(t, lease.Unlock(patient(t))) {
						return
					}
				}
			})
		}
		all.Wait()
	}
	each(1)                                                                      // the scripts are loaded
	atBest(t, "one request took all keys, and one gave them back", func() bool { // one that is late is sent again
		rc.takes.Store(0)
		rc.frees.Store(0)
		each(rounds)
		return rc.takes.Load() == crowd*rounds && rc.frees.Load() == crowd*rounds
	})
}

// TestMultiLock_GivesBackWhatIsBehind shows that a call that waits for a key has none that is behind it, and
// that TryLock keeps nothing.
func TestMultiLock_GivesBackWhatIsBehind(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	waiting := make(chan struct{}, 10)
	one := clientOf(t, server.URL(), lockrt.Options{Hooks: lockrt.Hooks{
		Waiting: func(context.Context, lockrt.AcquireEvent) { waiting <- struct{}{} },
	}})
	other := clientOf(t, server.URL(), lockrt.Options{})
	all, keys := mutexes(t, one, 4)
	held, err := other.Mutex(keys[2]).Lock(patient(t))
	require.NoError(t, err)
	m := lockrt.NewMultiLock(all...)
	_, err = m.TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	for _, key := range []string{keys[0], keys[1], keys[3]} {
		gone(t, server, key)
	}

	got := make(chan error, 1)
	ctx := patient(t)
	go func() {
		got <- m.Do(ctx, func(context.Context, *lockrt.Lease) error { return nil })
	}()
	<-waiting
	require.Equal(t, int64(1), number(t, server, "EXISTS", keys[0]), "before the one that is waited for")
	require.Equal(t, int64(1), number(t, server, "EXISTS", keys[1]))
	gone(t, server, keys[3])
	require.NoError(t, held.Unlock(patient(t)))
	require.NoError(t, <-got)
	for _, key := range keys {
		gone(t, server, key)
	}
}

// A member that is lost while the answer to a try for others is late is locked again: the call returns no lease that is lost already.
func TestMultiLock_LostDuringATryForOthers(t *testing.T) {
	t.Parallel()
	const length = 3 * time.Second
	server, far := redistest.Server(t), redistest.Server(t)
	proxy := redistest.Proxy(t, far.Addr())
	near, other := clientOf(t, server.URL(), lockrt.Options{}), clientOf(t, proxy.URL(), lockrt.Options{})
	m := lockrt.NewMultiLock(near.Mutex("a"), other.Mutex("b"), other.Mutex("c"))
	lease, err := m.Lock(patient(t))
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(patient(t)))

	proxy.Blackhole(redistest.Both)
	got := make(chan error, 1)
	ctx := patient(t)
	go func() {
		lease, err := m.Lock(ctx, lockrt.WithLease(length))
		if err == nil {
			err = errors.Join(lease.Err(), lease.Unlock(ctx))
		}
		got <- err
	}()
	until(t, "the first one is locked", func() bool { return number(t, server, "EXISTS", "a") == 1 })
	gone(t, server, "a")
	proxy.Deliver()
	require.NoError(t, receive(t, got, "the lock"))
}

// TestMultiLock_FixedLeaseOfTheFirstAfterATryForOthers shows that a member that was granted first lasts as long as those that one request takes later.
func TestMultiLock_FixedLeaseOfTheFirstAfterATryForOthers(t *testing.T) {
	t.Parallel()
	const length = patience
	server, far := redistest.Server(t), redistest.Server(t)
	proxy := redistest.Proxy(t, far.Addr())
	near, other := clientOf(t, server.URL(), lockrt.Options{}), clientOf(t, proxy.URL(), lockrt.Options{})
	m := lockrt.NewMultiLock(near.Mutex("a"), other.Mutex("b"), other.Mutex("c"))
	free(t, ok(t)(m.Lock(patient(t))))

	proxy.Blackhole(redistest.Both)
	got := lockLater(patient(t), m, lockrt.WithLease(length))
	until(t, "the first one is locked", func() bool { return number(t, server, "EXISTS", "a") == 1 })
	delivered := time.Now()
	proxy.Deliver()
	lease := gotten(t, got, "the lock")
	require.False(t, lease.Parts()[0].Until().Before(delivered.Add(length*9/10)), "it is extended when the others are granted")
	free(t, lease)
}

// TestMultiLock_APartOutlivesAnotherThatIsUnlocked shows that unlocking a part ends the whole, and no other part.
func TestMultiLock_APartOutlivesAnotherThatIsUnlocked(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	lease := ok(t)(lockrt.NewMultiLock(c.Mutex(redistest.Key(t, "a")), c.Mutex(redistest.Key(t, "b"))).Lock(patient(t)))
	parts := lease.Parts()
	free(t, parts[0])
	require.ErrorIs(t, lease.Err(), lockrt.ErrReleased)
	require.NoError(t, parts[1].Err())
	require.NoError(t, parts[1].Extend(patient(t), time.Minute))
	ttl, err := parts[1].TTL(patient(t))
	require.NoError(t, err)
	require.Greater(t, ttl, 30*time.Second)
	free(t, parts[1])
	require.ErrorIs(t, parts[1].Extend(patient(t), time.Minute), lockrt.ErrReleased)
}

// TestMultiLock_LostWithAnyMember shows that the whole ends with any of its parts, on whatever server, and that the
// others are released all the same.
func TestMultiLock_LostWithAnyMember(t *testing.T) {
	t.Parallel()
	servers := []*redistest.RedisServer{redistest.Shared(t), redistest.Server(t)}
	clients := []*lockrt.Client{clientOf(t, servers[0].URL(), lockrt.Options{}), clientOf(t, servers[1].URL(), lockrt.Options{})}
	for i := range 3 {
		key := redistest.Key(t, strconv.Itoa(i))
		m := lockrt.NewMultiLock(clients[0].Mutex(key+"a"), clients[1].Mutex(key+"b"), clients[0].Mutex(key+"c"))
		err := m.Do(patient(t), func(ctx context.Context, lease *lockrt.Lease) error {
			require.NoError(t, lease.Err())
			part := lease.Parts()[i]
			taken, err := part.Client().Mutex(part.Key()).ForceUnlock(patient(t))
			require.NoError(t, err)
			require.True(t, taken)
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), lockrt.ErrLost)
			require.ErrorIs(t, lease.Err(), lockrt.ErrLost)
			_, err = lease.TTL(patient(t))
			require.ErrorIs(t, err, lockrt.ErrLost)
			require.ErrorIs(t, lease.Extend(patient(t), time.Minute), lockrt.ErrLost)
			return nil
		})
		require.ErrorIs(t, err, lockrt.ErrLost)
		for j, suffix := range []string{"a", "b", "c"} {
			gone(t, servers[j%2], key+suffix)
		}
	}
}

// TestMultiLock_IsWholeBeforeItCanBeLost shows that the watchdog may end a lease of several members at any moment: all that it reads is there
// before. The race detector finds what is not.
func TestMultiLock_IsWholeBeforeItCanBeLost(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	c := newClient(t, lockrt.Options{Hooks: lockrt.Hooks{Ended: func(context.Context, lockrt.EndEvent) { close(ended) }}})
	m := lockrt.NewMultiLock(c.Mutex(redistest.Key(t, "a"), lockrt.WithName("both")), c.FairMutex(redistest.Key(t, "b")))
	lease := ok(t)(m.Lock(patient(t), lockrt.WithLease(100*time.Millisecond)))
	receive(t, ended, "the end of its time") // nothing else: whatever asks the lease orders what was written before
	require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost)
}

// TestMultiLock_UndoneWhenAServerHangs shows that a call that fails keeps nothing, on a server that does not
// answer either, once it does.
func TestMultiLock_UndoneWhenAServerHangs(t *testing.T) {
	t.Parallel()
	alive, hangs := redistest.Shared(t), redistest.Server(t)
	proxy := redistest.Proxy(t, hangs.Addr())
	key := redistest.Key(t, "k")
	one := clientOf(t, alive.URL(), lockrt.Options{})
	two := clientOf(t, proxy.URL(), lockrt.Options{Watchdog: time.Minute})
	m := lockrt.NewMultiLock(one.Mutex(key+"1"), two.Mutex(key+"2"), one.Mutex(key+"3"))
	require.NoError(t, m.Do(patient(t), func(context.Context, *lockrt.Lease) error { return nil }))

	drop := proxy.DropReply(redistest.Command("EVALSHA"), 0, redistest.Mute)
	ctx, cancel := context.WithCancel(patient(t))
	failed := make(chan error, 1)
	go func() { failed <- second(m.Lock(ctx)) }()
	until(t, "the grant that nobody hears of", func() bool { return number(t, hangs, "EXISTS", key+"2") == 1 })
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
	gone(t, alive, key+"1")
	gone(t, alive, key+"3")
	drop.Stop()
	proxy.Cut()
	gone(t, hangs, key+"2")
}

// TestMultiLock_LostWhileOthersAreWaitedFor shows that what is lost while others are waited for is locked again.
func TestMultiLock_LostWhileOthersAreWaitedFor(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	waiting := make(chan struct{}, 10)
	one := clientOf(t, server.URL(), lockrt.Options{Hooks: lockrt.Hooks{
		Waiting: func(context.Context, lockrt.AcquireEvent) { waiting <- struct{}{} },
	}})
	other := clientOf(t, server.URL(), lockrt.Options{})
	all, keys := mutexes(t, one, 3)
	held, err := other.Mutex(keys[1]).Lock(patient(t))
	require.NoError(t, err)
	got := make(chan error, 1)
	ctx := patient(t)
	go func() {
		got <- lockrt.NewMultiLock(all...).Do(ctx, func(_ context.Context, lease *lockrt.Lease) error {
			_, err := lease.TTL(ctx)
			return err
		})
	}()
	<-waiting
	taken, err := other.Mutex(keys[0]).ForceUnlock(patient(t))
	require.NoError(t, err)
	require.True(t, taken)
	until(t, "it has the first one again", func() bool { return number(t, server, "EXISTS", keys[0]) == 1 })
	require.NoError(t, held.Unlock(patient(t)))
	require.NoError(t, <-got)
}

// TestMultiLock_FixedLeaseLastsForAll shows that a member that had to wait for others is extended, also a RedLock, whose parts have the leases.
func TestMultiLock_FixedLeaseLastsForAll(t *testing.T) {
	t.Parallel()
	const length = 10 * time.Second
	server := redistest.Shared(t)
	waiting := make(chan struct{}, 10)
	one := clientOf(t, server.URL(), lockrt.Options{Hooks: lockrt.Hooks{
		Waiting: func(context.Context, lockrt.AcquireEvent) { waiting <- struct{}{} },
	}})
	other := clientOf(t, server.URL(), lockrt.Options{})
	first := redistest.Key(t, "red")
	red := lockrt.RedLockOf(one.Mutex(first), one.Mutex(first+":2"), one.Mutex(first+":3"))
	all, keys := mutexes(t, one, 3)
	all = append(all, red)
	held, err := other.Mutex(keys[2]).Lock(patient(t))
	require.NoError(t, err)
	got := make(chan *lockrt.Lease, 1)
	ctx := patient(t)
	go func() {
		lease, err := lockrt.NewMultiLock(all...).Lock(ctx, lockrt.WithLease(length))
		if err != nil {
			t.Error(err)
		}
		got <- lease
	}()
	<-waiting
	until(t, "some of the first lease is over", func() bool { return number(t, server, "PTTL", keys[0]) < 9900 })
	unlocked := time.Now()
	require.NoError(t, held.Unlock(patient(t)))
	lease := <-got
	require.NotNil(t, lease)
	require.False(t, lease.Until().Before(unlocked.Add(length-length/10)), "all of the lease, less the margin")
	require.NoError(t, lease.Unlock(patient(t)))
}

// TestMultiLock_FixedLeaseIsKept shows that a call keeps the members that it has, for as long as it waits for others, also when that is longer than
// their fixed lease: for one member, or for several, one after the other.
func TestMultiLock_FixedLeaseIsKept(t *testing.T) {
	t.Parallel()
	const length = 6 * time.Second
	for name, pauses := range map[string][]time.Duration{
		"one long wait":       {length * 5 / 4},
		"several short waits": {length * 3 / 10, length * 3 / 10, length * 3 / 10, length * 3 / 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Shared(t)
			one, other := newClient(t, lockrt.Options{}), newClient(t, lockrt.Options{})
			ends := make(chan string, 100)
			lockrt.AtEnd(one, func(key string) { ends <- key })
			all, keys := mutexes(t, one, 2+len(pauses))
			var held []*lockrt.Lease
			for _, key := range keys[2:] {
				held = append(held, ok(t)(other.Mutex(key).Lock(patient(t))))
			}
			got := lockLater(patient(t), lockrt.NewMultiLock(all...), lockrt.WithLease(length))
			until(t, "it has the first two", func() bool { return number(t, server, "EXISTS", keys[0], keys[1]) == 2 })
			for i, pause := range pauses {
				<-time.After(pause) // as long as the holder of that member works
				free(t, held[i])
			}
			lease := gotten(t, got, "all")
			require.Empty(t, ends, "nothing was lost or given back meanwhile")
			free(t, lease)
		})
	}
}

// TestMultiLock_LengthensNoLeaseThatItEnters shows that a call that waits for others leaves the fixed lease as it is that it has entered.
func TestMultiLock_LengthensNoLeaseThatItEnters(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	hooks, waiting, _ := watch()
	one := clientOf(t, server.URL(), lockrt.Options{Hooks: hooks})
	other := clientOf(t, server.URL(), lockrt.Options{})
	all, keys := mutexes(t, one, 3)
	outer, err := one.Mutex(keys[0]).Lock(patient(t), lockrt.WithLease(20*time.Second))
	require.NoError(t, err)
	ends := outer.Until()
	held, err := other.Mutex(keys[2]).Lock(patient(t))
	require.NoError(t, err)
	got := make(chan *lockrt.Lease, 1)
	go func() {
		lease, err := lockrt.NewMultiLock(all...).Lock(outer.Context())
		if err != nil {
			t.Error(err)
		}
		got <- lease
	}()
	receive(t, waiting, "the call to wait")
	require.NoError(t, held.Unlock(patient(t)))
	lease := <-got
	require.NotNil(t, lease)
	require.Equal(t, ends, outer.Until())
	require.NoError(t, lease.Unlock(patient(t)))
	require.NoError(t, outer.Unlock(patient(t)))
}

// TestMultiLock_MembersAreEnteredAgain shows that members are entered again under the context of the whole, and the
// whole under that of a member or its own, whatever else it has.
func TestMultiLock_MembersAreEnteredAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	c := clientOf(t, server.URL(), lockrt.Options{})
	all, keys := mutexes(t, c, 3)
	m := lockrt.NewMultiLock(all...)
	outer, err := c.Mutex(keys[1]).Lock(patient(t))
	require.NoError(t, err)
	whole, err := m.TryLock(outer.Context())
	require.NoError(t, err)
	inner, err := lockrt.NewMultiLock(m, c.Mutex(keys[0]+"x")).TryLock(whole.Context())
	require.NoError(t, err)
	require.Len(t, inner.Parts(), 4)
	part, err := c.Mutex(keys[2]).TryLock(inner.Context())
	require.NoError(t, err)
	for _, lease := range []*lockrt.Lease{whole, outer, inner} {
		require.NoError(t, lease.Unlock(patient(t)))
	}
	gone(t, server, keys[0])
	gone(t, server, keys[1])
	require.Equal(t, int64(1), number(t, server, "EXISTS", keys[2]))
	require.NoError(t, part.Unlock(patient(t)))
	gone(t, server, keys[2])
}

// A leisurely Locker takes some time before it waits.
type leisurely struct {
	lockrt.Locker
	takes func()
}

func (l leisurely) Lock(ctx context.Context, opts ...lockrt.LockOption) (*lockrt.Lease, error) {
	l.takes()
	return l.Locker.Lock(ctx, opts...)
}

// The Client that hears of a grant hears of its end, also if the first member is a Locker of another package, whose Client is not known before.
func TestMultiLock_OneClientHearsOfBoth(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	events := func(name string, to chan string) lockrt.Options {
		return lockrt.Options{Hooks: lockrt.Hooks{
			Acquired: func(ctx context.Context, e lockrt.AcquireEvent) context.Context {
				if e.Kind == lockrt.KindMulti {
					to <- name + " begins"
				}
				return ctx
			},
			Ended: func(_ context.Context, e lockrt.EndEvent) {
				if e.Kind == lockrt.KindMulti {
					to <- name + " ends"
				}
			},
		}}
	}
	to := make(chan string, 10)
	one, other := clientOf(t, server.URL(), events("one", to)), clientOf(t, server.URL(), events("other", to))
	key := redistest.Key(t, "k")
	for _, first := range []string{"a", "z"} {
		m := lockrt.NewMultiLock(leisurely{one.Mutex(first + key), func() {}}, other.Mutex("m"+key))
		free(t, ok(t)(m.Lock(patient(t))))
		require.Equal(t, "other begins", receive(t, to, "the begin"))
		require.Equal(t, "other ends", receive(t, to, "the end"))
	}
}

// TestMultiLock_OneWait shows that members share one wait, counted from the call: what it says, or else the shortest that one of them
// was made with, whatever its kind.
func TestMultiLock_OneWait(t *testing.T) {
	t.Parallel()
	const short = 50 * time.Millisecond
	server := redistest.Shared(t)
	hooks, waiting, _ := watch()
	one, other := clientOf(t, server.URL(), lockrt.Options{Hooks: hooks}), clientOf(t, server.URL(), lockrt.Options{})
	red := func(key string, opts ...lockrt.LockOption) lockrt.Locker {
		return lockrt.RedLockOf(one.Mutex(key+"1", opts...), one.Mutex(key+"2", opts...), one.Mutex(key+"3", opts...))
	}
	for name, locker := range map[string]func(key string, opts ...lockrt.LockOption) lockrt.Locker{
		"Mutex":     func(key string, opts ...lockrt.LockOption) lockrt.Locker { return one.Mutex(key, opts...) },
		"RWMutex":   func(key string, opts ...lockrt.LockOption) lockrt.Locker { return one.RWMutex(key, opts...) },
		"RLocker":   func(key string, opts ...lockrt.LockOption) lockrt.Locker { return one.RWMutex(key, opts...).RLocker() },
		"FairMutex": func(key string, opts ...lockrt.LockOption) lockrt.Locker { return one.FairMutex(key, opts...) },
		"RedLock":   red,
	} {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // one hook
			first, last := redistest.Key(t, "1"), redistest.Key(t, "2")
			held, err := other.Mutex(first).Lock(patient(t))
			require.NoError(t, err)
			start := time.Now()
			_, err = lockrt.NewMultiLock(one.Mutex(first, lockrt.WithWait(time.Hour)), locker(last, lockrt.WithWait(short))).Lock(patient(t))
			require.ErrorIs(t, err, lockrt.ErrNotAcquired)
			require.GreaterOrEqual(t, time.Since(start), short)
			for len(waiting) > 0 { // nobody, on a machine so busy that the wait was over
				<-waiting
			}

			never := lockrt.NewMultiLock(one.Mutex(first), locker(last, lockrt.WithWait(0)))
			_, err = never.Lock(patient(t))
			require.ErrorIs(t, err, lockrt.ErrNotAcquired)
			require.Empty(t, waiting, "it tries once")
			got := later(func() error {
				lease, err := never.Lock(patient(t), lockrt.WithWait(lockrt.UntilDone))
				if err != nil {
					return err
				}
				return lease.Unlock(patient(t))
			})
			receive(t, waiting, "the wait that the call asks for")
			require.NoError(t, held.Unlock(patient(t)))
			require.NoError(t, receive(t, got, "the lock"))

			_, err = lockrt.NewMultiLock(one.Mutex(first), locker(last, lockrt.WithWait(-2))).Lock(patient(t))
			require.ErrorIs(t, err, lockrt.ErrBadOption)
			require.ErrorContains(t, err, last)
		})
	}

	first, last := redistest.Key(t, "1"), redistest.Key(t, "2")
	held, err := other.Mutex(last).Lock(patient(t))
	require.NoError(t, err)
	start := time.Now()
	_, err = lockrt.NewMultiLock(
		leisurely{one.Mutex(first), func() { until(t, "the wait is over", func() bool { return time.Since(start) > short }) }},
		one.Mutex(last, lockrt.WithWait(short)),
	).Lock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	require.Empty(t, waiting, "nothing of the wait was left for the last one")
	gone(t, server, first)
	require.NoError(t, held.Unlock(patient(t)))
}

// TestMultiLock_OneOrder shows that the members have one order in all processes, in whatever order they are given, alone or in another
// MultiLock: by their keys, and those with the same key by their servers, databases and kinds.
func TestMultiLock_OneOrder(t *testing.T) {
	t.Parallel()
	servers := []string{redistest.Shared(t).URL(), redistest.Shared(t).URL() + "/1"}
	for range 8 {
		servers = append(servers, redistest.Server(t).URL())
	}
	process := func() (all []lockrt.Locker) {
		var cs []*lockrt.Client
		for _, url := range servers {
			cs = append(cs, clientOf(t, url, lockrt.Options{}))
		}
		red := func(cs ...*lockrt.Client) lockrt.Locker {
			return lockrt.NewRedLock("k", cs)
		}
		return []lockrt.Locker{
			cs[0].Mutex("k"), cs[1].Mutex("k"), cs[2].RWMutex("k"), cs[3].RWMutex("k").RLocker(), cs[4].FairMutex("k"),
			red(cs[5:8]...), lockrt.PermitLocker(cs[8].PermitSemaphore("k", 1)), clientOf(t, servers[0], lockrt.Options{}).RWMutex("k"),
			cs[9].Mutex("j"), cs[0].RWMutex("l").RLocker(),
		}
	}
	var want []int
	for range 3 {
		all := process()
		for range 20 {
			given := slices.Clone(all)
			rand.Shuffle(len(given), func(i, j int) { given[i], given[j] = given[j], given[i] })
			inner := rand.N(len(given)-1) + 1
			m := lockrt.NewMultiLock(append(given[inner:], lockrt.NewMultiLock(given[:inner]...))...)
			var got []int
			for _, member := range lockrt.MembersOf(m) {
				got = append(got, slices.Index(all, member))
			}
			if want == nil {
				want = got
			}
			require.Equal(t, want, got)
		}
	}
	require.Equal(t, 8, want[0], "j")
	require.Equal(t, 9, want[len(want)-1], "l")
}

// TestMultiLock_BadMembers shows which members it does not take, and that a bad key of one has nothing sent for the
// others.
func TestMultiLock_BadMembers(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	proxy := redistest.Proxy(t, server.Addr())
	c, other := clientOf(t, proxy.URL(), lockrt.Options{}), clientOf(t, server.URL(), lockrt.Options{})
	key := redistest.Key(t, "k")
	count := scriptsSent(proxy)
	again := "lockgen: lock %q: unusable option: a MultiLock with the key of one Client twice, "
	for _, tt := range []struct {
		want    string
		members []lockrt.Locker
	}{
		{`lockgen: lock "": unusable option: there is no lock`, nil},
		{`lockgen: lock "": unusable option: lock 1 of a MultiLock is nil`, []lockrt.Locker{c.Mutex(key), nil}},
		{`lockgen: lock "": unusable option: lock 0 of a MultiLock is nil`, []lockrt.Locker{(*lockrt.Mutex)(nil), c.Mutex(key)}},
		{again + "of kind mutex and write", []lockrt.Locker{c.Mutex(key), c.Mutex(key + "2"), c.RWMutex(key)}},
		{again + "of kind read and write", []lockrt.Locker{c.RWMutex(key).RLocker(), c.Mutex(key + "2"), c.RWMutex(key)}},
		{again + "of kind fair and mutex", []lockrt.Locker{c.Mutex(key), lockrt.NewMultiLock(c.FairMutex(key))}},
		{again + "of kind mutex and redlock", []lockrt.Locker{c.Mutex(key), lockrt.RedLockOf(other.Mutex(key), c.Mutex(key))}},
		{again + "with other options", []lockrt.Locker{c.Mutex(key), c.Mutex(key, lockrt.WithFencing())}},
		{again + "for two permits: acquire them together",
			[]lockrt.Locker{lockrt.PermitLocker(c.PermitSemaphore(key, 2)), lockrt.PermitLocker(c.PermitSemaphore(key, 2))}},
		{`lockgen: lock %q: unusable option: a red lock of 1 servers, and not of an odd number of three or more`,
			[]lockrt.Locker{c.Mutex(key + "0"), lockrt.NewRedLock(key, []*lockrt.Client{c})}},
		{`lockgen: lock %q: unusable option: WithFencing means nothing for a reader, which has no fencing token`,
			[]lockrt.Locker{c.Mutex(key + "0"), c.RWMutex(key, lockrt.WithFencing()).RLocker()}},
	} {
		want := strings.ReplaceAll(tt.want, "%q", strconv.Quote(key))
		for range 2 { // it is the error of each call
			_, err := lockrt.NewMultiLock(tt.members...).Lock(patient(t))
			require.EqualError(t, err, want)
			require.ErrorIs(t, err, lockrt.ErrBadOption)
		}
		if tt.members != nil {
			_, err := lockrt.NewMultiLock(c.Mutex(key+"!"), lockrt.NewMultiLock(tt.members...)).TryLock(patient(t))
			require.EqualError(t, err, want, "as a member, too")
		}
	}
	takes, frees := count()
	require.Zero(t, takes+frees, "nothing was sent")
	both, err := lockrt.NewMultiLock(c.Mutex(key), other.Mutex(key+"9"), c.Mutex(key)).Lock(patient(t))
	require.NoError(t, err)
	require.Len(t, both.Parts(), 2, "what is named twice is one")
	require.NoError(t, both.Unlock(patient(t)))
	before, _ := count()

	_, err = lockrt.NewMultiLock(c.Mutex(key), c.Mutex(key+"{")).Lock(patient(t))
	require.ErrorAs(t, err, new(*lockrt.KeyError))
	_, err = lockrt.NewMultiLock(c.Mutex(key), c.Mutex(key+"2")).Lock(patient(t), lockrt.WithWait(-2))
	require.ErrorIs(t, err, lockrt.ErrBadOption)
	takes, _ = count()
	require.Equal(t, before, takes)
}

// The following do what Redisson's own tests of RMultiLock do, one for each of theirs, under its name.

func TestRedisson_Multi_LockUnlock(t *testing.T) {
	t.Parallel()
	c := clientOf(t, redistest.Shared(t).URL(), lockrt.Options{})
	all, _ := mutexes(t, c, 3)
	lease, err := lockrt.NewMultiLock(all...).Lock(patient(t), lockrt.WithLease(10*time.Second))
	require.NoError(t, err)
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Unlock(patient(t)))
	require.ErrorIs(t, lease.Err(), lockrt.ErrReleased)
}

func TestRedisson_Multi_WaitAndLeaseTimeouts(t *testing.T) {
	t.Parallel()
	c := clientOf(t, redistest.Shared(t).URL(), lockrt.Options{})
	all, _ := mutexes(t, c, 3)
	m := lockrt.NewMultiLock(all...)
	leases := make(chan *lockrt.Lease, 10)
	jobs(t, 10, func(int) error {
		lease, err := m.TryLock(patient(t), lockrt.WithLease(10*time.Second))
		if err == nil {
			leases <- lease
		} else if !errors.Is(err, lockrt.ErrNotAcquired) {
			return err
		}
		return nil
	})
	require.Len(t, leases, 1)
	require.NoError(t, (<-leases).Unlock(patient(t)))
}

func TestRedisson_Multi_MultiThreads(t *testing.T) {
	t.Parallel()
	c := clientOf(t, redistest.Shared(t).URL(), lockrt.Options{})
	all, _ := mutexes(t, c, 3)
	m := lockrt.NewMultiLock(all...)
	first, err := m.Lock(patient(t))
	require.NoError(t, err)
	got := make(chan error, 1)
	ctx := patient(t)
	go func() { got <- m.Do(ctx, func(context.Context, *lockrt.Lease) error { return first.Err() }) }()
	require.NoError(t, first.Unlock(patient(t)))
	require.ErrorIs(t, <-got, lockrt.ErrReleased, "the second one has it when the first has not")
}

func TestRedisson_Multi_Test(t *testing.T) {
	t.Parallel()
	var one, other []lockrt.Locker
	for range 3 {
		url := redistest.Server(t).URL()
		one = append(one, clientOf(t, url, lockrt.Options{}).Mutex("lock"))
		other = append([]lockrt.Locker{clientOf(t, url, lockrt.Options{}).Mutex("lock")}, other...)
	}
	lease, err := lockrt.NewMultiLock(one...).Lock(patient(t))
	require.NoError(t, err)
	_, err = lockrt.NewMultiLock(other...).TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	require.NoError(t, lease.Unlock(patient(t)))
	require.NoError(t, lockrt.NewMultiLock(other...).Do(patient(t), func(context.Context, *lockrt.Lease) error { return nil }))
}

// A call that may end before the answer comes has another goroutine wait for it: a context that ends during a request ends the call.
func TestMultiLock_WaitsForNoAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ctx  func(testing.TB) context.Context // made in the subtest, which may wait for minutes until it runs
		opts []lockrt.LockOption
	}{
		"a context that may end": {patient, nil},
		"a bounded wait":         {func(testing.TB) context.Context { return context.Background() }, []lockrt.LockOption{lockrt.WithWait(patience)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, key := redistest.Shared(t), redistest.Key(t, "")
			proxy := redistest.Proxy(t, server.Addr())
			takes := redistest.EvalSHA(scripts.Take.SHA1())
			asked, blocked := make(chan struct{}, 10_000), make(chan string, 10_000)
			proxy.OnRequest(func(cmd []string) {
				if !takes(cmd) {
					return
				}
				asked <- struct{}{}
				stacks := make([]byte, 4<<20)
				for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
					if strings.Contains(stack, "runtime_test.TestMultiLock_WaitsForNoAnswer") && strings.Contains(stack, "runtime.ask(") && strings.Contains(stack, "runAlone(") {
						blocked <- stack
					}
				}
			})
			client := clientOf(t, proxy.URL(), lockrt.Options{})
			m := lockrt.NewMultiLock(client.Mutex(key+":a"), client.Mutex(key+":b"))
			for range 20 { // a call is blocked only if the server has answered a moment ago
				free(t, ok(t)(m.Lock(c.ctx(t), c.opts...)))
			}
			require.NotEmpty(t, asked)
			require.Empty(t, blocked)
		})
	}
}

// A MultiLock of many mutexes is made with a few allocations, and not with some for each of them.
func TestNewMultiLock_Allocations(t *testing.T) { // testing.AllocsPerRun does not allow parallel tests
	many := make([]lockrt.Locker, 20)
	for i := range many {
		many[i] = new(lockrt.Client).Mutex(strconv.Itoa(i))
	}
	least := math.Inf(1) // of several runs: goroutines of tests before this one may allocate meanwhile
	for range 20 {
		least = min(least, testing.AllocsPerRun(20, func() { lockrt.NewMultiLock(many...) }))
	}
	require.LessOrEqual(t, least, 6.0)
}

// Stats count one call of a MultiLock, and otherwise its parts.
func TestMultiLock_Stats(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	x, y := c.Mutex(redistest.Key(t, "x")), c.Mutex(redistest.Key(t, "y"))
	lease := ok(t)(lockrt.NewMultiLock(x, y).Lock(patient(t)))
	stats := c.Stats()
	require.Equal(t, []lockrt.CallCount{{Kind: lockrt.KindMulti, Outcome: lockrt.OutcomeAcquired, Count: 1}}, stats.Calls)
	require.Equal(t, 2, stats.Held)
	waits := uint64(0)
	for _, bucket := range stats.Waits {
		waits += bucket.Count
	}
	require.EqualValues(t, 2, waits)
	require.NoError(t, lease.Unlock(t.Context()))
}
