package spec

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// traced are bounds for the traces of tests.
var traced = Bounds{Procs: 2, Numbers: 2, Lease: 2, Claim: 1, MaxNet: 2, Lossy: true, Contended: true}

// event returns the event of a step.
func event(step Step) Event {
	e := Event{Action: step.Action, Who: step.Who}
	if e.Who.P >= 0 {
		e.St = step.To.Proc[e.Who.P].St
	}
	return e
}

// walk returns the trace of a random run.
func (b Bounds) walk(r *rand.Rand, length int) (trace []Event) {
	for s := b.Init(); len(trace) < length; {
		steps := b.Next(s)
		var told []Step
		for _, step := range steps {
			if !slices.Contains(hidden, step.Action) {
				told = append(told, step)
			}
		}
		step := steps[r.IntN(len(steps))]
		if len(told) > 0 && r.IntN(4) > 0 { // else mostly time passes
			step = told[r.IntN(len(told))]
			trace = append(trace, event(step))
		} else if !slices.Contains(hidden, step.Action) {
			trace = append(trace, event(step))
		}
		s = step.To
	}
	return trace
}

// TestReplayAcceptsRuns replays traces of random runs of the protocol.
func TestReplayAcceptsRuns(t *testing.T) {
	for seed := range uint64(50) {
		trace := traced.walk(rand.New(rand.NewPCG(seed, 1)), 25)
		require.NoError(t, traced.Replay(trace), "seed %d: %v", seed, trace)
	}
}

// TestReplayRejects replays traces that leave the protocol, and checks which event the error names.
func TestReplayRejects(t *testing.T) {
	traced := traced
	traced.Contended = false // so that a new owner is not in the queue yet
	a, b := Owner{0, 1}, Owner{1, 1}
	has := []Event{{"Begin", a, ""}, {"RunAcquire", a, ""}, {"Granted", a, "held"}}                                  // a has the lock
	waits := append(slices.Clone(has), []Event{{"Begin", b, ""}, {"RunAcquire", b, ""}, {"Refused", b, ""}}...)      // and b was refused
	stands := append(slices.Clone(waits), []Event{{"Again", b, ""}, {"RunAcquire", b, ""}, {"Refused", b, ""}}...)   // and is in the queue
	given := append(slices.Clone(stands), []Event{{"Unlock", a, ""}, {"GiveBack", a, ""}, {"RunRelease", a, ""}}...) // and the server has made it the owner
	for name, trace := range map[string][]Event{
		"a grant that nobody asked for":                   {{"Granted", a, "held"}},
		"an answer before the server has run the request": {{"Begin", a, ""}, {"Granted", a, "held"}},
		"a refusal of a free lock":                        {{"Begin", a, ""}, {"RunAcquire", a, ""}, {"Refused", a, ""}},
		"two answers to one request":                      append(slices.Clone(has), Event{"Granted", a, "held"}),
		"who has the lock asks for it":                    append(slices.Clone(has), Event{"Again", a, ""}),
		"a second claim beside the first":                 append(slices.Clone(has), Event{"Begin", Owner{0, 2}, ""}),
		"a hand-over to one that does not stand in line":  append(slices.Clone(waits), Event{"Unlock", a, ""}, Event{"GiveBack", a, ""}, Event{"RunRelease", a, ""}, Event{"Handed", b, "held"}),
		"a hand-over before the release":                  append(slices.Clone(stands), Event{"Unlock", a, ""}, Event{"Handed", b, "held"}),
		"a release by one that still has it":              append(slices.Clone(has), Event{"GiveBack", a, ""}),
		"a renewal after Unlock":                          append(slices.Clone(has), Event{"Unlock", a, ""}, Event{"Renew", a, ""}),
		"a number that is used again at once":             append(slices.Clone(has), Event{"Unlock", a, ""}, Event{"Begin", a, ""}),
		"a loss that nobody told of":                      append(slices.Clone(has), Event{"Lost", a, ""}),
	} {
		var left *LeftError
		require.ErrorAs(t, traced.Replay(trace), &left, name)
		require.Equal(t, len(trace)-1, left.At, name)
		require.NotEmpty(t, left.Possible, name)
	}
	require.NoError(t, traced.Replay(append(given, Event{"Handed", b, "held"}, Event{"Renew", b, ""}, Event{"RunRenew", b, ""}, Event{"Renewed", b, ""})))
}
