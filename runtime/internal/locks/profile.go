package locks

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

// profileLabel returns the label of the work under t in profiles: the name in the metrics of its call.
func (t *leaseCore) profileLabel() string {
	for of := t; of != nil; {
		if name := of.label.Name(); name != "" {
			return name
		}
		if of.rare().parts == nil {
			break
		}
		parts := of.rare().parts.all() // their calls had the options of the whole
		if len(parts) == 0 {
			break
		}
		of = &parts[0].leaseCore
	}
	return t.kind()
}
