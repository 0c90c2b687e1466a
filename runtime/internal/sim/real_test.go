package sim

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/spec"
)

// TestRealTraces makes processes with a client each read a counter at a real server and write it back, under locks. It
// replays the steps of all of them and of the server in the order of their times: the server's is that of MONITOR, by
// the same clock. How long something takes is not checked, since a process may be kept from noting it.
func TestRealTraces(t *testing.T) {
	for range 5 { // once, unless the clock of the machine is set meanwhile
		began := time.Now()
		events := realTrace(t)
		took, by := time.Since(began), time.Now().Round(0).Sub(began.Round(0))
		if set := (by - took).Abs(); set > time.Millisecond+took/1000 { // more than a clock is made faster or slower
			continue
		}
		checks, actions := map[string]*spec.Check{}, map[string]int{}
		for _, e := range events {
			if checks[e.key] == nil {
				checks[e.key] = spec.NewCheck(realClients, 2*time.Second, 100*time.Millisecond, time.Hour)
			}
			require.NoError(t, checks[e.key].Say(e.said), e.key)
			actions[e.said.Action]++
			if e.said.Token > 0 {
				actions[e.said.Action+" with a token"]++
			}
		}
		t.Log(actions)
		for _, action := range []string{"Asks", "Sent", "Granted", "Refused", "Handed", "Unlock", "GiveBack", "RunAcquire", "RunRelease",
			"Granted with a token", "Handed with a token"} {
			require.NotZero(t, actions[action], action)
		}
		return
	}
	t.Fatal("the clock of this machine is set all the time")
}

const (
	realClients = 3
	realKeys    = 2
)

// A keyed event is one of the trace of a key.
type keyed struct {
	key  string
	said spec.Said
}

// realTrace has clients contend at a real server, and returns what they and the server did, in order.
func realTrace(t *testing.T) (all []keyed) {
	server := redistest.Server(t)
	x := newTracer(realClients, 0, 0)
	began := time.Now().Round(0) // by the clock that the server has
	x.began = began
	x.kept = func(key string, e spec.Said) { all = append(all, keyed{key, e}) }
	monitor := watchServer(t, server.Addr())
	sections := 0
	for _, w := range workReally(t, server.URL()) {
		for _, step := range w.Steps {
			x.step(step)
		}
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
	commands := monitor()
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range commands {
		all = append(all, c.events(t, x)...)
	}
	slices.SortStableFunc(all, func(a, b keyed) int { return int(a.said.At - b.said.At) })
	return all
}

// A realWorker is what one process did.
type realWorker struct {
	Steps    []trace.Step
	Sections map[string]int // how often it wrote the counter of a key
}

// workerVariable says where the server is of a process that this test binary was started as, and which one it is.
const workerVariable = "LOCKGEN_SIM_WORKER"

// workReally starts the processes, and returns what each did when all have ended.
func workReally(t *testing.T, url string) []realWorker {
	all := make([]realWorker, realClients)
	var workers sync.WaitGroup
	for i := range all {
		cmd := exec.Command(os.Args[0], "-test.run=^TestRealTraces_Worker$", "-test.timeout=5m")
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
	option, err := rueidis.ParseURL(url)
	require.NoError(t, err)
	option.DisableCache = true
	rc, err := rueidis.NewClient(option)
	require.NoError(t, err)
	defer rc.Close()
	c, err := lockrt.New(rc, lockrt.Options{})
	require.NoError(t, err)
	var workers sync.WaitGroup
	for j := range 3 {
		r := rand.New(rand.NewPCG(seed, uint64(j)))
		workers.Go(func() {
			for range 60 {
				i := r.IntN(realKeys)
				if realSection(t.Context(), c, rc, i, r) {
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
	line, err := json.Marshal(did)
	require.NoError(t, err)
	fmt.Println(string(line))
}

// realSection locks a key, counts under it, and unlocks; or gives up at times. It reports whether it has counted.
func realSection(ctx context.Context, c *lockrt.Client, rc rueidis.Client, i int, r *rand.Rand) bool {
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
	counter := fmt.Sprintf("counter%d", i)
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

// A monitored command is one that a client has sent, with what its script called.
type monitored struct {
	at    time.Time
	words []string
	calls [][]string
}

var monitorLine = regexp.MustCompile(`^\+(\d+)\.(\d{6}) \[\d+ ([^\]]+)\] (.*)\r\n$`)

// watchServer begins to note what a server does. The function that it returns says what it did since.
func watchServer(t *testing.T, addr string) (done func() []*monitored) {
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	in := bufio.NewReaderSize(c, 1<<20)
	_, err = c.Write([]byte("MONITOR\r\n"))
	require.NoError(t, err)
	ok, err := in.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "+OK\r\n", ok)
	over := make(chan []*monitored, 1)
	go func() {
		var all []*monitored
		for {
			line, err := in.ReadString('\n')
			if err != nil || strings.Contains(line, `"the end of the trace"`) {
				over <- all
				return
			}
			parts := monitorLine.FindStringSubmatch(line)
			if parts == nil {
				continue
			}
			words := quotedWords(parts[4])
			if parts[3] == "lua" {
				if len(all) > 0 {
					all[len(all)-1].calls = append(all[len(all)-1].calls, words)
				}
				continue
			}
			seconds, _ := strconv.ParseInt(parts[1], 10, 64)
			micros, _ := strconv.ParseInt(parts[2], 10, 64)
			all = append(all, &monitored{at: time.Unix(seconds, micros*1000), words: words})
		}
	}()
	return func() []*monitored {
		last, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		_, err = last.Write([]byte("ECHO \"the end of the trace\"\r\n"))
		require.NoError(t, err)
		all := <-over
		require.NoError(t, last.Close())
		require.NoError(t, c.Close())
		return all
	}
}

var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

func quotedWords(line string) (words []string) {
	for _, q := range quoted.FindAllString(line, -1) {
		word, err := strconv.Unquote(q)
		if err != nil {
			word = q
		}
		words = append(words, word)
	}
	return words
}

// events returns what a command was to the locks. The caller holds x.mu.
func (m *monitored) events(t *testing.T, x *tracer) (all []keyed) {
	if len(m.words) < 3 || !strings.EqualFold(m.words[0], "evalsha") {
		return nil
	}
	script := names[m.words[1]]
	n, err := strconv.Atoi(m.words[2])
	require.NoError(t, err)
	keys, args := m.words[3:3+n], m.words[3+n:]
	called := func(words ...string) bool {
		return slices.ContainsFunc(m.calls, func(call []string) bool {
			return len(call) >= len(words) && strings.EqualFold(call[0], words[0]) && slices.Equal(call[1:len(words)], words[1:])
		})
	}
	// The reply of a script is unknown, but not its effect.
	requests := requestsOf(script, keys, args, func(i, _ int) string {
		switch script {
		case "free":
			if !called("hdel", keys[3*i], args[2+i]) {
				return ":3"
			}
		case "release":
			if again := args[4+4*i]; again != "" && !called("rpush", keys[4*i+1], again) {
				return ":-1"
			}
		}
		return ":0"
	}, m.calls)
	kept := x.kept
	x.kept = func(key string, e spec.Said) { all = append(all, keyed{key, e}) }
	defer func() { x.kept = kept }()
	x.ran(m.at.Sub(x.began), requests, nil, nil, nil)
	return all
}
