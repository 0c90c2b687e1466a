package main

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// A report has all results of a run.
type report struct {
	machine string
	command string
	rounds  int
	length  time.Duration
	rest    time.Duration
	held    int
	tables  []*table
}

// A line is a row of the short table, which is in the README as well.
type line struct {
	id, name, title string
	ours, best      string // with the name of the best other library
	ratio, goals    string
}

func (r *report) lines() []line {
	var lines []line
	for _, t := range r.tables {
		s := t.scenario
		l := line{id: s.id, name: s.name(), title: s.title, best: "-", ratio: "-"}
		write := func(name string) string {
			return cell(func(v float64) string { return s.headline.format(v) + s.headline.unit }, of(t.values(name, s.headline.metric)).median)
		}
		l.ours = write(s.us())
		if best := t.best(s.headline); best != "" {
			l.best = write(best) + " (" + best + ")"
			ratio := t.ratio(s.us(), best, s.headline.metric)
			if s.headline.lowest {
				ratio = t.ratio(best, s.us(), s.headline.metric)
			}
			l.ratio = cell(times, ratio.median)
		}
		met := 0
		for _, g := range s.goals {
			if g.met(t) {
				met++
			}
		}
		l.goals = fmt.Sprintf("%d of %d", met, len(s.goals))
		lines = append(lines, l)
	}
	return lines
}

func row(b *strings.Builder, cells ...string) {
	for _, c := range cells {
		b.WriteString("| " + c + " ")
	}
	b.WriteString("|\n")
}

// others returns what the experiments for a goal have reached that was missed.
func (g goal) others(t *table) string {
	var b strings.Builder
	for _, name := range t.scenario.floors {
		if s := g.as(name, t); !math.IsNaN(s.median) {
			b.WriteString("; " + name + ": " + g.format(s.median))
		}
	}
	return b.String()
}

func rule(b *strings.Builder, columns int) { b.WriteString(strings.Repeat("|---", columns) + "|\n") }

// markdown writes the report. plots are the names of the files beside it.
func (r *report) markdown(plots []plot) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Results

%s. Written by `+"`%s`"+`. Rounds: %d of %v for each library and scenario, in turns.
A figure is the median of the rounds; [in brackets] the lowest and the highest. Ratios are taken within each round. Figures of different runs do
not compare, those of one run do. A goal that nobody may miss, such as that nobody hangs, counts the worst round.

Every client is a process of its own. **floor** is no lock: the two smallest scripts that a lock in this layout needs, called one after the other on one connection that all
goroutines of a process share, and nothing around them. **basic** is what articles begin with, SET NX PX and compare and delete: it cannot wait, and is not compared. A **floor** of another name is an experiment, which has nothing but what a goal needs: the row of a goal that is missed
says what it reaches. redislock and redsync are not told of a release and ask again: redislock every %v, as in its examples, redsync by its default of
50 to 250 ms. **commands** are those that clients sent, by the server's count.

## In short

`, r.machine, r.command, r.rounds, r.length, redislockAsks)
	row(&b, "", "", lockgen, "best other library", "", "goals met")
	rule(&b, 6)
	for _, l := range r.lines() {
		row(&b, "["+l.name+"](#"+strings.ToLower(l.id)+")", l.title, l.ours, l.best, l.ratio, l.goals)
	}
	for _, p := range plots {
		fmt.Fprintf(&b, "\n![%s](%s)\n", p.title, p.file)
	}

	b.WriteString("\n## Goals\n\n")
	row(&b, "", "goal", lockgen, "met")
	rule(&b, 4)
	for _, t := range r.tables {
		for _, g := range t.scenario.goals {
			s := g.measure(t)
			got := cell(g.format, s.median)
			if s.low < s.high {
				got += fmt.Sprintf(" [%s to %s]", g.format(s.low), g.format(s.high))
			}
			met := "**no**"
			switch {
			case math.IsNaN(s.median):
				met = "not measured"
			case g.met(t):
				met = "yes"
			default:
				met += g.others(t)
			}
			row(&b, t.scenario.name(), g.text, got, met)
		}
	}

	for i, t := range r.tables {
		s := t.scenario
		if i == 0 || r.tables[i-1].scenario.id != s.id {
			fmt.Fprintf(&b, "\n## %s\n\n%s\n", s.id, strings.NewReplacer("{held}", count(float64(r.held)), "{rest}", r.rest.String(), "{waits}", (3*r.rest).String()).Replace(s.how))
		}
		fmt.Fprintf(&b, "\n%s:\n\n", s.title)
		heads := []string{""}
		for _, c := range s.columns {
			heads = append(heads, c.head)
		}
		row(&b, heads...)
		rule(&b, len(heads))
		for _, name := range t.names {
			cells := []string{name}
			for i, c := range s.columns {
				cells = append(cells, c.cell(t, name, i == 0))
			}
			row(&b, cells...)
		}
		for _, n := range t.notes {
			fmt.Fprintf(&b, "\n%s\n", n)
		}
	}
	return b.String()
}
