package lockrt_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// pubSubs are the ways to talk to each other in a cluster.
var pubSubs = map[string]lockrt.PubSub{"sharded": lockrt.PubSubSharded, "plain": lockrt.PubSubPlain, "both": lockrt.PubSubBoth}

// inCluster returns a client of a cluster.
func inCluster(tb testing.TB, cluster *redistest.RedisCluster, opts lockrt.Options) *lockrt.Client {
	tb.Helper()
	c := clientOf(tb, cluster.URL(), opts)
	return c
}

// ask sends a command about a key to the server that has it.
func ask(tb testing.TB, cluster *redistest.RedisCluster, key string, command ...string) rueidis.RedisResult {
	tb.Helper()
	return cluster.Master(key).Do(command...)
}

// subscribed returns how many channels have subscribers on any server whose name contains part.
func subscribed(tb testing.TB, cluster *redistest.RedisCluster, part string) (n int) {
	tb.Helper()
	for _, node := range cluster.Nodes() {
		for _, kind := range []string{"CHANNELS", "SHARDCHANNELS"} {
			names, err := node.Do("PUBSUB", kind, "*"+part+"*").AsStrSlice()
			require.NoError(tb, err)
			n += len(names)
		}
	}
	return n
}

func TestCluster_Slot(t *testing.T) {
	t.Parallel()
	cluster := redistest.SharedCluster(t)
	for _, key := range []string{"a", "123456789", "{a}b", "x{ab}{c}", "a}b", "ключ", "{}a", "a{b", "a{}{b}"} {
		require.EqualValues(t, cluster.Slot(key), lockrt.SlotOf(key), key)
	}
}

func TestCluster_OneHandsOverToTheOther(t *testing.T) {
	t.Parallel()
	cluster := redistest.SharedCluster(t)
	for kind, makes := range exclusives {
		for name, pubsub := range pubSubs {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				hooks, waiting, _ := watch()
				a := inCluster(t, cluster, lockrt.Options{PubSub: pubsub})
				b := inCluster(t, cluster, lockrt.Options{PubSub: pubsub, Hooks: hooks})
				key := redistest.Key(t, "k")
				direct := kind == "Mutex" && pubsub != lockrt.PubSubPlain
				for round := 0; round < 5 || direct && b.Stats().HandOversRemote < 5; round++ {
					// A waiter that asks once more at that moment, since the subscription was confirmed after it was
					// first known, may get the answer before the message.
					require.Less(t, round, 50, "it is handed over, nearly always")
					held, err := makes(a, key).Lock(patient(t))
					require.NoError(t, err)
					got := lockLater(patient(t), makes(b, key))
					receive(t, waiting, "the other to wait")
					if kind == "Mutex" {
						until(t, "the other to stand in line", func() bool {
							standing, err := a.Mutex(key).Inspect(t.Context())
							return err == nil && standing.Waiting == 1
						})
					}
					require.NoError(t, held.Unlock(t.Context()))
					next := receive(t, got, "its turn") // and not when a timer ends
					require.NoError(t, next.err)
					require.NoError(t, next.lease.Unlock(t.Context()))
				}
				require.NoError(t, a.Close())
				require.NoError(t, b.Close())
				until(t, "nobody to listen", func() bool { return subscribed(t, cluster, key) == 0 })
				until(t, "the key is gone", func() bool { return must(ask(t, cluster, key, "EXISTS", key).AsInt64()) == 0 })
			})
		}
	}
}

