// Package tracetest compares the moves of state machines with those that docs/architecture.md draws, and replays what clients and servers
// do against the specification. It serves tests alone.
package tracetest

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/lockgen/lockgen/runtime/internal/trace"
)

// A Move is one of a machine, like {"ticket", "idle", "asking"}.
type Move struct{ Machine, From, To string }

// Moves are moves of machines.
type Moves map[Move]bool

// A Recorder notes the moves of all clients of the process.
type Recorder struct {
	mu   sync.Mutex
	seen Moves
}

// Record begins to note moves.
func Record() *Recorder {
	r := &Recorder{seen: Moves{}}
	trace.Watched(func(machine, from, to string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.seen[Move{machine, from, to}] = true
	})
	return r
}

// Seen returns the moves until now.
func (r *Recorder) Seen() Moves {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.seen)
}

// Drawn returns the moves that the tables of a page draw. The head of a table begins with the machine and ends with "goes to".
func Drawn(page string) (Moves, error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	drawn, machine := Moves{}, ""
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		from, to := strings.TrimSpace(cells[0]), strings.TrimSpace(cells[len(cells)-1])
		switch {
		case len(cells) < 3:
			machine = ""
		case to == "goes to":
			machine = from
		case machine != "" && to != "" && !strings.HasPrefix(to, "---"):
			for next := range strings.SplitSeq(to, ",") {
				drawn[Move{machine, from, strings.TrimSpace(next)}] = true
			}
		}
	}
	return drawn, nil
}

// Run runs the tests of a package and returns the exit code. It fails if there was a move that the page does not draw.
func (r *Recorder) Run(tests interface{ Run() int }, page string) int {
	code := tests.Run()
	drawn, err := Drawn(page)
	if os.IsNotExist(err) {
		return code // a test binary that was moved, and has no page beside it
	}
	for move := range r.Seen() {
		if !drawn[move] {
			fmt.Fprintf(os.Stderr, "%s does not draw that a %s goes from %s to %s\n", page, move.Machine, move.From, move.To)
			code = 1
		}
	}
	return code
}

// RunAll is Run, and fails if the whole package was run and one of these machines did not make a move that the page draws.
func (r *Recorder) RunAll(tests interface{ Run() int }, page string, machines ...string) int {
	code := r.Run(tests, page)
	if code != 0 || flag.Lookup("test.run").Value.String() != "" || flag.Lookup("test.list").Value.String() != "" {
		return code
	}
	drawn, err := Drawn(page)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	seen, looked := r.Seen(), 0
	for move := range drawn {
		if !slices.Contains(machines, move.Machine) {
			continue
		}
		if looked++; !seen[move] {
			fmt.Fprintf(os.Stderr, "no test has a %s go from %s to %s\n", move.Machine, move.From, move.To)
			code = 1
		}
	}
	if looked < 2*len(machines) {
		fmt.Fprintf(os.Stderr, "%s draws %d moves of %v\n", page, looked, machines)
		code = 1
	}
	return code
}
