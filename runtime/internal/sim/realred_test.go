package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
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
func electEarly(processes [][]tracetest.RedEvent) bool {
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
		run.Processes = append(run.Processes, w.Red)
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

// A redRecorder notes what a process does with RedLocks. Leases become numbers.
type redRecorder struct {
	mu      sync.Mutex
	servers map[string]int // by the first half of an owner
	leases  map[any]int
	all     []tracetest.RedEvent
}

// note adds an event, which is no earlier than the one before it. The caller holds r.mu.
func (r *redRecorder) note(e tracetest.RedEvent) {
	e.At = time.Now()
	r.all = append(r.all, e)
}

func (r *redRecorder) step(s trace.Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	uuid, _, _ := strings.Cut(s.Owner, ":")
	r.note(tracetest.RedEvent{Server: r.servers[uuid], Step: &s})
}

func (r *redRecorder) whole(w trace.Whole) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.Lease != nil {
		if r.leases[w.Lease] == 0 {
			r.leases[w.Lease] = len(r.leases) + 1
		}
		w.Lease = r.leases[w.Lease]
	}
	r.note(tracetest.RedEvent{Whole: &w})
}

// TestRealTraces_RedWorker is a process that TestRealTraces_Red starts. By itself it tests nothing.
func TestRealTraces_RedWorker(t *testing.T) {
	words := strings.Fields(os.Getenv(workerVariable))
	if len(words) == 0 {
		return
	}
	seed, err := strconv.ParseUint(words[0], 10, 64)
	require.NoError(t, err)
	did := &redRecorder{servers: map[string]int{}, leases: map[any]int{}}
	defer trace.To(did.step)()
	defer trace.WholesTo(did.whole)()
	var clients []*lockrt.Client
	for i, url := range words[1:] {
		option, err := rueidis.ParseURL(url)
		require.NoError(t, err)
		option.DisableCache = true
		rc, err := rueidis.NewClient(option)
		require.NoError(t, err)
		defer rc.Close()
		c, err := lockrt.New(rc, lockrt.Options{})
		require.NoError(t, err)
		clients = append(clients, c)
		did.mu.Lock()
		did.servers[c.ID()] = i
		did.mu.Unlock()
	}
	sections, work := make([]int, realKeys), sync.Mutex{}
	var workers sync.WaitGroup
	for j := range 2 {
		r := rand.New(rand.NewPCG(seed, uint64(j)))
		workers.Go(func() {
			for range 15 {
				i := r.IntN(realKeys)
				m := lockrt.NewRedLock(fmt.Sprintf("key%d", i), clients, lockrt.WithFencing())
				take := m.Lock
				if r.IntN(4) == 0 {
					take = m.TryLock
				}
				l, err := take(t.Context())
				if err != nil {
					continue
				}
				work.Lock()
				sections[i]++
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
	result := realWorker{Red: did.all, Sections: map[string]int{}}
	for i, n := range sections {
		result.Sections[fmt.Sprintf("key%d", i)] = n
	}
	line, err := json.Marshal(result)
	require.NoError(t, err)
	fmt.Println(string(line))
}
