package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/rueidis"
)

// An order is a request to a worker: a client of one library in a process of its own. The worker answers each one.
type order struct {
	Op string

	// open:
	Library string
	Addr    string
	Lease   time.Duration
	Profile string // a folder for profiles, or empty

	// cycle, reenter:
	Goroutines int
	Shared     bool          // all lock one key
	Many       int           // keys that are locked together; 0 as 1
	Pause      time.Duration // between two cycles of a goroutine
	Begin      time.Time     // the time when counting begins, after a warm-up
	Length     time.Duration

	// hold, wait, listen:
	Keys   string // their prefix, or the latch
	Number int

	// served, cycle: how long to wait for the waiters
	Patience time.Duration

	// usage:
	Collect bool // garbage first
}

// An answer is the reply of a worker.
type answer struct {
	Err string // the order could not be carried out

	// cycle, reenter:
	Counts  []float64 // of the acquisitions of each goroutine
	Waits   []uint32  // a histogram
	Longest time.Duration
	Stuck   int    // goroutines that did not acquire the lock long after the others had stopped
	Failed  int    // calls that returned an error
	Failure string // the last of them
	Used    usage

	Took    time.Duration // hold, release: for all; cycle, reenter: the time of Used
	Number  int           // trusted, served: the number
	At      time.Time     // lock, unlock, release: when; served: the time of the last
	Elapsed time.Duration // ping
}

// usage is what a process has used so far.
type usage struct {
	CPU        time.Duration
	Mallocs    float64
	Bytes      float64
	Heap       float64
	Stack      float64
	Goroutines float64
}

