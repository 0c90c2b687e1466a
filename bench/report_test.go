package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// made is a report with invented figures.
func made(t *testing.T) *report {
	t.Helper()
	r := &report{machine: "2 cores", command: "make bench", rounds: 2, length: time.Second, rest: 12 * time.Second, held: 10_000}
	for _, s := range allScenarios() {
		table := newTable(s)
		for round := range 2 {
			for i, lib := range libraries {
				if !s.fits(lib) {
					continue
				}
				m := metrics{}
				for _, c := range s.columns {
					m[c.metric] = float64(1000*(i+1) + round)
				}
				m["cpu"] = 10
				table.add(lib.name, m)
			}
		}
		r.tables = append(r.tables, table)
	}
	return r
}

func TestReport_Markdown(t *testing.T) {
	t.Parallel()
	r := made(t)
	r.tables[0].note("redislock was late.")
	text := r.markdown(r.plots())
	for _, want := range []string{
		"2 cores. Written by `make bench`. Rounds: 2 of 1s",
		"\n| [S2, 256](#s2) | 256 goroutines, keys that nobody else wants | 2,000/s | 8,000/s (rueidislock 1 key) | 0.25x | 2 of 4 |\n",
		"\n| [S9](#s9) | Locking again what one holds | 2.00 µs | - | - | 0 of 3 |\n",
		"\n| S2, 256 | at least 1.5 of the floor's cycles | 2.00 [2.00 to 2.00] | yes |\n",
		"\n| S2, 256 | client and server together use at most 1.1 of the floor's CPU for a cycle | 1.00 | yes |\n",
		"\n| S3, 1000 | at least 50x the acquisitions of the best other library | 0.25x [0.25x to 0.25x] | **no** |\n",
		"\n| lockgen | 2,000 [2,000 to 2,001] | 2.00 |",
		"One process takes 10,000 locks with a lease of 10 s, then looks on for 12s.",
		"Nothing happens for 36s, or for 3 s with redislock and redsync",
		"on one connection that all\ngoroutines of a process share",
		"\nredislock was late.\n",
	} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "NaN")
	width := 0
	for line := range strings.Lines(text) {
		cells := strings.Count(line, "|")
		if width > 0 && cells > 0 {
			require.Equal(t, width, cells, "rows of a table are equally long: %s", line)
		}
		width = cells
	}
}

// TestReport_Holes shows that a missing measurement is neither a figure nor a reached goal.
func TestReport_Holes(t *testing.T) {
	t.Parallel()
	r := made(t)
	for _, table := range r.tables {
		for name := range table.rounds {
			table.rounds[name] = []metrics{nil, nil}
		}
	}
	text := r.markdown(r.plots())
	require.NotContains(t, text, "NaN")
	require.NotContains(t, text, "| yes |")
	require.Contains(t, text, "| [S4](#s4) | 4 processes of 8 goroutines, one key | - | - | - | 0 of 4 |")
}

// TestReport_Plots shows that pictures are well formed and nothing in them lies outside.
func TestReport_Plots(t *testing.T) {
	t.Parallel()
	for _, r := range []*report{made(t), {}} {
		for _, p := range r.plots() {
			require.Contains(t, p.svg, "prefers-color-scheme: dark")
			require.Contains(t, p.svg, ">lockgen</text>")
			require.NotContains(t, p.svg, "NaN")
			require.NotContains(t, p.svg, "Inf")
			require.NotContains(t, p.svg, `fill=""`)
			require.NotContains(t, p.svg, `stroke=""`)
			require.NotContains(t, p.svg, `="-`, "a coordinate is negative: %s", p.file)
			for d := xml.NewDecoder(strings.NewReader(p.svg)); ; {
				if _, err := d.Token(); errors.Is(err, io.EOF) {
					break
				} else {
					require.NoError(t, err, p.file)
				}
			}
		}
	}
	require.Len(t, made(t).plots(), 4)
}

