package lockrt_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// This file stops, kills, empties and fills the server, and changes keys behind the back of their
// holders.

func TestFault_StoppedServer(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	const watchdog = 6 * time.Second
	hooks, waiting, _ := watch()
	opts := lockrt.Options{Watchdog: watchdog, OpTimeout: 2 * time.Second, Hooks: hooks}
	c := clientOf(t, server.URL(), opts)
	other := clientOf(t, server.URL(), opts)
	third, err := opened(t.Context(), server.URL(), opts)
	require.NoError(t, err)

	held, err := c.Mutex("held").Lock(patient(t))
	require.NoError(t, err)
	long, err := c.Mutex("long").Lock(patient(t), unexpiring)
	require.NoError(t, err)
	idle, err := third.Mutex("idle").Lock(patient(t), unexpiring)
	require.NoError(t, err)
	over, cancelAll := context.WithTimeout(t.Context(), 2*time.Minute) // all of it, also where the machine is slow
	defer cancelAll()
	here, there := lockLater(over, c.Mutex("held")), lockLater(over, other.Mutex("held"))
	receive(t, waiting, "the first to wait")
	receive(t, waiting, "the second to wait")

	// Trust ends before the key does. Both are read until no renewal comes between.
	var trusted, expires int64
	for before := (time.Time{}); !before.Equal(held.Until()); {
		before = held.Until()
		expires = number(t, server, "PEXPIRETIME", "held")
		trusted = before.UnixMilli()
	}
	require.Less(t, trusted, expires)

	server.Stop()
	receive(t, held.Context().Done(), "the loss to be told")
	require.ErrorIs(t, held.Err(), lockrt.ErrLost)
	require.ErrorIs(t, context.Cause(held.Context()), lockrt.ErrLost)
	require.NoError(t, long.Err(), "it has trust left")

	// Every call returns by its bound.
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = c.Mutex("free").Lock(short)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = other.Mutex("free").TryLock(short)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = other.Mutex("free").Lock(t.Context(), lockrt.WithWait(50*time.Millisecond))
	require.ErrorIs(t, err, lockrt.ErrUnavailable)
	_, err = long.TTL(short)
	require.Error(t, err)
	_, err = c.Mutex("free").ForceUnlock(short)
	require.Error(t, err)
	tried := make(chan error, 1)
	go func() {
		_, err := other.Mutex("free").TryLock(context.Background())
		tried <- err
	}()
	require.Error(t, receive(t, tried, "the end of TryLock"))
	require.ErrorIs(t, held.Unlock(t.Context()), lockrt.ErrLost)
	require.Error(t, long.Unlock(t.Context()), "the outcome is unknown")
	closed := make(chan error, 1)
	go func() { closed <- third.Close() }()
	_ = receive(t, closed, "the end of Close")
	require.ErrorIs(t, idle.Err(), lockrt.ErrClosed)
	require.Empty(t, here)
	require.Empty(t, there)

	server.Cont()
	served := make(chan locked, 2)
	for _, got := range []<-chan locked{here, there} {
		go func() {
			answer := <-got
			if answer.err == nil {
				answer.err = answer.lease.Unlock(context.Background())
			}
			served <- answer
		}()
	}
	require.NoError(t, receive(t, served, "the first waiter").err)
	require.NoError(t, receive(t, served, "the second waiter").err)
	gone(t, server, "held")
	gone(t, server, "long")
	gone(t, server, "free")
}

