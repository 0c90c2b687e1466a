package sim

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/trace/tracetest"
	"github.com/lockgen/lockgen/spec"
)

// A redTraced world replays the traces of RedLocks: of the part of each server as of a mutex, and of the whole.
type redTraced struct {
	w     *world
	parts []*traced // of the servers

	mu     sync.Mutex // taken last: while it is held, no other lock is taken, and neither the runtime nor a server is called
	checks map[string]*spec.RedCheck
	rounds map[string]*spec.RedTrace
	keys   map[uint64]string // of rounds
	known  map[string]int64  // tokens, by server and key
	bad    []string
}

// A client is one of a process, for one server.
type client struct{ process, server int }

// traceRed has the world replay RedLocks until the function that it returns is called.
func (w *world) traceRed() (stop func()) {
	x := &redTraced{w: w, checks: map[string]*spec.RedCheck{}, rounds: map[string]*spec.RedTrace{}, keys: map[uint64]string{}, known: map[string]int64{}}
	for _, s := range w.servers {
		x.parts = append(x.parts, w.traced(s))
	}
	for _, key := range w.locks() {
		x.checks[key] = spec.NewRedCheck(len(w.servers))
		x.rounds[key] = spec.NewRedTrace(len(w.servers), time.Millisecond+2*time.Microsecond)
	}
	w.observes = append(w.observes, x.observe)
	w.faulted = append(w.faulted, x.disturbed)
	w.elected = x.elected
	steps, wholes := trace.To(x.step), trace.WholesTo(x.round)
	return func() {
		steps()
		wholes()
		x.done()
	}
}

// tell replays an event of the rounds, or of an owner at a server. The caller holds x.mu.
func (x *redTraced) tell(key string, e spec.RedTold) {
	e.At = x.w.watch.now()
	if c := x.rounds[key]; c != nil {
		x.left(key, c.Say(e))
	}
}

// left notes the error of a replay of rounds, which ends with it. The caller holds x.mu.
func (x *redTraced) left(key string, err error) {
	if err != nil {
		x.rounds[key] = nil
		x.bad = append(x.bad, fmt.Sprintf("the trace of the rounds of %q: %v", key, err))
	}
}

// round gets each event of a round.
func (x *redTraced) round(e trace.Whole) {
	told := spec.RedTold{Action: string(e.Action), Round: e.Call, Server: e.Member, Owner: e.Owner, Lease: e.Lease, Granted: e.Freed, Token: e.Token}
	if e.Call > 0 {
		x.counts(e.Action)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case e.Action == trace.Over: // of any key
		for _, key := range x.w.locks() {
			x.tell(key, told)
		}
		return
	case e.Action == trace.Begins:
		told.Action, x.keys[e.Call] = "Ballot", e.Members[0]
	}
	x.tell(x.keys[e.Call], told)
}

// counts counts a step of a round.
func (x *redTraced) counts(a trace.Action) {
	x.w.mu.Lock()
	defer x.w.mu.Unlock()
	x.w.count("events replayed", 1)
	x.w.count(fmt.Sprintf("rounds: %s", a), 1)
}

// done replays that nothing else happens, unless the world has failed already.
func (x *redTraced) done() {
	over := x.w.over()
	x.mu.Lock()
	for key, c := range x.rounds {
		if c != nil && !over {
			x.left(key, c.Done(x.w.watch.now()))
		}
	}
	x.mu.Unlock()
	x.report()
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
		x.tell(key, spec.RedTold{Action: "Fault"})
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
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.tell(s.Key, spec.RedTold{Action: string(s.Action), Server: of.server, Owner: s.Owner, Trust: s.Trust, Token: s.Token})
	if e.Action != "" {
		x.say(s.Key, e)
	}
}

// observe replays what a server has run, and which tokens it knows.
func (x *redTraced) observe(s *server, e *event) {
	if e != nil && e.script != "" {
		x.ran(s, e)
	}
	x.report()
}

// ran replays an event of a script. It looks at the server before it takes x.mu.
func (x *redTraced) ran(s *server, e *event) {
	type run struct {
		key string
		e   spec.RedTold
	}
	var runs []run
	for _, r := range tracetest.RequestsOf(e.script, e.keys(), e.args(), tracetest.Reply(e.reply), e.effects) {
		key, action, owner, ttl := r.Ran()
		owners, _ := s.m.HKeys(key)
		runs = append(runs, run{key, spec.RedTold{Action: action, Server: s.id, Owner: owner, Granted: slices.Contains(owners, owner), TTL: ttl}})
	}
	tokens := map[string]int64{}
	for _, key := range x.w.locks() {
		value, _ := s.m.Get("redisson_lock_token:{" + key + "}")
		tokens[key], _ = strconv.ParseInt(value, 10, 64)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, r := range runs {
		x.tell(r.key, r.e)
	}
	for _, key := range x.w.locks() {
		token := tokens[key]
		if at := fmt.Sprint(s.id, key); x.known[at] != token {
			x.known[at] = token
			x.say(key, spec.RedSaid{Action: "Knows", Server: s.id, Token: token})
			x.tell(key, spec.RedTold{Action: "Knows", Server: s.id, Token: token})
		}
	}
}

// elected replays that a call has the lock.
func (x *redTraced) elected(c *call, l held) {
	x.w.replays()
	e := spec.RedSaid{Action: "Elected", Process: c.p.id, Trust: time.Until(l.Until()), Token: l.Token()}
	x.mu.Lock()
	x.say(c.keys[0], e)
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
