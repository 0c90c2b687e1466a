package spec

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRWStates has the relation in Go reach as many states as TLC finds in RWMutex.tla, of those that differ in names alone one where TLC
// does so.
func TestRWStates(t *testing.T) {
	results, err := os.ReadFile("RESULTS.md")
	require.NoError(t, err)
	for name, b := range map[string]RWBounds{
		"the rule of whose turn it is, one process dies": {Readers: 2, Writers: 2, Deaths: 1},
		"the server knows who is dead; Redisson races":   {Readers: 2, Writers: 2, Deaths: 2, Known: true, Java: true},
		"liveness: a waiter is served, or gives up":      {Readers: 1, Writers: 2, Deaths: 1},
	} {
		t.Run(name, func(t *testing.T) {
			row := regexp.MustCompile(`(?m)^\| RWMutex \| ` + name + ` \|.*\| (\d+) \| holds, all states seen \|$`).FindStringSubmatch(string(results))
			require.NotNil(t, row, "RESULTS.md has no row of it: make spec")
			require.Equal(t, row[1], strconv.Itoa(b.reach(!strings.HasPrefix(name, "liveness"))))
		})
	}
}

// TestRWWalks replays random walks that TLC made through RWMutex.tla: each step is one of the relation in Go.
func TestRWWalks(t *testing.T) {
	seen := map[string]bool{}
	walk(t, walksOf(t, "RWMutex.tla", "rwwalks.txt"), rwBoundsOf, rwStateOf, func(b RWBounds, before, now RWState) bool {
		seen[before.Mode+" "+now.Mode] = true
		seen[now.Turn.Whose] = true
		return slices.ContainsFunc(b.Next(before), func(to RWState) bool { return to.Key() == now.Key() })
	})
	for _, what := range []string{"free read", "free write", "read free", "write free", "read read", "write write", "free free", "read", "write", "none", "redisson"} {
		require.True(t, seen[what], "no walk comes by %q", what)
	}
}

// rwBoundsOf reads the constants of a walk.
func rwBoundsOf(t *testing.T, line string) RWBounds {
	var c map[string]string
	require.NoError(t, json.Unmarshal([]byte(line), &c))
	deaths, err := strconv.Atoi(c["Deaths"])
	require.NoError(t, err)
	return RWBounds{Readers: strings.Count(c["Procs"], "r"), Writers: strings.Count(c["Procs"], "w"), Deaths: deaths,
		Known: c["Known"] == "TRUE", Java: c["Java"] == "TRUE"}
}

// rwStateOf reads a state as TLC writes it.
func rwStateOf(t *testing.T, line string, _ RWBounds) RWState {
	vars := varsOf(t, line)
	record := func(x any) map[string]any { return x.(map[string]any) }
	names := func(x any) (all []string) {
		for _, name := range x.([]any) {
			all = append(all, strings.Replace(name.(string), "None", javas, 1))
		}
		return all
	}
	lock, queue, turn := record(vars["lock"]), record(vars["queue"]), record(vars["turn"])
	s := RWState{Proc: map[string]string{}, Deaths: vars["deaths"].(int)}
	s.Mode, s.By = lock["mode"].(string), names(lock["by"])
	s.Readers, s.Writers = names(queue["read"]), names(queue["write"])
	s.Turn = Turn{Whose: turn["whose"].(string), Last: turn["last"].(string), Called: names(turn["called"]), On: turn["on"].(bool)}
	for name, p := range record(vars["proc"]) {
		s.Proc[name] = record(p)["st"].(string)
	}
	slices.Sort(s.By)
	slices.Sort(s.Turn.Called)
	return s
}

// reach returns how many states there are; of those that differ in names alone it counts one if alike is set.
func (b RWBounds) reach(alike bool) int {
	classes := map[string]bool{}
	reach(b.Init(), func(s RWState, to func(RWState)) {
		for _, next := range b.Next(s) {
			to(next)
		}
	}, func(s RWState) {
		class := s.Key()
		for _, names := range []*strings.Replacer{
			strings.NewReplacer("r1", "r2", "r2", "r1"), strings.NewReplacer("w1", "w2", "w2", "w1"),
			strings.NewReplacer("r1", "r2", "r2", "r1", "w1", "w2", "w2", "w1"),
		} {
			if alike {
				class = min(class, s.renamed(names).Key())
			}
		}
		classes[class] = true
	})
	return len(classes)
}

