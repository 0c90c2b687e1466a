package lockrt_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/internal/trace/tracetest"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// workerVariable holds the orders of a process that this test binary was started as.
const workerVariable = "LOCKGEN_EXCLUSION_WORKER"

// exclusion is what all processes of one run agree on.
type exclusion struct {
	URL        string
	Addr       string
	Lock       string
	Kind       string // of lock: nothing for a Mutex, fair, or rw, which one of four goroutines writes and the others read
	Counter    string // read, and written back one higher, by the holder of the lock
	History    string // list of what happened, in the order of the server
	Victim     string // exists when the next holder is to die
	Worker     string // the name of the process
	Goroutines int
	Watchdog   time.Duration
	Steps      string // the folder for the steps of the processes, of a Mutex; or nothing
}

// The lines that a worker writes into the history, each followed by the name of the section and a
// value.
const (
	entered = "enter" // it holds the lock
	reading = "read"  // it holds the lock for reading
	left    = "leave" // it has written the counter, or read it again, and still holds the lock
	lost    = "lost"  // it was told that the lease is lost, and writes nothing any more
)

// A worker prints these lines.
const (
	dying      = "dying"            // it waits inside of a section to be killed
	stoodStill = "stood still for " // it has failed, and so long its [pulse] stood still
)

// TestExclusion has 4 processes with 8 goroutines each contend for one key. Inside they
// do what must not be done by two at once: read a counter and write it back.
func TestExclusion(t *testing.T) {
	t.Parallel()
	contend(t, exclusion{Goroutines: 8}, 4, 0, 20_000)
}

// TestExclusion_HoldersKilled is TestExclusion with a holder killed every three seconds, inside
// of its section, half of them between the two steps that belong together.
func TestExclusion_HoldersKilled(t *testing.T) {
	t.Parallel()
	contend(t, exclusion{Goroutines: 8, Watchdog: 1500 * time.Millisecond}, 4, 3*time.Second, 20_000)
}

// TestExclusion_Fair is TestExclusion_HoldersKilled with a FairMutex. A killed process is in the queue, too, with its
// other goroutines, and delays the others by two seconds.
func TestExclusion_Fair(t *testing.T) {
	t.Parallel()
	contend(t, exclusion{Kind: "fair", Goroutines: 4, Watchdog: 1500 * time.Millisecond}, 3, 5*time.Second, 500)
}

// TestExclusion_RW is TestExclusion_HoldersKilled with an RWMutex: what a reader has read does not change while it has the
// lock, and writers are alone.
func TestExclusion_RW(t *testing.T) {
	t.Parallel()
	h := contend(t, exclusion{Kind: "rw", Goroutines: 8, Watchdog: 1500 * time.Millisecond}, 4, 3*time.Second, 4_000)
	require.Greater(t, h.read, 250, "there were readers")
	require.Greater(t, h.entered-h.read, 250, "and writers")
}

// How much of each run is replayed against the specification: its beginning.
const (
	tracedScripts = 2_000
	tracedSteps   = 10_000 // of one process
)

// contend runs the processes until there were enough acquisitions, and checks the history, and the trace of the first of
// them. It does so again where the machine stood still for as long as a lease: a lock that is handed over has one of two seconds at
// first, without kills none is lost, and a call to a server that stands still fails.
func contend(t *testing.T, x exclusion, processes int, killEvery time.Duration, acquisitions int) *history {
	t.Helper()
	for range 4 {
		if h := contest(t, x, processes, killEvery, acquisitions); h != nil {
			return h
		}
	}
	require.Fail(t, "the machine stands still each time")
	return nil
}

