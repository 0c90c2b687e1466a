package lockrt_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// benchClient returns a client as [lockrt.Open] makes it.
func benchClient(b *testing.B) *lockrt.Client {
	b.Helper()
	c, err := lockrt.Open(b.Context(), redistest.Shared(b).URL(), lockrt.Options{})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, c.Close()) })
	return c
}

func cycle(b *testing.B, ctx context.Context, m lockrt.Locker) {
	lease, err := m.Lock(ctx)
	if err != nil {
		b.Fatal(err)
	}
	if err := lease.Unlock(ctx); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkCycle locks and unlocks keys that nobody else wants.
func BenchmarkCycle(b *testing.B) {
	// The floor is what any lock has to do: two round trips with the smallest scripts that set
	// and delete a hash with an expiry.
	b.Run("floor", func(b *testing.B) {
		rc := redistest.Shared(b).NewClient(func(o *rueidis.ClientOption) { o.PipelineMultiplex = -1 })
		take := rueidis.NewLuaScript(`redis.call('hset', KEYS[1], ARGV[1], 1) redis.call('pexpire', KEYS[1], ARGV[2]) return 1`)
		drop := rueidis.NewLuaScript(`if redis.call('hexists', KEYS[1], ARGV[1]) == 1 then return redis.call('del', KEYS[1]) end return 0`)
		keys := []string{redistest.Key(b, "k")}
		b.ReportAllocs()
		for b.Loop() {
			if err := take.Exec(context.Background(), rc, keys, []string{"owner", "30000"}).Error(); err != nil {
				b.Fatal(err)
			}
			if err := drop.Exec(context.Background(), rc, keys, []string{"owner"}).Error(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("mutex", func(b *testing.B) {
		m := benchClient(b).Mutex(redistest.Key(b, "k"))
		b.ReportAllocs()
		for b.Loop() {
			cycle(b, context.Background(), m)
		}
	})
	b.Run("mutex, cancellable context", func(b *testing.B) {
		m := benchClient(b).Mutex(redistest.Key(b, "k"))
		b.ReportAllocs()
		for b.Loop() {
			cycle(b, b.Context(), m)
		}
	})
	b.Run("mutex, after a crowd", func(b *testing.B) {
		c := benchClient(b)
		crowd := func() {
			var wg sync.WaitGroup
			for i := range 16 {
				wg.Go(func() {
					for range 20 {
						cycle(b, context.Background(), c.Mutex(redistest.Key(b, strconv.Itoa(i))))
					}
				})
			}
			wg.Wait()
		}
		m := c.Mutex(redistest.Key(b, "k"))
		crowd()
		b.ReportAllocs()
		for b.Loop() {
			cycle(b, context.Background(), m)
		}
	})
	for _, goroutines := range []int{16, 256} {
		b.Run("mutex, goroutines="+strconv.Itoa(goroutines), func(b *testing.B) {
			c := benchClient(b)
			share(b, goroutines, func(g int) func() {
				m := c.Mutex(redistest.Key(b, strconv.Itoa(g)))
				return func() { cycle(b, b.Context(), m) }
			})
		})
	}
}

// BenchmarkFirstLock measures a program that begins: it opens a client, and locks and unlocks once. Other clients have used the server.
func BenchmarkFirstLock(b *testing.B) {
	url := redistest.Server(b).URL()
	once := func() error {
		c, err := lockrt.Open(b.Context(), url, lockrt.Options{})
		if err != nil {
			return err
		}
		lease, err := c.Mutex("k").Lock(b.Context())
		if err != nil {
			return errors.Join(err, c.Close())
		}
		return errors.Join(lease.Unlock(b.Context()), c.Close())
	}
	require.NoError(b, once())
	for b.Loop() {
		require.NoError(b, once())
	}
}

// BenchmarkSeveral locks and unlocks keys that nobody else wants, several at a time; one of them alone is
// what they compare with.
func BenchmarkSeveral(b *testing.B) {
	for _, n := range []int{1, 2, 5, 20} {
		b.Run("keys="+strconv.Itoa(n), func(b *testing.B) {
			c := benchClient(b)
			if n == 1 {
				m := c.Mutex(redistest.Key(b, "k"))
				b.ReportAllocs()
				for b.Loop() {
					cycle(b, context.Background(), m)
				}
				return
			}
			all, _ := mutexes(b, c, n)
			m := lockrt.NewMultiLock(all...)
			b.ReportAllocs()
			for b.Loop() {
				cycle(b, context.Background(), m)
			}
		})
	}
}

// BenchmarkContended locks one key from many goroutines of one process.
func BenchmarkContended(b *testing.B) {
	for _, goroutines := range []int{16, 100, 1000} {
		b.Run("goroutines="+strconv.Itoa(goroutines), func(b *testing.B) {
			m := benchClient(b).Mutex(redistest.Key(b, "k"))
			share(b, goroutines, func(int) func() { return func() { cycle(b, b.Context(), m) } })
		})
	}
}

// BenchmarkMutex_Linger shows the cost of a key that one caller locks again and again, and how long another process waits for one that
// nobody has.
func BenchmarkMutex_Linger(b *testing.B) {
	for name, d := range map[string]time.Duration{"without": 0, "with": 20 * time.Millisecond} {
		b.Run(name, func(b *testing.B) {
			c := lingering(b, redistest.Shared(b).URL(), lockrt.Options{})
			m := c.Mutex(redistest.Key(b, "k"), lockrt.WithLinger(d))
			b.ReportAllocs()
			for b.Loop() {
				cycle(b, context.Background(), m)
			}
		})
		b.Run("neighbour, "+name, func(b *testing.B) {
			server := redistest.Shared(b)
			one, other := lingering(b, server.URL(), lockrt.Options{}), lingering(b, server.URL(), lockrt.Options{})
			lockrt.LingerFor(one, d)
			lockrt.LingerFor(other, 0)
			key := redistest.Key(b, "k")
			var waits time.Duration
			for b.Loop() {
				cycle(b, context.Background(), one.Mutex(key))
				start := time.Now()
				lease, err := other.Mutex(key).Lock(context.Background())
				waits += time.Since(start)
				require.NoError(b, err)
				require.NoError(b, lease.Unlock(context.Background()))
			}
			b.ReportMetric(float64(waits.Nanoseconds())/float64(b.N), "ns/wait")
		})
	}
}

// BenchmarkReentry locks a key under the context of its own lease.
func BenchmarkReentry(b *testing.B) {
	m := benchClient(b).Mutex(redistest.Key(b, "k"))
	lease, err := m.Lock(b.Context())
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		cycle(b, lease.Context(), m)
	}
	require.NoError(b, lease.Unlock(b.Context()))
}

// BenchmarkMemory shows what each of many mutexes costs while it is held, and while another client's goroutine waits for it.
func BenchmarkMemory(b *testing.B) {
	const mutexes = 10_000
	holder, waiter := benchClient(b), benchClient(b)
	keys := make([]string, mutexes)
	for i := range keys {
		keys[i] = redistest.Key(b, strconv.Itoa(i))
	}
	// The buffers that a client keeps for the next call are no cost of a mutex.
	for _, c := range []*lockrt.Client{holder, waiter} {
		cycle(b, b.Context(), c.Mutex("warm"))
	}
	leases := make([]*lockrt.Lease, mutexes)
	for b.Loop() {
		clear(leases)
		before := heap()
		var wg sync.WaitGroup
		for hand := range 64 {
			wg.Go(func() {
				for i := hand; i < mutexes; i += 64 {
					leases[i], _ = holder.Mutex(keys[i]).Lock(context.Background())
				}
			})
		}
		wg.Wait()
		held := heap()
		for _, key := range keys {
			wg.Go(func() {
				lease, err := waiter.Mutex(key).Lock(context.Background())
				if err == nil {
					err = lease.Unlock(context.Background())
				}
				if err != nil {
					b.Error(err)
				}
			})
		}
		until(b, "all wait", func() bool { return waiter.Stats().Waiting == mutexes })
		waited := heap()
		for _, l := range leases {
			if err := l.Unlock(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
		wg.Wait()
		b.ReportMetric((held-before)/mutexes, "bytes/held")
		b.ReportMetric((waited-held)/mutexes, "bytes/waiter")
	}
}

// heap returns how many bytes are in use.
func heap() float64 {
	runtime.GC()
	runtime.GC() // pools keep things for one collection
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// BenchmarkHandOver passes a key to and fro between two clients, which share nothing but Redis.
func BenchmarkHandOver(b *testing.B) {
	key := redistest.Key(b, "k")
	clients := [2]*lockrt.Client{benchClient(b), benchClient(b)}
	var wg sync.WaitGroup
	turns := make(chan struct{}, b.N)
	for range b.N {
		turns <- struct{}{}
	}
	close(turns)
	b.ResetTimer()
	for _, c := range clients {
		wg.Go(func() {
			for range turns {
				cycle(b, b.Context(), c.Mutex(key))
			}
		})
	}
	wg.Wait()
}

// BenchmarkNeighbour locks one key from 16 goroutines of a client, beside one of another client that rests between its turns, or does not.
// It reports the turns of the many, and those of the one.
func BenchmarkNeighbour(b *testing.B) {
	for _, under := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond} {
		for _, rest := range []time.Duration{0, 2 * time.Millisecond, 10 * time.Millisecond} {
			b.Run(fmt.Sprintf("under the lock=%v, rest=%v", under, rest), func(b *testing.B) {
				key := redistest.Key(b, "k")
				many, one := benchClient(b).Mutex(key), benchClient(b).Mutex(key)
				turn := func(m *lockrt.Mutex) {
					lease, err := m.Lock(b.Context())
					if err != nil {
						b.Error(err)
						return
					}
					time.Sleep(under)
					if err := lease.Unlock(b.Context()); err != nil {
						b.Error(err)
					}
				}
				done, neighbour, turns := make(chan struct{}), make(chan struct{}), 0
				go func() {
					defer close(neighbour)
					for {
						select {
						case <-done:
							return
						case <-time.After(rest):
						}
						turn(one)
						turns++
					}
				}()
				share(b, 16, func(int) func() { return func() { turn(many) } })
				close(done)
				<-neighbour
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "turns/s")
				b.ReportMetric(float64(turns)/b.Elapsed().Seconds(), "neighbour-turns/s")
			})
		}
	}
}

// share runs b.N calls on n goroutines, each with the function that make gives it.
func share(b *testing.B, n int, make func(g int) func()) {
	b.Helper()
	b.ReportAllocs()
	var wg sync.WaitGroup
	for g := range n {
		mine := b.N / n
		if g < b.N%n {
			mine++
		}
		call := make(g)
		wg.Go(func() {
			for range mine {
				call()
			}
		})
	}
	wg.Wait()
}

var trackings = map[string]lockrt.Tracking{"auto": lockrt.TrackingAuto, "off": lockrt.TrackingOff}

// BenchmarkTracking shows the cost of tracking: nothing for keys that are held for a moment, one request for those that
// are held for longer, see "renewing" for many of them.
func BenchmarkTracking(b *testing.B) {
	open := func(b *testing.B, server *redistest.RedisServer, opts lockrt.Options) *lockrt.Client {
		c := clientOf(b, server.URL(), opts)
		lease, err := c.Mutex("warm").Lock(b.Context())
		require.NoError(b, err)
		if opts.Tracking == lockrt.TrackingAuto {
			until(b, "the server tells of changes", func() bool { return watcher(b, server) != "" })
		}
		require.NoError(b, lease.Unlock(b.Context()))
		server.Do("CONFIG", "RESETSTAT")
		b.ResetTimer()
		return c
	}
	for _, goroutines := range []int{1, 16} {
		for name, tracking := range trackings {
			b.Run("cycle, goroutines="+strconv.Itoa(goroutines)+", "+name, func(b *testing.B) {
				server := redistest.Server(b)
				c := open(b, server, lockrt.Options{Tracking: tracking})
				share(b, goroutines, func(g int) func() {
					m := c.Mutex(strconv.Itoa(g))
					return func() { cycle(b, b.Context(), m) }
				})
				calls, _ := scriptStats(b, server)
				b.ReportMetric(calls/float64(b.N), "commands/op")
			})
		}
	}
	// From deleting a key to the end of its lease's context.
	b.Run("told", func(b *testing.B) {
		server := redistest.Server(b)
		c := clientOf(b, server.URL(), lockrt.Options{})
		leases := make([]*lockrt.Lease, b.N)
		for i := range leases {
			var err error
			leases[i], err = c.Mutex(strconv.Itoa(i)).Lock(b.Context())
			require.NoError(b, err)
		}
		watches(b, server, b.N)
		rc := server.Client()
		b.ResetTimer()
		for i := range leases {
			require.NoError(b, rc.Do(b.Context(), rc.B().Del().Key(strconv.Itoa(i)).Build()).Error())
			<-leases[i].Context().Done()
		}
	})
	// Each operation is one more round of renewals of 10,000 locks. Commands are those per second that a
	// watchdog of 30s makes of it, the server's time is for one such round.
	for name, tracking := range trackings {
		b.Run("renewing 10000, "+name, func(b *testing.B) {
			const locks, watchdog = 10_000, 6 * time.Second
			server := redistest.Server(b)
			renewed := make(chan struct{}, 10*locks)
			c := clientOf(b, server.URL(), lockrt.Options{Tracking: tracking, Watchdog: watchdog,
				Hooks: lockrt.Hooks{Renewed: func(context.Context, lockrt.RenewEvent) { renewed <- struct{}{} }}})
			for i := range locks {
				_, err := c.Mutex(strconv.Itoa(i)).Lock(b.Context())
				require.NoError(b, err)
			}
			round := func() {
				for range locks {
					<-renewed
				}
			}
			round()
			round()
			server.Do("CONFIG", "RESETSTAT")
			rounds := 0
			for b.Loop() {
				round()
				rounds++
			}
			calls, micros := scriptStats(b, server)
			b.ReportMetric(calls/float64(rounds)/lockrt.DefaultWatchdog.Seconds()*3, "commands/s")
			b.ReportMetric(micros/float64(rounds)/1000, "server-ms/round")
		})
	}
}

// scriptStats returns how many scripts the server ran, with the commands that were sent beside them, and for how many microseconds.
func scriptStats(b *testing.B, server *redistest.RedisServer) (calls, micros float64) {
	b.Helper()
	stats, err := server.Do("INFO", "commandstats").ToString()
	require.NoError(b, err)
	count := func(command string) (calls, micros float64) {
		found := regexp.MustCompile(`cmdstat_` + command + `:calls=(\d+),usec=(\d+)`).FindStringSubmatch(stats)
		if found == nil {
			return 0, 0
		}
		calls, err = strconv.ParseFloat(found[1], 64)
		require.NoError(b, err)
		micros, err = strconv.ParseFloat(found[2], 64)
		require.NoError(b, err)
		return calls, micros
	}
	calls, micros = count("evalsha")
	require.NotZero(b, calls, stats)
	if caching, _ := count(`client\|caching`); caching > 0 { // before scripts, each with an EXISTS after it
		_, exists := count("exists")
		return calls + 2*caching, micros + exists
	}
	return calls, micros
}

// BenchmarkCounting takes and releases what counts: permits that nobody else wants, and fewer than
// there are goroutines that want one; and counts a latch down that one waits for.
func BenchmarkCounting(b *testing.B) {
	ctx := context.Background()
	semaphore := func(b *testing.B, s *lockrt.Semaphore) {
		b.Helper()
		if err := s.Acquire(ctx, 1); err != nil {
			b.Fatal(err)
		}
		if err := s.Release(ctx, 1); err != nil {
			b.Fatal(err)
		}
	}
	permit := func(b *testing.B, s *lockrt.PermitSemaphore) {
		b.Helper()
		p, err := s.Acquire(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if err := p.Release(ctx); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("semaphore", func(b *testing.B) {
		s := benchClient(b).Semaphore(redistest.Key(b, "s"), 1)
		b.ReportAllocs()
		for b.Loop() {
			semaphore(b, s)
		}
	})
	b.Run("permit", func(b *testing.B) {
		s := benchClient(b).PermitSemaphore(redistest.Key(b, "p"), 1)
		b.ReportAllocs()
		for b.Loop() {
			permit(b, s)
		}
	})
	for _, goroutines := range []int{16, 100} {
		for _, permits := range []int{1, 8, 1000} {
			name := "goroutines=" + strconv.Itoa(goroutines) + ",permits=" + strconv.Itoa(permits)
			b.Run("semaphore,"+name, func(b *testing.B) {
				s := benchClient(b).Semaphore(redistest.Key(b, "s"), permits)
				share(b, goroutines, func(int) func() { return func() { semaphore(b, s) } })
			})
			b.Run("permit,"+name, func(b *testing.B) {
				s := benchClient(b).PermitSemaphore(redistest.Key(b, "p"), permits)
				share(b, goroutines, func(int) func() { return func() { permit(b, s) } })
			})
		}
	}
	b.Run("latch", func(b *testing.B) {
		l := benchClient(b).CountDownLatch(redistest.Key(b, "l"))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := l.SetCount(ctx, 1); err != nil {
				b.Fatal(err)
			}
			if _, err := l.CountDown(ctx); err != nil {
				b.Fatal(err)
			}
			if err := l.Wait(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkFair locks one key from many goroutines of one process, each of which stands in Redisson's queue.
func BenchmarkFair(b *testing.B) {
	for _, goroutines := range []int{1, 16, 100} {
		b.Run("goroutines="+strconv.Itoa(goroutines), func(b *testing.B) {
			m := benchClient(b).FairMutex(redistest.Key(b, "k"))
			server := redistest.Shared(b)
			before := evals(server)
			share(b, goroutines, func(int) func() {
				return func() {
					lease, err := m.Lock(b.Context())
					if err == nil {
						err = lease.Unlock(b.Context())
					}
					if err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(evals(server)-before)/float64(b.N), "commands/op")
		})
	}
}

// evals returns how many scripts a server has run.
func evals(server *redistest.RedisServer) int64 { return server.CommandStats()["evalsha"] }

// BenchmarkRedLock locks one key on five servers from many goroutines of one process, and of two.
func BenchmarkRedLock(b *testing.B) {
	servers := make([]*redistest.RedisServer, 5)
	for i := range servers {
		servers[i] = redistest.Server(b)
	}
	for _, processes := range []int{1, 2} {
		for _, goroutines := range []int{1, 16} {
			b.Run(fmt.Sprintf("processes=%d/goroutines=%d", processes, goroutines), func(b *testing.B) {
				key := redistest.Key(b, "k")
				locks := make([]*lockrt.RedLock, processes)
				for i := range locks {
					clients := make([]*lockrt.Client, len(servers))
					for j, server := range servers {
						c, err := lockrt.Open(b.Context(), server.URL(), lockrt.Options{})
						if err != nil {
							b.Fatal(err)
						}
						b.Cleanup(func() { _ = c.Close() })
						clients[j] = c
					}
					m := lockrt.NewRedLock(key, clients)
					locks[i] = m
				}
				var longest atomic.Int64
				share(b, goroutines, func(g int) func() {
					return func() {
						start := time.Now()
						lease, err := locks[g%processes].Lock(b.Context())
						for took := int64(time.Since(start)); ; {
							if last := longest.Load(); took <= last || longest.CompareAndSwap(last, took) {
								break
							}
						}
						if err == nil {
							err = lease.Unlock(b.Context())
						}
						if err != nil {
							b.Error(err)
						}
					}
				})
				b.ReportMetric(time.Duration(longest.Load()).Seconds()*1000, "longest-ms")
			})
		}
	}
}

// BenchmarkRedLock_Minority has one goroutine lock on five servers of which two are harmed.
func BenchmarkRedLock_Minority(b *testing.B) {
	for _, harm := range []struct {
		name string
		do   func(s *redistest.RedisServer, p *redistest.FaultProxy)

		proxied bool
	}{
		{"healthy", func(*redistest.RedisServer, *redistest.FaultProxy) {}, false},
		{"killed", func(s *redistest.RedisServer, _ *redistest.FaultProxy) { s.Kill() }, false},
		{"stopped", func(s *redistest.RedisServer, _ *redistest.FaultProxy) { s.Stop() }, false},
		{"half open", func(_ *redistest.RedisServer, p *redistest.FaultProxy) { p.Blackhole(redistest.Both) }, true},
		{"slow by 200 ms", func(_ *redistest.RedisServer, p *redistest.FaultProxy) { p.Delay(100 * time.Millisecond) }, true},
	} {
		b.Run(harm.name, func(b *testing.B) {
			var harms []func()
			clients := make([]*lockrt.Client, 5)
			for i := range clients {
				server := redistest.Server(b)
				url := server.URL()
				if i < 2 {
					proxy := redistest.Proxy(b, server.Addr())
					if harm.proxied {
						url = proxy.URL()
					}
					harms = append(harms, func() { harm.do(server, proxy) })
				}
				c, err := lockrt.Open(b.Context(), url, lockrt.Options{})
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { _ = c.Close() })
				clients[i] = c
			}
			m := lockrt.NewRedLock(redistest.Key(b, "k"), clients)
			cycle := func() {
				lease, err := m.Lock(b.Context())
				if err == nil {
					err = lease.Unlock(b.Context())
				}
				if err != nil {
					b.Error(err)
				}
			}
			cycle()
			for _, f := range harms {
				f()
			}
			for b.Loop() {
				cycle()
			}
		})
	}
}