func TestFault_OneCallersDeadlineIsNotAnothers(t *testing.T) {
	t.Parallel()
	atBest(t, inTime, func() bool {
		server := redistest.Server(t)
		proxy := redistest.Proxy(t, server.Addr())
		l := &line{server: server, proxy: proxy, client: clientOf(t, proxy.URL(), lockrt.Options{Tracking: lockrt.TrackingOff, OpTimeout: 10 * time.Second}), key: "k"}
		l.warm(t)
		until(t, "it listens, by a connection of its own", func() bool { return channels(t, server) == 1 })
		conns := func() []string { // of the client
			list, err := server.Do("CLIENT", "LIST").ToString()
			require.NoError(t, err)
			return regexp.MustCompile(`\bid=\d+ addr=.* name=lockgen:`).FindAllString(list, -1)
		}
		before := conns()
		require.NotEmpty(t, before) // the first one is that for commands
		acquires := l.seen(asks)

		silent := time.Now()
		server.Stop()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		hasty := lockLater(short, l.client.Mutex("hasty"))
		if !underWay(l, acquires, hasty) {
			server.Cont()
			return false
		}
		other := lockLater(patient(t), l.client.Mutex("k"))
		require.ErrorIs(t, receive(t, hasty, "the first").err, context.DeadlineExceeded)
		require.Empty(t, other)
		server.Cont()
		if time.Since(silent) > 3*time.Second { // near the time after which the connection is rightly given up
			return false
		}
		got := receive(t, other, "the second")
		require.NoError(t, got.err)
		require.Contains(t, conns(), before[0], "the connection was not given up")
		receive(t, acquires, "the request of the second")
		require.NoError(t, got.lease.Unlock(t.Context()))
		gone(t, server, "hasty")
		return true
	})
}

func TestFault_ServerComesBackEmpty(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	hooks, waiting, _ := watch()
	c := clientOf(t, server.URL(), steady)
	other := clientOf(t, server.URL(), lockrt.Options{Hooks: hooks})
	for round := range 3 {
		key := strconv.Itoa(round)
		held, err := c.Mutex(key).Lock(patient(t))
		require.NoError(t, err)
		next := lockLater(patient(t), other.Mutex(key))
		receive(t, waiting, "the next one to wait")
		server.Restart()
		got := receive(t, next, "the next one")
		require.NoError(t, got.err)
		receive(t, held.Context().Done(), "the loss to be told")
		require.ErrorIs(t, held.Err(), lockrt.ErrLost)
		require.ErrorIs(t, held.Unlock(t.Context()), lockrt.ErrLost)
		_, err = got.lease.TTL(patient(t))
		require.NoError(t, err, "the late unlock harms nobody")
		require.NoError(t, got.lease.Unlock(t.Context()))
		gone(t, server, key)
		require.NotContains(t, server.CommandStats(), "eval")
	}
}

func TestFault_ServerAwayForAWhile(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{})
	server.Kill()
	_, err := c.Mutex("k").TryLock(patient(t))
	require.Error(t, err)
	require.NotErrorIs(t, err, lockrt.ErrNotAcquired)
	_, err = c.Mutex("k").Lock(patient(t), lockrt.WithWait(50*time.Millisecond))
	require.ErrorIs(t, err, lockrt.ErrUnavailable)
	require.NotErrorIs(t, err, lockrt.ErrNotAcquired)
	got := lockLater(patient(t), c.Mutex("k"))
	server.Restart()
	answer := receive(t, got, "the server to be back")
	require.NoError(t, answer.err)
	require.NoError(t, answer.lease.Unlock(t.Context()))
}

// traffic locks and unlocks a key from several goroutines of several clients of the server at url,
// and calls disturb every few times, while the key is held or just after. Nobody may get an error,
// and nobody may meet another one.
func traffic(t *testing.T, server *redistest.RedisServer, url string, disturb func()) {
	t.Helper()
	atBest(t, "did the process run without a pause", func() bool { return trafficOnce(t, server, url, disturb) })
}

