package spec

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWalks replays random walks that TLC made through Mutex.tla: each step is one of the relation in Go.
func TestWalks(t *testing.T) {
	seen := map[string]bool{}
	walk(t, walksOf(t, "Mutex.tla", "walks.txt"), boundsOf, stateOf, func(b Bounds, before, now State) bool {
		action, ok := b.action(before, now)
		seen[action] = true
		return ok
	})
	for _, action := range []string{"Tick", "Begin", "Again", "Unknown", "GiveUp", "Granted", "Refused", "Unlock", "RunAcquire", "RunRelease", "GivenBack", "Lose"} {
		require.True(t, seen[action], "no walk takes %s", action)
	}
}

// walk requires that each state of some walks leads to the next one by a step of the relation in Go with bounds b.
func walk[B interface{ Init() S }, S interface{ Key() string }](t *testing.T, lines []string, bounds func(*testing.T, string) B,
	state func(*testing.T, string, B) S, step func(b B, before, now S) bool) {
	t.Helper()
	var (
		b      B
		before S
		known  bool
		steps  int
	)
	for _, line := range lines {
		if strings.HasPrefix(line, "{") {
			b, known = bounds(t, line), false
			continue
		}
		now := state(t, line, b)
		if !known {
			require.Equal(t, b.Init().Key(), now.Key())
		} else if now.Key() != before.Key() {
			require.True(t, step(b, before, now), "no step leads from\n%+v\nto\n%+v", before, now)
			steps++
		}
		before, known = now, true
	}
	require.Greater(t, steps, 500)
}

// walksOf returns the lines of the walks through a module, but for the first, which says of which text they are.
func walksOf(t *testing.T, module, walks string) []string {
	text, err := os.ReadFile(filepath.Join("testdata", walks))
	require.NoError(t, err)
	of, err := os.ReadFile(module)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	require.Equal(t, fmt.Sprintf("%x", sha256.Sum256([]byte(Bare(module, string(of))))), lines[0], "walks of another module: go run ./spec/check -walks")
	return lines[1:]
}

// TestStates shows that the relation in Go reaches as many states as TLC found, so that it permits nothing that the
// module does not: with TestWalks they are the same ones.
func TestStates(t *testing.T) {
	for name, b := range map[string]Bounds{
		"beside Go: all messages may be lost":  {Procs: 2, Numbers: 1, Lease: 2, Claim: 1, MaxNet: 1, Lossy: true, Contended: true},
		"beside Go: faults of the server":      {Procs: 2, Numbers: 1, Lease: 1, Claim: 1, MaxNet: 1, Faults: 1, Kinds: []string{"flush", "failover", "ahead", "back"}},
		"beside Go: faults beside it, a racer": {Procs: 2, Numbers: 1, Lease: 1, Claim: 1, MaxNet: 1, Faults: 1, Kinds: []string{"crash", "repeat", "lose"}, Java: true, Prompt: true},
	} {
		t.Run(name, func(t *testing.T) {
			requireStates(t, "Mutex", name, reach(b.Init(), func(s State, to func(State)) {
				for _, step := range b.Next(s) {
					to(step.To)
				}
			}, func(State) {}))
		})
	}
}

// action returns which action leads from one state to another.
func (b Bounds) action(from, to State) (name string, ok bool) {
	for _, step := range b.Next(from) {
		if step.To.Key() == to.Key() {
			return step.Action, true
		}
	}
	return "", false
}

// reach calls visit for each state that can be reached from first, and returns how many there are.
func reach[S interface{ Key() string }](first S, next func(s S, to func(S)), visit func(S)) int {
	seen, todo := map[string]bool{first.Key(): true}, []S{first}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		visit(s)
		next(s, func(to S) {
			if key := to.Key(); !seen[key] {
				seen[key] = true
				todo = append(todo, to)
			}
		})
	}
	return len(seen)
}

// requireStates requires that TLC found as many states, by the row name of a module in RESULTS.md.
func requireStates(t *testing.T, module, name string, states int) {
	t.Helper()
	results, err := os.ReadFile("RESULTS.md")
	require.NoError(t, err)
	row := regexp.MustCompile(`(?m)^\| ` + module + ` \| ` + name + ` \|.*\| (\d+) \| holds, all states seen \|$`).FindStringSubmatch(string(results))
	require.NotNil(t, row, "RESULTS.md has no row of it: make spec")
	require.Equal(t, row[1], strconv.Itoa(states))
}

