package lockrt_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/gen"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// lingering returns a client whose mutexes linger until a test ends it, however slow the machine is.
func lingering(tb testing.TB, url string, opts lockrt.Options) *lockrt.Client {
	tb.Helper()
	c := clientOf(tb, url, opts)
	lease, err := c.Mutex("hears").Lock(patient(tb))
	require.NoError(tb, err)
	require.NoError(tb, lease.Unlock(tb.Context()))
	until(tb, "the client hears other processes", func() bool { return lockrt.Hears(c) })
	lockrt.LingerFor(c, 30*time.Minute)
	return c
}

// lingers returns what the client shows of a key that lingers, or nil.
func lingers(c *lockrt.Client, key string) *lockrt.HeldLock {
	for _, held := range c.Snapshot().Held {
		if held.Key == key && held.Lingers {
			return &held
		}
	}
	return nil
}

// leaves has Redis grant m, and unlocks it: its key lingers from then on.
func leaves(t *testing.T, c *lockrt.Client, m *lockrt.Mutex, opts ...lockrt.LockOption) (token int64) {
	t.Helper()
	if lingers(c, m.Key()) != nil {
		free(t, ok(t)(m.Lock(patient(t), append(slices.Clip(opts), lockrt.WithLinger(0))...)))
	}
	lease := ok(t)(m.Lock(patient(t), opts...))
	free(t, lease)
	require.NotNil(t, lingers(c, m.Key()))
	return lease.Token()
}

// ranDuring returns how many scripts a server ran during a call.
func ranDuring(server *redistest.RedisServer, call func()) int64 {
	server.Do("CONFIG", "RESETSTAT")
	call()
	return server.CommandStats()["evalsha"]
}

func TestLinger_TheNextCallSendsNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := lingering(t, server.URL(), unwatched)
	for name, opts := range map[string][]lockrt.LockOption{"plain": nil, "fenced": {lockrt.WithFencing()}} {
		m := c.Mutex(name, opts...)
		for call, next := range map[string]func() (*lockrt.Lease, error){
			"Lock":    func() (*lockrt.Lease, error) { return m.Lock(patient(t)) },
			"TryLock": func() (*lockrt.Lease, error) { return m.TryLock(patient(t)) },
		} {
			atBest(t, "was nothing sent by "+call+", "+name, func() bool { // but a late copy of the request before
				token, before := leaves(t, c, m), c.Stats()
				var lease *lockrt.Lease
				ran := ranDuring(server, func() { lease = ok(t)(next()) })
				require.NoError(t, lease.Err())
				require.Nil(t, lingers(c, name))
				require.Equal(t, before.HandOversLocal+1, c.Stats().HandOversLocal)
				if opts == nil {
					require.Zero(t, lease.Token())
				} else {
					require.Greater(t, lease.Token(), token)
				}
				free(t, lease)
				return ran == 0
			})
		}
	}
}

// The tokens of a process rise while it draws blocks of them, and stay below those of the next process.
func TestLinger_EachHolderHasATokenOfItsOwn(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c, other := lingering(t, server.URL(), unwatched), clientOf(t, server.URL(), unwatched)
	var last int64
	for range 300 {
		lease := ok(t)(c.Mutex("k").Lock(patient(t), lockrt.WithFencing()))
		require.Greater(t, lease.Token(), last)
		last = lease.Token()
		free(t, lease)
	}
	require.NotZero(t, c.Stats().HandOversLocal)
	lease := ok(t)(other.Mutex("k").Lock(patient(t), lockrt.WithFencing()))
	require.Greater(t, lease.Token(), last)
	free(t, lease)
}