// contest is one run of contend. It returns nothing if the machine stood still.
func contest(t *testing.T, x exclusion, processes int, killEvery time.Duration, acquisitions int) *history {
	t.Helper()
	if testing.Short() {
		acquisitions /= 10
	}
	server := redistest.Server(t)
	x.URL, x.Addr = server.URL(), server.Addr()
	x.Lock, x.Counter, x.History, x.Victim = "exclusion", "counter", "history", "victim"
	if x.Kind == "" {
		x.Steps = t.TempDir()
	}
	monitor, err := tracetest.Watch(server.Addr(), tracedScripts)
	require.NoError(t, err)
	began := time.Now()

	f := &fleet{t: t, orders: x, killed: make(chan string, 1), failed: make(chan struct{})}
	for range processes {
		f.start()
	}
	var victims <-chan time.Time
	if killEvery > 0 {
		ticker := time.NewTicker(killEvery)
		defer ticker.Stop()
		victims = ticker.C
	}
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	over := time.After(5 * time.Minute)
	kills, early := 0, killEvery > 0
	stood, looked := time.Duration(0), time.Now()
	for done := false; !done; {
		select {
		case <-f.failed:
			done = true
		case <-poll.C:
			stood, looked = max(stood, time.Since(looked)), time.Now()
			events, err := server.Do("LLEN", x.History).ToInt64()
			require.NoError(t, err)
			done = int(events)/2 >= acquisitions+kills && (killEvery == 0 || kills >= 5)
			if early && events > 400 { // while the trace is noted
				early = false
				server.Do("SET", x.Victim, "1")
			}
		case <-victims:
			server.Do("SET", x.Victim, "1")
		case <-f.killed:
			kills++
			f.start()
		case <-over:
			f.stop()
			require.Fail(t, "too slow", "%d kills", kills)
		}
	}
	server.Do("DEL", x.Victim)
	f.stop()
	if len(f.failures) > 0 && max(stood, f.stood) > time.Second { // such a call has no answer in time
		t.Logf("the machine stood still, the test for %v, the workers that failed for %v: again, after %v", stood, f.stood, f.failures)
		_, err := monitor.Stop()
		require.NoError(t, err)
		return nil
	}
	require.Empty(t, f.failures, "the machine stood still for no longer than %v, the workers that failed for %v", stood, f.stood)
	f.replay(monitor, began)

	events, err := server.Do("LRANGE", x.History, "0", "-1").AsStrSlice()
	require.NoError(t, err)
	h := check(events)
	counter, err := server.Do("GET", x.Counter).AsInt64()
	require.NoError(t, err)
	t.Logf("%d acquisitions by %d processes, %d killed inside, %d leases lost, %d violations; counter %d, written %d times",
		h.entered, f.started, f.kills, h.lost, len(h.violations), counter, h.left)
	if killEvery == 0 && h.lost > 0 || stood > time.Second && len(h.violations) > 0 {
		t.Logf("the machine stood still, the test for %v: again", stood)
		return nil
	}
	require.Empty(t, h.violations)
	require.GreaterOrEqual(t, h.entered, acquisitions)
	beside := 0
	if x.Kind == "rw" { // the killed process may have other readers inside
		beside = f.kills * x.Goroutines
	}
	require.GreaterOrEqual(t, h.entered, h.left+h.lost+f.kills)
	require.LessOrEqual(t, h.entered, h.left+h.lost+f.kills+beside, "every section has an end that is known")
	require.GreaterOrEqual(t, int(counter), h.left-h.readLeft)
	require.LessOrEqual(t, int(counter), h.left-h.readLeft+h.lost+f.kills, "a killed section may have written")
	return h
}

// replay replays what the processes and the server did first.
func (f *fleet) replay(monitor *tracetest.Monitor, began time.Time) {
	commands, err := monitor.Stop()
	require.NoError(f.t, err)
	run := tracetest.Run{Kind: cmp.Or(f.orders.Kind, "mutex"), Processes: f.started, Commands: commands}
	if f.orders.Steps != "" {
		run.Steps, run.Until, err = tracetest.ReadSteps(f.orders.Steps, tracedSteps)
		require.NoError(f.t, err)
	}
	if tracetest.ClockSet(began) {
		f.t.Log("the clock of this machine was set: its times do not say in which order things happened")
		return
	}
	replayed, err := run.Replay()
	require.NoError(f.t, err)
	require.NotEmpty(f.t, replayed)
	f.t.Logf("replayed: %v", replayed)
}

// A history is what the check of one run found.
type history struct {
	entered, left, lost int
	read, readLeft      int // those of them that only read
	violations          []string
}

// A section is one that has begun.
type section struct {
	reads     bool
	overtaken bool // one began after that must not be beside it
}

