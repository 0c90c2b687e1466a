package sim

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/trace/tracetest"
	"github.com/lockgen/lockgen/spec"
)

// A traced server replays the traces of its mutexes.
type traced struct {
	*tracetest.Tracer
	w      *world
	server *server
	offset time.Duration // of its clock
}

// traced has the world replay the traces of the mutexes of a server.
func (w *world) traced(s *server) *traced {
	x := &traced{Tracer: tracetest.NewTracer(w.plan.processes, 2*time.Millisecond, time.Millisecond+2*time.Microsecond), w: w, server: s}
	x.Resends, x.Part = w.cluster != nil, w.plan.kind.name == "red"
	w.observes = append(w.observes, x.observe)
	w.faulted = append(w.faulted, x.disturbed)
	return x
}

// trace has the world replay the traces of its locks from now on, until the function that it returns is called.
func (w *world) trace() (stop func()) {
	switch cmp.Or(w.plan.kind.lock, w.plan.kind.name) {
	case "multi":
		return w.traceMulti()
	case "mutex", "besides":
		return trace.To(w.traced(w.servers[0]).Step)
	case "rw":
		w.traceRW()
	case "fair", "fair besides":
		w.traceFair()
	case "permits", "semaphore", "latch":
		w.traceCounts()
	case "red":
		return w.traceRed()
	}
	return func() {}
}

// replays counts an event that is replayed.
func (w *world) replays() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count("events replayed", 1)
}

// tellFault tells the replays of traces that something may have been done to a server. The caller holds w.mu.
func (w *world) tellFault() {
	for _, f := range w.faulted {
		f()
	}
}

// observe replays an event of the server.
func (x *traced) observe(s *server, e *event) {
	if e == nil || s != x.server && x.w.cluster == nil {
		return
	}
	requests := []tracetest.Request{}
	if e.script != "" {
		requests = tracetest.RequestsOf(e.script, e.keys(), e.args(), tracetest.Reply(e.reply), e.effects)
	}
	if e.denied || e.tampers() { // a script that was denied a command has given its answers, and may have left anything
		for _, key := range x.w.locks() {
			requests = append(requests, tracetest.Disturbed(key))
		}
	}
	if len(requests) > 0 {
		x.w.replays()
		x.Served(time.Since(x.Began), requests, tracetest.Looker{
			See:  x.see,
			Deaf: func(key, uuid string) bool { return !s.reaches(key, uuid) },
			Java: func(key string) bool { return s.announced(protocol.LockChannel(key)) > 0 },
		})
	}
	if key, did := javaDid(e); key != "" {
		x.Say(key, func() spec.Said {
			did.At, did.Srv = time.Since(x.Began), x.see(key)
			return did
		})
	}
	for _, bad := range x.Failed() {
		x.w.fail("%s", bad)
	}
}

// keys returns the keys of the script of an event.
func (e *event) keys() []string {
	n := 0
	_, _ = fmt.Sscan(e.cmd[2], &n)
	return e.cmd[3 : 3+n]
}

// args returns what stands behind the keys.
func (e *event) args() []string { return e.cmd[3+len(e.keys()):] }

// tampers reports whether an event is somebody's who changes keys behind the backs of all.
func (e *event) tampers() bool {
	return e.script == "" && e.process == 0 && writes[strings.ToUpper(e.cmd[0])]
}

// spoiled reports whether nobody knows what the script of an event has done.
func (e *event) spoiled(s *server) bool {
	return len(s.refusals) > 0 || strings.HasPrefix(e.reply, "-")
}

// listens reports whether anybody listens to a channel.
func (s *server) listens(channel string) bool { return s.listeners(channel) > 0 }

// announced returns how many listen to a channel of Redisson, of either kind.
func (s *server) announced(channel string) int {
	return s.listeners(channel) + s.listeners(shard+channel)
}

// listeners returns how many listen to a channel.
func (s *server) listeners(channel string) int {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	return len(s.heard[channel])
}

// locks returns the keys of the world.
func (w *world) locks() (all []string) {
	for i := range w.plan.keys {
		all = append(all, fmt.Sprintf("key%d", i))
	}
	return all
}

// see returns a mutex as the server has it. x calls it.
func (x *traced) see(key string) *spec.Seen {
	return x.See(x.w.whole(x.server, key), key)
}

// disturbed replays that something may have been done to the server. The caller holds w.mu.
func (x *traced) disturbed() {
	for _, key := range x.w.locks() {
		x.Say(key, func() spec.Said {
			return spec.Said{At: time.Since(x.Began), Action: "Fault", Srv: x.see(key), Jump: x.server.offset - x.offset}
		})
	}
	x.offset = x.server.offset
}