func use(collect bool) usage {
	if collect {
		runtime.GC()
		runtime.GC() // pools keep things for one collection
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return usage{
		CPU:        time.Duration(r.Utime.Nano() + r.Stime.Nano()),
		Mallocs:    float64(m.Mallocs),
		Bytes:      float64(m.TotalAlloc),
		Heap:       float64(m.HeapAlloc),
		Stack:      float64(m.StackInuse),
		Goroutines: float64(runtime.NumGoroutine()),
	}
}

func (u usage) since(v usage) usage {
	return usage{u.CPU - v.CPU, u.Mallocs - v.Mallocs, u.Bytes - v.Bytes, u.Heap - v.Heap, u.Stack - v.Stack, u.Goroutines - v.Goroutines}
}

// A worker carries out orders.
type worker struct {
	order  order // the first
	lib    library
	client *client
	ping   rueidis.Client
	one    held // by lock

	keys []string // of hold and wait
	held []held

	served   atomic.Int64
	failed   atomic.Int64
	failure  atomic.Pointer[string]
	lastTime atomic.Int64
	all      chan struct{} // closed when all waiters are served
}

// work reads orders until there are no more. Goroutines that a library leaves behind end with the
// process.
func work(in io.Reader, out io.Writer) error {
	orders, answers := json.NewDecoder(in), json.NewEncoder(out)
	w := &worker{}
	for {
		var o order
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		a, err := w.carryOut(o)
		if err != nil {
			a.Err = err.Error()
		}
		if err := answers.Encode(a); err != nil {
			return err
		}
	}
}

func (w *worker) carryOut(o order) (a answer, err error) {
	switch o.Op {
	case "open":
		return a, w.open(o)
	case "cycle":
		return w.cycle(o)
	case "reenter":
		return w.reenter(o)
	case "usage":
		a.Used = use(o.Collect)
		if o.Collect {
			err = w.write("heap")
		}
		return a, err
	case "lock":
		w.one, err = w.client.lock(o.Keys)
		return answer{At: time.Now()}, err
	case "unlock":
		a.At = time.Now() // the time before
		return a, w.one.unlock()
	case "ping":
		return w.pings()
	case "prepare":
		return a, w.prepare(o)
	case "hold":
		return w.hold()
	case "trusted":
		for _, h := range w.held {
			if h.trusted() {
				a.Number++
			}
		}
		return a, nil
	case "release":
		a.At = time.Now()
		_, err := w.each(len(w.held), func(i int) error { return w.held[i].unlock() })
		a.Took = time.Since(a.At)
		return a, err
	case "wait":
		w.wait()
		return a, nil
	case "served":
		return w.waitServed(o)
	case "listen":
		return a, w.listen(o)
	}
	return a, fmt.Errorf("no such order: %q", o.Op)
}

// open opens the client and runs its first, untimed operations.
func (w *worker) open(o order) (err error) {
	w.order = o
	for _, lib := range libraries {
		if lib.name == o.Library {
			w.lib = lib
			w.client, err = lib.open(o.Addr, o.Lease)
		}
	}
	if err != nil {
		return err
	}
	if w.client == nil {
		return fmt.Errorf("no such library: %q", o.Library)
	}
	for range 3 {
		h, err := w.client.lock("bench:first:" + strconv.Itoa(os.Getpid()))
		if err == nil {
			err = h.unlock()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pings measures a round trip, on a connection of its own that it opens at first use.
func (w *worker) pings() (a answer, err error) {
	if w.ping == nil {
		if w.ping, err = rueidisClient(w.order.Addr); err != nil {
			return a, err
		}
	}
	start := time.Now()
	err = w.ping.Do(context.Background(), w.ping.B().Ping().Build()).Error()
	a.Elapsed = time.Since(start)
	return a, err
}

// A runner is one goroutine that locks and unlocks.
type runner struct {
	mu      sync.Mutex
	count   float64
	asked   time.Duration // the time when it began to wait; negative when it does not wait
	longest time.Duration
	waits   histogram
}

// keysEach is how many keys a goroutine uses in turn, so that no library profits from its own last lock being of the
// same key.
const keysEach = 16

// cycle makes goroutines lock and unlock from now on, counts from o.Begin for o.Length, and reports goroutines that
// have not stopped by then.
func (w *worker) cycle(o order) (a answer, err error) {
	// The loop reads one clock, and not the wall clock as well: two reads in each cycle have a price.
	began := time.Now()
	now := func() time.Duration { return time.Since(began) }
	begin := o.Begin.Sub(began)
	end := begin + o.Length
	runners := make([]*runner, o.Goroutines)
	var done sync.WaitGroup
	for g := range runners {
		r := &runner{asked: -1}
		runners[g] = r
		keys := [][]string{{o.Keys}}
		if !o.Shared {
			keys = make([][]string, keysEach)
			for i := range keys {
				for k := range max(1, o.Many) {
					keys[i] = append(keys[i], fmt.Sprintf("%s:%d:%d:%d", o.Keys, g, i, k))
				}
			}
		}
		done.Go(func() {
			for i := 0; ; i++ {
				asked := now()
				if asked >= end {
					return
				}
				r.mu.Lock()
				r.asked = asked
				r.mu.Unlock()
				h, err := w.client.take(keys[i%len(keys)])
				got := now()
				r.mu.Lock()
				r.asked = -1
				if err == nil && got >= begin {
					r.waits.add(got - asked)
					r.longest = max(r.longest, got-asked)
					if got < end {
						r.count++
					}
				}
				r.mu.Unlock()
				if err == nil {
					err = h.unlock()
				}
				if err != nil {
					w.fails(err)
				}
				if o.Pause > 0 {
					<-time.After(o.Pause)
				}
			}
		})
	}
	<-time.After(begin - now())
	before, start := use(false), time.Now()
	stopProfile, err := w.profile()
	if err != nil {
		return a, err
	}
	<-time.After(end - now())
	a.Took, a.Used = time.Since(start), use(false).since(before)
	if err := stopProfile(); err != nil {
		return a, err
	}

	all := make(chan struct{})
	go func() { done.Wait(); close(all) }()
	select {
	case <-all:
	case <-time.After(o.Patience):
	}
	var waits histogram
	for _, r := range runners {
		r.mu.Lock()
		a.Counts = append(a.Counts, r.count)
		a.Longest = max(a.Longest, r.longest)
		waits.merge(&r.waits)
		if r.asked >= 0 {
			a.Stuck++
			a.Longest = max(a.Longest, now()-r.asked)
		}
		r.mu.Unlock()
	}
	a.Waits = waits[:]
	a.Failed, a.Failure = w.failures()
	return a, nil
}

// fails records an error of a library and pauses, since a goroutine that fails at once would run ahead of all others.
func (w *worker) fails(err error) {
	text := err.Error()
	w.failure.Store(&text)
	w.failed.Add(1)
	<-time.After(time.Millisecond)
}

func (w *worker) failures() (int, string) {
	if text := w.failure.Load(); text != nil {
		return int(w.failed.Load()), *text
	}
	return 0, ""
}

// profile writes the CPU profile until it is stopped, and the allocations so far, if the order asks for profiles.
func (w *worker) profile() (stop func() error, err error) {
	if w.order.Profile == "" {
		return func() error { return nil }, nil
	}
	cpu, err := w.create("cpu")
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, err
	}
	return func() error {
		pprof.StopCPUProfile()
		return errors.Join(cpu.Close(), w.write("allocs"))
	}, nil
}

// write writes a profile that the program always has, if the order asks for profiles.
func (w *worker) write(name string) error {
	if w.order.Profile == "" {
		return nil
	}
	f, err := w.create(name)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup(name).WriteTo(f, 0), f.Close())
}

// create makes the file of a profile of this process. A later one of the same kind replaces it.
func (w *worker) create(name string) (*os.File, error) {
	return os.Create(filepath.Join(w.order.Profile, fmt.Sprintf("%d.%s", os.Getpid(), name)))
}

// reenter locks a key that is held already, from one goroutine.
func (w *worker) reenter(o order) (a answer, err error) {
	cycle, err := w.client.reenter()
	if err != nil {
		return a, err
	}
	before, start := use(false), time.Now()
	for time.Since(start) < o.Length {
		for range 1000 { // the clock's own cost stays small
			if err := cycle(); err != nil {
				return a, err
			}
		}
		a.Number += 1000
	}
	a.Took = time.Since(start)
	a.Used = use(false).since(before)
	return a, nil
}

// prepare creates everything that hold and wait need, and locks one other key for each of its goroutines, so that
// neither counts as theirs.
func (w *worker) prepare(o order) error {
	w.keys, w.held = make([]string, o.Number), make([]held, o.Number)
	for i := range w.keys {
		w.keys[i] = fmt.Sprintf("%s:%d", o.Keys, i)
	}
	w.all = make(chan struct{})
	_, err := w.each(2*hands, func(i int) error {
		h, err := w.client.lock(fmt.Sprintf("%s:first:%d:%d", o.Keys, os.Getpid(), i))
		if err != nil {
			return err
		}
		return h.unlock()
	})
	return err
}

func (w *worker) hold() (a answer, err error) {
	stopProfile, err := w.profile()
	if err != nil {
		return a, err
	}
	a.Took, err = w.each(len(w.keys), func(i int) (err error) {
		w.held[i], err = w.client.lock(w.keys[i])
		return err
	})
	return a, errors.Join(err, stopProfile())
}

// wait begins to wait for all keys, each in a goroutine, which releases its key at once.
func (w *worker) wait() {
	for i := range w.keys {
		go func() {
			for {
				h, err := w.client.lock(w.keys[i])
				if err != nil {
					w.fails(err)
					continue
				}
				w.lastTime.Store(time.Now().UnixNano())
				if err := h.unlock(); err != nil {
					w.fails(err)
				}
				if w.served.Add(1) == int64(len(w.keys)) {
					close(w.all)
				}
				return
			}
		}()
	}
}

// listen makes goroutines wait for one latch, and returns when all do.
func (w *worker) listen(o order) error {
	w.served.Store(0)
	w.keys, w.all = make([]string, o.Number), make(chan struct{})
	for range w.keys {
		go func() {
			if err := w.client.wait(o.Keys); err != nil {
				w.fails(err)
			}
			w.lastTime.Store(time.Now().UnixNano())
			if w.served.Add(1) == int64(len(w.keys)) {
				close(w.all)
			}
		}()
	}
	over := time.After(answerWithin / 2)
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for w.client.waits() < o.Number {
		select {
		case <-look.C:
		case <-over:
			return fmt.Errorf("%d of %d wait", w.client.waits(), o.Number)
		}
	}
	return nil
}

// waitServed waits until all goroutines got their key, or for o.Patience.
func (w *worker) waitServed(o order) (a answer, err error) {
	select {
	case <-w.all:
	case <-time.After(o.Patience):
	}
	a.Number, a.At = int(w.served.Load()), time.Unix(0, w.lastTime.Load())
	a.Failed, a.Failure = w.failures()
	return a, nil
}

// hands is how many goroutines take or release many keys.
const hands = 512

// each calls f for 0 to n-1, from several goroutines, and returns how long all of that took.
func (w *worker) each(n int, f func(i int) error) (time.Duration, error) {
	start := time.Now()
	var next atomic.Int64
	errs := make([]error, min(n, cmp.Or(w.lib.hands, hands)))
	var done sync.WaitGroup
	for hand := range errs {
		done.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := f(i); err != nil {
					errs[hand] = err
					return
				}
			}
		})
	}
	done.Wait()
	return time.Since(start), errors.Join(errs...)
}
