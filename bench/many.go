package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

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

// each calls f for 0 to n-1, from several goroutines, and returns how long all of that took. The goroutines live as long as the worker, so
// that their stacks are in no difference between two measurements.
func (w *worker) each(n int, f func(i int) error) (time.Duration, error) {
	if w.tasks == nil {
		w.tasks = make(chan func())
		for range cmp.Or(w.lib.hands, hands) {
			go func() {
				for task := range w.tasks {
					task()
				}
			}()
		}
	}
	start := time.Now()
	var next atomic.Int64
	errs := make([]error, min(n, cmp.Or(w.lib.hands, hands)))
	var done sync.WaitGroup
	done.Add(len(errs))
	for hand := range errs {
		w.tasks <- func() {
			defer done.Done()
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
		}
	}
	done.Wait()
	return time.Since(start), errors.Join(errs...)
}
