package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lockgen/lockgen/spec"
)

// A run is one question to a checker.
type run struct {
	module string
	name   string
	deep   bool

	consts     map[string]string // beside those of the module's defaults
	invariants string            // beside those of the module, or instead of them after an =
	plain      bool              // states that differ only in the names of processes count separately
	temporal   string            // a property over time; then FairSpec is checked

	spin    string        // for Spin: its definitions
	limit   time.Duration // after which the visited states suffice; 0 for none
	changes [][2]string   // for a mutant: text of the module, and its replacement
	refutes string        // the property that has to be violated, or empty
}

// bounds describes the bounds of the run.
func (r run) bounds() string {
	if r.spin != "" {
		return strings.ReplaceAll(strings.TrimSpace(r.spin), "-D", "")
	}
	all := maps.Clone(defaults[r.module].consts)
	maps.Copy(all, r.consts)
	var words []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if value := all[name]; value != "FALSE" && value != "{}" && name != "None" {
			words = append(words, name+" "+value)
		}
	}
	return strings.Join(words, ", ")
}

// id is the beginning of its row: the question, with its bounds, and the hash of all that the checker is asked beside the module itself.
func (r run) id() string {
	return fmt.Sprintf("| %s | %s | %s | `%.8s` |", r.module, r.name, r.bounds(), r.hash())
}

// hash is that of the properties, the bounds and the changes of the module.
func (r run) hash() string {
	asked := r.spin
	if r.spin == "" {
		asked = r.config()
	}
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%s %q %s", asked, r.changes, r.refutes)))
}

func (r run) row(states, words string) string {
	return fmt.Sprintf("%s %s | %s |", r.id(), states, words)
}

// file is the name of its module.
func (r run) file() string {
	if r.spin != "" {
		return r.module + ".pml"
	}
	return r.module + ".tla"
}

// text returns the modules of the run: its own, and those that it extends, by the names of their
// files.
func (r run) text(dir string) (map[string]string, error) {
	all := map[string]string{}
	for file := r.file(); file != ""; {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return nil, err
		}
		all[file], file = string(text), ""
		if extends := regexp.MustCompile(`(?m)^EXTENDS (Mutex|RedLock)$`).FindStringSubmatch(string(text)); extends != nil {
			file = extends[1] + ".tla"
		}
	}
	return all, nil
}

// sum is the line with the hash of the modules of the run, without their comments.
func (r run) sum(dir string) (string, error) {
	text, err := r.text(dir)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, file := range slices.Sorted(maps.Keys(text)) {
		sum.Write([]byte(spec.Bare(file, text[file])))
	}
	return fmt.Sprintf("- %s `%x`", r.file(), sum.Sum(nil)), nil
}

func (r run) do(dir, jar string, workers int) (outcome, error) {
	tmp, err := os.MkdirTemp("", "lockgen-spec-")
	if err != nil {
		return outcome{}, err
	}
	defer os.RemoveAll(tmp)
	text, err := r.text(dir)
	if err != nil {
		return outcome{}, err
	}
	for _, change := range r.changes {
		found := 0
		for file, was := range text {
			if n := strings.Count(was, change[0]); n > 0 {
				found += n
				text[file] = strings.Replace(was, change[0], change[1], 1)
			}
		}
		if found != 1 {
			return outcome{}, fmt.Errorf("the text %q is there %d times", change[0], found)
		}
	}
	for file, is := range text {
		if err := os.WriteFile(filepath.Join(tmp, file), []byte(is), 0o644); err != nil {
			return outcome{}, err
		}
	}
	start := time.Now()
	var o outcome
	if r.spin != "" {
		o, err = r.doSpin(tmp)
	} else {
		o, err = r.doTLC(tmp, jar, workers)
	}
	o.run, o.took = r, time.Since(start)
	return o, err
}

var (
	tlcViolated = regexp.MustCompile(`(?m)^Error: Invariant (\w+) is violated`)
	tlcTemporal = regexp.MustCompile(`(?m)^Error: Temporal properties were violated`)
	tlcStates   = regexp.MustCompile(`([\d,]+) distinct states found`)
	tlcFinished = regexp.MustCompile(`(?m)^Model checking completed. No error has been found`)
)

// config returns the configuration for TLC.
func (r run) config() string {
	d := defaults[r.module]
	all := maps.Clone(d.consts)
	maps.Copy(all, r.consts)
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "CONSTANT %s = %s\n", name, all[name])
	}
	if r.temporal != "" { // names matter then
		fmt.Fprintf(&b, "SPECIFICATION FairSpec\nPROPERTY %s\n", r.temporal)
		return b.String()
	}
	invariants, instead := strings.CutPrefix(r.invariants, "=")
	if !instead {
		invariants = d.invariants + " " + r.invariants
	}
	fmt.Fprintf(&b, "SPECIFICATION %s\nINVARIANTS %s\n", cmp.Or(d.behaviour, "Spec"), invariants)
	if !r.plain {
		b.WriteString("SYMMETRY Alike\n")
	}
	return b.String()
}

