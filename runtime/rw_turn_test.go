package lockrt_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A Java program releases what a reader and a writer of two other processes wait for, with a message and without one,
// or its lease ends, or somebody takes it by force. Neither of the two leaves it to the other: one has it at once, and
// then the other.
func TestRWMutex_ALockThatBothSidesWaitForIsNotLeftFree(t *testing.T) {
	t.Parallel()
	const java = "11111111-2222-4333-8444-555555555555:42:write"
	for name, test := range map[string]struct {
		ends [][]string
		soon time.Duration
	}{
		"unlocked":               {[][]string{{"DEL", "k"}, {"PUBLISH", "redisson_rwlock:{k}", "1"}}, time.Second},
		"the message is lost":    {[][]string{{"DEL", "k"}}, time.Second},
		"the lease ends":         {[][]string{{"PEXPIRE", "k", "1"}}, time.Second},
		"taken, and told as 0":   {[][]string{{"DEL", "k"}, {"PUBLISH", "redisson_rwlock:{k}", "0"}}, time.Second},
		"the lines are lost too": {[][]string{{"FLUSHALL"}}, 2 * time.Second},
	} {
		for _, writerFirst := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				atBest(t, "both had it sooner than when each left it to the other", func() bool {
					server := redistest.Server(t)
					server.Do("HSET", "k", "mode", "write", java, "1")
					server.Do("PEXPIRE", "k", "300000")
					stands := func(line string) {
						until(t, "it stands in line", func() bool { return number(t, server, "LLEN", line) == 1 })
					}
					var r, w <-chan locked
					ask := []func(){
						func() {
							r = readLater(patient(t), clientOf(t, server.URL(), lockrt.Options{}).RWMutex("k"))
							stands("lockgen_reader:{k}")
						},
						func() {
							w = lockLater(patient(t), clientOf(t, server.URL(), lockrt.Options{}).RWMutex("k"))
							stands("lockgen_writer:{k}")
						},
					}
					if writerFirst {
						ask[0], ask[1] = ask[1], ask[0]
					}
					ask[0]()
					ask[1]()
					start := time.Now()
					for _, command := range test.ends {
						server.Do(command...)
					}
					for range 2 {
						select {
						case got := <-r:
							require.NoError(t, got.err)
							free(t, got.lease)
						case got := <-w:
							require.NoError(t, got.err)
							free(t, got.lease)
						}
					}
					return time.Since(start) < test.soon
				})
			})
		}
	}
}

// Readers of one process that overlap without end have one hold. That a writer of another process waits they learn by a
// message, and by asking now and then if they hear none.
func TestRWMutex_ReadersThatHearNothingLetAWriterIn(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	deaf := aclUser{name: "deaf", password: "secret", rules: []string{"on", ">secret", "allkeys", "allchannels", "allcommands", "-subscribe", "-psubscribe"}}
	deaf.join(server)
	backoff := lockrt.WithBackoff(lockrt.ConstantBackoff(20 * time.Millisecond))
	for name, test := range map[string]struct {
		readers, writer []lockrt.LockOption
		url             string
	}{
		"both listen":        {nil, nil, server.URL()},
		"neither listens":    {[]lockrt.LockOption{backoff}, []lockrt.LockOption{backoff}, server.URL()},
		"the writer listens": {[]lockrt.LockOption{backoff}, nil, server.URL()},
		"the readers listen": {nil, []lockrt.LockOption{backoff}, server.URL()},
		"neither may listen": {nil, nil, deaf.login(t, server.URL())},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			readers, writer := clientOf(t, test.url, lockrt.Options{}), clientOf(t, test.url, lockrt.Options{})
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			var entered atomic.Int64
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for ctx.Err() == nil {
						_ = readers.RWMutex(name, test.readers...).RDo(ctx, func(context.Context, *lockrt.Lease) error {
							// Until another one has it too, or for as long as nobody may join.
							me, since := entered.Add(1), time.Now()
							for entered.Load() == me && time.Since(since) < 30*time.Millisecond {
								<-time.After(time.Millisecond)
							}
							return nil
						})
					}
				})
			}
			until(t, "it is read", func() bool { return entered.Load() > 10 })
			for range 3 {
				free(t, ok(t)(writer.RWMutex(name, test.writer...).Lock(patient(t))))
			}
			stop()
			wg.Wait()
		})
	}
}

