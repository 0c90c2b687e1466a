package spec

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// redWalk returns a random walk of the relation as a trace, a second for each tick. It leaves out what the runtime does otherwise: a part that
// is granted while the token is written, and a round of a process that still has a slot of the one before.
func redWalk(r *rand.Rand, steps int) (trace []RedTold) {
	const unit = time.Second
	b := RedBounds{Procs: 2, Servers: 3, Lease: 3, Restarts: 1, MaxToken: 1 << 20, Fenced: true, Renewing: true, Again: true}
	s, at, rounds, names := b.Init(), time.Duration(0), uint64(0), 0
	round := make([]uint64, b.Procs)
	owner, told := make([][]string, b.Procs), make([][]bool, b.Procs)
	for p := range owner {
		owner[p], told[p] = make([]string, b.Servers), make([]bool, b.Servers)
	}
	for range steps {
		all := slices.DeleteFunc(b.Next(s), func(step RedStep) bool {
			switch p, i := step.Proc, step.Server; step.Action {
			case "Ballot":
				return slices.ContainsFunc(s.Slot[p], func(x RedSlot) bool { return x.St != "none" })
			case "Answer":
				return s.Proc[p].St == "raises" && s.Slot[p][i].St == "yes"
			case "End", "Restart":
				return r.IntN(6) > 0
			case "Tick":
				return r.IntN(2) > 0
			}
			return false
		})
		if len(all) == 0 {
			continue
		}
		step := all[r.IntN(len(all))]
		p, i := step.Proc, step.Server
		at++ // nothing else is at the same moment
		say := func(e RedTold) {
			e.At = at
			trace = append(trace, e)
		}
		part := func(action string, i int, e RedTold) { // of a round
			e.Action, e.Round, e.Server, e.Owner, e.Lease = action, round[p], i, owner[p][i], owner[p][i]
			say(e)
		}
		own := func(action string, i int, e RedTold) { // of an owner at a server
			e.Action, e.Server, e.Owner = action, i, owner[p][i]
			say(e)
		}
		asks := func(i int) {
			names++
			owner[p][i], told[p][i] = fmt.Sprintf("a:%d", names), false
			own("Asks", i, RedTold{})
		}
		has := func(i int) {
			x := s.Slot[p][i]
			own("Granted", i, RedTold{Trust: time.Duration(b.Lease-x.Age)*unit - unit/2, Token: int64(x.Token)})
			part("Has", i, RedTold{Token: int64(x.Token)})
			told[p][i] = true
		}
		switch now := step.To; step.Action {
		case "Tick":
			at += unit
		case "Ballot":
			rounds++
			round[p] = rounds
			say(RedTold{Action: "Ballot", Round: rounds})
			for i := range s.Srv {
				say(RedTold{Action: "Asks", Round: rounds, Server: i})
				asks(i)
			}
		case "AskAgain":
			say(RedTold{Action: "AskAgain", Round: round[p], Server: i})
			asks(i)
		case "Run":
			if now.Slot[p][i].St == "yes" {
				own("RunAcquire", i, RedTold{Granted: true, TTL: time.Duration(b.Lease) * unit})
			}
		case "Answer", "Admit", "TooLate":
			if s.Slot[p][i].St == "no" {
				say(RedTold{Action: "Refused", Round: round[p], Server: i})
				break
			}
			if has(i); now.Slot[p][i].St == "back" {
				part("Over", i, RedTold{Granted: true})
			} else if step.Action == "Admit" {
				say(RedTold{Action: "Knows", Server: i, Token: int64(now.Srv[i].Token)})
				part("Admit", i, RedTold{})
			}
		case "Elected":
			say(RedTold{Action: "Elected", Round: round[p]})
		case "Win":
			say(RedTold{Action: "Win", Round: round[p], Token: int64(s.Proc[p].Token)})
		case "End":
			for i, x := range s.Slot[p] {
				if x.St == "no" {
					say(RedTold{Action: "Refused", Round: round[p], Server: i})
				}
			}
			say(RedTold{Action: "End", Round: round[p]})
			for i, x := range s.Slot[p] {
				if x.St == "part" {
					part("Over", i, RedTold{Granted: true})
				}
			}
		case "Release":
			if !told[p][i] { // granted before the round ended, and answered after it
				own("Granted", i, RedTold{})
				part("Has", i, RedTold{})
				part("Over", i, RedTold{Granted: true})
			}
		case "Renew":
			own("Renew", i, RedTold{})
		case "RunRenew":
			granted := now.Slot[p][i].Renew == "done"
			if own("RunRenew", i, RedTold{Granted: granted, TTL: time.Duration(b.Lease) * unit}); !granted && s.Slot[p][i].St == "part" {
				part("Over", i, RedTold{})
			}
		case "Renewed":
			own("Renewed", i, RedTold{Trust: time.Duration(b.Lease-s.Slot[p][i].Of)*unit - unit/2})
		case "PartLost":
			part("Over", i, RedTold{})
		case "Restart":
			say(RedTold{Action: "Fault"})
		}
		for i, srv := range step.To.Srv {
			if srv.Token != s.Srv[i].Token && step.Action != "Admit" {
				say(RedTold{Action: "Knows", Server: i, Token: int64(srv.Token)})
			}
		}
		s = step.To
	}
	return append(trace, RedTold{At: at + 1, Action: "Knows"})
}

