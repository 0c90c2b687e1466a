//go:build linux

package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// ordersVariable holds the orders of a process that this test binary was started as.
const ordersVariable = "LOCKGEN_CHAOS_ORDERS"

// The keys that the processes contend for. The shared one is there if several can hold a key: each process has a
// part of it for long.
const (
	longKey   = "long"
	sharedKey = "shared"
)

var briefKeys = []string{"brief1", "brief2"}

// The orders for a worker on its standard input. The worker ends with its input.
const (
	orderGo      = "go"      // contend
	orderRelease = "release" // hold the long key briefly from now on, too
)

// Classes of errors.
const (
	classContext = "context"
	classLost    = "lost"
	classType    = "wrong type"
)

// class returns the class of an error of a call under ctx. A context's error alone says little: a
// connection that timed out has it, too.
func class(ctx context.Context, err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, lockrt.ErrLost):
		return classLost
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return classContext
	case errors.Is(err, lockrt.ErrWrongType):
		return classType
	}
	return err.Error()
}

// orders are what a worker is to do.
type orders struct {
	Proc      int
	Seat      int // from 1 on; who replaces a process gets its seat
	Primitive string
	URLs      []string
	Replicas  int // lockrt.Options.Replicas
	Lease     time.Duration
	Hold      time.Duration // how long the long keys are held; 0: until orderRelease
	Storm     bool          // besides, many waiters that give up at once
	Crowd     int           // besides, so many waiters for the long key, which hold it briefly
	Mutant    string        // a primitive that is broken on purpose
}

// Numbers of goroutines, and of their calls.
const (
	goroutineLong   = 0
	goroutineBrief  = 1 // and the next one
	goroutineHasty  = 3
	goroutineStorm  = 4 // and the next two
	goroutineShared = 7
	goroutineCrowd  = 10 // and those behind it
	goroutinesMost  = 200
	callsMost       = 1_000_000
)

// A worker is a process that uses the primitive.
type worker struct {
	orders

	primitive *primitive
	lock      lock

	release chan struct{} // closed by orderRelease
	over    atomic.Int64  // when the standard input ended

	mu   sync.Mutex
	out  io.Writer
	ends sync.Map // key to the instant at which its last lease ended
}

// lease is what the harness uses of a lease.
type lease interface {
	Context() context.Context
	Err() error
	Until() time.Time
	Token() int64
	Unlock(ctx context.Context) error
}

// work is the process.
func work(line string, in io.Reader, out io.Writer) error {
	w := &worker{release: make(chan struct{}), out: out}
	if err := json.Unmarshal([]byte(line), &w.orders); err != nil {
		return err
	}
	var err error
	if w.primitive, err = primitiveOf(w.Primitive); err != nil {
		return err
	}
	before := runtime.NumGoroutine()
	hooks := lockrt.Hooks{
		Ended: func(_ context.Context, e lockrt.EndEvent) {
			if errors.Is(e.Cause, lockrt.ErrLost) {
				key, _ := memberOf(e.Key)
				w.ends.Store(key, now()-int64(time.Since(e.At)))
			}
		},
	}
	var clients []*lockrt.Client
	for i, url := range w.URLs {
		hooks.Renewed = func(_ context.Context, e lockrt.RenewEvent) {
			if key, m := memberOf(e.Key); (key == longKey || key == sharedKey) && e.Err == nil {
				w.say(event{What: renewed, Key: key, Server: i, Member: m})
			}
		}
		opts := lockrt.Options{Watchdog: w.Lease, Hooks: hooks, Replicas: w.Replicas}
		client, err := lockrt.Open(context.Background(), url, opts)
		for try := 0; err != nil && try < 20; try++ { // a busy machine may take longer than a connection may
			client, err = lockrt.Open(context.Background(), url, opts)
		}
		if err != nil {
			return err
		}
		clients = append(clients, client)
		warm, err := client.Mutex(fmt.Sprint("warm", w.Proc)).Lock(context.Background())
		if err != nil {
			return err
		}
		_ = warm.Unlock(context.Background()) // a machine that stands still for a lease loses it, and nobody else wants it
	}
	w.lock = w.mutate(w.primitive.open(w, clients...))
	w.say(event{What: ready})
	commands := bufio.NewScanner(in)
	if commands.Scan() && commands.Text() == orderGo {
		w.contend(commands)
	}
	for _, client := range clients {
		if err := client.Close(); err != nil && w.Mutant == "" {
			return fmt.Errorf("%w; what runs still:\n%s", err, goroutines())
		}
	}
	w.leaks(before)
	return nil
}

// goroutines returns the stacks of all goroutines.
func goroutines() string {
	stacks := make([]byte, 1<<20)
	return strings.TrimSpace(string(stacks[:runtime.Stack(stacks, true)]))
}

