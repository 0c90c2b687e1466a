//go:build linux

// Command speed measures lockgen on modules of several sizes, with -rivals beside other generators, and prints a Markdown table:
//
//	go run ./speed [-rivals] [-write ../docs/speed.md] [-sizes 1,100,1000] [-rounds 3] [-only lockgen,moq]
//
// Each module has 100 packages and the given number of annotated interfaces of ten methods. The others are installed
// from the module proxy. Their outputs differ, and mockgen -source does not check types; only the growth of the cost
// can be compared. Each figure is the median of the rounds, in which the tools take turns: seconds on the clock /
// seconds of CPU, with all processes, / MiB of the largest process. Of these the CPU's depend least on what else the
// machine does. A table that is written replaces the one in the file, all its rows at once.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lockgen/lockgen/bench/speed/synth"
)

func main() {
	sizes := flag.String("sizes", "1,100,1000", "numbers of annotated interfaces")
	rounds := flag.Int("rounds", 3, "how often each tool runs")
	only := flag.String("only", "", "comma-separated names of tools; all if empty")
	rivals := flag.Bool("rivals", false, "measure other generators too")
	file := flag.String("write", "", "the file whose table is replaced")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *sizes, *rounds, *file, func(t tool) bool {
		return (*rivals || t.module == "") &&
			(*only == "" || slices.ContainsFunc(strings.Split(*only, ","), func(name string) bool { return strings.HasPrefix(t.name, name) }))
	}); err != nil {
		fmt.Fprintln(os.Stderr, "speed:", err)
		os.Exit(1)
	}
}

// A cost is what one run of a tool takes.
type cost struct {
	wall, cpu time.Duration
	mib       int64 // of the largest process
}

func (c *cost) add(d cost) {
	c.wall, c.cpu, c.mib = c.wall+d.wall, c.cpu+d.cpu, max(c.mib, d.mib)
}

// A tool is one row of the table.
type tool struct {
	name, module string // how it is installed; without, it is lockgen or the go command
	converters   bool   // it reads the other kind of module
	cold         bool   // with a build cache that has nothing
	goals        map[int]float64
	prepare      func(b *bench, dir string) error // not measured
	calls        func(n int) [][]string
}

func perPackage(n int, call func(i, count int) []string) [][]string {
	var all [][]string
	for i := range synth.Packages {
		if count := synth.In(i, n); count > 0 {
			all = append(all, call(i, count))
		}
	}
	return all
}

func once(args ...string) func(int) [][]string {
	return func(int) [][]string { return [][]string{args} }
}

var tools = []tool{
	{name: "lockgen", goals: map[int]float64{1: 0.35, 100: 0.8, 1000: 2.5}, prepare: clean, calls: once("lockgen", "./...")},
	{name: "lockgen, cold build cache", cold: true, goals: map[int]float64{1: 0.6, 100: 1.2, 1000: 3.75}, prepare: clean, calls: once("lockgen", "./...")},
	{name: "lockgen -check, unchanged since the last", goals: map[int]float64{1000: 0.3}, prepare: checked, calls: once("lockgen", "-check", "./...")},
	{name: "lockgen -check, one file changed since the last", prepare: edited, calls: once("lockgen", "-check", "./...")},
	{name: "go build of the same, with the output", prepare: changed, calls: once("go", "build", "./...")},
	{name: "moq, per package", module: "github.com/matryer/moq@v0.8.1", prepare: clean, calls: func(n int) [][]string {
		return perPackage(n, func(i, count int) []string {
			args := []string{"moq", "-out", filepath.Join(synth.Package(i), "moq.go"), synth.Package(i)}
			for j := range count {
				args = append(args, synth.Interface(j))
			}
			return args
		})
	}},
	{name: "mockgen -source, per file", module: "go.uber.org/mock/mockgen@v0.6.0", prepare: clean, calls: func(n int) [][]string {
		return perPackage(n, func(i, _ int) []string {
			p := synth.Package(i)
			return []string{"mockgen", "-source", filepath.Join(p, "api.go"), "-destination", filepath.Join(p, "mockgen.go"), "-package", p}
		})
	}},
	{name: "mockery", module: "github.com/vektra/mockery/v3@v3.7.0", prepare: configured, calls: once("mockery")},
	{name: "goverter gen", module: "github.com/jmattheis/goverter/cmd/goverter@v1.11.1", converters: true, calls: once("goverter", "gen", "./...")},
}