// A Java program listens on the channel of the lock: on a sharded one, a plain one, or either.
func TestCluster_JavaIsTold(t *testing.T) {
	t.Parallel()
	cluster := redistest.SharedCluster(t)
	for name, pubsub := range pubSubs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := inCluster(t, cluster, lockrt.Options{PubSub: pubsub})
			key := redistest.Key(t, "k")
			heard := map[string]chan string{"plain": make(chan string, 10), "sharded": make(chan string, 10)}
			for kind, messages := range heard {
				conn, _ := cluster.NewClient().Dedicate()
				t.Cleanup(conn.Close)
				conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { messages <- m.Message }})
				subscribe := conn.B().Subscribe().Channel("redisson_lock__channel:{" + key + "}").Build()
				if kind == "sharded" {
					subscribe = conn.B().Ssubscribe().Channel("redisson_lock__channel:{" + key + "}").Build()
				}
				require.NoError(t, conn.Do(t.Context(), subscribe).Error())
			}
			held, err := c.Mutex(key).Lock(patient(t))
			require.NoError(t, err)
			require.NoError(t, held.Unlock(t.Context()))
			for kind, messages := range heard {
				if kind == name || pubsub == lockrt.PubSubBoth {
					require.Equal(t, "0", receive(t, messages, "the message on the "+kind+" channel"))
				}
			}
			for kind, messages := range heard {
				require.Empty(t, messages, kind)
			}
		})
	}
}

// A process that waits for a lock of a Java program waits for the message of its release.
func TestCluster_JavasMessagesAreHeard(t *testing.T) {
	t.Parallel()
	cluster := redistest.SharedCluster(t)
	for name, pubsub := range pubSubs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hooks, waiting, _ := watch()
			c := inCluster(t, cluster, lockrt.Options{PubSub: pubsub, Hooks: hooks})
			key := redistest.Key(t, "k")
			ask(t, cluster, key, "HSET", key, "11111111-2222-4333-8444-555555555555:1", "1")
			got := lockLater(patient(t), c.Mutex(key))
			receive(t, waiting, "it to wait")
			until(t, "it to listen", func() bool { return subscribed(t, cluster, "redisson_lock__channel:{"+key) > 0 })
			ask(t, cluster, key, "DEL", key)
			command := "SPUBLISH"
			if pubsub == lockrt.PubSubPlain {
				command = "PUBLISH"
			}
			ask(t, cluster, key, command, "redisson_lock__channel:{"+key+"}", "0")
			next := receive(t, got, "its turn")
			require.NoError(t, next.err)
			require.NoError(t, next.lease.Unlock(t.Context()))
		})
	}
}

func TestCluster_KeysThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	c := inCluster(t, redistest.SharedCluster(t), lockrt.Options{})
	var bad *lockrt.KeyError
	for _, key := range []string{"a{b", "{}x", "a}b", "}"} {
		for kind, makes := range exclusives {
			_, err := makes(c, key).Lock(t.Context())
			require.ErrorAs(t, err, &bad, "%s %s", kind, key)
		}
		require.ErrorAs(t, c.Semaphore(key, 1).Acquire(t.Context(), 1), &bad, key)
		_, err := c.CountDownLatch(key).Count(t.Context())
		require.ErrorAs(t, err, &bad, key)
	}
	for _, key := range []string{"{t}x", "x{y}{z}", "a}b{c}d"} {
		lease, err := c.Mutex(key).Lock(t.Context())
		require.NoError(t, err, key)
		require.NoError(t, lease.Unlock(t.Context()))
		require.ErrorAs(t, c.CountDownLatch(key).Wait(t.Context()), &bad, key)
		_, err = c.CountDownLatch(key).SetCount(t.Context(), 1)
		require.ErrorAs(t, err, &bad, key)
	}
	_, err := clientOf(t, redistest.Shared(t).URL(), lockrt.Options{}).Mutex("a}b").TryLock(t.Context())
	require.NoError(t, err, "where there are no slots")
}

// The client renews and releases keys in many slots.
func TestCluster_ManyKeys(t *testing.T) {
	t.Parallel()
	cluster := redistest.SharedCluster(t)
	c := inCluster(t, cluster, lockrt.Options{Watchdog: 6 * time.Second})
	base := redistest.Key(t, "k")
	mutexes := make([]lockrt.Locker, 0, 200)
	for i := range 200 {
		key := fmt.Sprintf("%s.%d", base, i)
		if i%4 == 0 {
			key = fmt.Sprintf("%s.{%d}.%d", base, i/40, i) // several in one slot
		}
		mutexes = append(mutexes, c.Mutex(key))
	}
	lease, err := lockrt.NewMultiLock(mutexes...).Lock(patient(t))
	require.NoError(t, err)
	until(t, "each to be renewed a few times", func() bool { return c.Stats().Renewals > 800 })
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Unlock(t.Context()))
	require.Zero(t, c.Stats().Losses)
	for _, m := range mutexes {
		until(t, m.Key()+" is gone", func() bool { return must(ask(t, cluster, m.Key(), "EXISTS", m.Key()).AsInt64()) == 0 })
	}
}

