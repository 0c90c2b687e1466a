package lockrt_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/leaktest"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// This file is about read-write locks while messages get lost and servers fail.

var (
	asksRW  = redistest.EvalSHA(scripts.RWRead.SHA1(), scripts.RWWrite.SHA1())
	givesRW = redistest.EvalSHA(scripts.RWReadRelease.SHA1(), scripts.RWWriteRelease.SHA1())
)

// sides are the two ways to lock.
func sides(m *lockrt.RWMutex) map[string][2]lockFunc {
	return map[string][2]lockFunc{"write": {m.Lock, m.TryLock}, "read": {m.RLock, m.TryRLock}}
}

// everySide runs a test for each side and each way in which a message can get lost.
func everySide(t *testing.T, test func(t *testing.T, l *line, lock, try lockFunc, drop func(match func(cmd []string) bool, n int) *redistest.Drop)) {
	for _, side := range []string{"write", "read"} {
		t.Run(side, func(t *testing.T) {
			t.Parallel()
			everyLoss(t, func(t *testing.T, l *line, drop func(match func(cmd []string) bool, n int) *redistest.Drop) {
				locks := sides(l.client.RWMutex(l.key))[side]
				test(t, l, locks[0], locks[1], drop)
			})
		})
	}
}

func TestRWFault_LostRequestsAreSentAgainAndCountOnce(t *testing.T) {
	t.Parallel()
	everySide(t, func(t *testing.T, l *line, lock, try lockFunc, drop func(match func(cmd []string) bool, n int) *redistest.Drop) {
		for _, f := range []lockFunc{lock, try} {
			lost := drop(asksRW, 1)
			lease, err := f(patient(t), unexpiring)
			require.NoError(t, err)
			receive(t, lost.Done(), "the loss of the request to lock")
			hash := fields(t, l.server, l.key)
			require.Len(t, hash, 2)
			for field, value := range hash {
				if field != "mode" {
					require.Equal(t, "1", value)
				}
			}
			require.NoError(t, lease.Err())
			lost = drop(givesRW, 1)
			require.NoError(t, lease.Unlock(t.Context()))
			receive(t, lost.Done(), "the loss of the request to unlock")
			nothingLeft(t, l.server, l.key)
		}
	})
}

func TestRWFault_WhoGivesUpOrLearnsNothingLeavesNothing(t *testing.T) {
	t.Parallel()
	for side := range sides(newClient(t, lockrt.Options{}).RWMutex("k")) {
		t.Run(side, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, brisk)
			lost := l.proxy.DropReply(asksRW, 0, redistest.Close)
			_, err := sides(l.client.RWMutex(l.key))[side][1](patient(t), unexpiring)
			require.Error(t, err)
			require.NotErrorIs(t, err, lockrt.ErrNotAcquired, "that would be a no")
			lost.Stop()
			nothingLeft(t, l.server, l.key)

			drop := l.proxy.DropReply(asksRW, 0, redistest.Mute)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			got := leaseLater(func() (*lockrt.Lease, error) { return sides(l.client.RWMutex(l.key))[side][0](ctx, unexpiring) })
			until(t, "the server has granted it", func() bool { return number(t, l.server, "EXISTS", l.key) == 1 })
			cancel()
			require.ErrorIs(t, receive(t, got, "the call that gave up").err, context.Canceled)
			drop.Stop()
			nothingLeft(t, l.server, l.key)
		})
	}
}

func TestRWFault_AReleaseSentAgainLeavesTheNextHolderAlone(t *testing.T) {
	t.Parallel()
	for side := range sides(newClient(t, lockrt.Options{}).RWMutex("k")) {
		t.Run(side, func(t *testing.T) {
			t.Parallel()
			hooks, waiting, _ := watch()
			l := newLine(t, brisk)
			other := newClient(t, lockrt.Options{Hooks: hooks}).RWMutex(l.key)
			lease, err := sides(l.client.RWMutex(l.key))[side][0](patient(t), unexpiring)
			require.NoError(t, err)
			next := lockLater(patient(t), other, unexpiring)
			receive(t, waiting, "the next one to wait")
			releases := l.seen(givesRW)
			l.proxy.DropReply(givesRW, 3, redistest.Close)
			require.NoError(t, lease.Unlock(t.Context()), "the server has done it")
			w := gotten(t, next, "the next holder")
			for range 4 {
				receive(t, releases, "a try to release")
			}
			_, err = w.TTL(patient(t))
			require.NoError(t, err)
			free(t, w)
			nothingLeft(t, l.server, l.key)
		})
	}
}

