package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
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
	Clients int    // how many the goroutines use in turn; 0 as 1
	Hands   int    // how many goroutines take many locks; 0 for as many as the library can use

	// cycle, reenter, one key, hooks:
	Goroutines int
	Shared     bool          // all lock one key
	Many       int           // keys that are locked together; 0 as 1
	Pause      time.Duration // between two cycles of a goroutine
	Busy       int           // other goroutines, which compute
	Begin      time.Time     // the time when counting begins, after a warm-up
	Length     time.Duration

	// hold, wait, listen, lock, one key:
	Keys   string // their prefix, the latch, or the key
	Number int

	// served, cycle: how long to wait for the waiters
	Patience time.Duration

	// usage:
	Collect bool // garbage first
}

// An answer is the reply of a worker.
type answer struct {
	Err string // the order could not be carried out

	// cycle, reenter, one key, hooks:
	Counts  []float64 // of the acquisitions of each goroutine
	Waits   []uint32  // a histogram
	Longest time.Duration
	Stuck   int    // goroutines that did not acquire the lock long after the others had stopped
	Failed  int    // calls that returned an error
	Failure string // the last of them
	Used    usage

	Took    time.Duration // hold, release: for all; cycle, reenter, one key, hooks: the time of Used
	Number  int           // trusted, served: the number
	At      time.Time     // lock, unlock, release: when; served: the time of the last
	Elapsed time.Duration // ping, lock
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
	order   order // the first
	lib     library
	client  *client
	clients []*client // that one, and perhaps more
	ping    rueidis.Client
	one     held // by lock

	keys  []string // of hold and wait
	held  []held
	tasks chan func() // of the goroutines of each

	served   atomic.Int64
	failed   atomic.Int64
	failure  atomic.Pointer[string]
	lastTime atomic.Int64
	all      chan struct{} // closed when all waiters are served
}

// ordersOf returns the standard input, whose descriptor is fd, for the poller of Go. A read from it as it is blocks a thread, and if this
// thread was the last to run, no other one polls the connections: Go notices that within 10 ms.
func ordersOf(fd uintptr) (*os.File, error) {
	if err := syscall.SetNonblock(int(fd), true); err != nil {
		return nil, err
	}
	return os.NewFile(fd, "orders"), nil
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
		return w.again(w.client.reenter, o.Length, 1)
	case "one key":
		return w.again(func() (func() error, error) { return w.oneKey(o.Keys), nil }, o.Length, 1)
	case "hooks":
		return w.again(func() (func() error, error) { return w.client.hooks, nil }, o.Length, aPage)
	case "usage":
		a.Used = use(o.Collect)
		if o.Collect {
			err = w.write("heap")
		}
		return a, err
	case "lock":
		start := time.Now()
		w.one, err = w.client.lock(o.Keys)
		return answer{At: time.Now(), Elapsed: time.Since(start)}, err
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

// open opens the clients and runs their first, untimed operations.
func (w *worker) open(o order) error {
	w.order = o
	lib, ok := known(o.Library)
	if !ok {
		return fmt.Errorf("no such library: %q", o.Library)
	}
	w.lib = lib
	w.lib.hands = cmp.Or(o.Hands, lib.hands)
	for i := range max(1, o.Clients) {
		c, err := lib.open(o.Addr, o.Lease)
		if err != nil {
			return err
		}
		w.clients = append(w.clients, c)
		for range 3 {
			h, err := c.lock(fmt.Sprintf("bench:first:%d:%d", os.Getpid(), i))
			if err == nil {
				err = h.unlock()
			}
			if err != nil {
				return err
			}
		}
	}
	w.client = w.clients[0]
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
