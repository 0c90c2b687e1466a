package spec

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRedStates has the relation in Go reach as many states as TLC finds in RedLock.tla.
func TestRedStates(t *testing.T) {
	for name, b := range map[string]RedBounds{
		"beside Go: one process, all actions":   {Procs: 1, Servers: 3, Lease: 1, MaxToken: 1, Fenced: true, Renewing: true, Again: true, Restarts: 1, Away: true},
		"beside Go: two processes, two servers": {Procs: 2, Servers: 2, Lease: 1, MaxToken: 2, Renewing: true},
	} {
		t.Run(name, func(t *testing.T) {
			requireStates(t, "RedLock", name, reach(b.Init(), func(s RedState, to func(RedState)) {
				for _, step := range b.Next(s) {
					to(step.To)
				}
			}, func(RedState) {}))
		})
	}
}

// TestRedWalks replays random walks that TLC made through RedLock.tla: each step is one of the relation in Go. No walk has AskAgain, which
// the states of TestRedStates come by.
func TestRedWalks(t *testing.T) {
	seen := map[string]bool{}
	walk(t, walksOf(t, "RedLock.tla", "redwalks.txt"), redBoundsOf, redStateOf, func(b RedBounds, before, now RedState) bool {
		for _, step := range b.Next(before) {
			if step.To.Key() == now.Key() {
				seen[step.Action] = true
				return true
			}
		}
		return false
	})
	for _, action := range []string{"Tick", "Ballot", "Run", "Answer", "Admit", "Elected", "Raise", "Win", "End", "TooLate", "Release", "Renew", "RunRenew", "Renewed", "PartLost", "Restart"} {
		require.True(t, seen[action], "no walk has %s", action)
	}
}

// TestRedCheckWalks has RedCheck replay the same walks as traces, a second for each tick: it accepts each whole that a process of the module
// wins, but not for a second longer, not for another process, and not with a token that no server knows.
func TestRedCheckWalks(t *testing.T) {
	const unit = time.Second
	var (
		c            *RedCheck
		at           time.Duration
		owners       int
		named        map[[2]int]string
		wins, tokens int
	)
	init := func(t *testing.T, line string) RedBounds {
		b := redBoundsOf(t, line)
		c, at, named = NewRedCheck(b.Servers), 0, map[[2]int]string{}
		return b
	}
	walk(t, walksOf(t, "RedLock.tla", "redwalks.txt"), init, redStateOf, func(b RedBounds, before, now RedState) bool {
		i := slices.IndexFunc(b.Next(before), func(step RedStep) bool { return step.To.Key() == now.Key() })
		if i < 0 {
			return false
		}
		step := b.Next(before)[i]
		if step.Action == "Tick" {
			at += unit
		}
		say := func(e RedSaid) {
			e.At = at
			require.NoError(t, c.Say(e))
		}
		if step.Action == "Restart" {
			say(RedSaid{Action: "Fault"})
		}
		for i, srv := range now.Srv {
			if srv.Token != before.Srv[i].Token {
				say(RedSaid{Action: "Knows", Server: i, Token: int64(srv.Token)})
			}
		}
		for p := range now.Slot {
			for i, x := range now.Slot[p] {
				was, place := before.Slot[p][i], [2]int{p, i}
				if x.St == "part" && was.St != "part" {
					owners++
					named[place] = fmt.Sprint(owners)
				}
				switch e := (RedSaid{Process: p, Server: i, Owner: named[place], Trust: time.Duration(x.Trust) * unit, Token: int64(x.Token)}); {
				case x.St == "part" && (was.St != "part" || x.Trust > was.Trust):
					e.Action = "Part"
					say(e)
				case was.St == "part" && x.St != "part":
					e.Action = "Ends"
					say(e)
				}
			}
		}
		if step.Action == "Win" {
			wins++
			p := step.Proc
			var trust []int
			for _, x := range now.Slot[p] {
				if x.St == "part" {
					trust = append(trust, x.Trust)
				}
			}
			slices.Sort(trust)
			e := RedSaid{At: at, Action: "Elected", Process: p, Token: int64(now.Proc[p].Token), Trust: time.Duration(trust[len(trust)-RedMost(b.Servers)]) * unit}
			say(e)
			longer, other, later := e, e, e
			longer.Trust += unit
			require.NotEmpty(t, c.elected(longer))
			if other.Process = p + 1; b.Procs == 1 {
				require.NotEmpty(t, c.elected(other), "the parts of another process")
			}
			if later.Token += 100; b.Fenced && b.Restarts == 0 {
				tokens++
				require.NotEmpty(t, c.elected(later), "a token that no server knows")
			}
		}
		return true
	})
	require.Positive(t, wins)
	require.Positive(t, tokens)
}

// redBoundsOf reads the constants of a walk.
func redBoundsOf(t *testing.T, line string) RedBounds {
	var c map[string]string
	require.NoError(t, json.Unmarshal([]byte(line), &c))
	number := func(name string) int {
		n, err := strconv.Atoi(c[name])
		require.NoError(t, err)
		return n
	}
	return RedBounds{Procs: strings.Count(c["Procs"], "p"), Servers: strings.Count(c["Servers"], "s"), Lease: number("Lease"), Restarts: number("Restarts"),
		MaxToken: number("MaxToken"), Fenced: c["Fenced"] == "TRUE", Renewing: c["Renewing"] == "TRUE", Again: c["Again"] == "TRUE", Away: c["Away"] == "TRUE"}
}

// redStateOf reads a state as TLC writes it.
func redStateOf(t *testing.T, line string, b RedBounds) RedState {
	vars := varsOf(t, line)
	record := func(x any, name string, i int) map[string]any {
		return x.(map[string]any)[fmt.Sprintf("%s%d", name, i+1)].(map[string]any)
	}
	s := RedState{Top: vars["top"].(int), Fell: vars["fell"].(bool), Restarts: vars["restarts"].(int)}
	for i := range b.Servers {
		x := record(vars["srv"], "s", i)
		owner, err := strconv.Atoi(strings.TrimPrefix(x["owner"].(string), "p"))
		if err != nil {
			owner = 0 // None
		}
		s.Srv = append(s.Srv, RedServer{owner - 1, x["left"].(int), x["token"].(int), x["away"].(int)})
	}
	for p := range b.Procs {
		x := record(vars["proc"], "p", p)
		s.Proc = append(s.Proc, RedProc{x["st"].(string), x["token"].(int)})
		var slots []RedSlot
		for i := range b.Servers {
			x := record(record(vars["slot"], "p", p), "s", i)
			slots = append(slots, RedSlot{x["st"].(string), x["age"].(int), x["trust"].(int), x["token"].(int), x["renew"].(string), x["of"].(int)})
		}
		s.Slot = append(s.Slot, slots)
	}
	return s
}
