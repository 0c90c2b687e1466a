package spec

import (
	"fmt"
	"slices"
	"strings"
)

// An Event is a step in a trace: the action, by the name of the module, its owner, and the state of the owner's process
// after it; empty if the trace does not have it.
type Event struct {
	Action string
	Who    Owner
	St     string
}

// of reports whether the event can describe a step.
func (e Event) of(step Step) bool {
	return step.Action == e.Action && step.Who == e.Who && (e.St == "" || step.To.Proc[e.Who.P].St == e.St)
}

func (e Event) String() string { return fmt.Sprintf("%s of %d:%d", e.Action, e.Who.P, e.Who.N) }

// hidden are the steps that no trace has: time passes, messages are lost, a replica replicates, Java programs come and
// go.
var hidden = []string{"Tick", "Lose", "Replicate", "JavaTakes", "JavaFrees"}

// mostStates bounds the number of states of a trace at a time.
const mostStates = 200_000

// A LeftError names the event at which a trace leaves the protocol.
type LeftError struct {
	At       int // of the trace
	Event    Event
	Possible []string // that were possible instead
}

// Error names the event, and the possible ones.
func (e *LeftError) Error() string {
	return fmt.Sprintf("event %d, %v, is no step of the protocol there; possible were %s", e.At, e.Event, strings.Join(e.Possible, ", "))
}

// Replay checks whether a trace follows the protocol: whether some run of it has these events in this order, and no
// others. It fails with a [*LeftError] when it does not, and with another error when there are too many runs to follow.
func (b Bounds) Replay(trace []Event) error {
	at, err := b.unseen([]State{b.Init()})
	for i, e := range trace {
		if err != nil {
			return err
		}
		var after []State
		var possible []string
		for _, s := range at {
			for _, step := range b.Next(s) {
				switch {
				case slices.Contains(hidden, step.Action):
				case e.of(step):
					after = append(after, step.To)
				default:
					possible = append(possible, Event{Action: step.Action, Who: step.Who}.String())
				}
			}
		}
		if len(after) == 0 {
			slices.Sort(possible)
			return &LeftError{i, e, slices.Compact(possible)}
		}
		at, err = b.unseen(after)
	}
	return err
}

// unseen returns some states and all that hidden steps lead to from them.
func (b Bounds) unseen(some []State) (all []State, err error) {
	seen := map[string]bool{}
	for len(some) > 0 {
		s := some[len(some)-1]
		some = some[:len(some)-1]
		if key := s.Key(); seen[key] {
			continue
		} else {
			seen[key] = true
		}
		if all = append(all, s); len(all) > mostStates {
			return nil, fmt.Errorf("the trace may be in more than %d states", mostStates)
		}
		for _, step := range b.Next(s) {
			if slices.Contains(hidden, step.Action) {
				some = append(some, step.To)
			}
		}
	}
	return all, nil
}
