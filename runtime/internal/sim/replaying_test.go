package sim

import (
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace/tracetest"
	"github.com/lockgen/lockgen/spec"
)

// A check replays the events of one key.
type check[E any] interface{ Say(e E) error }

// A replaying world replays what its server does about keys, by a check for each.
type replaying[E any] struct {
	w      *world
	begin  func() check[E]
	events func(s *server, e *event) (of []string, all []E) // that an event of the server is to the keys
	fault  func(s *server, key string) E                    // that something may have been done to a key
	checks map[string]check[E]                              // nil of those that have left the protocol
}

// start has the world replay from now on.
func (x *replaying[E]) start() {
	x.checks = map[string]check[E]{}
	x.w.observes = append(x.w.observes, x.observe)
	x.w.faulted = append(x.w.faulted, x.disturbed)
}

// observe replays an event of the server.
func (x *replaying[E]) observe(s *server, e *event) {
	switch {
	case e == nil:
		return
	case e.tampers():
		x.disturbed()
		return
	case e.script == "" && !e.java():
		return
	}
	of, all := x.events(s, e)
	for i, said := range all {
		key := of[i]
		if _, known := x.checks[key]; !known {
			x.checks[key] = x.begin()
		}
		if x.checks[key] == nil {
			continue
		}
		x.w.replays()
		if err := x.checks[key].Say(said); err != nil {
			x.checks[key] = nil
			x.w.fail("the trace of %q: %v", key, err)
		}
	}
}

// disturbed replays that something may have been done to the server.
func (x *replaying[E]) disturbed() {
	for key, c := range x.checks {
		if c != nil {
			_ = c.Say(x.fault(x.w.servers[0], key)) // which is never rejected
		}
	}
}

// see returns what a server has of a key.
func see[T any](s *server, key string, what func(m *miniredis.Miniredis, key string) T) T {
	return what(s.w.whole(s, key), key)
}

// hears returns what reports whether the process of an owner listens to messages about a key.
func (s *server) hears(key string) func(owner string) bool {
	return func(owner string) bool {
		uuid, ours := protocol.ClientOf(owner)
		return ours && s.reaches(key, uuid)
	}
}

// reaches reports whether a script counts a client among the listeners to messages about a key.
func (s *server) reaches(key, uuid string) bool {
	switch uuid[19] {
	case '9':
		return s.listens(shard + protocol.TagChannel(uuid, protocol.HashTag(key)))
	case 'a':
		return true
	}
	return s.listens(protocol.ProcessChannel(uuid))
}

// traceRW replays read-write locks.
func (w *world) traceRW() {
	x := &replaying[spec.RWSaid]{w: w, begin: func() check[spec.RWSaid] { return spec.NewRWCheck(2 * time.Millisecond) }}
	x.fault = func(s *server, key string) spec.RWSaid {
		return spec.RWSaid{At: w.watch.now(), Action: "Fault", Srv: see(s, key, tracetest.SeeRW)}
	}
	x.events = func(s *server, e *event) (of []string, all []spec.RWSaid) {
		of, all = tracetest.RWEvents(e.script, e.keys(), e.args(), tracetest.Reply(e.reply))
		for i := range all {
			all[i].At, all[i].Hears = e.at, s.hears(of[i])
			all[i].Java = s.announced("redisson_rwlock:{"+of[i]+"}") > s.announced("lockgen_writer:{"+of[i]+"}")
			if i+1 == len(all) || e.spoiled(s) {
				all[i].Srv = see(s, of[i], tracetest.SeeRW)
			}
			if e.spoiled(s) {
				all[i].Action = "Fault"
			}
		}
		return of, all
	}
	x.start()
}

// traceFair replays fair locks.
func (w *world) traceFair() {
	x := &replaying[spec.FairSaid]{w: w, begin: func() check[spec.FairSaid] { return spec.NewFairCheck(2 * time.Millisecond) }}
	x.fault = func(s *server, key string) spec.FairSaid {
		return spec.FairSaid{At: w.watch.now(), Action: "Fault", Srv: see(s, key, tracetest.SeeFair)}
	}
	x.events = func(s *server, e *event) (of []string, all []spec.FairSaid) {
		if e.java() {
			of, all = javaFairDid(e)
		} else {
			of, all = tracetest.FairEvents(e.script, e.keys(), e.args(), e.effects)
		}
		for i := range all {
			all[i].At, all[i].Hears, all[i].Srv = e.at, s.hears(of[i]), see(s, of[i], tracetest.SeeFair)
			if e.spoiled(s) {
				all[i].Action = "Fault"
			}
		}
		return of, all
	}
	x.start()
}