func TestCluster_ForceUnlockIsToldAtOnce(t *testing.T) {
	t.Parallel()
	cluster := redistest.SharedCluster(t)
	for name, pubsub := range pubSubs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := inCluster(t, cluster, lockrt.Options{PubSub: pubsub}), inCluster(t, cluster, lockrt.Options{PubSub: pubsub})
			key := redistest.Key(t, "k")
			lease, err := a.Mutex(key).Lock(patient(t))
			require.NoError(t, err)
			until(t, "the holder to listen", func() bool { return subscribed(t, cluster, a.ID()) > 0 })
			taken, err := b.Mutex(key).ForceUnlock(t.Context())
			require.NoError(t, err)
			require.True(t, taken)
			select {
			case <-lease.Context().Done():
			case <-time.After(5 * time.Second): // the next renewal is later
				require.Fail(t, "the holder was not told")
			}
			require.ErrorIs(t, lease.Err(), lockrt.ErrLost)
		})
	}
}

// Every primitive is used on keys of all servers.
func TestCluster_EveryPrimitive(t *testing.T) {
	t.Parallel()
	cluster := redistest.SharedCluster(t)
	for name, pubsub := range pubSubs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hooks, waiting, _ := watch()
			a, b := inCluster(t, cluster, lockrt.Options{PubSub: pubsub}), inCluster(t, cluster, lockrt.Options{PubSub: pubsub, Hooks: hooks})
			for range 4 {
				key := redistest.Key(t, "k"+strconv.Itoa(rand.Int()))
				ctx := patient(t)

				require.NoError(t, a.Semaphore(key+".s", 2).Acquire(ctx, 2))
				got := make(chan error, 1)
				go func() { got <- b.Semaphore(key+".s", 2).Acquire(ctx, 1) }()
				receive(t, waiting, "it to wait")
				require.NoError(t, a.Semaphore(key+".s", 2).Release(ctx, 1))
				require.NoError(t, receive(t, got, "a permit"))

				permits, err := a.PermitSemaphore(key+".p", 1).Acquire(ctx)
				require.NoError(t, err)
				second := make(chan error, 1)
				go func() {
					permit, err := b.PermitSemaphore(key+".p", 1).Acquire(ctx)
					if err == nil {
						err = permit.Release(ctx)
					}
					second <- err
				}()
				receive(t, waiting, "it to wait")
				require.NoError(t, permits.Release(ctx))
				require.NoError(t, receive(t, second, "a permit"))

				set, err := a.CountDownLatch(key).SetCount(ctx, 1)
				require.NoError(t, err)
				require.True(t, set)
				go func() { got <- b.CountDownLatch(key).Wait(ctx) }()
				receive(t, waiting, "it to wait")
				_, err = a.CountDownLatch(key).CountDown(ctx)
				require.NoError(t, err)
				require.NoError(t, receive(t, got, "the latch to open"))

				r1, err := a.RWMutex(key + ".rw").RLock(ctx)
				require.NoError(t, err)
				r2, err := b.RWMutex(key + ".rw").RLock(ctx)
				require.NoError(t, err)
				w := lockLater(ctx, b.RWMutex(key+".rw"))
				receive(t, waiting, "it to wait")
				require.NoError(t, r1.Unlock(ctx))
				require.NoError(t, r2.Unlock(ctx))
				written := receive(t, w, "to write")
				require.NoError(t, written.err)
				require.NoError(t, written.lease.Unlock(ctx))

				first, err := a.Mutex(key+".f").Lock(ctx, lockrt.WithFencing())
				require.NoError(t, err)
				later := lockLater(ctx, b.Mutex(key+".f"), lockrt.WithFencing())
				receive(t, waiting, "it to wait")
				require.NoError(t, first.Unlock(ctx))
				fenced := receive(t, later, "its turn")
				require.NoError(t, fenced.err)
				require.Greater(t, fenced.lease.Token(), first.Token())
				require.NoError(t, fenced.lease.Unlock(ctx))
			}
		})
	}
}

