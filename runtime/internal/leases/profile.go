package leases

import (
	"context"
	"runtime/pprof"
	"runtime/trace"
)

// Profiled returns ctx with the label of the work under a lock, and gives the label and a region of a trace to the
// goroutine, until the same goroutine calls end. Then the goroutine has the labels of ctx again.
func Profiled(ctx context.Context, name string) (under context.Context, end func()) {
	under = pprof.WithLabels(ctx, pprof.Labels("lock", name))
	pprof.SetGoroutineLabels(under)
	region := trace.StartRegion(under, "lock "+name)
	return under, func() {
		region.End()
		pprof.SetGoroutineLabels(ctx)
	}
}

// ProfileLabel returns the label of the work under t in profiles: the name in the metrics of its call.
func (t *Core) ProfileLabel() string {
	for of := t; of != nil; {
		if name := of.Label.Name(); name != "" {
			return name
		}
		if of.Rare().Parts == nil {
			break
		}
		parts := of.Rare().Parts.All() // their calls had the options of the whole
		if len(parts) == 0 {
			break
		}
		of = &parts[0].core
	}
	return t.Kind()
}