type bench struct {
	ctx   context.Context
	root  string // of the module of lockgen
	temp  string
	bin   string
	cache string // of builds
	turn  int
}

// newBench makes a place for modules and programs.
func newBench(ctx context.Context) (*bench, error) {
	b := &bench{ctx: ctx}
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/lockgen/lockgen").Output()
	if err != nil {
		return nil, fmt.Errorf("run it inside of bench: %w", err)
	}
	b.root = strings.TrimSpace(string(out))
	if out, err = exec.CommandContext(ctx, "go", "env", "GOCACHE").Output(); err != nil {
		return nil, err
	}
	b.cache = strings.TrimSpace(string(out))
	if b.temp, err = os.MkdirTemp("", "lockgen-speed"); err != nil {
		return nil, err
	}
	b.bin = filepath.Join(b.temp, "bin")
	return b, nil
}

func (b *bench) close() error { return os.RemoveAll(b.temp) }

func run(ctx context.Context, sizes string, rounds int, file string, wanted func(t tool) bool) (err error) {
	b, err := newBench(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	chosen := slices.DeleteFunc(slices.Clone(tools), func(t tool) bool { return !wanted(t) })
	if err := b.install(chosen); err != nil {
		return err
	}
	var ns []int
	for s := range strings.SplitSeq(sizes, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return fmt.Errorf("-sizes: %q is not a number of interfaces", s)
		}
		ns = append(ns, n)
	}
	results := map[string][]cost{}
	for _, n := range ns {
		if err := b.size(n, rounds, chosen, results); err != nil {
			return err
		}
	}
	rows := table(ns, chosen, results)
	fmt.Print(rows)
	if file == "" {
		return nil
	}
	return replace(file, rows)
}

// replace puts the table in the place of the one that a file has.
func replace(file, rows string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var out strings.Builder
	inside, found := false, false
	for line := range strings.Lines(string(old)) {
		begins := strings.HasPrefix(line, "|")
		if begins && !inside && !found {
			out.WriteString(rows)
			found = true
		}
		if inside = begins; !inside {
			out.WriteString(line)
		}
	}
	if !found {
		return fmt.Errorf("%s has no table", file)
	}
	return os.WriteFile(file, []byte(out.String()), 0o644)
}

// install builds lockgen as it is here, and the others.
func (b *bench) install(chosen []tool) error {
	if err := os.MkdirAll(b.bin, 0o755); err != nil {
		return err
	}
	if _, err := b.call(b.root, nil, "go", "build", "-o", b.bin, "./cmd/lockgen"); err != nil {
		return err
	}
	for _, t := range chosen {
		if t.module != "" {
			if _, err := b.call(b.temp, []string{"GOBIN=" + b.bin}, "go", "install", t.module); err != nil {
				return err
			}
		}
	}
	return nil
}

// size measures all tools with modules of n interfaces.
func (b *bench) size(n, rounds int, chosen []tool, results map[string][]cost) error {
	services, converters := filepath.Join(b.temp, fmt.Sprintf("services%d", n)), filepath.Join(b.temp, fmt.Sprintf("converters%d", n))
	if err := errors.Join(os.Mkdir(services, 0o755), os.Mkdir(converters, 0o755), synth.Write(services, b.root, n), synth.Converters(converters, n)); err != nil {
		return err
	}
	for range rounds {
		for _, t := range chosen {
			dir := services
			if t.converters {
				dir = converters
			}
			if t.prepare != nil {
				if err := t.prepare(b, dir); err != nil {
					return err
				}
			}
			var env []string
			if t.cold {
				cache, err := os.MkdirTemp(b.temp, "cache")
				if err != nil {
					return err
				}
				env = append(env, "GOCACHE="+cache)
			}
			var total cost
			for _, args := range t.calls(n) {
				c, err := b.call(dir, env, args...)
				if err != nil {
					return err
				}
				total.add(c)
			}
			key := fmt.Sprint(t.name, n)
			results[key] = append(results[key], total)
		}
	}
	return nil
}

