package main

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// A table has the results of all libraries in all rounds of a scenario.
type table struct {
	scenario *scenario
	names    []string             // of the libraries, in order
	rounds   map[string][]metrics // nil for a round in which the library hung
	notes    []string
}

func newTable(s *scenario) *table { return &table{scenario: s, rounds: map[string][]metrics{}} }

// add adds a round of a library.
func (t *table) add(name string, m metrics) {
	if _, known := t.rounds[name]; !known {
		t.names = append(t.names, name)
	}
	t.rounds[name] = append(t.rounds[name], m)
}

// note adds a remark below the table, once.
func (t *table) note(text string) {
	for _, n := range t.notes {
		if n == text {
			return
		}
	}
	t.notes = append(t.notes, text)
}

// values returns a metric of each round, NaN where it was not measured.
func (t *table) values(name, metric string) []float64 {
	values := make([]float64, len(t.rounds[name]))
	for i, m := range t.rounds[name] {
		v, ok := m[metric]
		if !ok {
			v = math.NaN()
		}
		values[i] = v
	}
	return values
}

// ratio returns the ratio of a library's metric to another's. It is taken within each round, since the machine changes
// from one to the next.
func (t *table) ratio(name, other, metric string) spread {
	ours, theirs := t.values(name, metric), t.values(other, metric)
	var ratios []float64
	for i := range min(len(ours), len(theirs)) {
		ratios = append(ratios, ours[i]/theirs[i])
	}
	return of(ratios)
}

// best returns the other library whose median is best, or "" without another library.
func (t *table) best(by headline) string {
	best, first := "", math.NaN()
	for _, name := range t.names {
		if lib, ok := known(name); name == before || ok && (lib.floor || lib.us || lib.plain && !t.scenario.plain) {
			continue
		}
		v := of(t.values(name, by.metric)).median
		if by.needs != "" && math.IsNaN(of(t.values(name, by.needs)).median) {
			continue
		}
		if math.IsNaN(first) || !by.lowest && v > first || by.lowest && v < first {
			if !math.IsNaN(v) {
				best, first = name, v
			}
		}
	}
	return best
}

// A column is a metric of a table, or the ratio of its rates to the floor's if it names none.
type column struct {
	head   string
	metric string
	format format
}

// A format writes a number.
type format func(v float64) string

func plain(decimals int) format {
	return func(v float64) string { return strconv.FormatFloat(v, 'f', decimals, 64) }
}

var (
	tenth      = plain(1)
	hundredth  = plain(2)
	thousandth = plain(3)
)

// small writes numbers that may be far below 1.
func small(v float64) string {
	if v != 0 && math.Abs(v) < 0.1 {
		return plain(4)(v)
	}
	return hundredth(v)
}

// times writes a ratio.
func times(v float64) string {
	if v < 10 {
		return hundredth(v) + "x"
	}
	return plain(0)(v) + "x"
}

// count writes a number with commas between the thousands.
func count(v float64) string {
	digits := plain(0)(v)
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// duration writes nanoseconds with three digits.
func duration(v float64) string {
	for _, unit := range []struct {
		name string
		of   time.Duration
	}{{"s", time.Second}, {"ms", time.Millisecond}, {"µs", time.Microsecond}} {
		if x := v / float64(unit.of); x >= 1 {
			return fmt.Sprintf("%s %s", strconv.FormatFloat(x, 'f', max(0, 2-int(math.Log10(x))), 64), unit.name)
		}
	}
	return plain(0)(v) + " ns"
}

// cell writes a number that may not have been measured.
func cell(f format, v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return f(v)
}

// cell writes a library's median of a column; the spread too if that is wanted.
func (c column) cell(t *table, name string, spreads bool) string {
	s := of(t.values(name, c.metric))
	if c.metric == "" {
		s = t.ratio(name, floor, "rate")
	}
	text := cell(c.format, s.median)
	if spreads && s.low < s.high {
		text += fmt.Sprintf(" [%s to %s]", c.format(s.low), c.format(s.high))
	}
	return text
}