// Another process has the key at once, by its own requests and one release.
func TestLinger_AnotherProcessHasItAtOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c, other := lingering(t, server.URL(), unwatched), clientOf(t, server.URL(), unwatched)
	atBest(t, "it asks twice, and the key is released once", func() bool {
		token := leaves(t, c, c.Mutex("k"), lockrt.WithFencing())
		_, err := other.Mutex("k").TryLock(patient(t), lockrt.WithFencing())
		require.ErrorIs(t, err, lockrt.ErrNotAcquired, "the process has it still")
		var lease *lockrt.Lease
		run := ranDuring(server, func() { lease = ok(t)(other.Mutex("k").Lock(patient(t), lockrt.WithFencing())) })
		require.Greater(t, lease.Token(), token)
		require.Nil(t, lingers(c, "k"))
		free(t, lease)
		return run <= 3
	})
}

// A process whose own keys linger stands in line with its first request, since the keys of others may linger as well.
func TestLinger_AnotherProcessAsksOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c, other := lingering(t, server.URL(), unwatched), lingering(t, server.URL(), unwatched)
	tries := 0
	atBest(t, "it asks once, and the key is released once", func() bool {
		tries++
		key := "k" + strconv.Itoa(tries) // which no process was refused
		leaves(t, c, c.Mutex(key))
		var lease *lockrt.Lease
		run := ranDuring(server, func() { lease = ok(t)(other.Mutex(key).Lock(patient(t))) })
		require.Nil(t, lingers(c, key))
		free(t, lease)
		return run == 2
	})
}

func TestLinger_EndsByItself(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := lingering(t, server.URL(), lockrt.Options{})
	lockrt.LingerFor(c, 0)
	for _, opts := range [][]lockrt.LockOption{{lockrt.WithLinger(20 * time.Millisecond)}, {lockrt.WithLinger(time.Millisecond), lockrt.WithFencing()}} {
		m := c.Mutex("k", opts...)
		for range 20 {
			turn(t, m)
		}
		until(t, "it is free", func() bool { return number(t, server, "EXISTS", "k") == 0 && c.Stats().Held == 0 })
		require.Nil(t, lingers(c, "k"))
	}
}

// Close and Shutdown give back what lingers.
func TestLinger_EndsWithTheClient(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	for name, end := range map[string]func(c *lockrt.Client) error{
		"Close":    func(c *lockrt.Client) error { return c.Close() },
		"Shutdown": func(c *lockrt.Client) error { return c.Shutdown(patient(t)) },
	} {
		c := lingering(t, server.URL(), lockrt.Options{})
		for _, key := range []string{"a", "b", "c"} {
			leaves(t, c, c.Mutex(key))
		}
		held := ok(t)(c.Mutex("held").Lock(patient(t)))
		ended := make(chan error, 1)
		if name == "Shutdown" { // it waits for the one that is held
			go func() { ended <- end(c) }()
			until(t, "nothing lingers", func() bool { return number(t, server, "EXISTS", "a", "b", "c") == 0 })
			free(t, held)
		} else {
			ended <- end(c)
		}
		require.NoError(t, receive(t, ended, name))
		gone(t, server, "a", "b", "c")
		server.Do("DEL", "held")
	}
}

func TestLinger_MultiLock(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c, other := lingering(t, server.URL(), unwatched), clientOf(t, server.URL(), unwatched)
	of := func(c *lockrt.Client, opts ...lockrt.LockOption) *lockrt.MultiLock {
		return lockrt.NewMultiLock(c.Mutex("a", opts...), c.Mutex("b", opts...))
	}
	both := func(want bool) {
		t.Helper()
		require.Equal(t, want, lingers(c, "a") != nil && lingers(c, "b") != nil)
	}
	atBest(t, "were the members those that lingered", func() bool { // and no late copy of a request came
		free(t, ok(t)(of(c).Lock(patient(t))))
		both(true)
		var lease *lockrt.Lease
		ran := ranDuring(server, func() { lease = ok(t)(of(c).Lock(patient(t))) })
		both(false)
		free(t, lease)
		return ran == 0
	})

	// Of another process, and on other terms.
	free(t, ok(t)(of(other).Lock(patient(t))))
	free(t, ok(t)(of(c).Lock(patient(t))))
	free(t, ok(t)(of(c, lockrt.WithWatchdog(10*time.Second)).TryLock(patient(t))))
	free(t, ok(t)(of(other).Lock(patient(t))))
	both(false)

	// A call that fails gives back what it had.
	leaves(t, c, c.Mutex("a"))
	theirs := ok(t)(other.Mutex("b").Lock(patient(t)))
	require.ErrorIs(t, second(of(c).TryLock(patient(t))), lockrt.ErrNotAcquired)
	require.Nil(t, lingers(c, "a"))
	free(t, ok(t)(other.Mutex("a").Lock(patient(t))))
	free(t, theirs)
}

