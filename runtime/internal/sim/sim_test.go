package sim

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	seeds   = flag.Int("seeds", usual, "how many worlds to run")
	from    = flag.Uint64("from", 1, "the seed of the first of them")
	oneSeed = flag.Uint64("seed", 0, "the seed of the only world to run")
	onlyOf  = flag.String("kind", "", "run worlds of this kind of lock only")
	repeats = flag.Int("repeats", 100, "how often a world that fails is run again")
	verbose = flag.Bool("events", false, "print the events of each world")
	first   = flag.Bool("first", false, "end with the first world that fails, and print nothing but its seed")
	results = flag.String("results", "", "a folder to write to what the document is made of")
)

// A tally is what running some worlds came to.
type tally struct {
	From    uint64         `json:"from"`
	Worlds  int            `json:"worlds"`
	Wall    time.Duration  `json:"wall"`
	CPU     time.Duration  `json:"cpu"`
	Virtual time.Duration  `json:"virtual"`
	Done    map[string]int `json:"done"`
	Failed  []string       `json:"failed"`
}

// TestWorlds runs worlds.
func TestWorlds(t *testing.T) {
	sum := tally{From: *from, Worlds: *seeds, Done: map[string]int{}}
	if *oneSeed != 0 {
		sum.From, sum.Worlds = *oneSeed, 1
	}
	began, used := time.Now(), cpu(t)
	for i := range sum.Worlds {
		o := run(t, sum.From+uint64(i), *onlyOf)
		sum.Virtual += o.virtual
		sum.Done["worlds of "+o.kind]++
		if o.lingers {
			sum.Done["worlds with keys that linger"]++
		}
		for what, n := range o.done {
			sum.Done[what] += n
		}
		if *verbose {
			fmt.Println(strings.Join(o.log, "\n"))
		}
		if len(o.failures) > 0 && *first {
			fmt.Printf("seed %d: %s\n", i+1, strings.TrimSpace(o.failures[0]))
			os.Exit(1)
		}
		if len(o.failures) > 0 {
			said := o.tell(t)
			sum.Failed = append(sum.Failed, said)
			t.Error(said)
		}
		if n := i + 1; *results != "" && n%100 == 0 {
			fmt.Fprintf(os.Stderr, "%d of %d worlds, %.1f a second, %.0f hours of virtual time, %d failed\n",
				n, sum.Worlds, float64(n)/time.Since(began).Seconds(), sum.Virtual.Hours(), len(sum.Failed))
		}
	}
	sum.Wall, sum.CPU = time.Since(began), cpu(t)-used
	t.Logf("%d worlds in %v, %v of CPU%s, %v of virtual time: %v", sum.Worlds, sum.Wall.Round(time.Millisecond), sum.CPU, bound(sum), sum.Virtual, sum.Done)
	save(t, fmt.Sprintf("worlds-%06d.json", sum.From), sum)
}

// mostCPU is how much CPU the worlds of make test may use. It is printed, and not required: a busy machine takes longer.
const mostCPU = time.Minute

// bound says how much CPU some worlds may use, if it is bounded.
func bound(sum tally) string {
	if sum.From != 1 || sum.Worlds != usual || *onlyOf != "" {
		return ""
	}
	return fmt.Sprintf(" of at most %v (%.0f%%)", mostCPU, 100*sum.CPU.Seconds()/mostCPU.Seconds())
}

// save writes what the document is made of.
func save(t *testing.T, name string, what any) {
	if *results == "" {
		return
	}
	text, err := json.MarshalIndent(what, "", "\t")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(*results, name), text, 0o644))
}

// tell says what went wrong, how often it does, and where the events are.
func (o *outcome) tell(t *testing.T) string {
	again := 0
	for range *repeats {
		if o := run(t, o.seed, *onlyOf); len(o.failures) > 0 {
			again++
		}
	}
	file := filepath.Join(os.TempDir(), fmt.Sprintf("lockgen-sim-%d.log", o.seed))
	if err := os.WriteFile(file, []byte(strings.Join(o.log, "\n")), 0o644); err != nil {
		file = err.Error()
	}
	last := o.log[max(0, len(o.log)-mostTold):]
	return fmt.Sprintf("seed %d (%s):\n  %s\nIt fails in %d of %d repeats. The last %d of its %d events, all of which are in %s:\n%s",
		o.seed, o.kind, strings.Join(o.failures[:min(5, len(o.failures))], "\n  "), again, *repeats, len(last), len(o.log), file, strings.Join(last, "\n"))
}

// mostTold is how many events of a world that fails are printed.
const mostTold = 300

// TestTell shows that a world that fails prints its seed, its events in the server's order, and how often it fails.
func TestTell(t *testing.T) {
	before := *repeats
	defer func() { *repeats = before }()
	*repeats = 2
	o := run(t, 7, "mutex")
	require.Empty(t, o.failures)
	require.Greater(t, len(o.log), mostTold)
	o.failures = []string{"it is broken"}
	said := o.tell(t)
	require.Contains(t, said, fmt.Sprintf("seed 7 (mutex):\n  it is broken\nIt fails in 0 of 2 repeats. The last %d of its %d events", mostTold, len(o.log)))
	require.True(t, strings.HasSuffix(said, strings.Join(o.log[len(o.log)-mostTold:], "\n")))
	file := filepath.Join(os.TempDir(), "lockgen-sim-7.log")
	defer os.Remove(file)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, strings.Join(o.log, "\n"), string(text))
}
