package main

import (
	"fmt"
	"runtime"
	"sync"
	"time"
)

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
		r, c := &runner{asked: -1}, w.clients[g%len(w.clients)]
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
				h, err := c.take(keys[i%len(keys)])
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
	defer compute(o.Busy)()
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

// oneKey returns a cycle that locks and unlocks one key.
func (w *worker) oneKey(key string) func() error {
	return func() error {
		h, err := w.client.lock(key)
		if err != nil {
			return err
		}
		return h.unlock()
	}
}

// again repeats a cycle from one goroutine, at so many depths of its stack in turn; none if it is nil.
func (w *worker) again(begin func() (cycle func() error, err error), length time.Duration, depths int) (a answer, err error) {
	cycle, err := begin()
	if err != nil || cycle == nil {
		return a, err
	}
	const some = 100 // the clock's own cost stays small
	several := func() error {
		for range some {
			if err := cycle(); err != nil {
				return err
			}
		}
		return nil
	}
	before, start := use(false), time.Now()
	for time.Since(start) < length {
		if err := deeper(a.Number/some%depths, several); err != nil {
			return a, err
		}
		a.Number += some
	}
	a.Took = time.Since(start)
	a.Used = use(false).since(before)
	return a, nil
}

// aPage is how many depths of the stack are a page of memory.
const aPage = 16

// deeper calls f with n frames of 264 bytes on the stack besides. How long a short call takes depends on the depth of the stack at which it is
// made: hooks of OpenTelemetry take half as long again at one depth of twelve, by measurement. So one depth would measure chance.
//
//go:noinline
func deeper(n int, f func() error) error {
	if n == 0 {
		return f()
	}
	var frame [29]uint64 // an odd number: so the next depth is aligned otherwise, too
	err := deeper(n-1, f)
	runtime.KeepAlive(&frame)
	return err
}
