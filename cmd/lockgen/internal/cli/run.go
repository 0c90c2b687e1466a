package cli

import (
	"fmt"
	"go/token"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/check"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/diag"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/load"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/memo"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/output"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/survey"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/write"
	"github.com/lockgen/lockgen/templates"
)

func run(c *Config, dir string, stdout, stderr io.Writer) (int, error) {
	return newRunner(c, dir).run(stdout, stderr)
}

func newRunner(c *Config, dir string) *runner {
	return &runner{c: c, dir: dir, list: diag.New(token.NewFileSet()), program: memo.Self}
}

// run is the whole program: load, check, render, and at the end, if nothing is wrong, touch the disk.
func (r *runner) run(stdout, stderr io.Writer) (int, error) {
	c := r.c
	if err := r.read(); err != nil {
		return exitTrouble, err
	}
	if r.loaded.Known {
		return exitOK, r.report(nil, stdout, stderr)
	}
	if c.Command != "" {
		return r.tell(stdout, stderr)
	}
	r.survey = nil // it has said what there is to be said
	if err := r.render(); err != nil {
		return exitTrouble, err
	}
	wrong := r.list.Len() > 0 || c.Strict && r.list.Warnings() > 0
	var changed []write.File
	if !wrong {
		var err error
		if changed, err = write.Changed(r.files); err != nil {
			return exitTrouble, err
		}
	}
	if err := r.report(changed, stdout, stderr); err != nil {
		return exitTrouble, err
	}
	if !wrong {
		r.remember(len(changed) == 0 && !c.Quiet && r.list.Warnings() == 0 && len(r.loaded.Notes) == 0)
	}
	switch {
	case wrong || c.Check && len(changed) > 0:
		return exitWrong, nil
	case c.Check || c.Dry:
		return exitOK, nil
	}
	return exitOK, write.Apply(changed)
}

// A runner is one run.
type runner struct {
	c       *Config
	dir     string
	list    *diag.List
	loaded  *load.Result
	outputs []made
	files   []write.File
	survey  *survey.Survey
	summary []string      // the locks of each service
	program func() string // finds self
	self    string        // fingerprint of this program; empty if nothing is remembered
	memo    memo.Memo
	print   string // of this program and its input; empty if that is not known
}

// read loads and checks all packages. Mistakes of all of them are wanted.
func (r *runner) read() (err error) {
	cfg := load.Config{Dir: r.dir, Tags: r.c.Tags, Patterns: r.c.Patterns}
	if r.c.Command == "" && (r.c.Cache == "on" || r.c.Cache == "auto" && os.Getenv("CI") == "") {
		if r.self = r.program(); r.self != "" {
			r.memo = memo.ForCall(append([]string{r.dir, r.c.Tags}, r.c.Patterns...)...)
			cfg.Known = func(input string) bool {
				r.print = r.self + " " + input
				said, known := r.memo.Find(r.print)
				if said != "" {
					r.summary = strings.Split(said, "\n")
				}
				return known
			}
		}
	}
	r.loaded, err = load.Load(cfg, r.list)
	if err != nil || r.loaded.Known {
		return err
	}
	var uses []check.Use
	checks := check.NewRun(r.list, r.loaded.Build)
	for i, pkg := range r.loaded.Packages {
		r.loaded.Packages[i] = nil // syntax and types of expressions are most of the memory, and have served
		known := r.recall(pkg)
		for _, out := range checks.Package(pkg) {
			uses = append(uses, out.Uses...)
			out.Uses = nil
			r.outputs = append(r.outputs, made{Output: out, of: known})
		}
	}
	checks.End()
	r.survey = survey.New(r.list, r.dir, uses, r.loaded.Linked)
	r.survey.Check()
	r.summary = r.survey.Summary()
	if r.c.Quiet || r.c.Command != "" {
		r.list.Silence()
		r.loaded.Notes = nil
	}
	return nil
}

// render makes all files in memory, unless something is wrong: then there are none.
func (r *runner) render() error {
	if r.list.Len() > 0 {
		return nil
	}
	rendered := make([][]byte, len(r.outputs))
	failed := make([]error, len(r.outputs))
	var layouts templates.Layouts
	var workers sync.WaitGroup
	var next atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := int(next.Add(1) - 1); i < len(r.outputs); i = int(next.Add(1) - 1) {
				if r.outputs[i].of.fresh {
					continue
				}
				rendered[i], failed[i] = layouts.Render(r.outputs[i].Model)
				r.outputs[i].Model = nil // models and types are most of the memory now
			}
		})
	}
	workers.Wait()
	produced := map[string]bool{}
	for i, out := range r.outputs {
		if failed[i] != nil {
			return fmt.Errorf("%s: this is a defect of lockgen, please report it with the interface: %w", diag.Relative(r.dir, out.Source), failed[i])
		}
		name := output.Name(out.Source)
		produced[name] = true
		if out.of.fresh {
			continue // it is there as it is to be
		}
		out.of.stale = out.of.stale || !r.loaded.Saw(name, rendered[i])
		r.files = append(r.files, write.File{Name: name, Content: rendered[i]})
	}
	for _, name := range r.loaded.Outputs {
		if !produced[name] {
			r.files = append(r.files, write.File{Name: name})
		}
	}
	slices.SortFunc(r.files, func(a, b write.File) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// tell runs a command that writes no files.
func (r *runner) tell(stdout, stderr io.Writer) (int, error) {
	if r.list.Len() > 0 {
		return exitWrong, r.list.Print(stderr, r.dir)
	}
	switch c := r.c; {
	case c.Command == "list" && c.JSON:
		return exitOK, r.survey.JSON(stdout)
	case c.Command == "list" && c.Markdown:
		return exitOK, r.survey.Markdown(stdout)
	case c.Command == "list":
		return exitOK, r.survey.Table(stdout)
	case c.Command == "graph" && c.DOT:
		return exitOK, r.survey.DOT(stdout)
	case c.Command == "graph":
		return exitOK, r.survey.Mermaid(stdout)
	}
	found, err := r.survey.Explain(stdout, r.c.Name)
	if err == nil && !found {
		fmt.Fprintf(stderr, "lockgen: %s: no such method, interface or key in %s%s\n",
			r.c.Name, strings.Join(r.c.Patterns, " "), diag.Suggest(r.c.Name, r.survey.Names()))
		return exitWrong, nil
	}
	return exitOK, err
}