// A waiter stands in the queue from its first request on, before its client listens. It is not taken for a dead one: it has its turn when
// the lock is free, and asks by the clock.
func TestRWMutex_AWaiterThatDoesNotListenYetKeepsItsPlace(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	deaf := aclUser{name: "deaf", password: "secret", rules: []string{"on", ">secret", "allkeys", "allchannels", "allcommands", "-subscribe", "-psubscribe"}}
	deaf.join(server)
	for line, later := range map[string]func(context.Context, *lockrt.RWMutex) <-chan locked{
		"lockgen_writer": func(ctx context.Context, m *lockrt.RWMutex) <-chan locked { return lockLater(ctx, m) },
		"lockgen_reader": func(ctx context.Context, m *lockrt.RWMutex) <-chan locked { return readLater(ctx, m) },
	} {
		held := ok(t)(clientOf(t, server.URL(), lockrt.Options{}).RWMutex("k").Lock(patient(t)))
		got := later(patient(t), clientOf(t, deaf.login(t, server.URL()), lockrt.Options{}).RWMutex("k"))
		until(t, "it is in the queue", func() bool { return number(t, server, "LLEN", line+":{k}") == 1 })
		place, err := server.Do("LINDEX", line+":{k}", "0").ToString()
		require.NoError(t, err)
		require.True(t, strings.HasSuffix(place, "+"), "the script calls it although it does not listen: %s", place)
		free(t, held)
		free(t, gotten(t, got, "its turn"))
	}
	nothingLeft(t, server, "k")
}

// scriptsRun returns how many scripts a server has run since its statistics began.
func scriptsRun(t *testing.T, server *redistest.RedisServer) (n int) {
	t.Helper()
	stats, err := server.Do("INFO", "commandstats").ToString()
	require.NoError(t, err)
	_, rest, found := strings.Cut(stats, "cmdstat_evalsha:calls=")
	require.True(t, found, stats)
	_, err = fmt.Sscan(strings.SplitN(rest, ",", 2)[0], &n)
	require.NoError(t, err)
	return n
}

// Many processes wait for one key. Of those that want to write one is told when it is free, and not all; the others
// go on waiting. Each has its turn before anybody has two more.
func TestRWMutex_ManyProcessesAreServedInTurn(t *testing.T) {
	t.Parallel()
	for _, side := range []string{"write", "both"} {
		t.Run(side, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t)
			const processes, turns = 24, 4
			held := ok(t)(clientOf(t, server.URL(), lockrt.Options{}).RWMutex("k").Lock(patient(t)))
			var mu sync.Mutex
			var order []int
			var wg sync.WaitGroup
			for i := range processes {
				m := clientOf(t, server.URL(), lockrt.Options{}).RWMutex("k")
				do := m.Do
				if side == "both" && i%2 == 0 {
					do = m.RDo
				}
				wg.Go(func() {
					for range turns {
						require.NoError(t, do(patient(t), func(context.Context, *lockrt.Lease) error {
							mu.Lock()
							defer mu.Unlock()
							order = append(order, i)
							return nil
						}))
					}
				})
			}
			until(t, "all stand in line", func() bool {
				return number(t, server, "LLEN", "lockgen_writer:{k}")+number(t, server, "LLEN", "lockgen_reader:{k}") == processes
			})
			server.Do("CONFIG", "RESETSTAT")
			start := time.Now()
			free(t, held)
			wg.Wait()
			took := time.Since(start)
			asked := scriptsRun(t, server)
			t.Logf("%d scripts for %d grants in %v", asked, processes*turns, took)
			// A request and a release for each grant, one to join the queue, one to listen, one for the next waiter;
			// and those that ask by the clock, of which a few ask ten times a second and all once.
			require.Less(t, asked, processes*turns*6+int(took/time.Second+1)*(processes+30))
			served := map[int]int{}
			for _, i := range order {
				for j := range processes {
					require.LessOrEqual(t, served[i]-served[j], 3, "%d and %d of %v", i, j, order)
				}
				served[i]++
			}
			nothingLeft(t, server, "k")
		})
	}
}
