package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// metrics are the figures of one library in one round of one scenario. Times are nanoseconds.
type metrics map[string]float64

// An env has the settings of a round.
type env struct {
	*server
	length  time.Duration // of the counted time
	rest    time.Duration // of the observed idle time
	held    int           // locks of S6 and S7
	profile string        // a folder, or empty

	servers string // several, with commas between; empty for the server
	ready   func() // called when all clients have connected; or nil
}

// A scenario is one situation with the goals for it.
type scenario struct {
	id    string // as in "S1"
	point string // of a plot or a table with several: "16"
	title string
	how   string // in the report: how it is done and measured
	fit   func(lib library) bool
	of    string // the primitive that it measures, if that is not the Mutex
	plain bool   // locks that are no libraries are compared as well
	here  bool   // workers have no part in it: another tree's cannot be measured
	run   func(ctx context.Context, e *env, lib library) (metrics, error)

	columns  []column
	headline headline
	goals    []goal
	floors   []string // experiments that reach as much of a goal as can be reached: one that lockgen and they miss is out of reach here
}

func (s *scenario) name() string {
	if s.point == "" {
		return s.id
	}
	return s.id + ", " + s.point
}

// fits reports whether a library can do what the scenario measures, or is one of its experiments.
func (s *scenario) fits(lib library) bool {
	if lib.bare {
		return slices.Contains(s.floors, lib.name)
	}
	return s.fit(lib)
}

// us is the primitive that the scenario measures.
func (s *scenario) us() string { return cmp.Or(s.of, lockgen) }

// A headline is the one figure that stands for a scenario.
type headline struct {
	metric string
	format format
	unit   string
	lowest bool   // less is better
	needs  string // only libraries that have this metric as well are compared
}

// A goal is a figure that lockgen must reach.
type goal struct {
	text    string // the goal with its figure
	measure func(t *table) spread
	limit   float64
	atLeast bool // else at most
	format  format
}

// as returns what the goal measures of another library of the table.
func (g goal) as(name string, t *table) spread {
	scenario, other := *t.scenario, *t
	scenario.of, other.scenario = name, &scenario
	return g.measure(&other)
}

func (g goal) met(t *table) bool {
	got := g.measure(t).median
	if g.atLeast {
		return got >= g.limit
	}
	return got <= g.limit // false if it was not measured
}

// Measures of goals.

func value(metric string) func(t *table) spread {
	return func(t *table) spread { return of(t.values(t.scenario.us(), metric)) }
}

// worst is the largest figure of all rounds, for what has to be so each time: a median would hide two of five failures.
func worst(metric string) func(t *table) spread {
	return func(t *table) spread {
		all := value(metric)(t)
		all.median = all.high
		return all
	}
}

// valueOf is the metric of another primitive than that of the scenario.
func valueOf(name, metric string) func(t *table) spread {
	return func(t *table) spread { return of(t.values(name, metric)) }
}

func ofFloor(metric string) func(t *table) spread {
	return func(t *table) spread { return t.ratio(t.scenario.us(), floor, metric) }
}

func ofBest(metric string) func(t *table) spread {
	return func(t *table) spread { return t.ratio(t.scenario.us(), t.best(headline{metric: metric}), metric) }
}

// cpu is the CPU time of client and server together for one cycle, as a share of the floor's.
func cpu(t *table) spread { return t.ratio(t.scenario.us(), floor, "cpu") }

// beyond is the number of allocations beyond the floor's.
func beyond(t *table) spread {
	ours, theirs := t.values(lockgen, "allocs"), of(t.values(floor, "allocs")).median
	for i := range ours {
		ours[i] -= theirs
	}
	return of(ours)
}

func anybody(lib library) bool { return !lib.family && !lib.lingers && !lib.observer && !lib.redisson }
func whoLocks(lib library) bool {
	return !lib.floor && !lib.family && !lib.lingers && !lib.observer && !lib.plain
}

const (
	kLease = 30 * time.Second // so that nothing expires or is renewed in a run
	hardly = 10 * time.Minute // the same for runs that take long
	renew  = 10 * time.Second // S6
)

// grace is how long goroutines that still wait at the end of a run may continue. A goroutine that gets the lock within
// grace was late; the others are stuck.
const grace = 2 * time.Second

var runs atomic.Int64

// fresh returns a prefix of keys that were never used.
func fresh() string { return fmt.Sprintf("bench:%x:%d", time.Now().UnixNano(), runs.Add(1)) }