func TestCluster_LockersKeepTheirPromises(t *testing.T) { //nolint:paralleltest // it sets the environment
	t.Setenv("REDIS_URL", redistest.SharedCluster(t).URL())
	for kind, makes := range exclusives {
		t.Run(kind, func(t *testing.T) { locktest.TestLocker(t, makes) })
	}
}

// A cohort is some servers that are taken for a cluster.
type cohort struct {
	rueidis.Client // of the one that has all slots

	nodes map[string]rueidis.Client
}

func (cohort) Mode() rueidis.ClientMode           { return rueidis.ClientModeCluster }
func (c cohort) Nodes() map[string]rueidis.Client { return c.nodes }

// occupied has a server run a script, until end is called. It answers nothing else meanwhile but that it is busy.
func occupied(t *testing.T, s *redistest.RedisServer) (end func()) {
	t.Helper()
	s.Do("CONFIG", "SET", "lua-time-limit", "1")
	script := s.NewClient()
	over := later(func() error {
		return script.Do(context.Background(), script.B().Eval().Script("while true do end").Numkeys(0).Build()).Error()
	})
	until(t, "it is busy", func() bool {
		_, err := s.Try("PING")
		return err != nil && strings.Contains(err.Error(), "BUSY")
	})
	end = sync.OnceFunc(func() {
		_, _ = s.Try("SCRIPT", "KILL")
		<-over
	})
	t.Cleanup(end)
	return end
}

