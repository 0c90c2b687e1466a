package spec

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A multiWalker has a random walk of the relation as a trace. Each process has one call at a time, and gives back at once what it gives back.
type multiWalker struct {
	b      MultiBounds
	at     time.Duration
	trace  []MultiSaid
	calls  uint64
	call   []uint64   // of each process
	leases [][]string // of each process and member
	names  int
}

// multiWalk returns a random walk of the relation as a trace, a second for each tick.
func multiWalk(r *rand.Rand, steps int) []MultiSaid {
	b := MultiBounds{Procs: 3, Members: 3, Lease: 2, Losses: 2, Some: []int{2}}
	w := &multiWalker{b: b, call: make([]uint64, b.Procs)}
	for range b.Procs {
		w.leases = append(w.leases, make([]string, b.Members))
	}
	s := b.Init()
	for range steps {
		all := slices.DeleteFunc(b.Next(s), func(step MultiStep) bool {
			switch step.Action {
			case "Tick", "End", "TryLost":
				return r.IntN(3) > 0
			}
			return false
		})
		if len(all) > 0 {
			step := all[r.IntN(len(all))]
			w.at++ // nothing else is at the same moment
			w.step(s, step)
			s = step.To
		}
	}
	for p, pr := range s.Proc {
		if w.at++; pr.St != "idle" {
			w.ends(s, p, "End")
		}
	}
	return w.trace
}

func (w *multiWalker) say(e MultiSaid) {
	e.At = w.at
	w.trace = append(w.trace, e)
}

// says is an event of the call of a process about a member.
func (w *multiWalker) says(action string, p, k, many int) {
	e := MultiSaid{Action: action, Process: fmt.Sprint(p), Call: w.call[p], Member: w.index(p, k), Many: many}
	if action == "Has" {
		w.names++
		w.leases[p][k] = fmt.Sprintf("%d:%d", p, w.names)
		e.Owner, e.Lease = w.leases[p][k], w.leases[p][k]
		w.say(MultiSaid{Action: "Granted", Process: e.Process, Key: fmt.Sprint("key", k), Owner: e.Owner})
	}
	w.say(e)
}

// index returns which of its members that is to a process.
func (w *multiWalker) index(p, k int) int {
	if slices.Contains(w.b.Some, p) {
		k--
	}
	return max(0, k)
}

// over ends a lease of a process.
func (w *multiWalker) over(lease string, freed bool) {
	w.say(MultiSaid{Action: "Over", Lease: lease, Freed: freed})
}

// ends ends the call of a process.
func (w *multiWalker) ends(s MultiState, p int, action string) {
	pr := s.Proc[p]
	for k, x := range s.Part[p] {
		if action == "Lost" && x.St == "has" && (x.Trust == 0 || s.Srv[k].Owner != p) {
			w.over(w.leases[p][k], false)
			w.leases[p][k] = ""
		}
	}
	switch pr.St {
	case "holds":
		w.over(fmt.Sprint("whole ", w.call[p]), action == "End")
	case "waits":
		w.says("Refused", p, pr.For, 0)
		fallthrough
	default:
		w.says("End", p, -1, 0)
	}
	for k, lease := range w.leases[p] {
		if lease != "" {
			w.over(lease, true)
		}
		w.leases[p][k] = ""
	}
}

// step has a step as events.
func (w *multiWalker) step(s MultiState, step MultiStep) {
	p, rest := step.Proc, []int(nil)
	if p >= 0 {
		rest = w.b.missing(s, p)
	}
	switch now := step.To; step.Action {
	case "Tick":
		w.at += time.Second
	case "Begin":
		w.calls++
		w.call[p] = w.calls
		var members []string
		for _, k := range rest {
			members = append(members, fmt.Sprint("key", k))
		}
		w.say(MultiSaid{Action: "Begin", Process: fmt.Sprint(p), Call: w.calls, Members: members})
	case "Try", "TryLost":
		w.tries(s, now, p, rest, step.Action == "Try")
	case "Stand":
		if k := s.Proc[p].For; now.Proc[p].St == "waits" {
			w.say(MultiSaid{Action: "Stands", Process: fmt.Sprint(p), Key: fmt.Sprint("key", k), Owner: fmt.Sprintf("%d:0", p)})
		} else {
			w.says("Has", p, k, 0)
		}
	case "Handed":
		w.says("Has", p, s.Proc[p].For, 0)
	case "Take":
		w.say(MultiSaid{Action: "Take", Process: fmt.Sprint(p), Call: w.call[p], Lease: fmt.Sprint("whole ", w.call[p])})
	case "End", "Lost":
		w.ends(s, p, step.Action)
	}
}