// Redis lets a reader in beside the writer whom it names. The reader that asked, without an answer yet, must not get in
// beside another writer of the process that has the same hold.
func TestRWFault_AWriteLockThatIsReadUnderGoesToNoOtherWriter(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	opts := brisk
	opts.Hooks = hooks
	l := newLine(t, opts)
	m := l.client.RWMutex(l.key)
	ctx := lockrt.WithOwner(patient(t), lockrt.NewOwner())
	w := ok(t)(m.Lock(ctx, unexpiring))
	next := lockLater(patient(t), m, unexpiring)
	receive(t, waiting, "the next writer to wait")
	lost := l.proxy.DropReply(redistest.EvalSHA(scripts.RWRead.SHA1()), 0, redistest.Close)
	reads := readLater(ctx, m, unexpiring)
	until(t, "the server lets the reader in", func() bool { return len(fields(t, l.server, l.key)) == 3 })
	free(t, w)
	require.Equal(t, "read", fields(t, l.server, l.key)["mode"], "the reader has it, and no other writer")
	lost.Stop()
	r := gotten(t, reads, "the reader")
	held, err := m.Inspect(patient(t))
	require.NoError(t, err)
	require.Zero(t, held.WriteCount)
	require.NoError(t, r.Err())
	free(t, r)
	free(t, gotten(t, next, "the next writer"))
	nothingLeft(t, l.server, l.key)
}

func TestRWFault_DowngradingIsDoneThoughItsReplyIsLost(t *testing.T) {
	t.Parallel()
	for how, mode := range modes() {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, brisk)
			m := l.client.RWMutex(l.key)
			ctx := lockrt.WithOwner(patient(t), lockrt.NewOwner())
			w, r := ok(t)(m.Lock(ctx, unexpiring)), ok(t)(m.RLock(ctx, unexpiring))
			lost := l.proxy.DropReply(givesRW, 1, mode)
			free(t, w)
			receive(t, lost.Done(), "the loss")
			require.Equal(t, "read", fields(t, l.server, l.key)["mode"])
			require.NoError(t, r.Err())
			free(t, r)
			nothingLeft(t, l.server, l.key)
		})
	}
}