// check replays the events in the order in which the server took them. Nobody may do
// anything in its section after somebody else has entered, but say that it was told. Readers may be beside each other.
func check(events []string) *history {
	h := &history{}
	open := make(map[string]*section)
	last := 0 // value of the counter as it was last left
	for i, event := range events {
		words := strings.Fields(event)
		what, section, mine := words[0], words[1], &section{reads: words[0] == reading}
		begun, inside := open[section]
		switch what {
		case entered, reading:
			h.entered++
			if mine.reads {
				h.read++
			}
			for _, other := range open {
				other.overtaken = other.overtaken || !(other.reads && mine.reads)
			}
			open[section] = mine
		case lost:
			h.lost++
			delete(open, section)
		case left:
			h.left++
			delete(open, section)
			value, err := strconv.Atoi(words[2])
			switch {
			case inside && begun.reads:
				h.readLeft++
				if err != nil || value < last {
					h.violations = append(h.violations, fmt.Sprintf("event %d: %s after %d was written", i, event, last))
				}
			case err != nil || value <= last:
				h.violations = append(h.violations, fmt.Sprintf("event %d: %s after %d was written: an update is lost", i, event, last))
				fallthrough
			default:
				last = value
			}
			if !inside || begun.overtaken {
				h.violations = append(h.violations, fmt.Sprintf("event %d: %s while somebody else was inside", i, event))
			}
		}
	}
	return h
}

func TestExclusion_CheckFindsViolations(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		events []string
		want   int
	}{
		{"one after the other", []string{"enter a", "leave a 1", "enter b", "leave b 2"}, 0},
		{"two inside", []string{"enter a", "enter b", "leave b 1", "leave a 2"}, 1},
		{"two inside, and an update lost", []string{"enter a", "enter b", "leave a 1", "leave b 1"}, 2},
		{"update lost", []string{"enter a", "leave a 1", "enter b", "leave b 1"}, 1},
		{"killed inside", []string{"enter a", "enter b", "leave b 1"}, 0},
		{"killed inside after it wrote", []string{"enter a", "enter b", "leave b 2"}, 0},
		{"told before it wrote", []string{"enter a", "enter b", "lost a", "leave b 1"}, 0},
		{"told, and wrote", []string{"enter a", "lost a", "leave a 1"}, 1},
		{"readers beside each other", []string{"read a", "read b", "leave a 0", "leave b 0", "enter c", "leave c 1"}, 0},
		{"a writer beside a reader", []string{"read a", "enter b", "leave b 1", "leave a 0"}, 2},
		{"a reader beside a writer", []string{"enter a", "read b", "leave b 0", "leave a 1"}, 1},
		{"a reader killed", []string{"read a", "enter b", "leave b 1"}, 0},
		{"a reader told", []string{"read a", "enter b", "lost a", "leave b 1"}, 0},
		{"a read of what is over", []string{"enter a", "leave a 2", "read b", "leave b 1"}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Len(t, check(tt.events).violations, tt.want)
		})
	}
}

// A fleet is the processes of one run.
type fleet struct {
	t      *testing.T
	orders exclusion
	killed chan string   // a worker that was killed; it is to be replaced
	failed chan struct{} // closed when a worker has failed

	started int
	wg      sync.WaitGroup

	mu       sync.Mutex
	kills    int
	stopped  bool
	inputs   []io.Closer
	failures []string      // the output of the workers that failed
	stood    time.Duration // the longest of their standstills
}

// start starts one more worker. It ends when its standard input does, at the latest with
// this process.
func (f *fleet) start() {
	f.t.Helper()
	orders := f.orders
	orders.Worker = "w" + strconv.Itoa(f.started)
	f.started++
	line, err := json.Marshal(orders)
	require.NoError(f.t, err)
	cmd := exec.Command(os.Args[0], "-test.run=^TestExclusion_Worker$", "-test.timeout=10m")
	cmd.Env = append(os.Environ(), workerVariable+"="+string(line))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	require.NoError(f.t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(f.t, err)
	require.NoError(f.t, redistest.Start(cmd))
	f.mu.Lock()
	f.inputs = append(f.inputs, in)
	f.mu.Unlock()
	f.wg.Go(func() { f.attend(orders.Worker, cmd, out, &stderr) })
}

// attend kills the worker when it says that it is inside, and looks at how it ends.
func (f *fleet) attend(worker string, cmd *exec.Cmd, out io.Reader, stderr *bytes.Buffer) {
	var said strings.Builder
	killed := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() == dying {
			killed = true
			_ = cmd.Process.Kill()
		}
		if still, ok := strings.CutPrefix(lines.Text(), stoodStill); ok {
			f.stands(still)
		}
		said.WriteString(lines.Text() + "\n")
	}
	err := cmd.Wait()
	f.mu.Lock()
	stopped := f.stopped
	if killed {
		f.kills++
	}
	f.mu.Unlock()
	switch {
	case killed && !stopped:
		f.killed <- worker
	case !killed && err != nil:
		f.fail(fmt.Sprintf("worker %s: %v\n%s%s", worker, err, said.String(), stderr))
	}
}