func (r run) doTLC(tmp, jar string, workers int) (outcome, error) {
	if err := os.WriteFile(filepath.Join(tmp, "run.cfg"), []byte(r.config()), 0o644); err != nil {
		return outcome{}, err
	}
	ctx, cancel := r.context()
	defer cancel()
	heap := "-Xmx3g"
	if r.deep {
		heap = "-Xmx8g"
	}
	cmd := exec.CommandContext(ctx, "java", "-XX:+UseParallelGC", "-XX:ParallelGCThreads=2", heap, "-Djava.io.tmpdir="+tmp, "-cp", jar, "tlc2.TLC",
		"-workers", fmt.Sprint(workers), "-deadlock", "-config", "run.cfg", r.module)
	cmd.Dir = tmp
	out, err := cmd.CombinedOutput()
	o := outcome{states: last(tlcStates, out)}
	switch found := tlcViolated.FindSubmatch(out); {
	case found != nil:
		o.refuted = string(found[1])
		return o, r.trace(out)
	case tlcTemporal.Match(out):
		o.refuted = r.temporal
		return o, r.trace(out)
	case tlcFinished.Match(out):
		return o, nil
	case r.limit > 0 && ctx.Err() != nil:
		o.partial = true
		return o, nil
	}
	return o, fmt.Errorf("TLC: %w\n%s", cmpErr(err), tail(out))
}

var (
	spinStates = regexp.MustCompile(`(?m)^\s*([\d.e+]+) states, stored`)
	spinSoFar  = regexp.MustCompile(`(?m)States=\s*([\d.e+]+)`)
	spinErrors = regexp.MustCompile(`errors: (\d+)`)
)

func (r run) doSpin(tmp string) (outcome, error) {
	sh := func(ctx context.Context, name string, args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir = tmp
		return cmd.CombinedOutput()
	}
	if out, err := sh(context.Background(), "spin", append(strings.Fields(r.spin), "-a", r.module+".pml")...); err != nil {
		return outcome{}, fmt.Errorf("spin: %w\n%s", err, tail(out))
	}
	level := "-O3"
	if r.refutes != "" { // a mutant has few states: the compiler takes longer than the search
		level = "-O1"
	}
	if out, err := sh(context.Background(), "cc", level, "-DSAFETY", "-DNOREDUCE", "-DBFS", "-DMEMLIM=12000", "-o", "pan", "pan.c"); err != nil {
		return outcome{}, fmt.Errorf("cc: %w\n%s", err, tail(out))
	}
	ctx, cancel := r.context()
	defer cancel()
	out, err := sh(ctx, "./pan", "-w22")
	o := outcome{states: last(spinStates, out)}
	if o.states == "" {
		o.states = last(spinSoFar, out)
	}
	errors := last(spinErrors, out)
	switch {
	case errors != "" && errors != "0" || bytes.Contains(out, []byte("assertion violated")):
		o.refuted = "AGREES"
	case errors == "0" && !bytes.Contains(out, []byte("out of memory")) && !bytes.Contains(out, []byte("max search depth")):
	case r.limit > 0 && ctx.Err() != nil, bytes.Contains(out, []byte("out of memory")), bytes.Contains(out, []byte("max search depth")):
		o.partial = true
	default:
		return o, fmt.Errorf("pan: %w\n%s", cmpErr(err), tail(out))
	}
	return o, nil
}

// context ends when the time of the run is over.
func (r run) context() (context.Context, context.CancelFunc) {
	if r.limit == 0 {
		return context.WithCancel(context.Background())
	}
	return context.WithTimeout(context.Background(), r.limit)
}

// trace prints the steps to an unexpected violation.
func (r run) trace(out []byte) error {
	if r.refutes == "" {
		fmt.Printf("%s\n", out)
	}
	return nil
}

// last returns the group of the last match of re in out, or "".
func last(re *regexp.Regexp, out []byte) string {
	all := re.FindAllSubmatch(out, -1)
	if len(all) == 0 {
		return ""
	}
	return string(all[len(all)-1][1])
}

func tail(out []byte) []byte { return out[max(0, len(out)-4000):] }

func cmpErr(err error) error {
	if err == nil {
		return errors.New("it said nothing that is understood")
	}
	return err
}