// call runs a program to its end and says what it took, with the programs that it called.
func (b *bench) call(dir string, env []string, args ...string) (cost, error) {
	name := args[0]
	if name != "go" {
		name = filepath.Join(b.bin, name)
	}
	cmd := exec.CommandContext(b.ctx, name, args[1:]...)
	cmd.Dir, cmd.Env = dir, slices.Concat(os.Environ(), []string{"CI=", "XDG_CACHE_HOME=" + filepath.Join(b.temp, "user"), "GOCACHE=" + b.cache}, env)
	start := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return cost{}, fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
	}
	c := cost{wall: time.Since(start), cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		c.mib = int64(usage.Maxrss) / 1024 //nolint:unconvert // it is an int32 where the machine has 32 bits
	}
	return c, nil
}

// clean takes away what all tools have written.
func clean(_ *bench, dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if base := filepath.Base(path); err == nil && (base == "moq.go" || base == "mockgen.go" || base == "mockery.go" || base == "api_lockgen.go") {
			return os.Remove(path)
		}
		return err
	})
}

// configured tells mockery what to write.
func configured(b *bench, dir string) error {
	const all = "all: true\nrecursive: true\ndir: '{{.InterfaceDir}}'\nfilename: mockery.go\npkgname: '{{.SrcPackageName}}'\n" +
		"structname: 'Mockery{{.InterfaceName}}'\ntemplate: testify\npackages:\n  " + synth.Path + ":\n"
	return errors.Join(clean(b, dir), os.WriteFile(filepath.Join(dir, ".mockery.yml"), []byte(all), 0o644))
}

// generated has lockgen write its output.
func generated(b *bench, dir string) error {
	if err := clean(b, dir); err != nil {
		return err
	}
	_, err := b.call(dir, nil, "lockgen", "./...")
	return err
}

// checked has lockgen find that its output is up to date.
func checked(b *bench, dir string) error {
	if err := generated(b, dir); err != nil {
		return err
	}
	_, err := b.call(dir, nil, "lockgen", "-check", "./...")
	return err
}

// edited has one file changed since then, in the package that all others import: what it declares is the same.
func edited(b *bench, dir string) error {
	if err := checked(b, dir); err != nil {
		return err
	}
	return b.edit(filepath.Join(dir, synth.Package(0), "types.go"), "func turn() string { return %q }")
}

// edit writes a declaration to the end of a file, in the place of the one before. Each is another one.
func (b *bench) edit(name, declaration string) error {
	b.turn++
	src, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	const mark = "\n// Turn.\n"
	before, _, _ := bytes.Cut(src, []byte(mark))
	return os.WriteFile(name, fmt.Appendf(nil, "%s%s"+declaration+"\n", before, mark, fmt.Sprintf("%d of %d", b.turn, os.Getpid())), 0o644)
}

// changed changes all packages as well, so that the build cache has what they import but not them.
func changed(b *bench, dir string) error {
	if err := generated(b, dir); err != nil {
		return err
	}
	for i := range synth.Packages {
		if err := b.edit(filepath.Join(dir, synth.Package(i), "types.go"), "const turn = %q"); err != nil {
			return err
		}
	}
	return nil
}

// table is of the medians.
func table(ns []int, chosen []tool, results map[string][]cost) string {
	head, line := "| tool |", "|---|"
	for _, n := range ns {
		head += fmt.Sprintf(" N=%d |", n)
		line += "---|"
	}
	rows := head + "\n" + line + "\n"
	for _, t := range chosen {
		row := "| " + t.name + " |"
		for _, n := range ns {
			c := median(results[fmt.Sprint(t.name, n)])
			row += fmt.Sprintf(" %.2f / %.2f / %d", c.wall.Seconds(), c.cpu.Seconds(), c.mib)
			if goal, ok := t.goals[n]; ok {
				verdict := "met"
				if c.cpu.Seconds() > goal {
					verdict = "missed"
				}
				row += fmt.Sprintf(" (goal %.2f: %s)", goal, verdict)
			}
			row += " |"
		}
		rows += row + "\n"
	}
	return rows
}

// median takes each figure for itself.
func median(all []cost) cost {
	mid := func(get func(c cost) int64) int64 {
		var v []int64
		for _, c := range all {
			v = append(v, get(c))
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	return cost{
		wall: time.Duration(mid(func(c cost) int64 { return int64(c.wall) })),
		cpu:  time.Duration(mid(func(c cost) int64 { return int64(c.cpu) })),
		mib:  mid(func(c cost) int64 { return c.mib }),
	}
}
