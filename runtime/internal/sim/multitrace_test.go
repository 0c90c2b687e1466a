package sim

import (
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/trace/tracetest"
	"github.com/lockgen/lockgen/spec"
)

// A multiTraced world replays the traces of MultiLocks: each member as a mutex, and the calls.
type multiTraced struct {
	w       *world
	members *traced

	mu    sync.Mutex
	check *spec.MultiCheck // nil once the protocol was left
	bad   error
}

// traceMulti has the world replay MultiLocks until the function that it returns is called.
func (w *world) traceMulti() (stop func()) {
	x := &multiTraced{w: w, members: w.traced(w.servers[0]), check: spec.NewMultiCheck(time.Millisecond)}
	w.observes = append(w.observes, func(*server, *event) { x.report() })
	steps, wholes := trace.To(x.step), trace.WholesTo(x.whole)
	return func() {
		steps()
		wholes()
		x.done()
	}
}

// say replays an event.
func (x *multiTraced) say(e spec.MultiSaid) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e.At = x.w.watch.now(); x.check == nil {
		return
	}
	if x.bad = x.check.Say(e); x.bad != nil {
		x.check = nil
	}
}

// step gets each step of a client.
func (x *multiTraced) step(s trace.Step) {
	x.members.Step(s)
	if e, ok := tracetest.MultiStep(s); ok {
		x.say(e)
	}
}

// whole gets each event of a call.
func (x *multiTraced) whole(e trace.Whole) {
	x.say(spec.MultiSaid{
		Action: string(e.Action), Process: e.Client, Call: e.Call, Members: e.Members, Member: e.Member, Many: e.Many,
		Lease: e.Lease, Freed: e.Freed, Owner: e.Owner,
	})
	if e.Call > 0 {
		x.w.replays()
	}
}

// done replays that nothing else happens, unless the world has failed already.
func (x *multiTraced) done() {
	x.mu.Lock()
	if x.check != nil && !x.w.over() {
		x.bad = x.check.Done(x.w.watch.now())
	}
	x.mu.Unlock()
	x.report()
}

func (x *multiTraced) report() {
	x.mu.Lock()
	bad := x.bad
	x.bad = nil
	x.mu.Unlock()
	if bad != nil {
		x.w.fail("the trace of the calls: %v", bad)
	}
}
