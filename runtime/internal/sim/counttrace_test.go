package sim

import (
	"slices"

	"github.com/lockgen/lockgen/runtime/internal/trace/tracetest"
	"github.com/lockgen/lockgen/spec"
)

// traceCounts replays semaphores and latches.
func (w *world) traceCounts() {
	x := &replaying[spec.CountSaid]{w: w, begin: func() check[spec.CountSaid] { return spec.NewCountCheck() }}
	x.fault = func(s *server, key string) spec.CountSaid {
		return spec.CountSaid{At: w.watch.now(), Action: "Fault", Srv: see(s, key, tracetest.SeeCount)}
	}
	x.events = func(s *server, e *event) (of []string, all []spec.CountSaid) {
		of, all = tracetest.CountEvents(e.script, e.keys(), e.args(), e.reply, e.effects)
		for i := range all {
			all[i].At, all[i].Clock = e.at, s.clock().UnixMilli()
			if !slices.Contains(of[i+1:], of[i]) || e.spoiled(s) {
				all[i].Srv = see(s, of[i], tracetest.SeeCount)
			}
			if e.spoiled(s) {
				all[i].Action = "Fault"
			}
		}
		return of, all
	}
	x.start()
}