// trafficOnce is a round of traffic. It reports false if the process stood still for so long that it may have lost what it held.
func trafficOnce(t *testing.T, server *redistest.RedisServer, url string, disturb func()) bool {
	t.Helper()
	stood := standstill(t)
	const clients, goroutines, each = 3, 3, 40
	var inside, turns atomic.Int64
	var wg sync.WaitGroup
	failed := make(chan string, 4*clients*goroutines*each)
	over, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // all of it, also where the machine is slow
	defer cancel()
	var all [clients]*lockrt.Client
	for i := range all {
		opts := brisk
		opts.Cohort = 1           // every turn is asked for
		opts.OpTimeout = patience // Unlock is to go on for as long as messages get lost
		all[i] = clientOf(t, url, opts)
	}
	for _, c := range all {
		for range goroutines {
			wg.Go(func() {
				for range each {
					lease, err := c.Mutex("k").Lock(over, unexpiring)
					if err != nil {
						failed <- err.Error()
						return
					}
					if inside.Add(1) != 1 {
						failed <- "two holders"
					}
					turn := turns.Add(1)
					if turn%5 == 0 {
						disturb()
					}
					if lease.Err() != nil {
						failed <- "lost: " + lease.Err().Error()
					}
					inside.Add(-1)
					if err := lease.Unlock(over); err != nil {
						failed <- err.Error()
						return
					}
					if turn%7 == 0 {
						disturb()
					}
				}
			})
		}
	}
	wg.Wait()
	close(failed)
	wrong := slices.Collect(func(yield func(string) bool) {
		for why := range failed {
			if !yield(why) {
				return
			}
		}
	})
	if len(wrong) > 0 && stood() > time.Second {
		t.Logf("the process stood still for %v, and a lease that was just handed over lasts for 2s: %q", stood(), wrong)
		return false
	}
	require.Empty(t, wrong)
	require.EqualValues(t, clients*goroutines*each, turns.Load())
	gone(t, server, "k")
	return true
}

func TestFault_TrafficGoesOn(t *testing.T) {
	t.Parallel()
	for name, cmd := range map[string][]string{
		"scripts flushed":                 {"SCRIPT", "FLUSH"},
		"subscribers killed":              {"CLIENT", "KILL", "TYPE", "pubsub"},
		"command connections killed":      {"CLIENT", "KILL", "TYPE", "normal"},
		"server busy with another script": {"EVAL", "local n = 0 while n < 300000 do n = n + 1 end", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t)
			traffic(t, server, server.URL(), func() { _, _ = server.Try(cmd...) })
			if cmd[0] != "EVAL" {
				require.NotContains(t, server.CommandStats(), "eval")
			}
		})
	}
}

func TestFault_TrafficGoesOnWithoutSomeOfTheReplies(t *testing.T) {
	t.Parallel()
	for name, loss := range map[string]struct {
		mode  redistest.Mode
		every int64
	}{
		"closed": {redistest.Close, 5},
		"mute":   {redistest.Mute, 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t)
			proxy := redistest.Proxy(t, server.Addr())
			var n atomic.Int64
			run := redistest.Command("EVALSHA")
			proxy.DropReply(func(cmd []string) bool { return run(cmd) && n.Add(1)%loss.every == 0 }, 0, loss.mode)
			traffic(t, server, proxy.URL(), func() {})
		})
	}
}

// A server that is busy with a script for long refuses what ends a subscription, too. It refuses a PING for want of a permission before that.
func TestFault_SubscriptionEndsWhileTheServerIsBusy(t *testing.T) {
	t.Parallel()
	for name, rights := range map[string][]string{"all permissions": nil, "no PING": {"-ping"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t, redistest.WithConfig("lua-time-limit", "20"))
			server.Do(append([]string{"ACL", "SETUSER", "limited", "on", ">secret", "~*", "&*", "+@all"}, rights...)...)
			log := &logbook{lines: make(chan string, 1000)}
			c := clientOf(t, strings.Replace(server.URL(), "//", "//limited:secret@", 1), lockrt.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
			s := c.Semaphore("k", 1)
			require.NoError(t, s.Acquire(patient(t), 1))
			impatient, leave := context.WithCancel(patient(t))
			defer leave()
			waits := later(func() error { return s.Acquire(impatient, 1) })
			until(t, "it is subscribed", func() bool { return channels(t, server) > 0 })

			rc, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}})
			require.NoError(t, err)
			defer rc.Close()
			busy := later(func() error {
				return rc.Do(context.Background(), rc.B().Eval().Script("while true do end").Numkeys(0).Build()).Error()
			})
			until(t, "the server is busy", func() bool {
				_, err := server.Try("GET", "k")
				return err != nil
			})
			leave()
			require.Error(t, receive(t, waits, "the call that waited"))
			// A second after the last waiter has left.
			for !strings.Contains(receive(t, log.lines, "the log to say that subscriptions fail"), "subscribing failed") {
			}
			server.Do("SCRIPT", "KILL")
			require.Error(t, receive(t, busy, "the script"))

			got := later(func() error { return s.Acquire(patient(t), 1) })
			until(t, "it is subscribed again", func() bool { return channels(t, server) > 0 })
			require.NoError(t, s.Release(t.Context(), 1))
			require.NoError(t, receive(t, got, "the permit"))
			require.NoError(t, s.Release(t.Context(), 1))
		})
	}
}