// tries has a try for some members as events: a wait if it is for one alone.
func (w *multiWalker) tries(s, now MultiState, p int, rest []int, answered bool) {
	if len(rest) == 1 {
		w.says("Stand", p, rest[0], 0)
	} else {
		w.says("Try", p, rest[0], len(rest))
	}
	if !answered {
		if len(rest) == 1 {
			w.says("Refused", p, rest[0], 0)
		}
		w.ends(MultiState{Proc: slices.Repeat([]MultiProc{{St: "takes"}}, p+1), Part: make([][]MultiPart, p+1)}, p, "End")
		return
	}
	for _, k := range rest {
		if s.Srv[k].Owner == -1 {
			w.says("Has", p, k, 0)
		} else if len(rest) > 1 {
			w.says("Refused", p, k, 0)
		}
	}
	for _, k := range rest {
		if now.Part[p][k].St == "back" {
			w.over(w.leases[p][k], true)
			w.leases[p][k] = ""
		}
	}
	if now.Proc[p].St == "waits" && len(rest) > 1 {
		w.says("Stand", p, now.Proc[p].For, 0)
	}
}

// replayMulti returns the error of a trace.
func replayMulti(trace []MultiSaid) error {
	c := NewMultiCheck(0)
	for _, e := range trace {
		if err := c.Say(e); err != nil {
			return err
		}
	}
	return c.Done(trace[len(trace)-1].At + 1)
}

// TestMultiCheckAcceptsWalks replays random walks of the relation as traces, and rejects them once an event of them is left out, or changed.
func TestMultiCheckAcceptsWalks(t *testing.T) {
	const enough = 20
	seen, rejected := map[string]int{}, map[string]int{}
	for seed := range uint64(40) {
		trace := multiWalk(rand.New(rand.NewPCG(seed, 14)), 150)
		require.NoError(t, replayMulti(trace), "seed %d", seed)
		for i, e := range trace {
			seen[e.Action]++
			wrong, without := slices.Clone(trace), slices.Delete(slices.Clone(trace), i, i+1)
			name := ""
			switch next := trace[min(i+1, len(trace)-1)]; {
			case e.Action == "Granted":
				name, wrong = "a grant of nobody", without
			case e.Action == "Has" && next.Action == "Take":
				name, wrong = "the whole without its last member", without
			case e.Action == "Refused" && next.Action == "Granted":
				name, wrong = "a refused member is left out", without
			case e.Action == "Over" && e.Freed && trace[i-1].Action == "End":
				name, wrong = "a member is not given back at the end", without
			case e.Action == "Over" && e.Freed && trace[i-1].Action == "Has":
				name, wrong = "a member behind the refused one is kept", without
			case e.Action == "Over" && e.Freed && next.Action == "Over": // the lease of the whole
				wrong[i].Freed = false
				if slices.ContainsFunc(trace[:i], func(x MultiSaid) bool { return x.Action == "Take" && x.Lease == e.Lease }) {
					name = "the whole is lost without a member"
				}
			case e.Action == "Try":
				wrong[i].Many--
				name = "a member is not tried"
			case e.Action == "Stand" && trace[i-1].Action == "Over":
				wrong[i].Member++
				name = "the member behind the refused one is waited for"
			case e.Action == "Stands":
				wrong[i].Process += "0"
				name = "a process joins a wait queue for no call"
			case e.Action == "Take":
				wrong = slices.Insert(wrong, i, MultiSaid{At: e.At, Action: "Over", Lease: trace[i-1].Lease, Freed: true})
				if trace[i-1].Action == "Has" && trace[i-1].Call == e.Call {
					name = "a member is given back before the whole is taken"
				}
			}
			if name != "" && rejected[name] < enough {
				rejected[name]++
				require.Error(t, replayMulti(wrong), "seed %d, event %d: %s: %v", seed, i, name, e)
			}
		}
	}
	for _, action := range []string{"Begin", "Try", "Has", "Refused", "Stand", "Stands", "Take", "End", "Over"} {
		require.NotZero(t, seen[action], action)
	}
	require.Len(t, rejected, 10, "%v", rejected)
}
