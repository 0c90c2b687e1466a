package spec

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMultiStates has the relation in Go reach as many states as TLC finds in MultiLock.tla.
func TestMultiStates(t *testing.T) {
	for name, b := range map[string]MultiBounds{
		"three members, two of which the other wants":      {Procs: 2, Members: 3, Lease: 1, Losses: 1, Some: []int{1}},
		"beside Go: three processes, a lease of two units": {Procs: 3, Members: 2, Lease: 2, Some: []int{2}},
	} {
		t.Run(name, func(t *testing.T) {
			requireStates(t, "MultiLock", name, reach(b.Init(), func(s MultiState, to func(MultiState)) {
				for _, step := range b.Next(s) {
					to(step.To)
				}
			}, func(MultiState) {}))
		})
	}
}

// TestMultiWalks replays random walks that TLC made through MultiLock.tla: each step is one of the relation in Go.
func TestMultiWalks(t *testing.T) {
	seen := map[string]bool{}
	walk(t, walksOf(t, "MultiLock.tla", "multiwalks.txt"), multiBoundsOf, multiStateOf, func(b MultiBounds, before, now MultiState) bool {
		for _, step := range b.Next(before) {
			if step.To.Key() == now.Key() {
				seen[step.Action] = true
				return true
			}
		}
		return false
	})
	for _, action := range []string{"Tick", "Begin", "Try", "TryLost", "Stand", "Handed", "Take", "End", "Lost", "Release", "Delete"} {
		require.True(t, seen[action], "no walk has %s", action)
	}
}

// multiBoundsOf reads the constants of a walk.
func multiBoundsOf(t *testing.T, line string) (b MultiBounds) {
	var c map[string]string
	require.NoError(t, json.Unmarshal([]byte(line), &c))
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		return n
	}
	b = MultiBounds{Procs: strings.Count(c["Procs"], "p"), Members: strings.Count(c["Members"], ",") + 1, Lease: number(c["Lease"]), Losses: number(c["Losses"])}
	for p := range b.Procs {
		if strings.Contains(c["Some"], fmt.Sprintf("p%d", p+1)) {
			b.Some = append(b.Some, p)
		}
	}
	return b
}

// multiStateOf reads a state as TLC writes it.
func multiStateOf(t *testing.T, line string, b MultiBounds) MultiState {
	vars := varsOf(t, line)
	proc := func(x any) int { // -1 of None
		p, err := strconv.Atoi(strings.TrimPrefix(x.(string), "p"))
		if err != nil {
			return -1
		}
		return p - 1
	}
	s := MultiState{Losses: vars["losses"].(int)}
	for _, x := range vars["srv"].([]any) {
		x := x.(map[string]any)
		srv := MultiServer{Owner: proc(x["owner"]), Left: x["left"].(int)}
		for _, p := range x["line"].([]any) {
			srv.Line = append(srv.Line, proc(p))
		}
		s.Srv = append(s.Srv, srv)
	}
	for p := range b.Procs {
		name := fmt.Sprintf("p%d", p+1)
		x := vars["proc"].(map[string]any)[name].(map[string]any)
		s.Proc = append(s.Proc, MultiProc{x["st"].(string), x["for"].(int) - 1})
		var parts []MultiPart
		for _, x := range vars["part"].(map[string]any)[name].([]any) {
			x := x.(map[string]any)
			parts = append(parts, MultiPart{x["st"].(string), x["trust"].(int)})
		}
		s.Part = append(s.Part, parts)
	}
	return s
}
