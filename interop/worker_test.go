package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// workerVariable makes the test binary run as a Go program, with the orders in the variable.
const workerVariable = "LOCKGEN_INTEROP_WORKER"

// orders are the orders of a Go program.
type orders struct {
	URL      string
	Reds     []string
	FairWait time.Duration
	PubSub   lockrt.PubSub
	Watchdog time.Duration

	Hold    []held
	Permit  string    // a key to take the only permit of
	Then    *held     // the lock to take once it has read a line
	Contend []contest // the locks to compete for then, all at once
}

// held is a lock to hold.
type held struct{ Kind, Key string }

// uncounted is the counter of a contest of callers that hold the lock for no time.
const uncounted = "-"

// contest is a lock that several programs compete for, or the only permit of a semaphore.
type contest struct {
	Kind, Key, Counter string
	Java               string // the kind in Java, if it is another one
	Each               int    // goroutines
	Lasts              time.Duration
}

// share is the result of one side.
type share struct {
	Count   int
	Least   int           // of one goroutine or thread
	Longest time.Duration // wait
	Lost    int           // leases in Go
}

func (s share) with(other share) share {
	return share{s.Count + other.Count, min(s.Least, other.Least), max(s.Longest, other.Longest), s.Lost + other.Lost}
}

// work runs as the Go program: it acquires everything, reports that, and waits for a line or its
// death.
func work(text string) {
	err := doWork(text)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func doWork(text string) error {
	var o orders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	ctx := context.Background()
	opts := options(lockrt.Options{Watchdog: o.Watchdog}, o.FairWait, o.PubSub)
	c, err := connect(ctx, o.URL, opts)
	s := side{c: c}
	for _, url := range o.Reds {
		red, failed := connect(ctx, url, opts)
		s.reds, err = append(s.reds, red), errors.Join(err, failed)
	}
	if err != nil {
		return err
	}
	for _, h := range o.Hold {
		if _, err = kindOf(h.Kind).lock(s, h.Key).Lock(ctx); err != nil {
			return err
		}
	}
	if o.Permit != "" {
		if _, err = c.PermitSemaphore(o.Permit, 1).Acquire(ctx); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	if o.Then != nil {
		_, err = kindOf(o.Then.Kind).lock(s, o.Then.Key).Lock(ctx)
	}
	var wg sync.WaitGroup
	got, failed := make([]share, len(o.Contend)), make([]error, len(o.Contend))
	for i, c := range o.Contend {
		wg.Go(func() { got[i], failed[i] = c.run(ctx, o.URL, s) })
	}
	wg.Wait()
	if err = errors.Join(append(failed, err)...); err != nil || len(got) == 0 {
		return err
	}
	for _, one := range got {
		said, err := json.Marshal(one)
		if err != nil {
			return err
		}
		fmt.Println(string(said))
	}
	for _, c := range append(s.reds, s.c) {
		err = errors.Join(err, c.Close())
	}
	return err
}

// run locks, counts in a way that loses counts unless the lock excludes, if there is a counter, unlocks, and repeats that.
func (c *contest) run(ctx context.Context, url string, s side) (share, error) {
	take := roleOf(c.Kind).inGo(s)
	opt, err := rueidis.ParseURL(url)
	if err != nil {
		return share{}, err
	}
	rc, err := rueidis.NewClient(opt)
	if err != nil {
		return share{}, err
	}
	defer rc.Close()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		total share
	)
	ctx, cancel := context.WithTimeout(ctx, c.Lasts+time.Minute)
	defer cancel()
	for range c.Each {
		wg.Go(func() {
			var mine share
			var failed error
			for end := time.Now().Add(c.Lasts); failed == nil && time.Now().Before(end); {
				asked := time.Now()
				give, err := take(ctx, c.Key)
				if err != nil {
					failed = err
					break
				}
				mine.Longest = max(mine.Longest, time.Since(asked))
				if c.Counter != uncounted {
					n, err := rc.Do(ctx, rc.B().Get().Key(c.Counter).Build()).AsInt64()
					failed = errors.Join(err, rc.Do(ctx, rc.B().Set().Key(c.Counter).Value(strconv.FormatInt(n+1, 10)).Build()).Error())
				}
				mine.Count++
				if err = give(ctx); errors.Is(err, lockrt.ErrLost) {
					mine.Lost++
				} else {
					failed = errors.Join(failed, err)
				}
			}
			mine.Least = mine.Count
			mu.Lock()
			defer mu.Unlock()
			err = errors.Join(err, failed)
			if total.Count == 0 {
				total = mine
			} else {
				total = total.with(mine)
			}
		})
	}
	wg.Wait()
	return total, err
}

// A worker is a running Go program.
type worker struct {
	t   *testing.T
	cmd *exec.Cmd
	in  *os.File
	out *bufio.Reader
}

// startWorker runs a Go program until it has done its first orders. The program does not outlive
// the test.
func (f *fleet) startWorker(t *testing.T, o orders) *worker {
	t.Helper()
	o.URL, o.FairWait, o.PubSub = f.url, f.fairWait(), f.pubsub
	if o.Watchdog = long; len(o.Contend) == 0 { // it is about to die
		o.Watchdog = short
	}
	for _, server := range f.reds {
		o.Reds = append(o.Reds, server.URL())
	}
	text, err := json.Marshal(o)
	require.NoError(t, err)
	w := &worker{t: t, cmd: exec.Command(os.Args[0])}
	w.cmd.Env = append(os.Environ(), workerVariable+"="+string(text))
	w.cmd.Stderr = t.Output()
	in, keep, err := os.Pipe() // open for as long as this process lives
	require.NoError(t, err)
	w.cmd.Stdin, w.in = in, keep
	out, err := w.cmd.StdoutPipe()
	require.NoError(t, err)
	w.out = bufio.NewReader(out)
	require.NoError(t, redistest.Start(w.cmd))
	_ = in.Close()
	t.Cleanup(func() {
		w.kill()
		_ = keep.Close()
	})
	require.Equal(t, "ready\n", w.read())
	return w
}

func (w *worker) read() string {
	w.t.Helper()
	said, err := w.out.ReadString('\n')
	require.NoError(w.t, err, said)
	return said
}

// share reads the result of a contest.
func (w *worker) share() (s share) {
	w.t.Helper()
	said := w.read()
	require.NoError(w.t, json.Unmarshal([]byte(said), &s), said)
	return s
}

// goOn makes the worker do the rest.
func (w *worker) goOn() { _, _ = w.in.WriteString("\n") }

// kill ends the worker, if it runs, as a crash does.
func (w *worker) kill() {
	_ = w.cmd.Process.Kill()
	_ = w.cmd.Wait()
}