// TestCluster_AsksForShardedChannels shows that the client asks again, or asks another server, if a server cannot say now whether it
// has sharded channels. Only a server that does not know the command has none. A server that loads its data does answer.
func TestCluster_AsksForShardedChannels(t *testing.T) {
	t.Parallel()
	// of returns some servers, of which the first has all slots.
	of := func(t *testing.T, ways ...*redistest.FaultProxy) cohort {
		t.Helper()
		nodes := map[string]rueidis.Client{}
		for _, way := range ways {
			nodes[way.Addr()] = redistest.NewClient(t, way.Addr(), func(o *rueidis.ClientOption) { o.DisableCache = true })
		}
		return cohort{nodes[ways[0].Addr()], nodes}
	}
	open := func(t *testing.T, patience time.Duration, ways ...*redistest.FaultProxy) (*lockrt.Client, error) {
		t.Helper()
		return lockrt.New(of(t, ways...), lockrt.Options{OpTimeout: patience})
	}
	// says closes a client, after it has shown that it announces releases on this kind of channel and no other.
	says := func(t *testing.T, c *lockrt.Client, at *redistest.RedisServer, kind string) {
		t.Helper()
		at.Do("CONFIG", "RESETSTAT")
		lease, err := c.Mutex("k").Lock(patient(t))
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(patient(t)))
		require.NoError(t, c.Close())
		stats := at.CommandStats()
		require.Positive(t, stats[kind])
		require.Equal(t, stats[kind], stats["publish"]+stats["spublish"]) // one, or more where a late request has locked once more
	}
	// asked returns a channel with a value for each request to a server.
	asked := func(way *redistest.FaultProxy) <-chan struct{} {
		times := make(chan struct{}, 1000)
		way.OnRequest(func(cmd []string) {
			if redistest.Command("PUBSUB")(cmd) {
				times <- struct{}{}
			}
		})
		return times
	}
	start := func(t *testing.T, opts ...redistest.Option) (*redistest.RedisServer, *redistest.FaultProxy) {
		t.Helper()
		s := redistest.Server(t, opts...)
		return s, redistest.Proxy(t, s.Addr())
	}

	t.Run("it has them", func(t *testing.T) {
		t.Parallel()
		s, way := start(t)
		c, err := open(t, patience, way)
		require.NoError(t, err)
		says(t, c, s, "spublish")
	})
	t.Run("it does not know of them", func(t *testing.T) {
		t.Parallel()
		s, way := start(t, redistest.WithConfig("rename-command", "PUBSUB", ""))
		times := asked(way)
		c, err := open(t, patience, way)
		require.NoError(t, err)
		require.Len(t, times, 1)
		says(t, c, s, "publish")
	})
	t.Run("one is busy", func(t *testing.T) {
		t.Parallel()
		s, way := start(t)
		other, busy := start(t)
		occupied(t, other)
		c, err := open(t, patience, way, busy)
		require.NoError(t, err)
		says(t, c, s, "spublish")
	})
	t.Run("all are busy for a while", func(t *testing.T) {
		t.Parallel()
		s, way := start(t)
		end := occupied(t, s)
		times, all := asked(way), of(t, way)
		var c *lockrt.Client
		done := later(func() (err error) {
			c, err = lockrt.New(all, lockrt.Options{OpTimeout: patience})
			return err
		})
		for range 3 {
			receive(t, times, "the question")
		}
		end()
		require.NoError(t, receive(t, done, "the answer"))
		says(t, c, s, "spublish")
	})
	t.Run("a connection is lost", func(t *testing.T) {
		t.Parallel()
		s, way := start(t)
		lost := way.DropReply(redistest.Command("PUBSUB"), 2, redistest.Close)
		c, err := open(t, patience, way)
		require.NoError(t, err)
		require.Equal(t, 2, lost.Lost())
		says(t, c, s, "spublish")
	})
	t.Run("all are busy", func(t *testing.T) {
		t.Parallel()
		s, way := start(t)
		occupied(t, s)
		_, err := open(t, 300*time.Millisecond, way)
		require.ErrorContains(t, err, "lockgen: ask the cluster whether it has sharded channels, which Options.PubSub could say: server unavailable: BUSY")
	})
	t.Run("nobody answers", func(t *testing.T) {
		t.Parallel()
		_, way := start(t)
		way.DropReply(redistest.Command("PUBSUB"), 1, redistest.Mute)
		_, err := open(t, 300*time.Millisecond, way)
		require.ErrorContains(t, err, "none of 1 answers within 300ms")
	})
	t.Run("it may not be asked", func(t *testing.T) {
		t.Parallel()
		s, way := start(t)
		s.Do("ACL", "SETUSER", "default", "-pubsub|shardnumsub")
		times := asked(way)
		_, err := open(t, patience, way)
		require.ErrorContains(t, err, "a permission is missing")
		require.Len(t, times, 1)
	})
}

// TestCluster_CloseDoesNotWaitForTheWordOfAServer has a server that does not answer, and of which the client needs nothing: when Close comes, it has been
// asked which server has which slot, or is being sent the scripts.
func TestCluster_CloseDoesNotWaitForTheWordOfAServer(t *testing.T) {
	t.Parallel()
	for name, asks := range map[string]bool{"it is asked": true, "it is sent scripts": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.Cluster(t)
			rc := cluster.NewClient(func(o *rueidis.ClientOption) { o.ConnWriteTimeout = time.Hour })
			c, err := lockrt.New(rc, lockrt.Options{OpTimeout: 20 * time.Second})
			require.NoError(t, err)
			has, mute := cluster.Master("k"), cluster.Nodes()[0]
			if mute.Addr() == has.Addr() {
				mute = cluster.Nodes()[1]
			}
			if !asks {
				mute.Stop()
			}
			l, err := c.Mutex("k").Lock(patient(t))
			require.NoError(t, err)
			if asks {
				mute.Stop()
				before := has.CommandStats()["cluster|slots"]
				until(t, "the servers are asked, since a connection that listens breaks", func() bool {
					has.Do("CLIENT", "KILL", "TYPE", "pubsub")
					return has.CommandStats()["cluster|slots"] > before
				})
			}
			require.NoError(t, l.Unlock(patient(t)))
			require.NoError(t, c.Close())
		})
	}
}