// stands notes for how long the pulse of a worker stood still.
func (f *fleet) stands(still string) {
	longest, err := time.ParseDuration(still)
	if err != nil {
		f.fail(err.Error())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stood = max(f.stood, longest)
}

// fail notes that a worker has failed.
func (f *fleet) fail(why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.failures) == 0 {
		close(f.failed)
	}
	f.failures = append(f.failures, why)
}

// stop ends all workers and waits for them.
func (f *fleet) stop() {
	f.mu.Lock()
	f.stopped = true
	for _, in := range f.inputs {
		_ = in.Close()
	}
	f.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.wg.Wait()
	}()
	for {
		select {
		case <-f.killed: // just before it was stopped
		case <-done:
			return
		}
	}
}

// TestExclusion_Worker is the process that the tests above start. By itself it tests
// nothing.
func TestExclusion_Worker(t *testing.T) { //nolint:paralleltest // it is a process of its own
	line := os.Getenv(workerVariable)
	if line == "" {
		return
	}
	var x exclusion
	require.NoError(t, json.Unmarshal([]byte(line), &x))
	if x.Steps != "" {
		steps, err := tracetest.WriteSteps(filepath.Join(x.Steps, x.Worker), tracedSteps)
		require.NoError(t, err)
		defer func() { require.NoError(t, steps.Close()) }()
	}
	locks, err := opened(t.Context(), x.URL, lockrt.Options{Watchdog: x.Watchdog})
	require.NoError(t, err)
	rc := redistest.NewClient(t, x.Addr, func(o *rueidis.ClientOption) { o.DisableCache = true })

	ctx, stop := context.WithCancel(t.Context())
	go func() {
		defer stop()
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	pulse := newPulse()
	go pulse.run(t.Context(), func() error { return rc.Do(t.Context(), rc.B().Ping().Build()).Error() })
	errs := make([]error, x.Goroutines)
	var wg sync.WaitGroup
	for i := range x.Goroutines {
		wg.Go(func() {
			w := worker{exclusion: x, rc: rc, lock: locks.Mutex(x.Lock), name: x.Worker + "." + strconv.Itoa(i)}
			switch {
			case x.Kind == "fair":
				w.lock = locks.FairMutex(x.Lock)
			case x.Kind == "rw" && i%4 == 0:
				w.lock = locks.RWMutex(x.Lock)
			case x.Kind == "rw":
				w.lock, w.reads = locks.RWMutex(x.Lock).RLocker(), true
			}
			errs[i] = w.run(ctx)
			if errs[i] != nil {
				stop()
			}
		})
	}
	wg.Wait()
	err = errors.Join(errs...)
	if err != nil {
		_, _ = os.Stdout.WriteString(stoodStill + pulse.longest().String() + "\n")
	}
	require.NoError(t, err)
	require.NoError(t, locks.Close())
}

// A pulse notes the longest time in which a process had no answer to a plain command, which needs nothing of this module. In a process that
// stood still for as long as a call may take, or before a server that did, such a call has no answer in time, whatever the module does.
type pulse struct {
	mu    sync.Mutex // guards the rest
	last  time.Time  // when the last answer came
	still time.Duration
}

func newPulse() *pulse { return &pulse{last: time.Now()} }

// run sends one command after the other by ping until ctx ends.
func (p *pulse) run(ctx context.Context, ping func() error) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if ping() == nil {
			p.mu.Lock()
			p.still, p.last = max(p.still, time.Since(p.last)), time.Now()
			p.mu.Unlock()
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// longest returns the longest time without an answer, which may be the present one.
func (p *pulse) longest() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.still, time.Since(p.last))
}

