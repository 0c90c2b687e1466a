package cli

import (
	"fmt"
	"go/token"
	"io"
	"slices"
	"strings"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/check"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/diag"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/load"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/output"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/write"
	"github.com/lockgen/lockgen/templates"
)

// run is the whole program: load, check, render, and at the end, if nothing is wrong, touch the disk.
func run(c *Config, dir string, stdout, stderr io.Writer) (int, error) {
	list := diag.New(token.NewFileSet())
	files, notes, err := generate(c, dir, list)
	if err != nil {
		return exitTrouble, err
	}
	for _, note := range notes {
		fmt.Fprintln(stderr, "note:", note)
	}
	if list.Len() > 0 {
		return exitWrong, list.Print(stderr, dir)
	}
	changed, err := write.Changed(files)
	if err != nil {
		return exitTrouble, err
	}
	if !c.Check {
		return exitOK, write.Apply(changed)
	}
	if len(changed) == 0 {
		return exitOK, nil
	}
	_, err = stdout.Write(write.Diff(changed, dir))
	return exitWrong, err
}

// generate makes all files in memory.
func generate(c *Config, dir string, list *diag.List) (files []write.File, notes []string, err error) {
	loaded, err := load.Load(load.Config{Dir: dir, Tags: c.Tags, Patterns: c.Patterns}, list)
	if err != nil {
		return nil, nil, err
	}
	produced := map[string]bool{}
	for _, pkg := range loaded.Packages {
		outputs := check.Package(list, pkg)
		if list.Len() > 0 {
			// Mistakes of all packages are wanted, files of none.
			continue
		}
		for _, out := range outputs {
			src, err := templates.Render(out.Model)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: this is a defect of lockgen, please report it with the interface: %w", diag.Relative(dir, out.Source), err)
			}
			name := output.Name(out.Source)
			produced[name] = true
			files = append(files, write.File{Name: name, Content: src})
		}
	}
	for _, name := range loaded.Outputs {
		if !produced[name] {
			files = append(files, write.File{Name: name})
		}
	}
	slices.SortFunc(files, func(a, b write.File) int { return strings.Compare(a.Name, b.Name) })
	return files, loaded.Notes, nil
}