// TestRWFault_StoppedServer shows that holders of both kinds are told before their keys end, that calls return
// by their bounds, and that the waiters are served when the server goes on.
func TestRWFault_StoppedServer(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	hooks, waiting, _ := watch()
	opts := lockrt.Options{Watchdog: steady.Watchdog, Hooks: hooks}
	c, other := clientOf(t, server.URL(), opts), clientOf(t, server.URL(), lockrt.Options{Hooks: hooks})
	r, w := ok(t)(c.RWMutex("read").RLock(patient(t))), ok(t)(c.RWMutex("written").Lock(patient(t)))
	over, cancelAll := context.WithTimeout(t.Context(), 2*time.Minute) // all of it, also where the machine is slow
	defer cancelAll()
	toWrite, toRead := lockLater(over, other.RWMutex("read")), readLater(over, other.RWMutex("written"))
	receive(t, waiting, "the first to wait")
	receive(t, waiting, "the second to wait")
	trusted := func(l *lockrt.Lease, key string) {
		t.Helper()
		for before := (time.Time{}); !before.Equal(l.Until()); {
			before = l.Until()
			require.Less(t, before.UnixMilli(), number(t, server, "PEXPIRETIME", key))
		}
	}
	trusted(r, "read")
	trusted(w, "written")
	holds, err := server.Do("KEYS", "{read}:*:rwlock_timeout:1").AsStrSlice()
	require.NoError(t, err)
	require.Len(t, holds, 1)
	trusted(r, holds[0])

	server.Stop()
	for _, l := range []*lockrt.Lease{r, w} {
		receive(t, l.Context().Done(), "the loss to be told")
		require.ErrorIs(t, l.Err(), lockrt.ErrLost)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for _, call := range []func() error{
		func() error { return second(c.RWMutex("free").Lock(short)) },
		func() error { return second(c.RWMutex("free").RLock(short)) },
		func() error { return second(c.RWMutex("free").Inspect(short)) },
		func() error { return second(c.RWMutex("free").ForceUnlock(short)) },
	} {
		require.ErrorIs(t, call(), context.DeadlineExceeded)
	}
	require.ErrorIs(t, r.Unlock(t.Context()), lockrt.ErrLost)
	server.Cont()
	free(t, gotten(t, toWrite, "the lock for writing"), gotten(t, toRead, "the lock for reading"))
	nothingLeft(t, server, "read")
	nothingLeft(t, server, "written")
	nothingLeft(t, server, "free")
}

func TestRWFault_ServerComesBackEmpty(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{})
	r, w := ok(t)(c.RWMutex("read").RLock(patient(t))), ok(t)(c.RWMutex("written").Lock(patient(t)))
	until(t, "the holder listens", func() bool { return listens(t, server, c.ID()) })
	server.Kill()
	server.Restart()
	for _, l := range []*lockrt.Lease{r, w} {
		receive(t, l.Context().Done(), "the loss to be told")
		require.ErrorIs(t, l.Unlock(t.Context()), lockrt.ErrLost)
	}
	free(t, ok(t)(c.RWMutex("read").Lock(patient(t))), ok(t)(c.RWMutex("written").RLock(patient(t))))
	emptied(t, server)
}

func TestRWFault_AKeyThatIsDeletedIsToldOf(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{})
	for _, lock := range []lockFunc{c.RWMutex("k").Lock, c.RWMutex("k").RLock} {
		lease := ok(t)(lock(patient(t)))
		deleted(t, server, lease)
		require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost)
		server.Do("FLUSHALL") // the key of the hold
	}
}

// rwTraffic has goroutines of three clients read and write a key while it is disturbed. No writer may be beside
// anybody, and nothing may be left.
func rwTraffic(t *testing.T, server *redistest.RedisServer, url string, opts lockrt.Options, each int, disturb func()) {
	t.Helper()
	key := redistest.Key(t, "k")
	over, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // all of it, also where the machine is slow
	defer cancel()
	stopped := make(chan struct{})
	var readers, writers atomic.Int32
	wrong := make(chan error, 10000)
	var wg, disturbing sync.WaitGroup
	if disturb != nil {
		disturb() // at least once
	}
	for range 3 {
		opts.OpTimeout = patience // Unlock is to go on for as long as messages get lost
		c := clientOf(t, url, opts)
		defer func() {
			until(t, "no key has a home", func() bool { return lockrt.Resources(c) == 0 })
		}()
		m := c.RWMutex(key, unexpiring)
		for g := range 4 {
			wg.Go(func() {
				for range each {
					lock := m.RLock
					if g == 0 {
						lock = m.Lock
					}
					ctx, cancel := over, context.CancelFunc(func() {})
					if rand.IntN(4) == 0 {
						ctx, cancel = context.WithTimeout(over, rand.N(3*time.Millisecond))
					}
					lease, err := lock(ctx)
					if err == nil {
						if g == 0 {
							if n := writers.Add(1); n != 1 || readers.Load() != 0 {
								wrong <- fmt.Errorf("%d writers and %d readers", n, readers.Load())
							}
							writers.Add(-1)
						} else {
							readers.Add(1)
							if n := writers.Load(); n != 0 {
								wrong <- fmt.Errorf("a reader beside %d writers", n)
							}
							readers.Add(-1)
						}
						if err := errors.Join(lease.Err(), lease.Unlock(over)); err != nil {
							wrong <- err
						}
					} else if ctx == over {
						wrong <- err
					}
					cancel()
				}
			})
		}
	}
	if disturb != nil {
		disturbing.Go(func() {
			for {
				select {
				case <-stopped:
					return
				default:
					disturb()
				}
			}
		})
	}
	wg.Wait()
	close(stopped)
	disturbing.Wait()
	close(wrong)
	for err := range wrong {
		require.NoError(t, err)
	}
	nothingLeft(t, server, key)
}

