package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
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

// TestRealTraces makes processes with a client each read a counter at a real server and write it back, under locks. It
// replays the steps of all of them and of the server in the order of their times: the server's is that of MONITOR, by
// the same clock. How long something takes is not checked, since a process may be kept from noting it.
func TestRealTraces(t *testing.T) {
	run := undisturbed(t, realTrace)
	actions, err := run.Replay()
	require.NoError(t, err)
	t.Log(actions)
	run.Steps = nil
	_, err = run.Replay()
	require.ErrorContains(t, err, "nobody has asked for it", "what no client says that it does is rejected")
	for _, action := range []string{"Asks", "Sent", "Granted", "Refused", "Handed", "Unlock", "GiveBack", "RunAcquire", "RunRelease",
		"Granted with a token", "Handed with a token"} {
		require.NotZero(t, actions[action], action)
	}
}

// undisturbed returns a run during which nothing set the clock of the machine.
func undisturbed(t *testing.T, run func(t *testing.T) tracetest.Run) tracetest.Run {
	t.Helper()
	for range 5 { // once, unless the clock is set meanwhile
		began := time.Now()
		if r := run(t); !tracetest.ClockSet(began) {
			return r
		}
	}
	t.Fatal("the clock of this machine is set all the time")
	return tracetest.Run{}
}

const (
	realClients = 3
	realKeys    = 2
)

// realTrace has clients contend at a real server, and returns what they and the server did.
func realTrace(t *testing.T) tracetest.Run {
	server := redistest.Server(t)
	run := tracetest.Run{Kind: "mutex", Processes: realClients}
	monitor, err := tracetest.Watch(server.Addr(), 1_000_000)
	require.NoError(t, err)
	sections := 0
	for _, w := range workReally(t, "^TestRealTraces_Worker$", server.URL()) {
		run.Steps = append(run.Steps, w.Steps...)
		for key, n := range w.Sections {
			sections += n
			require.NotZero(t, n, key)
		}
	}
	written := 0
	for i := range realKeys {
		n, err := server.Do("GET", fmt.Sprintf("counter%d", i)).AsInt64()
		require.NoError(t, err)
		written += int(n)
	}
	require.Equal(t, sections, written, "nothing that was written is lost")
	run.Commands, err = monitor.Stop()
	require.NoError(t, err)
	return run
}

// A realWorker is what one process did.
type realWorker struct {
	Steps    []trace.Step
	Events   []tracetest.Event
	Sections map[string]int // how often it wrote the counter of a key
}

// print tells the process that started this one.
func (w realWorker) print(t *testing.T) {
	line, err := json.Marshal(w)
	require.NoError(t, err)
	fmt.Println(string(line))
}

// workerVariable says where the server is of a process that this test binary was started as, and which one it is.
const workerVariable = "LOCKGEN_SIM_WORKER"

// workReally starts the processes, each of which runs a test, and returns what each did when all have ended.
func workReally(t *testing.T, test, url string) []realWorker {
	all := make([]realWorker, realClients)
	var workers sync.WaitGroup
	for i := range all {
		cmd := exec.Command(os.Args[0], "-test.run="+test, "-test.timeout=5m")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", workerVariable, i, url))
		var out, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &stderr
		require.NoError(t, redistest.Start(cmd))
		workers.Go(func() {
			if err := cmd.Wait(); err != nil {
				t.Errorf("process %d: %v\n%s%s", i, err, &out, &stderr)
				return
			}
			line, _, _ := bytes.Cut(out.Bytes(), []byte("\n"))
			if err := json.Unmarshal(line, &all[i]); err != nil {
				t.Errorf("process %d: %v\n%s", i, err, &out)
			}
		})
	}
	workers.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return all
}

// TestRealTraces_Worker is a process that TestRealTraces starts. By itself it tests nothing.
func TestRealTraces_Worker(t *testing.T) {
	number, url, started := strings.Cut(os.Getenv(workerVariable), " ")
	if !started {
		return
	}
	seed, err := strconv.ParseUint(number, 10, 64)
	require.NoError(t, err)
	did := realWorker{Sections: map[string]int{}}
	var mu sync.Mutex // guards did
	stop := trace.To(func(s trace.Step) {
		mu.Lock()
		defer mu.Unlock()
		did.Steps = append(did.Steps, s)
	})
	defer stop()
	c := realClient(t, url)
	var workers sync.WaitGroup
	for j := range 3 {
		r := rand.New(rand.NewPCG(seed, uint64(j)))
		workers.Go(func() {
			for range 60 {
				i := r.IntN(realKeys)
				if realSection(t.Context(), c, i, r) {
					mu.Lock()
					did.Sections[fmt.Sprintf("key%d", i)]++
					mu.Unlock()
				}
			}
		})
	}
	workers.Wait()
	require.NoError(t, c.Close())
	stop()
	mu.Lock()
	defer mu.Unlock()
	did.print(t)
}

// realClient returns a client of the server at url.
func realClient(t *testing.T, url string) *lockrt.Client {
	option, err := rueidis.ParseURL(url)
	require.NoError(t, err)
	option.DisableCache = true
	rc, err := rueidis.NewClient(option)
	require.NoError(t, err)
	t.Cleanup(rc.Close)
	c, err := lockrt.New(rc, lockrt.Options{})
	require.NoError(t, err)
	return c
}

// realSection locks a key, counts under it, and unlocks; or gives up at times. It reports whether it has counted.
func realSection(ctx context.Context, c *lockrt.Client, i int, r *rand.Rand) bool {
	m := c.Mutex(fmt.Sprintf("key%d", i), lockrt.WithFencing())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	take := m.Lock
	switch r.IntN(10) {
	case 0:
		time.AfterFunc(time.Duration(r.Int64N(int64(2*time.Millisecond))), cancel)
	case 1:
		take = m.TryLock
	}
	l, err := take(ctx)
	if err != nil {
		return false
	}
	counter, rc := fmt.Sprintf("counter%d", i), c.Redis()
	n, err := rc.Do(context.Background(), rc.B().Get().Key(counter).Build()).AsInt64()
	if err != nil && !rueidis.IsRedisNil(err) {
		panic(err)
	}
	if r.IntN(10) == 0 {
		_ = l.Extend(context.WithoutCancel(ctx), time.Minute)
	}
	if err := rc.Do(context.Background(), rc.B().Set().Key(counter).Value(strconv.FormatInt(n+1, 10)).Build()).Error(); err != nil {
		panic(err)
	}
	_ = l.Unlock(ctx)
	return true
}
