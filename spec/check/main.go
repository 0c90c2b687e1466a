// Command check runs the specification through its checkers, TLC and Spin, and writes what they said to RESULTS.md.
//
//	go run ./spec/check          the short bounds; RESULTS.md is written
//	go run ./spec/check -deep    the deep bounds too; with -limit 10m, each for that long at most
//	go run ./spec/check -walks   random walks through Mutex.tla, RWMutex.tla, RedLock.tla and MultiLock.tla, which the Go relations are compared with
//	go run ./spec/check -ci      the short bounds with few states; RESULTS.md is not written, but has to have all short bounds of these modules
//
// It fails when a property does not hold, and when a mutant is not refuted. A checker always gives the same answer to the same question, so
// with -ci the committed results stand for the questions with many states.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	deep := flag.Bool("deep", false, "check the deep bounds too")
	ci := flag.Bool("ci", false, "do not write the results, which have to be complete, and check only what has few states by them")
	only := flag.String("only", "", "check only what this regular expression matches of a module and what is asked of it")
	dir := flag.String("dir", "spec", "the folder of the modules")
	workers := flag.Int("workers", 2, "threads of TLC")
	limit := flag.Duration("limit", time.Hour, "how long a run of the deep bounds may take")
	export := flag.Bool("walks", false, "write random walks through Mutex.tla, RWMutex.tla, RedLock.tla and MultiLock.tla to testdata, and nothing else")
	flag.Parse()
	if *export {
		jar, err := tlc()
		if err == nil {
			err = walks(*dir, jar, *only)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "spec:", err)
			os.Exit(1)
		}
		return
	}
	if err := check(*dir, *only, *deep, *ci, *workers, *limit); err != nil {
		fmt.Fprintln(os.Stderr, "spec:", err)
		os.Exit(1)
	}
}

// An outcome is what a checker said of a run.
type outcome struct {
	run     run
	states  string
	refuted string // the property that does not hold, or empty
	took    time.Duration
	partial bool // its time was over before it had seen all
}

// verdict says in words what came of it, and whether that is what has to.
func (o outcome) verdict() (words string, ok bool) {
	switch {
	case o.run.refutes != "" && o.refuted == o.run.refutes:
		return "refuted: " + o.refuted, true
	case o.run.refutes != "":
		return "NOT REFUTED", false
	case o.refuted != "":
		return "VIOLATED: " + o.refuted, false
	case o.partial && !o.run.deep:
		return "NOT ALL STATES SEEN", false
	case o.partial:
		return "no violation in what was seen, which is not all", true
	}
	return "holds, all states seen", true
}

func check(dir, only string, deep, ci bool, workers int, limit time.Duration) error {
	path := filepath.Join(dir, "RESULTS.md")
	have, err := read(path, dir)
	if err != nil {
		return err
	}
	if ci {
		if err := have.complete(path); err != nil {
			return err
		}
	}
	jar, err := tlc()
	if err != nil && !ci {
		return err
	}
	if err != nil {
		fmt.Println("TLC is not there, so only Spin runs; the results that are committed are of these modules:", err)
	}
	some, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	count, failed, stand := 0, 0, 0
	for _, r := range runs() {
		switch {
		case !some.MatchString(r.module + " " + r.name), r.deep && !deep, r.spin == "" && jar == "":
			continue
		case ci && have.states(r) > few:
			stand++
			continue
		}
		r.limit = min(r.limit, limit)
		o, err := r.do(dir, jar, workers)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", r.module, r.name, err)
		}
		words, ok := o.verdict()
		fmt.Printf("%-9s %-64s %10s states %6.1fs  %s\n", r.module, r.name, o.states, o.took.Seconds(), words)
		if count++; !ok {
			failed++
		}
		have.rows[r.id()] = r.row(o.states, words)
		if !ci {
			if err := have.write(path); err != nil {
				return err
			}
		}
	}
	if !ci { // also what is not of these modules any more
		if err := have.write(path); err != nil {
			return err
		}
	}
	if ci {
		fmt.Printf("for %d questions with more than %d states the committed results stand\n", stand, few)
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d runs said something else than they have to", failed, count)
	}
	return nil
}

// tlc returns where TLC is.
func tlc() (jar string, err error) {
	if _, err := exec.LookPath("java"); err != nil {
		return "", err
	}
	out, err := exec.Command(".ci/tlc").Output()
	return strings.TrimSpace(string(out)), err
}

// results are what RESULTS.md says of the modules as they are.
type results struct {
	sums map[string]string // of each module: a line with its hash
	rows map[string]string // by the id of a run
}

// read reads path, and leaves out what it says of modules that are others now.
func read(path, dir string) (results, error) {
	have := results{map[string]string{}, map[string]string{}}
	written, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return have, err
	}
	for _, r := range runs() {
		if have.sums[r.module] == "" {
			if have.sums[r.module], err = r.sum(dir); err != nil {
				return have, err
			}
		}
		if !strings.Contains(string(written), have.sums[r.module]+"\n") {
			continue
		}
		for line := range strings.Lines(string(written)) {
			if strings.HasPrefix(line, r.id()) {
				have.rows[r.id()] = strings.TrimSpace(line)
			}
		}
	}
	return have, nil
}

// complete fails if a run that is not deep has no result, or another one than it has to have.
func (have results) complete(path string) error {
	for _, r := range runs() {
		row, ok := have.rows[r.id()]
		switch want, _ := (outcome{run: r, refuted: r.refutes}).verdict(); {
		case r.deep:
		case !ok:
			return fmt.Errorf("%s has no result of %s (%s) as it is: run make spec and commit what it writes", path, r.file(), r.name)
		case !strings.HasSuffix(row, "| "+want+" |"):
			return fmt.Errorf("%s has another result of %s (%s) than %q: run make spec, and find out why", path, r.file(), r.name, want)
		}
	}
	return nil
}

// few is the largest number of states that -ci visits for a question. Those with more take most of the time.
const few = 20_000

// states returns how many states the result of r has, or 0 without a result.
func (have results) states(r run) int {
	cell, _, _ := strings.Cut(strings.TrimPrefix(have.rows[r.id()], r.id()), "|")
	n, _ := strconv.Atoi(strings.ReplaceAll(strings.TrimSpace(cell), ",", ""))
	return n
}

// write writes what is known, in the order of the runs.
func (have results) write(path string) error {
	var b strings.Builder
	b.WriteString("# What the checkers said\n\nWritten by `make spec` and `make spec-deep`; README.md says what it means. **Asked** is the beginning of the hash of all that the checker is asked beside the\nmodule: properties, bounds, changes. The hash of each module without its comments:\n\n")
	for _, module := range slices.Sorted(maps.Keys(have.sums)) {
		b.WriteString(have.sums[module] + "\n")
	}
	table := func(title string, some func(run) bool) {
		fmt.Fprintf(&b, "\n## %s\n\n| Module | What | Bounds | Asked | States | Verdict |\n|---|---|---|---|---:|---|\n", title)
		for _, r := range runs() {
			if row, ok := have.rows[r.id()]; ok && some(r) {
				b.WriteString(row + "\n")
			}
		}
	}
	table("Properties", func(r run) bool { return !r.deep && r.refutes == "" })
	table("Deep", func(r run) bool { return r.deep })
	table("Refuted, as they have to be", func(r run) bool { return r.refutes != "" })
	return os.WriteFile(path, []byte(b.String()), 0o644)
}
