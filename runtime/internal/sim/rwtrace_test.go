package sim

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/spec"
)

// An rwTraced world replays what its server does about read-write locks.
type rwTraced struct {
	w      *world
	checks map[string]*spec.RWCheck // nil of those that have left the protocol
}

func (w *world) traceRW() {
	x := &rwTraced{w: w, checks: map[string]*spec.RWCheck{}}
	for _, key := range w.locks() {
		x.checks[key] = spec.NewRWCheck(2 * time.Millisecond)
	}
	w.observes = append(w.observes, x.observe)
	w.faulted = append(w.faulted, x.disturbed)
}

// rwEvents returns what a script has done for which read-write locks, in order.
func rwEvents(script string, keys, args []string, at func(i, each int) string) (of []string, all []spec.RWSaid) {
	add := func(key string, e spec.RWSaid, ttl string) {
		ms, _ := strconv.Atoi(ttl)
		e.TTL = time.Duration(ms) * time.Millisecond
		if e.Side == "" {
			e.Side = "read"
			if _, writes := protocol.WriterOf(e.Owner); writes {
				e.Side = "write"
			}
		}
		of, all = append(of, key), append(all, e)
	}
	switch script {
	case "rw_read":
		e := spec.RWSaid{Action: "Ask", Owner: args[1], Granted: at(0, 1) == ":-2"}
		if args[3] != "0" {
			e.Place = args[1] + args[4]
		}
		if args[2] != "" {
			e.Action = "Fault" // under what it writes
		}
		add(keys[0], e, args[0])
	case "rw_write":
		e := spec.RWSaid{Action: "Ask", Owner: args[1], Granted: at(0, 2) == ":-2"}
		if args[2] != "0" {
			e.Place = args[1] + args[3]
		}
		add(keys[0], e, args[0])
	case "rw_read_release", "rw_write_release":
		add(keys[0], spec.RWSaid{Action: "Release", Owner: args[0]}, "")
	case "rw_read_renew", "renew":
		each := len(keys) / (len(args) / 2)
		for i := range len(args) / 2 {
			if at(i, 1) == ":1" {
				add(keys[each*i], spec.RWSaid{Action: "Renew", Owner: args[2*i]}, args[2*i+1])
			}
		}
	case "rw_yield":
		add(keys[0], spec.RWSaid{Action: "Yield"}, args[0])
	case "rw_force_unlock":
		add(keys[0], spec.RWSaid{Action: "Fault"}, "")
	}
	return of, all
}

// observe replays an event of the server.
func (x *rwTraced) observe(s *server, e *event) {
	if e == nil {
		return
	}
	if e.script == "" {
		if e.process == 0 && writes[strings.ToUpper(e.cmd[0])] {
			x.adopt()
		}
		return
	}
	keys := e.keys()
	of, all := rwEvents(e.script, keys, e.cmd[3+len(keys):], said(e.reply))
	for i, said := range all {
		key := of[i]
		if x.checks[key] == nil {
			continue
		}
		said.At = e.at
		said.Hears = func(place string) bool {
			uuid, _ := protocol.ClientOf(place)
			return s.listens(protocol.ProcessChannel(uuid))
		}
		said.Java = s.listeners("redisson_rwlock:{"+key+"}") > s.listeners("lockgen_writer:{"+key+"}")
		if i+1 == len(all) || len(s.refusals) > 0 {
			said.Srv = x.see(s, key)
		}
		if len(s.refusals) > 0 || strings.HasPrefix(e.reply, "-") {
			said.Action = "Fault"
		}
		x.w.replays()
		if err := x.checks[key].Say(said); err != nil {
			x.checks[key] = nil
			x.w.fail("the trace of %q: %v", key, err)
		}
	}
}

// disturbed replays that something may have been done to the server. The caller holds w.mu.
func (x *rwTraced) disturbed() { x.adopt() }

func (x *rwTraced) adopt() {
	for key, c := range x.checks {
		if c != nil {
			_ = c.Say(spec.RWSaid{At: time.Since(x.w.began), Action: "Fault", Srv: x.see(x.w.servers[0], key)}) // which is never rejected
		}
	}
}

// see returns a lock as the server has it.
func (x *rwTraced) see(s *server, key string) *spec.RWSeen {
	s.m.SetTime(s.clock())
	readers, writers, turn := "lockgen_reader:{"+key+"}", "lockgen_writer:{"+key+"}", "lockgen_turn:{"+key+"}"
	seen := &spec.RWSeen{RW: spec.RW{Mode: "free", Turn: spec.NoTurn}, Left: s.m.TTL(key), Holds: map[string]time.Duration{}}
	if mode := s.m.HGet(key, "mode"); mode != "" {
		seen.Mode = mode
	}
	fields, _ := s.m.HKeys(key)
	for _, field := range fields {
		hold := "{" + key + "}:" + field + ":rwlock_timeout:1"
		if _, writes := protocol.WriterOf(field); writes {
			seen.By = append(seen.By, field)
		} else if s.m.Exists(hold) {
			seen.By = append(seen.By, field)
			seen.Holds[field] = s.m.TTL(hold)
		}
	}
	slices.Sort(seen.By)
	seen.Readers, _ = s.m.List(readers)
	seen.Writers, _ = s.m.List(writers)
	seen.Lines = [2]time.Duration{s.m.TTL(readers), s.m.TTL(writers)}
	if value, _ := s.m.Get(turn); value != "" {
		words := strings.Fields(value)
		seen.Known = s.m.TTL(turn)
		seen.Turn = spec.Turn{Whose: words[0], On: true, For: seen.Known}
		if len(words) > 1 {
			seen.Turn.Last, seen.Turn.Called = words[1], words[2:]
			seen.Turn.For = max(0, seen.Known-2*time.Second)
			seen.Turn.On = seen.Turn.For > 0
			slices.Sort(seen.Turn.Called)
		}
	}
	return seen
}