func TestFormats(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"1,234,567": count(1234567), "999": count(999), "-1,000": count(-1000), "0": count(0.3),
		"0.0625": small(0.0625), "2.00": small(2), "0.00": small(0),
		"8.64x": times(8.64), "39x": times(39.2),
		"654 ns": duration(654), "1.78 µs": duration(1780), "17.7 µs": duration(17700), "145 ms": duration(145e6), "2.50 s": duration(2.5e9),
	} {
		require.Equal(t, want, got)
	}
}

// TestTable_Ratio shows that a ratio is between figures of the same round.
func TestTable_Ratio(t *testing.T) {
	t.Parallel()
	table := newTable(&scenario{})
	for _, slower := range []float64{1, 10, 100} { // the speed of the machine
		table.add(lockgen, metrics{"rate": 600 / slower})
		table.add("redislock", metrics{"rate": 200 / slower})
		table.add("rueidislock", nil)
	}
	require.Equal(t, spread{3, 3, 3}, table.ratio(lockgen, "redislock", "rate"))
	require.Equal(t, "redislock", table.best(headline{metric: "rate"}), "one that was not measured is not the best")
	require.Empty(t, table.best(headline{metric: "p99"}))
	require.Empty(t, table.best(headline{metric: "rate", needs: "lost"}))
}

func TestPage_Refresh(t *testing.T) {
	t.Parallel()
	results := "| [S4](#s4) | 4 processes | 10/s | 20/s (redislock) | 0.50x | 3 of 4 |\n| [S5](#s5) | x | y | z | - | 0 of 1 |\n| [S6](#s6) | w | 1 | 2 | 3.00x | 1 of 2 |\n" +
		"| S4 | at most 2 | 3.0 | **no** |\n| S4 | at most 8 | 3.0 | yes |\n| S5 | at most 2 | 1.0 | yes |\n| S6 | at most 7 | 9 | **no** |\n"
	const rule = "|---|---|\n"
	before := "text\n" + rule + "| [S4](../bench/RESULTS.md#s4) | vier Prozesse | old | old | old | old |\n| [S9](../bench/RESULTS.md#s9) | gone | 1 | 2 | 3 | 4 |\n\nBehind in: old\n" +
		rule + "| an | other |\n\n" + rule + "| S4 | at most 9 | gone | yes |\n\n## Missed\n\n" + rule + "| S4 | at most 2 | old | yes |\n"
	p := &page{words: map[string]string{"S5": "fuenf"}, missed: "## Missed", behind: "Behind in: "}
	after, rows := p.refresh(before, results)
	require.Equal(t, "text\n"+rule+"| [S4](../bench/RESULTS.md#s4) | vier Prozesse | 10/s | 20/s (redislock) | 0.50x | 3 of 4 |\n| [S5](../bench/RESULTS.md#s5) | fuenf | y | z | - | 0 of 1 |\n"+
		"| [S6](../bench/RESULTS.md#s6) | w | 1 | 2 | 3.00x | 1 of 2 |\n\nBehind in: S4.\n"+
		rule+"| an | other |\n\n"+rule+"| S4 | at most 2 | 3.0 | **no** |\n| S4 | at most 8 | 3.0 | yes |\n\n## Missed\n\n"+rule+"| S4 | at most 2 | 3.0 | **no** |\n| S6 | at most 7 | 9 | **no** |\n", after)
	require.Equal(t, 7, rows)

	p = &page{rows: []string{"S4"}, behind: "Behind in: "}
	after, rows = p.refresh(before, strings.ReplaceAll(results, "0.50x", "1.50x"))
	require.Equal(t, 5, rows, "the short table has one, both tables of goals have the two of S4, if the page lists none that are missed")
	require.NotContains(t, after, "S6")
	require.Contains(t, after, "\nBehind in: -\n")
}

func TestCommand(t *testing.T) {
	t.Parallel()
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.String("out", "", "")
	flags.Int("rounds", 5, "")
	flags.String("scenario", "", "")
	require.NoError(t, flags.Parse([]string{"-out", "."}))
	require.Equal(t, "make bench", command(flags))
	require.NoError(t, flags.Parse([]string{"-rounds", "3", "-scenario", "S2, 16"}))
	require.Equal(t, `go run . -rounds "3" -scenario "S2, 16"`, command(flags))
}