func TestFault_ScriptsFlushedWithoutPause(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = server.Try("SCRIPT", "FLUSH")
			}
		}
	}()
	traffic(t, server, server.URL(), func() {})
	close(stop)
	<-stopped
	require.NotContains(t, server.CommandStats(), "eval")
}

func TestFault_WaitersAreServedThoughTheirSubscriptionDies(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	hooks, waiting, _ := watch()
	holder := clientOf(t, server.URL(), lockrt.Options{})
	waiter := clientOf(t, server.URL(), lockrt.Options{Hooks: hooks})
	for range 10 {
		lease, err := holder.Mutex("k").Lock(patient(t), unexpiring)
		require.NoError(t, err)
		next := lockLater(patient(t), waiter.Mutex("k"), unexpiring)
		receive(t, waiting, "the next one to wait")
		until(t, "it listens", func() bool { return channels(t, server) > 0 })
		server.Do("CLIENT", "KILL", "TYPE", "pubsub")
		require.NoError(t, lease.Unlock(t.Context())) // heard by nobody
		got := receive(t, next, "the next one")
		require.NoError(t, got.err)
		require.NoError(t, got.lease.Unlock(t.Context()))
	}
}

// channels returns how many channels have subscribers.
func channels(t *testing.T, server *redistest.RedisServer) int {
	t.Helper()
	names, err := server.Do("PUBSUB", "CHANNELS").AsStrSlice()
	require.NoError(t, err)
	return len(names)
}

func TestFault_KeyChangedBehindTheHolder(t *testing.T) {
	t.Parallel()
	foreigner := map[string]string{"0b5d8a0e-1111-2222-3333-444444444444:7": "1"}
	for name, test := range map[string]struct {
		change string // a script, so that no late copy of a request comes between
		check  func(t *testing.T, server *redistest.RedisServer, key string)
	}{
		"deleted": {
			change: "redis.call('del', KEYS[1])",
			check: func(t *testing.T, server *redistest.RedisServer, key string) {
				gone(t, server, key)
			},
		},
		"somebody else's": {
			change: "redis.call('del', KEYS[1]) redis.call('hset', KEYS[1], '0b5d8a0e-1111-2222-3333-444444444444:7', '1') redis.call('pexpire', KEYS[1], 600000)",
			check: func(t *testing.T, server *redistest.RedisServer, key string) {
				require.Equal(t, foreigner, fields(t, server, key))
				require.Greater(t, number(t, server, "PTTL", key), int64(500_000), "nobody renews it for him")
			},
		},
		"a list": {
			change: "redis.call('del', KEYS[1]) redis.call('rpush', KEYS[1], 'x')",
			check: func(t *testing.T, server *redistest.RedisServer, key string) {
				require.EqualValues(t, 1, number(t, server, "LLEN", key))
			},
		},
	} {
		for _, noticed := range []bool{true, false} {
			t.Run(name+", noticed before unlock: "+strconv.FormatBool(noticed), func(t *testing.T) {
				t.Parallel()
				server := redistest.Shared(t)
				c := newClient(t, lockrt.Options{})
				opt := unexpiring
				if noticed {
					opt = lockrt.WithWatchdog(6 * time.Second)
				}
				atBest(t, "was it lost", func() bool { // of a release that is answered late, it is not known
					key := redistest.Key(t, "k")
					lease, err := c.Mutex(key).Lock(patient(t), opt)
					require.NoError(t, err)
					change := func() bool {
						server.Do("EVAL", test.change, "1", key)
						return lease.Err() != nil
					}
					if noticed {
						until(t, "the loss is told", change) // also of what a late copy of the request has locked again
						require.ErrorIs(t, context.Cause(lease.Context()), lockrt.ErrLost)
					} else {
						change()
					}
					err = lease.Unlock(t.Context())
					test.check(t, server, key)
					return errors.Is(err, lockrt.ErrLost)
				})
			})
		}
	}
}

