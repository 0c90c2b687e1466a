package tracetest

import (
	"errors"
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/spec"
)

// A MultiRun is what processes did with MultiLocks, and their server, by one clock.
type MultiRun struct {
	Processes [][]Event // of each, in order
	Commands  []*Command
}

// Replay replays a run, and returns how many events of each action it had: of each member as of a mutex, and of the calls.
func (r MultiRun) Replay() (actions map[string]int, err error) {
	rep, err := newReplica()
	if err != nil {
		return nil, err
	}
	defer rep.m.Close()
	if len(r.Commands) == 0 {
		return nil, errors.New("the server has run no script")
	}
	actions = map[string]int{}
	var all []event
	var began time.Time
	var member func(*Command, *trace.Step) error
	calls := spec.NewMultiCheck(patience)
	say := func(at time.Time, e spec.MultiSaid) error {
		e.At = at.Sub(began)
		actions["calls: "+e.Action]++
		return calls.Say(e)
	}
	for p, events := range r.Processes {
		for _, e := range events {
			all = append(all, event{e.At, func() error {
				if w := e.Whole; w != nil {
					return say(e.At, spec.MultiSaid{
						Action: string(w.Action), Process: w.Client, Call: callOf(p, w), Members: w.Members, Member: w.Member, Many: w.Many,
						Lease: leaseOf(p, w), Freed: w.Freed, Owner: w.Owner,
					})
				}
				step := *e.Step
				step.At = e.At
				err := member(nil, &step)
				if said, ok := MultiStep(step); ok && err == nil {
					err = say(e.At, said)
				}
				return err
			}})
		}
	}
	for _, c := range r.Commands {
		if len(c.Calls) > 0 { // else the server did not have the script, and said so
			all = append(all, event{c.At, func() error { return member(c, nil) }})
		}
	}
	slices.SortStableFunc(all, func(a, b event) int { return a.at.Compare(b.at) })
	began = all[0].at
	member = rep.mutexes(len(r.Processes), began, actions)
	for _, e := range all {
		if err := e.do(); err != nil {
			return actions, err
		}
	}
	return actions, calls.Done(all[len(all)-1].at.Sub(began) + 2*patience)
}

// MultiStep returns what a step of a client is to the calls of MultiLocks, if it is anything to them.
func MultiStep(s trace.Step) (e spec.MultiSaid, ok bool) {
	uuid, _ := protocol.ClientOf(s.Owner)
	e = spec.MultiSaid{Process: uuid, Key: s.Key, Owner: s.Owner}
	switch s.Action {
	case trace.Granted, trace.Handed:
		e.Action = "Granted"
	case trace.Asks:
		if s.Line != 1 {
			return e, false // it does not join the queue, or joined it before, for another call
		}
		e.Action = "Stands"
	default:
		return e, false
	}
	return e, true
}