// A call on other terms gives the key back, and has it anew.
func TestLinger_OtherTerms(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := lingering(t, server.URL(), unwatched)
	m := c.Mutex("k")
	for name, lock := range map[string]func() (*lockrt.Lease, error){
		"a fixed lease":             func() (*lockrt.Lease, error) { return m.Lock(patient(t), lockrt.WithLease(10*time.Second)) },
		"a token":                   func() (*lockrt.Lease, error) { return m.TryLock(patient(t), lockrt.WithFencing()) },
		"a token, and no lingering": func() (*lockrt.Lease, error) { return m.Lock(patient(t), lockrt.WithFencing(), lockrt.WithLinger(0)) },
	} {
		leaves(t, c, m)
		lease := ok(t)(lock())
		require.NoError(t, second(lease.TTL(patient(t))), name)
		free(t, lease)
		require.Equal(t, name == "a token", lingers(c, "k") != nil, name)
		until(t, "only one with a token lingers: "+name, func() bool { return (name == "a token") == (number(t, server, "EXISTS", "k") == 1) })
	}

	// A call that waits already.
	lease := ok(t)(m.Lock(patient(t)))
	got := lockLater(patient(t), c.Mutex("k", lockrt.WithLease(10*time.Second)))
	until(t, "it waits", func() bool { return len(c.Snapshot().Waiting) == 1 })
	free(t, lease)
	free(t, gotten(t, got, "the call on other terms"))

	// On the same terms, with another option.
	leaves(t, c, m)
	free(t, ok(t)(m.Lock(patient(t), lockrt.WithLinger(0))))
	require.Nil(t, lingers(c, "k"))
	gone(t, server, "k")
}

// Redisson's waiters do not ask for a key that lingers.
func TestLinger_NotAfterJava(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := lingering(t, server.URL(), unwatched)
	java := javaLock{server, "k", "redisson_lock__channel:{k}", []string{javaThread, "1"}}
	java.take()
	got := lockLater(patient(t), c.Mutex("k"))
	until(t, "it waits for the Java program", func() bool { return subscribers(t, server, java.channel) == 1 })
	java.giveBack()
	free(t, gotten(t, got, "the lock after the Java program"))
	require.Nil(t, lingers(c, "k"))
	gone(t, server, "k")
}

// Nobody can ask a client for a key that does not hear its messages.
func TestLinger_NotWithoutMessages(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	proxy := redistest.Proxy(t, server.Addr())
	c := lingering(t, proxy.URL(), unwatched)
	leaves(t, c, c.Mutex("before"))
	proxy.DropRequest(redistest.Command("SUBSCRIBE"), 0, redistest.Close)
	server.Do("CLIENT", "KILL", "TYPE", "pubsub")
	until(t, "the client hears nothing", func() bool { return !lockrt.Hears(c) })
	free(t, ok(t)(c.Mutex("k").Lock(patient(t))))
	require.Nil(t, lingers(c, "k"))
	gone(t, server, "k")
}

// An extension is for its holder.
func TestLinger_NotAfterAnExtension(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := lingering(t, server.URL(), unwatched)
	lease := ok(t)(c.Mutex("k").Lock(patient(t)))
	require.NoError(t, lease.Extend(patient(t), time.Hour))
	free(t, lease)
	require.Nil(t, lingers(c, "k"))
	gone(t, server, "k")
}

