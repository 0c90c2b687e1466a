package tracetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/spec"
)

// An Event is one of a process: a step of its client of a server, or an event of a call of a MultiLock or of a round, whose lease is a number.
type Event struct {
	At     time.Time
	Server int
	Step   *trace.Step  `json:",omitempty"`
	Whole  *trace.Whole `json:",omitempty"`
}

// A RedRun is what processes did with RedLocks and their servers, by one clock.
type RedRun struct {
	Processes [][]Event    // of each, in order
	Servers   [][]*Command // of each, in order
}

// An event is one of a process or of a server, and what replays it.
type event struct {
	at time.Time
	do func() error
}

// patience is how long something may take in a real run that happens at once in virtual time.
const patience = time.Minute

// A redReplay replays a RedRun.
type redReplay struct {
	began   time.Time
	servers []*replica
	parts   []func(*Command, *trace.Step) error // of the servers
	rounds  map[string]*spec.RedTrace
	keys    map[uint64]string // of rounds
	known   map[string]int64  // tokens, by server and key
	actions map[string]int
}

// Replay replays a run, and returns how many events of each action it had: of each part as of a mutex, and of the rounds.
func (r RedRun) Replay() (actions map[string]int, err error) {
	x := &redReplay{rounds: map[string]*spec.RedTrace{}, keys: map[uint64]string{}, known: map[string]int64{}, actions: map[string]int{}}
	var all []event
	for p, events := range r.Processes {
		for _, e := range events {
			all = append(all, event{e.At, func() error { return x.process(p, e) }})
		}
	}
	for i, commands := range r.Servers {
		rep, err := newReplica()
		if err != nil {
			return nil, err
		}
		defer rep.m.Close()
		rep.part = true
		x.servers = append(x.servers, rep)
		for _, c := range commands {
			all = append(all, event{c.At, func() error { return x.server(i, c) }})
		}
	}
	if len(all) == 0 {
		return nil, errors.New("nothing has happened")
	}
	slices.SortStableFunc(all, func(a, b event) int { return a.at.Compare(b.at) })
	x.began = all[0].at
	for _, rep := range x.servers {
		x.parts = append(x.parts, rep.mutexes(len(r.Processes), x.began, x.actions))
	}
	for _, e := range all {
		if err := e.do(); err != nil {
			return x.actions, err
		}
	}
	for _, c := range x.rounds {
		if err := c.Done(all[len(all)-1].at.Sub(x.began) + 2*patience); err != nil {
			return x.actions, err
		}
	}
	return x.actions, nil
}

// of returns the replay of the rounds of a key.
func (x *redReplay) of(key string) *spec.RedTrace {
	if x.rounds[key] == nil {
		x.rounds[key] = spec.NewRedTrace(len(x.servers), realLate)
		x.rounds[key].Patience = patience
	}
	return x.rounds[key]
}

// tell replays an event of the rounds of a key, or of an owner at a server.
func (x *redReplay) tell(key string, at time.Time, e spec.RedTold) error {
	e.At = at.Sub(x.began)
	if e.Round > 0 {
		x.actions["rounds: "+e.Action]++
	}
	return x.of(key).Say(e)
}

// leaseOf returns the lease of an event in a process as no other process has it, or nil.
func leaseOf(p int, w *trace.Whole) any {
	if w.Lease == nil {
		return nil
	}
	return fmt.Sprint(p, " ", w.Lease)
}

// callOf returns the number of the call of an event in a process as no other process has it, or 0.
func callOf(p int, w *trace.Whole) uint64 {
	if w.Call == 0 {
		return 0
	}
	return w.Call*100 + uint64(p)
}

// process replays an event of a process.
func (x *redReplay) process(p int, e Event) error {
	if s := e.Step; s != nil {
		step := *s
		step.At = e.At
		return cmp.Or(x.parts[e.Server](nil, &step),
			x.tell(s.Key, e.At, spec.RedTold{Action: string(s.Action), Server: e.Server, Owner: s.Owner, Trust: s.Trust, Token: s.Token}))
	}
	w := e.Whole
	step := spec.RedTold{Action: string(w.Action), Server: w.Member, Owner: w.Owner, Lease: leaseOf(p, w), Granted: w.Freed, Token: w.Token}
	switch w.Action {
	case trace.Over: // of any key
		for key := range x.rounds {
			if err := x.tell(key, e.At, step); err != nil {
				return err
			}
		}
		return nil
	case trace.Begins:
		step.Action = spec.RedRound
	}
	step.Round = callOf(p, w)
	if w.Action == trace.Begins {
		x.keys[step.Round] = w.Members[0]
	}
	return x.tell(x.keys[step.Round], e.At, step)
}

// server replays a script that a server ran, and which tokens the server knows then.
func (x *redReplay) server(i int, c *Command) error {
	if len(c.Calls) == 0 {
		return nil // the server did not have the script, and said so
	}
	if err := x.parts[i](c, nil); err != nil {
		return err
	}
	script, keys, args := c.of()
	for _, r := range RequestsOf(script, keys, args, c.answer(script, keys, args), c.Calls) {
		key, action, owner, ttl := r.Ran()
		owners, _ := x.servers[i].m.HKeys(key)
		if err := x.tell(key, c.At, spec.RedTold{Action: action, Server: i, Owner: owner, Granted: slices.Contains(owners, owner), TTL: ttl}); err != nil {
			return err
		}
	}
	for key := range x.rounds {
		value, _ := x.servers[i].m.Get(counter(key))
		token, _ := strconv.ParseInt(value, 10, 64)
		if at := fmt.Sprint(i, key); x.known[at] != token {
			x.known[at] = token
			if err := x.tell(key, c.At, spec.RedTold{Action: "Knows", Server: i, Token: token}); err != nil {
				return err
			}
		}
	}
	return nil
}