func TestChoose(t *testing.T) {
	t.Parallel()
	for _, lib := range libraries {
		chosen, err := choose(lib.name + "," + lockgen)
		require.NoError(t, err, "a name can be written between commas")
		require.Equal(t, []string{lib.name, lockgen}, []string{chosen[0].name, chosen[1].name})
	}
	_, err := choose("lockgen,redlock")
	require.EqualError(t, err, `no such library: "redlock"`)
}

// TestWrite shows which files a run writes.
func TestWrite(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, made(t).write(folder))
	for _, name := range []string{"RESULTS.md", "alone.svg", "shared.svg", "processes.svg", "handover.svg"} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		require.True(t, bytes.HasSuffix(text, []byte("\n")), name)
	}
	require.Error(t, made(t).write(filepath.Join(folder, "none")))
}

// A goal that is missed says what the experiments of its scenario have reached, as far as they ran. One that is met does not.
func TestReport_Floors(t *testing.T) {
	t.Parallel()
	s := &scenario{
		id: "S5", floors: []string{passing, undisturbed}, headline: headline{metric: "pings", format: hundredth, lowest: true},
		goals: []goal{{"median at most 2", value("pings"), 2, false, hundredth}, {"at most 9", value("pings"), 9, false, hundredth}},
	}
	require.False(t, s.fits(library{name: gathering, bare: true}))
	require.True(t, s.fits(library{name: passing, bare: true}))
	made := newTable(s)
	made.add(lockgen, metrics{"pings": 3})
	made.add(passing, metrics{"pings": 2.5})
	text := (&report{tables: []*table{made}}).markdown(nil)
	require.Contains(t, text, "| S5 | median at most 2 | 3.00 | **no**; floor handed over: 2.50 |\n")
	require.Contains(t, text, "| S5 | at most 9 | 3.00 | yes |\n")
	require.Contains(t, text, "| [S5](#s5) |  | 3.00 | - |", "an experiment is no other library")
	require.True(t, missed("| S5 | median at most 2 | 3.00 | **no**; floor handed over: 2.50 |\n"))
}

// A key is handed over between two clients of the experiment, also if it lingers.
func TestFloors(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for _, lib := range floors {
		require.True(t, lib.bare && lib.plain, lib.name)
		var clients [2]*client
		for i := range clients {
			var err error
			clients[i], err = lib.open(s.addr, kLease)
			require.NoError(t, err)
		}
		if lib.name != passing && lib.name != passingLingers {
			continue
		}
		first, err := clients[0].lock("key of " + lib.name)
		require.NoError(t, err)
		got := make(chan held)
		go func() {
			h, _ := clients[1].lock("key of " + lib.name)
			got <- h
		}()
		if lib.lingers { // it goes over whenever it is wanted
			require.NoError(t, first.unlock())
		} else {
			require.Eventually(t, func() bool {
				n, err := s.rc.Do(t.Context(), s.rc.B().Llen().Key("key of "+lib.name+":waiting").Build()).AsInt64()
				return err == nil && n == 1
			}, time.Minute, time.Millisecond)
			require.NoError(t, first.unlock())
		}
		second := <-got
		require.NoError(t, second.unlock())
	}
}

// TestGoal_HoldsInEachRound shows that a goal is missed that nobody hangs, or that nothing is lost, if that is not so in two rounds of five.
func TestGoal_HoldsInEachRound(t *testing.T) {
	t.Parallel()
	absolute := regexp.MustCompile(`^(nobody|none|no lock|each client|no command takes) `)
	goals := 0
	for _, s := range allScenarios() {
		table := newTable(s)
		for _, failures := range []float64{0, 0, 0, 1e9, 1e9} {
			m := metrics{}
			for _, metric := range []string{"never", "stuck", "lost", "forgotten", "missing", "over", "longest"} {
				m[metric] = failures
			}
			table.add(s.us(), m)
		}
		for _, g := range s.goals {
			if absolute.MatchString(g.text) {
				goals++
				require.False(t, g.met(table), "%s: %s", s.name(), g.text)
			}
		}
	}
	require.GreaterOrEqual(t, goals, 20)
}