func TestFault_KeyBecomesSomethingElseWhileOthersWait(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "k")
	hooks, waiting, _ := watch()
	holder, waiter := newClient(t, lockrt.Options{}), newClient(t, lockrt.Options{Hooks: hooks})
	lease, err := holder.Mutex(key).Lock(patient(t), lockrt.WithWatchdog(6*time.Second))
	require.NoError(t, err)
	next := lockLater(patient(t), waiter.Mutex(key))
	receive(t, waiting, "the next one to wait")
	server.Do("SET", key, "x") // whatever there is
	require.ErrorIs(t, receive(t, next, "the next one").err, lockrt.ErrWrongType)
	receive(t, lease.Context().Done(), "the loss to be told")
	_, err = lease.TTL(patient(t))
	require.ErrorIs(t, err, lockrt.ErrWrongType)
	require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost)
	value, err := server.Do("GET", key).ToString()
	require.NoError(t, err)
	require.Equal(t, "x", value)
}

// TestFault_RefusesToWrite: Lock and Unlock wait for a server that accepts no writes for a while.
func TestFault_RefusesToWrite(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]struct {
		refuse func(t *testing.T, server *redistest.RedisServer)
		accept []string
	}{
		"NOREPLICAS": {
			func(_ *testing.T, server *redistest.RedisServer) {
				server.Do("CONFIG", "SET", "min-replicas-to-write", "1")
			},
			[]string{"CONFIG", "SET", "min-replicas-to-write", "0"},
		},
		"MISCONF": {
			func(t *testing.T, server *redistest.RedisServer) {
				t.Helper()
				config, err := server.Do("CONFIG", "GET", "d*").AsStrMap()
				require.NoError(t, err)
				// A file in a folder of the name of the dump keeps the server from putting it there.
				require.NoError(t, os.MkdirAll(filepath.Join(config["dir"], config["dbfilename"], "taken"), 0o700))
				server.Do("CONFIG", "SET", "save", "3600 1")
				require.NoError(t, server.Do("BGSAVE").Error())
				until(t, "saving has failed", func() bool {
					info, err := server.Do("INFO", "persistence").ToString()
					return err == nil && strings.Contains(info, "rdb_last_bgsave_status:err")
				})
			},
			[]string{"CONFIG", "SET", "stop-writes-on-bgsave-error", "no"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t)
			proxy := redistest.Proxy(t, server.Addr())
			c := clientOf(t, proxy.URL(), lockrt.Options{})
			held, err := c.Mutex("held").Lock(patient(t))
			require.NoError(t, err)
			state.refuse(t, server)
			_, err = c.Mutex("new").TryLock(patient(t))
			require.ErrorContains(t, err, name)
			next := lockLater(patient(t), c.Mutex("new"))
			tries := make(chan struct{}, 10000)
			proxy.OnRequest(func(cmd []string) {
				if gives(cmd) {
					tries <- struct{}{}
				}
			})
			unlocked := make(chan error, 1)
			go func() { unlocked <- held.Unlock(context.Background()) }()
			for range 2 {
				receive(t, tries, "a try to unlock")
			}
			require.NoError(t, server.Do(state.accept...).Error())
			require.NoError(t, receive(t, unlocked, "the end of Unlock"))
			gone(t, server, "held")
			got := receive(t, next, "the lock")
			require.NoError(t, got.err)
			require.NoError(t, got.lease.Unlock(t.Context()))
		})
	}
}

