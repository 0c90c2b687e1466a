// Command bench measures lockgen and other distributed locks for Go on Redis, on the same server, in turns, and writes
// the results as Markdown and pictures.
//
//	go run . -fleet [-out .]
//	go run . [-out . [-readme]] [-rounds 5] [-time 500ms] [-rest 12s] [-held 10000] [-only floor,lockgen] [-scenario S4] [-profile folder] [-before folder]
//
// It uses the server of REDIS_URL, or starts the redis-server that it finds. Figures of different runs do
// not compare: machines are noisy. Those of one run do, since the libraries take turns in each round.
//
// Every client is a process of its own: this program, started once more. Goroutines that a library leaves behind end
// with the process.
//
// floor is not a lock: the two smallest scripts that a lock in this layout needs, called one after the other on one connection
// that all goroutines of a process share, and nothing around them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if os.Getenv(asWorker) != "" {
		signal.Ignore(os.Interrupt) // the program that started it ends it
		in, err := ordersOf(uintptr(syscall.Stdin))
		if err == nil {
			err = work(in, os.Stdout)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench: worker:", err)
			os.Exit(1)
		}
		return
	}
	rounds := flag.Int("rounds", leastRounds, "how often each library runs each scenario")
	length := flag.Duration("time", leastLength, "how long one run takes")
	rest := flag.Duration("rest", leastRest, "how long S6 looks at locks that are held; S7, at those that wait, three times as long")
	number := flag.Int("held", 10_000, "how many locks S6 and S7 hold")
	only := flag.String("only", "", "names of libraries with commas between; all if empty")
	scenario := flag.String("scenario", "", "run only scenarios whose names begin with this: S2, or S2, 256")
	out := flag.String("out", "", "the folder that gets RESULTS.md and the plots; if empty the report is printed")
	readme := flag.Bool("readme", false, "bring the figures in the READMEs and docs of the module above up to date with RESULTS.md: after the measurement with -out, or without one")
	profile := flag.String("profile", "", "a folder for profiles of CPU and allocations, by process")
	older := flag.String("before", "", "a folder with another tree of lockgen, usually a worktree of an older commit: it takes turns as the library before")
	fleets := flag.Bool("fleet", false, "measure fleets of clients instead, and write FLEET.md")
	flag.Parse()
	if *readme && *out == "" {
		if err := refreshPages("."); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := atRest(*out, "/proc/loadavg")
	if err == nil && !*fleets {
		err = longEnough(*out, *rounds, *length, *rest)
	}
	if err == nil && *out != "" && *older != "" {
		err = errors.New("results of another tree are not written; leave out -out to see them")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	if *fleets {
		if err := measureFleets(ctx, *out); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	r := &report{rounds: *rounds, length: *length, rest: *rest, held: *number, command: command(flag.CommandLine)}
	program, remove, err := buildBefore(ctx, *older)
	if err == nil {
		err = r.run(ctx, *only, *scenario, *profile, program)
		remove()
	}
	if err == nil {
		err = r.write(*out)
	}
	if err == nil && *readme {
		err = refreshPages(*out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// busy is the load of the machine above which no results are written.
const busy = 1.5

// atRest fails if results are to be written and the machine is busy, as the file of its load says.
func atRest(out, file string) error {
	if out == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // only Linux has this file
	}
	if err != nil {
		return err
	}
	load, err := oneMinute(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if load > busy {
		return fmt.Errorf("the machine has a load of %.2f before the first run; results are written below %.1f; wait, or leave out -out to see figures", load, busy)
	}
	return nil
}

// longEnough fails if results are to be written of fewer or shorter rounds than the defaults. A rest that is no longer than the time between two
// renewals does not have a renewal of each lock.
func longEnough(out string, rounds int, length, rest time.Duration) error {
	if out == "" || rounds >= leastRounds && length >= leastLength && rest >= leastRest {
		return nil
	}
	return fmt.Errorf("results are written of at least %d rounds of %v and rests of %v, not of %d of %v and %v; leave out -out to see figures",
		leastRounds, leastLength, leastRest, rounds, length, rest)
}

// The least that results are written of, and what is measured by default.
const (
	leastRounds = 5
	leastLength = 500 * time.Millisecond
	leastRest   = 12 * time.Second
)

// oneMinute reads the mean load of the last minute from the content of /proc/loadavg.
func oneMinute(text string) (float64, error) {
	first, _, _ := strings.Cut(text, " ")
	return strconv.ParseFloat(first, 64)
}

// command returns the command line that repeats the measurement.
func command(flags *flag.FlagSet) string {
	text := "go run ."
	flags.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "out", "readme", "profile": // do not change the measurement
		default:
			text += fmt.Sprintf(" -%s %q", f.Name, f.Value)
		}
	})
	if text == "go run ." {
		return "make bench"
	}
	return text
}

// run measures the scenarios of its arguments. older is this program with lockgen of another tree, or empty.
func (r *report) run(ctx context.Context, only, scenario, profile, older string) error {
	s, err := openServer(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	if r.machine, err = s.machine(runtime.NumCPU(), runtime.Version()); err != nil {
		return err
	}
	chosen, err := choose(only)
	if err != nil {
		return err
	}
	e := &env{server: s, length: r.length, rest: r.rest, held: r.held, profile: profile}
	for _, sc := range allScenarios() {
		if !strings.HasPrefix(sc.name(), scenario) {
			continue
		}
		t, start := newTable(sc), time.Now()
		for range r.rounds {
			for _, lib := range chosen {
				if !sc.fits(lib) {
					continue
				}
				if err := t.round(ctx, e, lib); err != nil {
					return err
				}
				if older == "" || sc.here || lib.name != sc.us() {
					continue
				}
				of, theirs := against(ctx, older, lib)
				if err := t.round(of, e, theirs); err != nil {
					return err
				}
			}
		}
		if len(t.names) > 0 {
			r.tables = append(r.tables, t)
			fmt.Fprintf(os.Stderr, "%s: %s: %v\n", sc.name(), sc.title, time.Since(start).Round(time.Second))
		}
	}
	if len(r.tables) == 0 {
		return fmt.Errorf("no scenario of these libraries has a name that begins with %q", scenario)
	}
	return nil
}

// round measures one round of a library.
func (t *table) round(ctx context.Context, e *env, lib library) error {
	if err := e.empty(); err != nil {
		return err
	}
	m, err := t.scenario.run(ctx, e, lib)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && (lib.us || lib.floor || !errors.Is(err, errHung)):
		return fmt.Errorf("%s: %w", t.scenario.name(), err)
	case err != nil:
		t.note(fmt.Sprintf("%s hung in at least one round, which does not count.", lib.name))
	case m["failed"] > 0 && lib.us:
		return fmt.Errorf("%s: %s: %.0f calls failed", t.scenario.name(), lib.name, m["failed"])
	case m["failed"] > 0:
		t.note(fmt.Sprintf("Some calls of %s failed and were made again.", lib.name))
	}
	t.add(lib.name, m)
	return nil
}

// choose returns the libraries with these names, or all. The name lockgen includes all its
// primitives and observers.
func choose(names string) ([]library, error) {
	if names == "" {
		return libraries, nil
	}
	var chosen []library
	for name := range strings.SplitSeq(names, ",") {
		lib, ok := known(name)
		if !ok {
			return nil, fmt.Errorf("no such library: %q", name)
		}
		chosen = append(chosen, lib)
	}
	if slices.ContainsFunc(chosen, func(lib library) bool { return lib.name == lockgen }) {
		chosen = append(chosen, slices.DeleteFunc(slices.Clone(libraries), func(lib library) bool {
			return !lib.us || slices.ContainsFunc(chosen, func(c library) bool { return c.name == lib.name })
		})...)
	}
	return chosen, nil
}

// write writes the report into a folder, or prints it.
func (r *report) write(folder string) error {
	plots := r.plots()
	text := r.markdown(plots)
	if folder == "" {
		_, err := fmt.Print(text)
		return err
	}
	for _, p := range plots {
		if err := os.WriteFile(filepath.Join(folder, p.file), []byte(p.svg), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(folder, "RESULTS.md"), []byte(text), 0o644)
}