// contend runs the goroutines of the process until its input ends.
func (w *worker) contend(commands *bufio.Scanner) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var wg sync.WaitGroup
	run := func(g int, once func(call int)) {
		wg.Go(func() {
			for call := g*callsMost + 1; ctx.Err() == nil; call++ {
				once(call)
			}
		})
	}
	run(goroutineLong, func(call int) { w.long(ctx, call, longKey) })
	if w.primitive.shares() {
		run(goroutineShared, func(call int) { w.long(ctx, call, sharedKey) })
	}
	for g := goroutineBrief; g < goroutineHasty; g++ {
		run(g, func(call int) {
			w.attempt(ctx, call, briefKeys[rand.N(len(briefKeys))], rand.N(3*time.Millisecond))
			pause(ctx, time.Millisecond+rand.N(9*time.Millisecond))
		})
	}
	run(goroutineHasty, func(call int) { // its context ends in the middle of waiting
		w.hasty(ctx, call, rand.N(40*time.Millisecond))
		pause(ctx, 50*time.Millisecond)
	})
	if w.Storm {
		for g := goroutineStorm; g < goroutineShared; g++ {
			run(g, func(call int) { w.hasty(ctx, call, rand.N(2*time.Millisecond)) })
		}
	}
	for g := range w.Crowd {
		run(goroutineCrowd+g, func(call int) {
			w.attempt(ctx, call, longKey, time.Millisecond)
			pause(ctx, time.Millisecond)
		})
	}
	wg.Go(func() { pulse(ctx, w.say) })
	for commands.Scan() {
		if commands.Text() == orderRelease {
			close(w.release)
		}
	}
	w.over.Store(now())
	stop()
	wg.Wait()
}

// long holds a key for as long as it is to.
func (w *worker) long(ctx context.Context, call int, key string) {
	d := w.Hold
	if d == 0 {
		d = time.Hour
	}
	w.attempt(ctx, call, key, d)
	pause(ctx, 5*time.Millisecond)
}

// hasty wants any key, and gives up after d.
func (w *worker) hasty(ctx context.Context, call int, d time.Duration) {
	short, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	keys := append([]string{longKey}, briefKeys...)
	w.attempt(short, call, keys[rand.N(len(keys))], 0)
}

// attempt takes as much of key as its goroutine wants, holds it for d, and releases it.
func (w *worker) attempt(ctx context.Context, call int, key string, d time.Duration) {
	e := event{Call: call, Key: key, Units: w.primitive.wants(w.Seat, call/callsMost, key)}
	w.tell(e, called)
	l, err := w.lock(ctx, key, e.Units)
	if err != nil {
		e.Err = class(ctx, err)
		if deadline, has := ctx.Deadline(); has {
			e.Late = now() - instant(deadline)
		}
		if over := w.over.Load(); over != 0 && e.Late <= 0 {
			e.Late = now() - over
		}
		w.tell(e, failed)
		if e.Err != classContext {
			pause(ctx, 10*time.Millisecond)
		}
		return
	}
	got := now()
	e.Token = l.Token()
	w.tell(e, granted)
	e.Token = 0
	seen := int64(0)
	if e.Units > 0 {
		seen = w.hold(ctx, l, key, d)
	}
	e.Seen = seen
	if err := l.Err(); err != nil {
		at := now()
		if end, known := w.ends.Load(key); known && end.(int64) >= got {
			at = min(at, end.(int64))
		}
		e.At, e.Until, e.Err = at, instant(l.Until()), class(ctx, err)
		w.tell(e, told)
	}
	e.At, e.Until, e.Err = now(), instant(l.Until()), ""
	w.tell(e, unlock)
	err = l.Unlock(ctx)
	e = event{Call: call, Key: key, Err: class(ctx, err)}
	w.tell(e, unlocked)
	for !w.primitive.leased && err != nil && strings.Contains(err.Error(), "NOPERM") { // nothing ends it but this
		pause(context.Background(), 10*time.Millisecond)
		err = l.Unlock(ctx)
	}
}

// hold holds a lease until d or the run is over, and returns when it was last found to be trusted.
func (w *worker) hold(ctx context.Context, l lease, key string, d time.Duration) (seen int64) {
	if d == 0 {
		return 0
	}
	over := time.NewTimer(d)
	defer over.Stop()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	release := w.release
	if key != longKey && key != sharedKey {
		release = nil
	}
	done := l.Context().Done()
	for {
		at := now()
		if l.Err() != nil {
			return seen
		}
		seen = at
		select {
		case <-look.C:
			continue
		case <-done:
			if ctx.Err() == nil {
				return seen
			}
			done = nil // the run is over, not the lease
		case <-over.C:
		case <-release:
			pause(ctx, 20*time.Millisecond)
		case <-ctx.Done():
		}
		return seen
	}
}

// pulse says when nothing ran in this process for a while.
func pulse(ctx context.Context, say func(event)) {
	const beat, most = 2 * time.Millisecond, 8 * time.Millisecond
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for last := now(); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		at := now()
		if at-last > int64(most) {
			say(event{What: stalled, At: last + int64(beat), Until: at})
		}
		last = at
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (w *worker) tell(e event, what what) {
	e.What = what
	w.say(e)
}

// say writes one line of the history, at once, so that it is known if the process is killed.
func (w *worker) say(e event) {
	if e.At == 0 {
		e.At = now()
	}
	e.Proc = w.Proc
	line, err := json.Marshal(e)
	if err != nil {
		panic(err) // it is numbers and strings
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = w.out.Write(append(line, '\n'))
}

// leaks says so if goroutines are left that were not there before.
func (w *worker) leaks(before int) {
	over := time.After(8 * time.Second) // rueidis closes a connection to a server that has left a cluster after five
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for runtime.NumGoroutine() > before {
		select {
		case <-poll.C:
		case <-over:
			w.say(event{What: leaked, Err: "goroutines: " + goroutines()})
			return
		}
	}
}

// process is the main function of a worker.
func process(line string) {
	if err := work(line, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