func TestFault_OutOfMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	renewed := make(chan error, 1000)
	hooks := lockrt.Hooks{Renewed: func(_ context.Context, e lockrt.RenewEvent) { renewed <- e.Err }}
	c := clientOf(t, server.URL(), lockrt.Options{Hooks: hooks})
	held, err := c.Mutex("held").Lock(patient(t), lockrt.WithWatchdog(6*time.Second))
	require.NoError(t, err)
	server.Do("CONFIG", "SET", "maxmemory", "1")

	_, err = c.Mutex("new").TryLock(patient(t))
	require.ErrorContains(t, err, "OOM")
	_, err = c.Mutex("new").Lock(patient(t), lockrt.WithWait(3*time.Second))
	require.ErrorIs(t, err, lockrt.ErrUnavailable)
	require.ErrorContains(t, err, "OOM")
	next := lockLater(patient(t), c.Mutex("new"))
	for range 3 {
		require.NoError(t, receive(t, renewed, "a renewal"))
	}
	require.NoError(t, held.Unlock(t.Context()))
	gone(t, server, "held")
	require.Empty(t, next)

	server.Do("CONFIG", "SET", "maxmemory", "0")
	got := receive(t, next, "memory")
	require.NoError(t, got.err)
	require.NoError(t, got.lease.Unlock(t.Context()))
}

// TestFault_TooManyConnections cuts the connections of a holder and a waiter while the server accepts no others. rueidis hides the reply of such a server
// behind the end of the connection, unless the program that made the client has it send a single command first.
func TestFault_TooManyConnections(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	client := func() *lockrt.Client {
		c, err := lockrt.New(server.NewClient(func(o *rueidis.ClientOption) {
			o.DisableCache, o.ClientSetInfo = true, rueidis.DisableClientSetInfo
		}), lockrt.Options{OpTimeout: unhurried})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		return c
	}
	holder, waiter := client(), client()
	held, err := holder.Mutex("k").Lock(patient(t), lockrt.WithWatchdog(patience))
	require.NoError(t, err)
	next := lockLater(patient(t), waiter.Mutex("k"))
	until(t, "the other client waits", func() bool { return waiter.Stats().Waiting == 1 })

	server.Do("CONFIG", "SET", "maxclients", "1") // the connection of the test
	server.Do("CLIENT", "KILL", "TYPE", "pubsub", "SKIPME", "yes")
	server.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	until(t, "the server refuses a connection", func() bool {
		_, err = waiter.Mutex("other").TryLock(patient(t))
		return err != nil && strings.Contains(err.Error(), "max number of clients reached")
	})
	require.ErrorIs(t, err, lockrt.ErrUnavailable)
	_, err = waiter.Mutex("other").Lock(patient(t), lockrt.WithWait(100*time.Millisecond))
	require.ErrorIs(t, err, lockrt.ErrUnavailable)
	err = waiter.Semaphore("stock", 1).Acquire(patient(t), 1, lockrt.WithWait(100*time.Millisecond))
	require.ErrorIs(t, err, lockrt.ErrUnavailable)
	require.Empty(t, next, "the call waits for a connection, too")

	server.Do("CONFIG", "SET", "maxclients", "100")
	until(t, "both clients subscribe", func() bool { return channels(t, server) == 2 })
	require.NoError(t, held.Unlock(t.Context()))
	got := receive(t, next, "the lock")
	require.NoError(t, got.err)
	require.NoError(t, got.lease.Unlock(t.Context()))
}

// TestFault_SubscribesAfterAScript has a server run a long script when a client connects again. rueidis shows the reply that it is busy, to the SELECT of a
// new connection, to each request over that.
func TestFault_SubscribesAfterAScript(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	proxy := redistest.Proxy(t, server.Addr())
	log := &logbook{lines: make(chan string, 1000)}
	holder := clientOf(t, server.URL()+"/1", lockrt.Options{})
	waiter := clientOf(t, proxy.URL()+"/1", lockrt.Options{OpTimeout: unhurried, Logger: slog.New(slog.NewTextHandler(log, nil))})
	held, err := holder.Mutex("k").Lock(patient(t), lockrt.WithWatchdog(patience))
	require.NoError(t, err)
	next := lockLater(patient(t), waiter.Mutex("k"))
	until(t, "both clients subscribe", func() bool { return channels(t, server) == 2 })

	end := occupied(t, server)
	proxy.Cut()
	for !strings.Contains(receive(t, log.lines, "the log to say that the waiter is refused"), "subscribing failed") {
	}
	end()
	until(t, "both clients subscribe again", func() bool { return channels(t, server) == 2 })
	require.NoError(t, held.Unlock(t.Context()))
	got := receive(t, next, "the lock")
	require.NoError(t, got.err)
	require.NoError(t, got.lease.Unlock(t.Context()))
}