func TestRWFault_TrafficGoesOn(t *testing.T) {
	t.Parallel()
	every := func(d time.Duration, do func(server *redistest.RedisServer)) func(server *redistest.RedisServer) {
		return func(server *redistest.RedisServer) {
			<-time.After(d)
			do(server)
		}
	}
	for name, disturb := range map[string]func(server *redistest.RedisServer){
		"nothing happens": every(time.Millisecond, func(*redistest.RedisServer) {}),
		"subscribers are killed": every(20*time.Millisecond, func(s *redistest.RedisServer) {
			s.Do("CLIENT", "KILL", "TYPE", "pubsub")
		}),
		"connections are killed": every(50*time.Millisecond, func(s *redistest.RedisServer) {
			s.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		}),
		"scripts are flushed": every(5*time.Millisecond, func(s *redistest.RedisServer) { s.Do("SCRIPT", "FLUSH") }),
		"it is paused": every(300*time.Millisecond, func(s *redistest.RedisServer) {
			s.Do("CLIENT", "PAUSE", "20", "ALL") // it goes on up to 100ms later
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t)
			rwTraffic(t, server, server.URL(), brisk, 50, func() { disturb(server) })
		})
	}
}

func TestRWFault_TrafficGoesOnWithoutSomeOfTheMessages(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	proxy := redistest.Proxy(t, server.Addr())
	run := redistest.Command("EVALSHA")
	sometimes := func(n int) func(cmd []string) bool {
		return func(cmd []string) bool { return run(cmd) && rand.IntN(n) == 0 }
	}
	drops := []*redistest.Drop{
		proxy.DropReply(sometimes(25), 0, redistest.Close),
		proxy.DropRequest(sometimes(25), 0, redistest.Close),
		proxy.DropReply(sometimes(400), 0, redistest.Mute),
		proxy.DropReply(redistest.Command("SUBSCRIBE"), 3, redistest.Close),
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-time.After(3 * time.Second) // then what is left behind has to go
		for _, drop := range drops {
			drop.Stop()
		}
	}()
	rwTraffic(t, server, proxy.URL(), brisk, 30, nil)
	<-ended
}

// Not parallel, for it counts goroutines.
func TestRWFault_CancelStormLeavesNothing(t *testing.T) { //nolint:paralleltest // counts goroutines
	leaktest.Check(t)
	server := redistest.Server(t)
	atBest(t, "was no lease lost", func() bool { // one that is handed over lasts for two seconds at first
		return steadily(t, rwBlows(t, server, redistest.Key(t, "k")))
	})
}

// rwBlows has callers of two clients give up after 0 to 2 ms, again and again, beside patient ones. It returns what has failed.
func rwBlows(t *testing.T, server *redistest.RedisServer, key string) <-chan error {
	t.Helper()
	over, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // all of it, also where the machine is slow
	defer cancel()
	stop := make(chan struct{})
	var patients, others sync.WaitGroup
	failed := make(chan error, 100_000)
	clients := []*lockrt.Client{}
	for range 2 {
		c, err := opened(t.Context(), server.URL(), lockrt.Options{OpTimeout: unhurried})
		require.NoError(t, err)
		clients = append(clients, c)
		m := c.RWMutex(key)
		once := func(ctx context.Context, lock lockFunc) error {
			lease, err := lock(ctx)
			if err != nil {
				return err
			}
			if err := lease.Unlock(ctx); err != nil {
				failed <- err
			}
			return nil
		}
		for _, lock := range []lockFunc{m.Lock, m.RLock} {
			patients.Go(func() {
				for range 60 {
					if err := once(over, lock); err != nil {
						failed <- err
						return
					}
				}
			})
			for range 6 {
				others.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						ctx, cancel := context.WithTimeout(over, rand.N(2*time.Millisecond))
						_ = once(ctx, lock)
						cancel()
					}
				})
			}
		}
	}
	patients.Wait()
	close(stop)
	others.Wait()
	for _, c := range clients {
		until(t, "no key has a home", func() bool { return lockrt.Resources(c) == 0 })
	}
	nothingLeft(t, server, key)
	for _, c := range clients {
		require.NoError(t, c.Close())
	}
	until(t, "no channel is subscribed", func() bool { return channels(t, server) == 0 })
	return failed
}