func (s RWState) renamed(names *strings.Replacer) RWState {
	all := func(some []string) (to []string) {
		for _, p := range some {
			to = append(to, names.Replace(p))
		}
		return to
	}
	to := s.to(s.RW)
	to.By, to.Readers, to.Writers, to.Turn.Called = all(s.By), all(s.Readers), all(s.Writers), all(s.Turn.Called)
	slices.Sort(to.By)
	slices.Sort(to.Turn.Called)
	for p, st := range s.Proc {
		to.Proc[names.Replace(p)] = st
	}
	return to
}

// TestRWCheckRejects has traces leave the protocol, each with its last event.
func TestRWCheckRejects(t *testing.T) {
	const ms = time.Millisecond
	hears := func(place string) bool { return !strings.HasPrefix(place, "d") }
	free := func(t Turn, lines ...[]string) *RWSeen { return seenRW(RW{Mode: "free", Turn: t}, 0, lines...) }
	held := func(mode, by string, left time.Duration, lines ...[]string) *RWSeen {
		return seenRW(RW{Mode: mode, By: []string{by}, Turn: NoTurn}, left, lines...)
	}
	turn := func(whose string, for_ time.Duration, called ...string) Turn {
		return Turn{Whose: whose, Last: whose, Called: called, On: len(called) > 0, For: for_}
	}
	ask := func(at time.Duration, side, owner, place string, granted bool, srv *RWSeen) RWSaid {
		return RWSaid{At: at, Action: "Ask", Side: side, Owner: owner, Place: place, TTL: time.Second, Granted: granted, Hears: hears, Srv: srv}
	}
	release := func(at time.Duration, side, owner string, srv *RWSeen) RWSaid {
		return RWSaid{At: at, Action: "Release", Side: side, Owner: owner, Hears: hears, Srv: srv}
	}
	writes := []RWSaid{ask(0, "write", "a:1", "a:1", true, held("write", "a:1", time.Second))}
	reads := []RWSaid{ask(0, "read", "a:1", "a:1", true, held("read", "a:1", time.Second))}
	readsThenWaits := append(slices.Clone(reads), ask(ms, "write", "b:1", "b:1", false, held("read", "a:1", 999*ms, nil, []string{"b:1"})))
	two := append(slices.Clone(writes),
		ask(ms, "write", "b:1", "b:1", false, held("write", "a:1", 999*ms, nil, []string{"b:1"})),
		ask(2*ms, "read", "c:1", "c:1", false, held("write", "a:1", 998*ms, []string{"c:1"}, []string{"b:1"})))
	called := append(slices.Clone(two), release(3*ms, "write", "a:1", free(turn("read", 100*ms, "c:1"), nil, []string{"b:1"})))
	with := func(some []RWSaid, last RWSaid) []RWSaid { return append(slices.Clone(some), last) }
	for name, trace := range map[string][]RWSaid{
		"granted though somebody writes": with(writes, ask(ms, "read", "b:1", "", true, seenRW(RW{Mode: "write", By: []string{"a:1", "b:1"}, Turn: NoTurn}, 999*ms))),
		"granted past a writer in line": with(readsThenWaits, ask(2*ms, "read", "c:1", "c:1", true,
			seenRW(RW{Mode: "read", By: []string{"a:1", "c:1"}, Turn: NoTurn}, time.Second, nil, []string{"b:1"}))),
		"refused though it is free":             {ask(0, "read", "a:1", "a:1", false, free(NoTurn, []string{"a:1"}))},
		"in line though it does not":            with(writes, ask(ms, "read", "b:1", "", false, held("write", "a:1", 999*ms, []string{"b:1"}))),
		"not in line though it waits":           with(writes, ask(ms, "read", "b:1", "b:1", false, held("write", "a:1", 999*ms))),
		"the same side again":                   with(two, release(3*ms, "write", "a:1", free(turn("write", 100*ms, "b:1"), []string{"c:1"}))),
		"nobody is called":                      with(two, release(3*ms, "write", "a:1", free(NoTurn, []string{"c:1"}, []string{"b:1"}))),
		"who is called stays in line":           with(two, release(3*ms, "write", "a:1", free(turn("read", 100*ms, "c:1"), []string{"c:1"}, []string{"b:1"}))),
		"a turn that counts for long":           with(two, release(3*ms, "write", "a:1", free(turn("read", 150*ms, "c:1"), nil, []string{"b:1"}))),
		"Redisson's turn without any":           with(two[:2], release(3*ms, "write", "a:1", free(Turn{Whose: "redisson", Last: "write", On: true, For: 5 * ms}, nil, []string{"b:1"}))),
		"a writer in the readers' turn":         with(called, ask(4*ms, "write", "b:1", "b:1", true, seenRW(RW{Mode: "write", By: []string{"b:1"}, Turn: turn("read", 99*ms, "c:1")}, time.Second))),
		"who has come is called still":          with(called, ask(4*ms, "read", "c:1", "c:1", true, seenRW(RW{Mode: "read", By: []string{"c:1"}, Turn: turn("read", 99*ms, "c:1")}, time.Second, nil, []string{"b:1"}))),
		"who gives up is called still":          with(called, release(4*ms, "read", "c:1", free(turn("read", 99*ms, "c:1"), nil, []string{"b:1"}))),
		"a longer lease":                        {ask(0, "read", "a:1", "a:1", true, held("read", "a:1", 2*time.Second))},
		"a lease that ends too early":           with(writes, ask(500*ms, "read", "b:1", "b:1", false, free(NoTurn, []string{"b:1"}))),
		"a renewal of what others have":         with(writes, RWSaid{At: ms, Action: "Renew", Side: "write", Owner: "b:1", TTL: time.Second, Srv: held("write", "a:1", 999*ms)}),
		"kept by the owner that gives it back":  with(writes, release(ms, "write", "a:1", held("write", "a:1", 999*ms))),
		"taken by the owner that gives it back": with(writes, release(ms, "write", "b:1", free(NoTurn))),
	} {
		c := NewRWCheck(ms / 2)
		for i, e := range trace {
			err := c.Say(e)
			if i == len(trace)-1 {
				require.ErrorContains(t, err, "leaves the protocol", name)
			} else {
				require.NoError(t, err, name)
			}
		}
	}
	// The lease of a reader runs out, and its renewal arrives late. The lock is still there for another one.
	lapsing := []RWSaid{
		ask(0, "read", "a:1", "a:1", true, held("read", "a:1", time.Second)),
		ask(ms, "read", "b:1", "b:1", true, &RWSeen{RW: RW{Mode: "read", By: []string{"a:1", "b:1"}, Turn: NoTurn}, Left: 2 * time.Second,
			Holds: map[string]time.Duration{"a:1": 999 * ms, "b:1": 2 * time.Second}}),
	}
	lapsing[1].TTL = 2 * time.Second
	renews := func(owner string) RWSaid {
		return RWSaid{At: 1101 * ms, Action: "Renew", Side: "read", Owner: owner, TTL: 500 * ms, Srv: &RWSeen{
			RW: RW{Mode: "read", By: slices.Sorted(slices.Values([]string{owner, "b:1"})), Turn: NoTurn}, Left: 900 * ms,
			Holds: map[string]time.Duration{owner: 500 * ms, "b:1": 900 * ms}}}
	}
	for owner, wrong := range map[string]bool{"a:1": false, "c:1": true} {
		c := NewRWCheck(ms / 2)
		for _, e := range lapsing {
			require.NoError(t, c.Say(e))
		}
		require.Equal(t, wrong, c.Say(renews(owner)) != nil, "the renewal of %s", owner)
	}
	c := NewRWCheck(ms / 2)
	for _, e := range append(called,
		ask(4*ms, "read", "c:1", "c:1", true, seenRW(RW{Mode: "read", By: []string{"c:1"}, Turn: turn("read", 99*ms)}, time.Second, nil, []string{"b:1"})),
		RWSaid{At: 104 * ms, Action: "Renew", Side: "read", Owner: "c:1", TTL: time.Second, Srv: seenRW(RW{Mode: "read", By: []string{"c:1"}, Turn: turn("read", 0)}, time.Second, nil, []string{"b:1"})},
		release(105*ms, "read", "c:1", free(turn("write", 100*ms, "b:1"))),
		ask(300*ms, "write", "b:1", "b:1", true, seenRW(RW{Mode: "write", By: []string{"b:1"}, Turn: turn("write", 0)}, time.Second)),     // which is over
		ask(2*time.Second, "read", "c:2", "c:2", true, seenRW(RW{Mode: "read", By: []string{"c:2"}, Turn: turn("read", 0)}, time.Second)), // the lease has run out
	) {
		require.NoError(t, c.Say(e))
	}
}

