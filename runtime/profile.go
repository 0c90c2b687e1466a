package lockrt

import (
	"context"
	"runtime/pprof"
	"runtime/trace"
)

// profiled returns ctx with the label of what is done under a lock, which the goroutine has from now on, in a region of a trace, until end is
// called by the same goroutine. Then it has the labels of ctx again.
func profiled(ctx context.Context, name string) (under context.Context, end func()) {
	under = pprof.WithLabels(ctx, pprof.Labels("lock", name))
	pprof.SetGoroutineLabels(under)
	region := trace.StartRegion(under, "lock "+name)
	return under, func() {
		region.End()
		pprof.SetGoroutineLabels(ctx)
	}
}

// label returns what profiles call the work under t: what metrics count its call by.
func (t *leaseCore) label() string {
	for of := t; of != nil; {
		if of.name != "" {
			return of.name
		}
		if of.composite == nil {
			break
		}
		parts := of.composite.all() // whose calls had the options of the whole
		if len(parts) == 0 {
			break
		}
		of = &parts[0].leaseCore
	}
	return t.kind
}