// boundsOf reads the constants of a walk.
func boundsOf(t *testing.T, line string) Bounds {
	var c map[string]string
	require.NoError(t, json.Unmarshal([]byte(line), &c))
	number := func(name string) int {
		n, err := strconv.Atoi(c[name])
		require.NoError(t, err)
		return n
	}
	b := Bounds{Lease: number("Lease"), Claim: number("Claim"), MaxNet: number("MaxNet"), Faults: number("Faults"),
		Procs: strings.Count(c["Procs"], "p"), Numbers: strings.Count(c["Numbers"], ",") + 1,
		Lossy: c["Lossy"] == "TRUE", Prompt: c["Prompt"] == "TRUE", Contended: c["Contended"] == "TRUE", Java: c["Java"] == "TRUE"}
	b.Kinds = regexp.MustCompile(`\w+`).FindAllString(c["Kinds"], -1)
	return b
}

// varsOf reads the values of the variables of a state as TLC writes it.
func varsOf(t *testing.T, line string) map[string]any {
	vars := map[string]any{}
	for _, part := range strings.Split(line, `/\ `)[1:] {
		name, value, ok := strings.Cut(part, " = ")
		require.True(t, ok, part)
		v := values{words: regexp.MustCompile(`<<|>>|\|->|:>|@@|[\[\](){},]|"[^"]*"|-?\w+`).FindAllString(value, -1)}
		vars[name] = v.next()
		require.Empty(t, v.words, part)
	}
	return vars
}

// stateOf reads a state as TLC writes it.
func stateOf(t *testing.T, line string, b Bounds) State {
	vars := varsOf(t, line)
	s := State{Srv: serverOf(vars["srv"]), Fell: vars["fell"].(bool), Left: vars["left"].(int)}
	procs := vars["proc"].(map[string]any)
	require.Len(t, procs, b.Procs)
	for i := range b.Procs {
		p := procs[fmt.Sprintf("p%d", i+1)].(map[string]any)
		s.Proc = append(s.Proc, Proc{p["st"].(string), p["n"].(int), p["made"].(int), p["slack"].(int), p["asking"].(bool), p["doubt"].(bool), p["trust"].(int), false})
	}
	for _, x := range vars["net"].([]any) {
		m := x.(map[string]any)
		s.Net = append(s.Net, Message{m["kind"].(string), ownerOf(m["o"]), m["age"].(int), m["arg"].(int), 0})
	}
	for _, x := range vars["gone"].([]any) {
		g := x.(map[string]any)
		s.Gone = append(s.Gone, Gone{ownerOf(g["o"]), g["doubt"].(bool), g["until"].(int)})
	}
	for _, x := range vars["lost"].([]any) {
		s.Lost = append(s.Lost, ownerOf(x))
	}
	if c, ok := vars["copy"].(map[string]any); ok {
		s.Copy = []Server{serverOf(c)}
	}
	return s.tidy(false)
}

func serverOf(x any) Server {
	v := x.(map[string]any)
	s := Server{ownerOf(v["owner"]), v["left"].(int), nil, v["how"].(string), v["kept"].(bool), v["since"].(int)}
	for _, o := range v["line"].([]any) {
		s.Line = append(s.Line, ownerOf(o))
	}
	return s
}

func ownerOf(x any) Owner {
	pair, ok := x.([]any)
	switch {
	case !ok:
		return None
	case pair[0] == "None":
		return Redisson
	}
	p, _ := strconv.Atoi(pair[0].(string)[1:])
	return Owner{p - 1, pair[1].(int)}
}

// values reads values of TLA+: records and functions as maps, tuples and sets as slices, names as strings.
type values struct{ words []string }

func (v *values) word() string {
	w := v.words[0]
	v.words = v.words[1:]
	return w
}

func (v *values) next() any {
	switch w := v.word(); {
	case w == "[":
		return v.pairs("|->", ",", "]")
	case w == "(":
		return v.pairs(":>", "@@", ")")
	case w == "<<":
		return v.list(">>")
	case w == "{":
		return v.list("}")
	case w == "TRUE", w == "FALSE":
		return w == "TRUE"
	case w[0] == '"':
		return w[1 : len(w)-1]
	default:
		if n, err := strconv.Atoi(w); err == nil {
			return n
		}
		return w
	}
}

func (v *values) pairs(to, and, end string) map[string]any {
	all := map[string]any{}
	for {
		name := v.word()
		if v.word() != to {
			panic("not " + to)
		}
		all[name] = v.next()
		if v.word() == end {
			return all
		}
	}
}

func (v *values) list(end string) []any {
	all := []any{}
	for v.words[0] != end {
		if v.words[0] == "," {
			v.word()
			continue
		}
		all = append(all, v.next())
	}
	v.word()
	return all
}
