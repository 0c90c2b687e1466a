package lockrt_test

import (
	"runtime"
	"strconv"
	"sync"
	"testing"
)

// BenchmarkMemory_Go shows what Go itself takes for the parts of a held lock and of a waiting call that no lock can do without, which
// BenchmarkMemory contains. A waiting call that nothing else can end waits for its turn on a semaphore of its own, as a sync.WaitGroup has
// one. Other calls wait on a channel of their own, and on one that all share.
func BenchmarkMemory_Go(b *testing.B) {
	const many = 10_000
	waiting := func(goroutines int, wait func(i int), wake func()) (end func()) {
		started, ended := make(chan struct{}), make(chan struct{})
		for i := range goroutines {
			go func() {
				started <- struct{}{}
				wait(i)
				ended <- struct{}{}
			}()
		}
		for range goroutines {
			<-started
		}
		return func() {
			wake()
			for range goroutines {
				<-ended
			}
		}
	}
	// Go reuses goroutines that have ended. So none ends before all are measured, and the first ones take those of other benchmarks.
	last := make(chan struct{})
	b.Cleanup(waiting(5*many, func(int) { <-last }, func() { close(last) }))
	goroutines := func(name string, begin func() (wait func(i int), wake func())) {
		b.Run("goroutine, "+name, func(sub *testing.B) {
			before := heap()
			for sub.Loop() {
				wait, wake := begin()
				b.Cleanup(waiting(many, wait, wake))
			}
			sub.ReportMetric((heap()-before)/many/float64(sub.N), "bytes/each")
		})
	}
	goroutines("one channel for all", func() (func(int), func()) {
		all := make(chan struct{})
		return func(int) { <-all }, func() { close(all) }
	})
	goroutines("a semaphore of its own", func() (func(int), func()) {
		own := make([]*sync.WaitGroup, many)
		for i := range own {
			own[i] = new(sync.WaitGroup)
			own[i].Add(1)
		}
		return func(i int) { own[i].Wait() }, func() {
			for _, one := range own {
				one.Done()
			}
		}
	})
	goroutines("one channel, its own", func() (func(int), func()) {
		own := make([]chan struct{}, many)
		for i := range own {
			own[i] = make(chan struct{}, 1)
		}
		return func(i int) { <-own[i] }, func() {
			for _, one := range own {
				close(one)
			}
		}
	})
	goroutines("one of two channels, one its own", func() (func(int), func()) {
		all := make(chan struct{})
		return func(int) {
			own := make(chan struct{}, 1)
			select {
			case <-own:
			case <-all:
			}
		}, func() { close(all) }
	})
	entries := func(name string, create func() (held any)) {
		b.Run("entry of a map, "+name, func(b *testing.B) {
			before := heap()
			var held []any
			for b.Loop() {
				held = append(held, create())
			}
			b.ReportMetric((heap()-before)/many/float64(len(held)), "bytes/each")
			runtime.KeepAlive(held)
		})
	}
	keys := make([]string, many)
	for i := range keys {
		keys[i] = strconv.Itoa(i)
	}
	value := new(int)
	entries("by key", func() any {
		m := map[string]*int{}
		for _, key := range keys {
			m[key] = value
		}
		return m
	})
	entries("by number", func() any {
		m := map[uint64]*int{}
		for i := range keys {
			m[uint64(i)] = value
		}
		return m
	})
}
