package sim

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/spec"
)

// A redTraced world replays the traces of RedLocks: of the part of each server as of a mutex, and of the whole.
type redTraced struct {
	w     *world
	parts []*traced // of the servers

	mu     sync.Mutex // taken after w.mu
	checks map[string]*spec.RedCheck
	known  map[string]int64 // tokens, by server and key
	bad    []string
}

// A client is one of a process, for one server.
type client struct{ process, server int }

// traceRed has the world replay RedLocks until the function that it returns is called.
func (w *world) traceRed() (stop func()) {
	x := &redTraced{w: w, checks: map[string]*spec.RedCheck{}, known: map[string]int64{}}
	for _, s := range w.servers {
		x.parts = append(x.parts, w.traced(s))
	}
	for _, key := range w.locks() {
		x.checks[key] = spec.NewRedCheck(len(w.servers))
	}
	w.observes = append(w.observes, x.observe)
	w.faulted = append(w.faulted, x.disturbed)
	w.elected = x.elected
	return trace.To(x.step)
}

// say replays an event. The caller holds x.mu.
func (x *redTraced) say(key string, e spec.RedSaid) {
	e.At = x.w.watch.now()
	if c := x.checks[key]; c != nil {
		if err := c.Say(e); err != nil {
			x.checks[key] = nil
			x.bad = append(x.bad, fmt.Sprintf("the trace of %q: %v", key, err))
		}
	}
}

// disturbed replays that a server may have forgotten something. The caller holds w.mu.
func (x *redTraced) disturbed() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, key := range x.w.locks() {
		x.say(key, spec.RedSaid{Action: "Fault"})
	}
}

// step gets each step of a client.
func (x *redTraced) step(s trace.Step) {
	uuid, _ := protocol.ClientOf(s.Owner)
	found, _ := x.w.clients.Load(uuid)
	of := found.(client)
	x.parts[of.server].Step(s)
	e := spec.RedSaid{Process: of.process, Server: of.server, Owner: s.Owner, Trust: s.Trust, Token: s.Token}
	switch s.Action {
	case trace.Granted, trace.Handed, trace.Renewed:
		e.Action = "Part"
	case trace.Lost, trace.RunsOut, trace.Unlocks, trace.GivesUp:
		e.Action = "Ends"
	default:
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.say(s.Key, e)
}

// observe replays which tokens a server knows.
func (x *redTraced) observe(s *server, e *event) {
	if e != nil && e.script != "" {
		x.mu.Lock()
		for _, key := range x.w.locks() {
			value, _ := s.m.Get("redisson_lock_token:{" + key + "}")
			token, _ := strconv.ParseInt(value, 10, 64)
			if at := fmt.Sprint(s.id, key); x.known[at] != token {
				x.known[at] = token
				x.say(key, spec.RedSaid{Action: "Knows", Server: s.id, Token: token})
			}
		}
		x.mu.Unlock()
	}
	x.report()
}

// elected replays that a call has the lock.
func (x *redTraced) elected(c *call, l held) {
	x.w.replays()
	x.mu.Lock()
	x.say(c.keys[0], spec.RedSaid{Action: "Elected", Process: c.p.id, Trust: time.Until(l.Until()), Token: l.Token()})
	x.mu.Unlock()
	x.report()
}

func (x *redTraced) report() {
	x.mu.Lock()
	bad := x.bad
	x.bad = nil
	x.mu.Unlock()
	for _, b := range bad {
		x.w.fail("%s", b)
	}
}
