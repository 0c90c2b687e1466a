package lockrt_test

import (
	"runtime"
	"strconv"
	"testing"
)

// BenchmarkMemory_Go shows what Go itself takes for the parts of a held lock and of a waiting call that no lock can do without, which
// BenchmarkMemory contains. A waiting call waits for its turn, on a channel of its own, which is in a list of the client, and for a moment
// also for the end of the client.
func BenchmarkMemory_Go(b *testing.B) {
	const many = 10_000
	waiting := func(goroutines, channels int, wait func(closing <-chan struct{})) (end func()) {
		closing, started, ended := make([]chan struct{}, channels), make(chan struct{}), make(chan struct{})
		for i := range closing {
			closing[i] = make(chan struct{}, 1)
		}
		for i := range goroutines {
			go func() {
				started <- struct{}{}
				wait(closing[i%channels])
				ended <- struct{}{}
			}()
		}
		for range goroutines {
			<-started
		}
		return func() {
			for _, c := range closing {
				close(c)
			}
			for range goroutines {
				<-ended
			}
		}
	}
	// Go reuses goroutines that have ended. So none ends before all are measured, and the first ones take those of other benchmarks.
	b.Cleanup(waiting(5*many, 1, func(closing <-chan struct{}) { <-closing }))
	goroutines := func(name string, channels int, wait func(closing <-chan struct{})) {
		b.Run("goroutine, "+name, func(sub *testing.B) {
			before := heap()
			for sub.Loop() {
				b.Cleanup(waiting(many, channels, wait))
			}
			sub.ReportMetric((heap()-before)/many/float64(sub.N), "bytes/each")
		})
	}
	goroutines("one channel for all", 1, func(closing <-chan struct{}) { <-closing })
	goroutines("one channel, its own", many, func(closing <-chan struct{}) { <-closing })
	goroutines("one of two channels, one its own", 1, func(closing <-chan struct{}) {
		own := make(chan struct{}, 1)
		select {
		case <-own:
		case <-closing:
		}
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
