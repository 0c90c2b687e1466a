package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// The program ends before most of its garbage would matter, and looking for that is up to a third of its work. A heap is therefore let grow to
// enough bytes, and a larger one by a smaller part of it than usual, for the sake of the memory that the largest runs take.
const (
	enough   = 120 << 20
	atLeast  = 75      // percent
	smallest = 4 << 20 // the heap below which the collector does nothing, for each 100 percent
)

// pace tells the collector how far the heap may grow, after each of its rounds for the next.
func pace() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	var next func(int)
	next = func(int) {
		metrics.Read(live)
		percent := atLeast
		if used := live[0].Value.Uint64(); used > 0 && used < enough {
			percent = max(percent, int((enough-used)*100/used))
		}
		debug.SetGCPercent(percent)
		// This is garbage from the beginning, so the next round finds it.
		runtime.AddCleanup(&[]*int{nil}, next, 0)
	}
	debug.SetGCPercent(100 * enough / smallest)
	runtime.AddCleanup(&[]*int{nil}, next, 0)
}