// TestRWCheck_KeepsLinesAndTurns has nothing seen of a server for long: a line lasts from the last one that asked to stand in it, and a
// turn from when it was given.
func TestRWCheck_KeepsLinesAndTurns(t *testing.T) {
	t.Parallel()
	const second = time.Second
	hears := func(string) bool { return true }
	begins := func() *RWCheck {
		c := NewRWCheck(second / 10)
		require.NoError(t, c.Say(RWSaid{Action: "Ask", Side: "write", Owner: "a:1", Place: "a:1", Lasts: 2 * second, TTL: 9 * second, Granted: true}))
		require.NoError(t, c.Say(RWSaid{At: 5 * second, Action: "Ask", Side: "read", Owner: "b:1", Place: "b:1", Lasts: 2 * second, TTL: second}))
		return c
	}
	called := Turn{Whose: "read", Last: "read", Called: []string{"b:1"}, On: true, For: graceTurn}
	release := func(at time.Duration, seen *RWSeen) RWSaid {
		return RWSaid{At: at, Action: "Release", Side: "write", Owner: "a:1", Hears: hears, Srv: seen}
	}
	require.NoError(t, begins().Say(release(6*second, seenRW(RW{Mode: "free", Turn: called}, 0))), "it stands there")
	require.Error(t, begins().Say(release(6*second, seenRW(RW{Mode: "free", Turn: NoTurn}, 0))))
	require.NoError(t, begins().Say(release(8*second, seenRW(RW{Mode: "free", Turn: NoTurn}, 0))), "the line is dropped")
	require.Error(t, begins().Say(release(8*second, seenRW(RW{Mode: "free", Turn: called}, 0))))

	asks := func(at time.Duration, turn Turn) error {
		c := begins()
		require.NoError(t, c.Say(release(6*second, nil)))
		return c.Say(RWSaid{At: at, Action: "Ask", Side: "read", Owner: "b:1", Place: "b:1", Lasts: 2 * second, TTL: second, Granted: true,
			Srv: seenRW(RW{Mode: "read", By: []string{"b:1"}, Turn: turn}, second)})
	}
	come := Turn{Whose: "read", Last: "read", On: true, For: graceTurn}
	require.NoError(t, asks(6*second+graceTurn/5, come), "it is its turn")
	require.NoError(t, asks(9*second, NoTurn), "the turn is forgotten")
	require.Error(t, asks(9*second, come))
}

// seenRW returns a lock as a server has it.
func seenRW(l RW, left time.Duration, lines ...[]string) *RWSeen {
	s := &RWSeen{RW: l, Left: left, Holds: map[string]time.Duration{}, Known: l.Turn.For + 2*time.Second, Lines: [2]time.Duration{time.Minute, time.Minute}}
	if len(lines) > 0 {
		s.Readers = lines[0]
	}
	if len(lines) > 1 {
		s.Writers = lines[1]
	}
	if l.Mode == "read" {
		for _, p := range l.By {
			s.Holds[p] = left
		}
	}
	return s
}