// TestRWFault_LeasesThatEndByThemselves has leases of few milliseconds end by themselves while others read and write; what
// is trusted is never beside a writer.
func TestRWFault_LeasesThatEndByThemselves(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	key := redistest.Key(t, "k")
	var readers, writers sync.Map // their leases
	jobs(t, 6, func(i int) error {
		m := newClient(t, lockrt.Options{Watchdog: 2 * time.Second}).RWMutex(key)
		for n := range 8 {
			lock, mine, others := m.RLock, &readers, []*sync.Map{&writers}
			if i%3 == 0 {
				lock, mine, others = m.Lock, &writers, []*sync.Map{&writers, &readers}
			}
			lease, err := lock(patient(t), lockrt.WithLease(time.Duration(100+20*rand.IntN(5))*time.Millisecond))
			if err != nil {
				return err
			}
			for _, those := range others {
				for other := range those.Range {
					if other.(*lockrt.Lease).Err() == nil && lease.Err() == nil {
						return errors.New("beside another one")
					}
				}
			}
			mine.Store(lease, true)
			if n%2 == 0 {
				if err := lease.Unlock(t.Context()); err != nil && !errors.Is(err, lockrt.ErrLost) {
					return err
				}
				continue
			}
			<-lease.Context().Done() // told before the key ends
		}
		return nil
	})
	nothingLeft(t, server, key)
}

// A request that comes late, after its caller gave up, may be refused and wait in the queue. It keeps nobody out for
// long.
func TestRWFault_ALateRequestLeavesTheLine(t *testing.T) {
	t.Parallel()
	for name, losses := range map[string]int{"all its replies are lost": 3, "one reply is lost": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, lockrt.Options{Retry: lockrt.ConstantBackoff(time.Minute)})
			other := newClient(t, lockrt.Options{}).RWMutex(l.key)
			held := ok(t)(other.RLock(patient(t)))
			late := make(chan []string, 10)
			l.proxy.OnRequest(func(cmd []string) {
				if redistest.EvalSHA(scripts.RWWrite.SHA1())(cmd) {
					late <- slices.Clone(cmd)
				}
			})
			lost := l.proxy.DropReply(redistest.EvalSHA(scripts.RWWrite.SHA1()), losses, redistest.Close)
			ctx, cancel := context.WithCancel(patient(t))
			got := lockLater(ctx, l.client.RWMutex(l.key))
			receive(t, lost.Done(), "its replies to be lost")
			cancel()
			require.ErrorIs(t, receive(t, got, "its error").err, context.Canceled)
			mark := "lockgen_writer:{" + l.key + "}"
			gone(t, l.server, mark)
			rc := l.server.Client()
			replies := rc.DoMulti(t.Context(), // in one step, for it may be taken back at any moment
				rc.B().Multi().Build(),
				rc.B().Arbitrary(receive(t, late, "its request")...).Build(),
				rc.B().Pexpire().Key(mark).Milliseconds(600_000).Build(), // it does not go by itself soon
				rc.B().Exec().Build())
			done, err := replies[3].ToArray()
			require.NoError(t, err)
			require.NoError(t, done[0].Error(), "its request")
			require.EqualValues(t, 1, must(done[1].AsInt64()), "it stands in line")
			gone(t, l.server, mark)
			free(t, ok(t)(newClient(t, lockrt.Options{}).RWMutex(l.key).RLock(patient(t))), held)
			nothingLeft(t, l.server, l.key)
		})
	}
}