// replayRed returns the error of a trace.
func replayRed(trace []RedTold) error {
	c := NewRedTrace(3, 0)
	for _, e := range trace {
		if err := c.Say(e); err != nil {
			return err
		}
	}
	return nil
}

// TestRedTraceAcceptsWalks replays random walks of the relation as traces, and rejects them once an event of them is left out, or changed.
func TestRedTraceAcceptsWalks(t *testing.T) {
	const enough = 50
	seen, rejected := map[string]int{}, map[string]int{}
	for seed := range uint64(100) {
		trace := redWalk(rand.New(rand.NewPCG(seed, 7)), 150)
		require.NoError(t, replayRed(trace), "seed %d", seed)
		faulty := slices.IndexFunc(trace, func(e RedTold) bool { return e.Action == "Fault" })
		for i, e := range trace {
			seen[e.Action]++
			wrong, without := slices.Clone(trace), slices.Delete(slices.Clone(trace), i, i+1)
			name := ""
			switch {
			case e.Action == "Asks" && e.Round > 0:
				name, wrong = "a server is left out", without
			case e.Action == "RunAcquire":
				if j := slices.IndexFunc(trace, func(x RedTold) bool { return x.Action == "Granted" && x.Owner == e.Owner }); j >= 0 && trace[j].Trust > 0 {
					name, wrong = "a grant of no server", without
				}
			case e.Action == "Knows" && trace[min(i+1, len(trace)-1)].Action == "Admit" && (faulty < 0 || faulty > i):
				wrong[i].Token = 0
				name = "a server does not know the token"
			case e.Action == "Over" && e.Granted && slices.ContainsFunc(trace[:i], func(x RedTold) bool { return x.Action == "End" && x.Round == e.Round }):
				if trace[i-1].Action == "End" || trace[i-1].Action == "Over" {
					name, wrong = "a lost round keeps a part", without
				}
			case e.Action == "Renewed":
				wrong[i].Trust += 4 * time.Second
				name = "a renewal is trusted from its answer"
			case e.Action == "RunRenew" && e.Granted:
				wrong[i].Granted = false
				if rejected["a renewal that no server ran"] < enough && replayRed(wrong) != nil { // else it is not answered, or reaches no further
					name = "a renewal that no server ran"
				}
			case e.Action == "Elected":
				wrong = slices.Insert(wrong, i, RedTold{At: e.At, Action: "Win", Round: e.Round})
				name = "a round wins that is not elected"
			case e.Action == "Win":
				wrong[i].Token--
				name = "a smaller token"
			}
			if name != "" && rejected[name] < enough {
				rejected[name]++
				require.Error(t, replayRed(wrong), "seed %d, event %d: %s: %v", seed, i, name, e)
			}
		}
	}
	for _, action := range []string{"Ballot", "Refused", "Has", "Elected", "Win", "AskAgain", "Admit", "End", "Over", "Renewed", "Fault"} {
		require.NotZero(t, seen[action], action)
	}
	require.Len(t, rejected, 8, "%v", rejected)
}