// TestFault_RefusesToChangeNumbers: a method that changes a number fails with ErrUnavailable, as Lock does, while the server accepts no writes.
func TestFault_RefusesToChangeNumbers(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{OpTimeout: time.Second})
	permit, err := c.PermitSemaphore("permits", 2).Acquire(patient(t))
	require.NoError(t, err)
	stock := c.Semaphore("stock", 2)
	_, err = stock.TrySetPermits(patient(t), 2, 0)
	require.NoError(t, err)
	require.NoError(t, server.Do("CONFIG", "SET", "min-replicas-to-write", "1").Error())
	for name, change := range map[string]func() error{
		"Extend":        func() error { return permit.Extend(patient(t), time.Minute) },
		"SetCount":      func() error { _, err := c.CountDownLatch("latch").SetCount(patient(t), 1); return err },
		"TrySetPermits": func() error { _, err := c.Semaphore("new", 1).TrySetPermits(patient(t), 1, 0); return err },
		"Drain":         func() error { _, err := stock.Drain(patient(t)); return err },
		"Resize":        func() error { _, err := stock.Resize(patient(t), 1); return err },
		"Release":       func() error { return stock.Release(patient(t), 1) },
	} {
		err := change()
		require.ErrorIs(t, err, lockrt.ErrUnavailable, name)
		require.ErrorContains(t, err, "NOREPLICAS", name)
	}
	require.NoError(t, server.Do("CONFIG", "SET", "min-replicas-to-write", "0").Error())
	until(t, "the release is done", func() bool { n, err := stock.Available(patient(t)); return err == nil && n == 3 })
	require.NoError(t, permit.Release(t.Context()))
}

func TestFault_RefusedByTheServersRules(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{})
	held, err := c.Mutex("held").Lock(patient(t), lockrt.WithWatchdog(6*time.Second))
	require.NoError(t, err)
	server.Do("ACL", "SETUSER", "default", "-evalsha")
	_, err = c.Mutex("k").Lock(patient(t))
	require.ErrorContains(t, err, "NOPERM", "that will not pass by itself")
	receive(t, held.Context().Done(), "the loss to be told")
	require.ErrorIs(t, held.Err(), lockrt.ErrLost)
	require.ErrorContains(t, held.Err(), "NOPERM")
	server.Do("ACL", "SETUSER", "default", "+evalsha")
	lease, err := c.Mutex("k").Lock(patient(t))
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(t.Context()))
}

// A waiter that gives up while the server refuses to remove it stays in the wait queue until the
// server accepts that. Its place must not be handed the lock then, since no release would follow
// for two seconds.
func TestFault_PlaceInLineIsGivenUpWhenTheServerAllowsItAgain(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]struct{ begin, end []string }{
		"no permission":         {[]string{"ACL", "SETUSER", "default", "-evalsha"}, []string{"ACL", "SETUSER", "default", "+evalsha"}},
		"a key of another type": {[]string{"SET", "k", "x"}, []string{"DEL", "k"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t)
			held, err := clientOf(t, server.URL(), unwatched).Mutex("k").Lock(patient(t), unexpiring)
			require.NoError(t, err)
			gone, leave := context.WithCancel(t.Context())
			quitter := lockLater(gone, clientOf(t, server.URL(), unwatched).Mutex("k"))
			inLine(t, server, "k", 1)
			server.Do("CONFIG", "RESETSTAT")
			server.Do(refuse.begin...)
			leave()
			require.ErrorIs(t, receive(t, quitter, "the end of the wait").err, context.Canceled)
			until(t, "it was refused", func() bool {
				stats, err := server.Do("INFO", "commandstats").ToString()
				require.NoError(t, err)
				return strings.Contains(stats, "cmdstat_evalsha:")
			})
			server.Do(refuse.end...)
			inLine(t, server, "k", 0)
			_ = held.Unlock(t.Context())
		})
	}
}
