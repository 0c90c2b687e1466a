package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// The program ends before most of its garbage would matter, and looking for that is up to a third of its work. So the collector waits until the memory
// is enough bytes, or a part more than is in use if that is most of it.
//
// A limit of the memory by itself would not do: a module that needs more than the limit would make the collector run all the time. A percentage alone
// takes a fifth less CPU for 10,000 methods, and half as much memory again.
const enough = 165 << 20

// pace tells the collector how far the memory may grow, after each of its rounds for the next. Bytes and not percents say that: those of a round in
// which little was in use would be too many for the next.
func pace() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	var next func(int)
	next = func(int) {
		metrics.Read(live)
		used := int64(live[0].Value.Uint64())
		debug.SetMemoryLimit(max(enough, used+used*3/4))
		// This is garbage from the beginning, so the next round finds it.
		runtime.AddCleanup(&[]*int{nil}, next, 0)
	}
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(enough)
	runtime.AddCleanup(&[]*int{nil}, next, 0)
}