// TestRedTraceRejects has the lease of a round leave the protocol when it is not trusted any more, or is over.
func TestRedTraceRejects(t *testing.T) {
	won := []RedTold{{Action: "Ballot", Round: 1}}
	for i := range 3 {
		won = append(won, RedTold{Action: "Asks", Round: 1, Server: i})
	}
	grant := func(at time.Duration, i int, owner string) []RedTold {
		return []RedTold{
			{At: at, Action: "Asks", Server: i, Owner: owner}, {At: at, Action: "RunAcquire", Server: i, Owner: owner, Granted: true, TTL: time.Second},
			{At: at, Action: "Granted", Server: i, Owner: owner, Trust: time.Second}, {At: at, Action: "Has", Round: 1, Server: i, Owner: owner, Lease: owner},
		}
	}
	won = slices.Concat(won, grant(0, 0, "a:1"), grant(0, 1, "b:1"), []RedTold{{Action: "Refused", Round: 1, Server: 2}, {Action: "Elected", Round: 1}, {Action: "Win", Round: 1}})
	again := func(at time.Duration) RedTold { return RedTold{At: at, Action: "AskAgain", Round: 1, Server: 2} }
	admit := func(at time.Duration) RedTold { return RedTold{At: at, Action: "Admit", Round: 1, Lease: "c:1"} }
	over := func(at time.Duration, lease string, freed bool) RedTold {
		return RedTold{At: at, Action: "Over", Lease: lease, Granted: freed}
	}
	event := func(at time.Duration, action string) RedTold { return RedTold{At: at, Action: action, Round: 1} }
	late := slices.Concat(won, []RedTold{again(1)}, grant(1, 2, "c:1"))
	for name, trace := range map[string][]RedTold{
		"a server is asked again under a lease that ran out": append(slices.Clone(won), again(2*time.Second)),
		"likewise, of which a part is lost":                  append(slices.Clone(won), over(1, "a:1", false), again(2)),
		"likewise, that is over":                             append(slices.Clone(won), event(1, "End"), over(1, "a:1", true), over(1, "b:1", true), again(2)),
		"a part joins a lease that ran out":                  append(slices.Clone(late), admit(2*time.Second)),
		"a part joins a lease that is over":                  append(slices.Clone(late), event(2, "End"), over(2, "a:1", true), over(2, "b:1", true), admit(3)),
		"a part joins twice":                                 append(slices.Clone(late), admit(2), admit(2)),
		"a part is given back under the lease":               append(slices.Clone(won), over(1, "a:1", true)),
		"an unlocked lease goes on":                          append(slices.Clone(won), event(1, "Free"), again(2)),
		"a lease passes that is not unlocked":                append(slices.Clone(won), RedTold{At: 1, Action: "Pass", Round: 1, Owner: "a:1", Lease: "next"}),
		"what is no action":                                  append(slices.Clone(won), event(1, "Dance")),
	} {
		require.NoError(t, replayRed(trace[:len(trace)-1]), name)
		require.ErrorContains(t, replayRed(trace), "leaves the protocol", name)
	}
	require.NoError(t, replayRed(append(late, admit(2), event(3, "Free"), RedTold{At: 3, Action: "Pass", Round: 1, Owner: "a:1", Lease: "next"}, again(3))[:len(late)+3]))
	many := NewRedTrace(3, 0)
	var err error
	for id := uint64(1); err == nil && id <= 2*mostRounds; id++ {
		err = many.Say(RedTold{Action: "Ballot", Round: id})
	}
	require.ErrorContains(t, err, "too many states")
}

// A trace from real servers may take a while for a step that is due at once, and no longer.
func TestRedTrace_Patience(t *testing.T) {
	t.Parallel()
	asks := func(server int, at time.Duration) RedTold {
		return RedTold{Action: "Asks", Round: 1, Server: server, At: at}
	}
	trace := []RedTold{{Action: "Ballot", Round: 1, At: time.Second}, asks(0, time.Second), asks(1, time.Second+time.Millisecond), asks(2, time.Second+2*time.Millisecond)}
	for patience, wrong := range map[time.Duration]bool{0: true, time.Millisecond: true, 2 * time.Millisecond: false, time.Minute: false} {
		c := NewRedTrace(3, 0)
		c.Patience = patience
		var err error
		for _, e := range trace {
			if err == nil {
				err = c.Say(e)
			}
		}
		if wrong {
			require.ErrorContains(t, err, "at once", patience)
		} else {
			require.NoError(t, err, patience)
		}
	}
}