func TestLinger_ReentryAndOwners(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := lingering(t, server.URL(), unwatched)
	m := c.Mutex("k", lockrt.WithFencing())
	outer := ok(t)(m.Lock(patient(t)))
	inner := ok(t)(m.Lock(outer.Context()))
	free(t, outer)
	require.Nil(t, lingers(c, "k"), "the other one has it")
	free(t, inner)
	require.NotNil(t, lingers(c, "k"))

	// The context of a lease that has ended enters nothing: it locks like any other.
	again := ok(t)(m.Lock(context.WithoutCancel(outer.Context())))
	require.Greater(t, again.Token(), outer.Token())
	free(t, again)
	require.ErrorIs(t, again.Unlock(t.Context()), lockrt.ErrReleased)
}

func TestLinger_ContextThatHasEnded(t *testing.T) {
	t.Parallel()
	c := lingering(t, redistest.Server(t).URL(), unwatched)
	leaves(t, c, c.Mutex("k"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Mutex("k").Lock(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.NotNil(t, lingers(c, "k"))
}

// A key that was lost while it lingered is asked for again.
func TestLinger_Loss(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c, other := lingering(t, server.URL(), lockrt.Options{}), clientOf(t, server.URL(), lockrt.Options{})
	for name, take := range map[string]func(key string){
		"by force, here":  func(key string) { require.NoError(t, second(c.Mutex(key).ForceUnlock(patient(t)))) },
		"by force, there": func(key string) { require.NoError(t, second(other.Mutex(key).ForceUnlock(patient(t)))) },
		"deleted":         func(key string) { server.Do("DEL", key) },
	} {
		leaves(t, c, c.Mutex(name))
		owner := lingers(c, name).Owner
		take(name)
		until(t, "it lingers no more: "+name, func() bool {
			if name == "deleted" {
				take(name) // also what a late copy of the request has locked again
			}
			return lingers(c, name) == nil
		})
		lease := ok(t)(c.Mutex(name).Lock(patient(t)))
		require.NotEqual(t, owner, heldOf(t, c.Snapshot(), name).Owner, name)
		free(t, lease)
	}
	require.Zero(t, c.Stats().Losses, "nobody had a lease of it")
}

func TestLinger_WhatIsShown(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	hooks, _, ends := watch()
	grants := make(chan lockrt.AcquireEvent, 100)
	hooks.AcquireEnd = func(_ context.Context, e lockrt.AcquireEvent) { grants <- e }
	opts := unwatched
	opts.Hooks = hooks
	c, other := lingering(t, server.URL(), opts), clientOf(t, server.URL(), unwatched)
	receive(t, ends, "the end of the first one")
	receive(t, grants, "the first one")
	base := c.Stats().Held
	leaves(t, c, c.Mutex("k"), lockrt.WithName("pay"))
	require.Equal(t, lockrt.EndReleased, receive(t, ends, "the end of the lease").Reason)
	require.Equal(t, lockrt.GrantServer, receive(t, grants, "the grant").Grant)
	require.Equal(t, base+1, c.Stats().Held, "it is in Redis")

	shown := lingers(c, "k")
	require.Zero(t, shown.Holds)
	require.Empty(t, shown.Name)
	require.Equal(t, lockrt.KindMutex, shown.Kind)
	require.False(t, shown.Since.After(time.Now()))
	require.Positive(t, shown.Left)
	s, err := c.Mutex("k").Inspect(patient(t))
	require.NoError(t, err)
	require.True(t, s.Ours)
	require.Equal(t, shown.Owner, s.Owner)
	require.Zero(t, s.Count, "none of its calls has it")
	s, err = other.Mutex("k").Inspect(patient(t))
	require.NoError(t, err)
	require.Equal(t, shown.Owner, s.Owner)

	free(t, ok(t)(c.Mutex("k").Lock(patient(t))))
	require.Equal(t, lockrt.GrantLocal, receive(t, grants, "the grant").Grant)
	receive(t, ends, "the end of the lease")
	require.Empty(t, ends)
}

func TestLinger_DoAndGeneratedCode(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := lingering(t, server.URL(), unwatched)
	atBest(t, "was nothing sent", func() bool { // but a late copy of the request before
		leaves(t, c, c.Mutex("k"))
		server.Do("CONFIG", "RESETSTAT")
		var ran int64
		require.NoError(t, c.Mutex("k").Do(patient(t), func(context.Context, *lockrt.Lease) error {
			ran = server.CommandStats()["evalsha"]
			return nil
		}))
		return ran == 0
	})

	l := gen.For(c, &gen.Spec{Name: "n"}, "", "generated", nil)
	lease, err := l.Lock(patient(t))
	require.NoError(t, err)
	free(t, lease.Lease)
	require.NotNil(t, lingers(c, "generated"))
	require.Zero(t, ranDuring(server, func() { lease, err = l.TryLock(patient(t)) }))
	require.NoError(t, err)
	free(t, lease.Lease)
	_, err = gen.With(c).Acquire(patient(t), &gen.Spec{Name: "n", Linger: time.Second}, "generated")
	require.ErrorContains(t, err, "the linger time 1s is not between 0 and 20ms", "the option of an annotation")
}

// Only a Mutex lingers, and none that is a part of a RedLock or of an Election.
func TestLinger_OthersDoNot(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := lingering(t, server.URL(), unwatched)
	one := lingering(t, server.URL(), lockrt.Options{Tracking: lockrt.TrackingOff, Cohort: 1})
	leader, err := c.Election("leader").Campaign(patient(t), "")
	require.NoError(t, err)
	require.NoError(t, leader.Resign(patient(t)))
	for name, l := range map[string]lockrt.Locker{
		"fair": c.FairMutex("fair"), "rw": c.RWMutex("rw"), "read": c.RWMutex("read").RLocker(), "permit": lockrt.PermitLocker(c.PermitSemaphore("permit", 1)),
		"red": lockrt.RedLockOf(c.Mutex("red")), "cohort": one.Mutex("cohort"),
	} {
		for range 2 {
			free(t, ok(t)(l.Lock(patient(t))))
		}
		require.Nil(t, lingers(c, name), name)
		require.Nil(t, lingers(one, name), name)
	}
	gone(t, server, "fair", "rw", "read", "red", "cohort", "leader")
}

// Goroutines of several processes that linger for a moment exclude each other.
func TestLinger_Excludes(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	const calls = 60
	var inside atomic.Int32
	var mu sync.Mutex
	var tokens []int64
	var wg sync.WaitGroup
	for range 2 {
		m := clientOf(t, server.URL(), lockrt.Options{Linger: 2 * time.Millisecond}).Mutex("k", lockrt.WithFencing())
		for range 3 {
			wg.Go(func() {
				for range calls {
					err := m.Do(patient(t), func(_ context.Context, lease *lockrt.Lease) error {
						if inside.Add(1) != 1 {
							return errors.New("two are inside")
						}
						mu.Lock()
						tokens = append(tokens, lease.Token())
						mu.Unlock()
						inside.Add(-1)
						return nil
					})
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	require.Len(t, tokens, 2*3*calls)
	for i := range tokens[1:] {
		require.Greater(t, tokens[i+1], tokens[i])
	}
}

// A key that cannot be given back is withdrawn when the server is there again.
func TestLinger_ServerIsAway(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	proxy := redistest.Proxy(t, server.Addr())
	log := &logbook{lines: make(chan string, 1000)}
	opts := unwatched
	opts.Logger = slog.New(slog.NewTextHandler(log, nil))
	c := lingering(t, proxy.URL(), opts)
	leaves(t, c, c.Mutex("k"))
	proxy.Refuse(true)
	proxy.Cut()
	_, err := c.Mutex("k").TryLock(patient(t), lockrt.WithFencing())
	require.ErrorIs(t, err, lockrt.ErrUnavailable)
	for !strings.Contains(receive(t, log.lines, "a line about it"), "a key that lingered could not be given back") {
		continue
	}
	require.Zero(t, c.Stats().Held)
	proxy.Refuse(false)
	until(t, "it is withdrawn", func() bool { return number(t, server, "EXISTS", "k") == 0 })
}