// TestExclusion_Pulse has answers come at once, then one late, and none while a command fails.
func TestExclusion_Pulse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var takes atomic.Int64
		var fails atomic.Bool
		p := newPulse()
		go p.run(ctx, func() error {
			time.Sleep(time.Duration(takes.Load()))
			if fails.Load() {
				return io.EOF
			}
			return nil
		})
		longest := func(after, want time.Duration) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			require.Equal(t, want, p.longest())
		}
		longest(time.Second, 20*time.Millisecond)
		takes.Store(int64(3 * time.Second))
		longest(2*time.Second+20*time.Millisecond, 2*time.Second+20*time.Millisecond) // the answer has not come
		takes.Store(0)
		longest(time.Second, 3*time.Second+20*time.Millisecond)
		longest(time.Minute, 3*time.Second+20*time.Millisecond)
		fails.Store(true)
		longest(4*time.Second, 4*time.Second)
		stop()
		synctest.Wait()
	})
}

// A worker is one goroutine of a process.
type worker struct {
	exclusion

	rc    rueidis.Client
	lock  lockrt.Locker
	reads bool
	name  string
}

// run enters one section after the other until ctx ends.
func (w worker) run(ctx context.Context) error {
	for n := 0; ; n++ {
		lease, err := w.lock.Lock(ctx)
		if ctx.Err() != nil {
			if err == nil {
				err = lease.Unlock(ctx)
			}
			if errors.Is(err, context.Canceled) || errors.Is(err, lockrt.ErrLost) {
				err = nil
			}
			return err
		}
		if err != nil {
			return err
		}
		if err := w.section(ctx, lease, w.name+"."+strconv.Itoa(n), n); err != nil {
			return errors.Join(err, lease.Unlock(ctx))
		}
		if err := lease.Unlock(ctx); err != nil && !errors.Is(err, lockrt.ErrLost) {
			return err
		}
	}
}

// section reads the counter and writes it back, in two steps that are not one.
func (w worker) section(ctx context.Context, lease *lockrt.Lease, name string, n int) error {
	stopped := ctx.Done()
	ctx = context.WithoutCancel(ctx) // a section that has begun comes to its end
	b, begin := w.rc.B, entered
	if w.reads {
		begin = reading
	}
	replies := w.rc.DoMulti(ctx,
		b().Rpush().Key(w.History).Element(begin+" "+name).Build(),
		b().Get().Key(w.Counter).Build(),
		b().Del().Key(w.Victim).Build())
	for _, r := range replies {
		if err := r.Error(); err != nil && !rueidis.IsRedisNil(err) {
			return err
		}
	}
	value, err := replies[1].AsInt64()
	if err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	next := strconv.FormatInt(value+1, 10)
	switch chosen, err := replies[2].AsBool(); {
	case err != nil:
		return err
	case chosen && n%2 == 0 && !w.reads:
		return w.die(stopped, w.rc.Do(ctx, b().Set().Key(w.Counter).Value(next).Build()).Error())
	case chosen:
		return w.die(stopped, nil)
	case lease.Err() != nil:
		return w.rc.Do(ctx, b().Rpush().Key(w.History).Element(lost+" "+name).Build()).Error()
	}
	if w.reads {
		return w.rc.Do(ctx, b().Rpush().Key(w.History).Element(left+" "+name+" "+strconv.FormatInt(value, 10)).Build()).Error()
	}
	replies = w.rc.DoMulti(ctx,
		b().Set().Key(w.Counter).Value(next).Build(),
		b().Rpush().Key(w.History).Element(left+" "+name+" "+next).Build())
	return errors.Join(replies[0].Error(), replies[1].Error())
}

// die waits to be killed, after it has done half of the work or nothing. Should nobody
// be there to kill it, the process ends as the others do.
func (w worker) die(stopped <-chan struct{}, err error) error {
	if err == nil {
		_, err = os.Stdout.WriteString(dying + "\n")
	}
	if err == nil {
		<-stopped
	}
	return err
}
