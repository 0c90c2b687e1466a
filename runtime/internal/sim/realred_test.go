package sim

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/trace/tracetest"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestRealTraces_Red makes processes use RedLocks of three real servers, and replays what the processes and the servers did, in the order of
// their times: each part as a mutex, and the rounds.
func TestRealTraces_Red(t *testing.T) {
	var run tracetest.RedRun
	undisturbed(t, func(t *testing.T) tracetest.Run {
		run = redReally(t)
		return tracetest.Run{}
	})
	actions, err := run.Replay()
	require.NoError(t, err)
	t.Log(actions)
	for _, action := range []string{"Asks", "Granted", "Refused", "Unlock", "RunAcquire", "RunRelease",
		"rounds: Ballot", "rounds: Asks", "rounds: Has", "rounds: Refused", "rounds: Elected", "rounds: Win", "rounds: Free", "rounds: End"} {
		require.NotZero(t, actions[action], action)
	}
	require.True(t, electEarly(run.Processes))
	_, err = run.Replay()
	require.ErrorContains(t, err, "leaves the protocol", "a round that is elected before a majority has answered")
}

// electEarly has the first round that is elected be elected before the first answer to it.
func electEarly(processes [][]tracetest.Event) bool {
	for _, events := range processes {
		for i, e := range events {
			if e.Whole == nil || e.Whole.Action != trace.Elected {
				continue
			}
			for j, before := range events[:i] {
				if before.Whole != nil && before.Whole.Action == trace.Has && before.Whole.Call == e.Whole.Call {
					at := before.At
					copy(events[j+1:i+1], events[j:i])
					e.At = at
					events[j] = e
					return true
				}
			}
		}
	}
	return false
}

// redReally returns what real servers and the processes did.
func redReally(t *testing.T) (run tracetest.RedRun) {
	var urls []string
	var monitors []*tracetest.Monitor
	for range 3 {
		server := redistest.Server(t)
		monitor, err := tracetest.Watch(server.Addr(), 1_000_000)
		require.NoError(t, err)
		urls, monitors = append(urls, server.URL()), append(monitors, monitor)
	}
	sections := 0
	for _, w := range workReally(t, "^TestRealTraces_RedWorker$", strings.Join(urls, " ")) {
		run.Processes = append(run.Processes, w.Events)
		for _, n := range w.Sections {
			sections += n
		}
	}
	require.NotZero(t, sections)
	for _, monitor := range monitors {
		commands, err := monitor.Stop()
		require.NoError(t, err)
		run.Servers = append(run.Servers, commands)
	}
	return run
}

// A recorder notes what a process does with RedLocks or MultiLocks. Leases become numbers.
type recorder struct {
	mu      sync.Mutex
	servers map[string]int // by the first half of an owner
	leases  map[any]int
	all     []tracetest.Event
}

// note adds an event, which is no earlier than the one before it. The caller holds r.mu.
func (r *recorder) note(e tracetest.Event) {
	e.At = time.Now()
	r.all = append(r.all, e)
}

func (r *recorder) step(s trace.Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	uuid, _, _ := strings.Cut(s.Owner, ":")
	r.note(tracetest.Event{Server: r.servers[uuid], Step: &s})
}

func (r *recorder) whole(w trace.Whole) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.Lease != nil {
		if r.leases[w.Lease] == 0 {
			r.leases[w.Lease] = len(r.leases) + 1
		}
		w.Lease = r.leases[w.Lease]
	}
	r.note(tracetest.Event{Whole: &w})
}

// TestRealTraces_RedWorker is a process that TestRealTraces_Red starts. By itself it tests nothing.
func TestRealTraces_RedWorker(t *testing.T) {
	composed(t, func(clients []*lockrt.Client, r *rand.Rand) (locker, string) {
		key := fmt.Sprintf("key%d", r.IntN(realKeys))
		return lockrt.NewRedLock(key, clients, lockrt.WithFencing()), key
	})
}

// composed is a process that locks something at random, 15 times in each of two goroutines, and prints what it did.
func composed(t *testing.T, lock func(clients []*lockrt.Client, r *rand.Rand) (l locker, name string)) {
	words := strings.Fields(os.Getenv(workerVariable))
	if len(words) == 0 {
		return
	}
	seed, err := strconv.ParseUint(words[0], 10, 64)
	require.NoError(t, err)
	did := &recorder{servers: map[string]int{}, leases: map[any]int{}}
	defer trace.To(did.step)()
	defer trace.WholesTo(did.whole)()
	var clients []*lockrt.Client
	for i, url := range words[1:] {
		c := realClient(t, url)
		clients = append(clients, c)
		did.mu.Lock()
		did.servers[c.ID()] = i
		did.mu.Unlock()
	}
	result, work := realWorker{Sections: map[string]int{}}, sync.Mutex{}
	var workers sync.WaitGroup
	for j := range 2 {
		r := rand.New(rand.NewPCG(seed, uint64(j)))
		workers.Go(func() {
			for range 15 {
				m, name := lock(clients, r)
				take := m.Lock
				if r.IntN(4) == 0 {
					take = m.TryLock
				}
				l, err := take(t.Context())
				if err != nil {
					continue
				}
				work.Lock()
				result.Sections[name]++
				work.Unlock()
				_ = l.Unlock(t.Context())
			}
		})
	}
	workers.Wait()
	for _, c := range clients {
		require.NoError(t, c.Close())
	}
	did.mu.Lock()
	defer did.mu.Unlock()
	result.Events = did.all
	result.print(t)
}
