package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/diag"
	"github.com/lockgen/lockgen/cmd/lockgen/internal/write"
)

// A report is what a run says with -json.
type report struct {
	Diagnostics []diagnostic `json:"diagnostics"`
	Notes       []string     `json:"notes"`
	Services    []string     `json:"services"`       // the locks of each
	Files       []file       `json:"files"`          // that are written or removed; with -check and -n, that would be
	Diff        string       `json:"diff,omitempty"` // with -check
}

type diagnostic struct {
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Column   int    `json:"column,omitempty"` // in bytes, from 1
	Width    int    `json:"width,omitempty"`  // in bytes
	Severity string `json:"severity"`         // error or warning
	Message  string `json:"message"`
}

type file struct {
	Name   string `json:"name"`
	Action string `json:"action"` // write or remove
}

// report says what the run found and what it is going to do.
func (r *runner) report(changed []write.File, stdout, stderr io.Writer) error {
	if r.c.JSON {
		return r.reportJSON(changed, stdout)
	}
	for _, note := range r.loaded.Notes {
		fmt.Fprintln(stderr, "note:", note)
	}
	if err := r.list.Print(stderr, r.dir); err != nil {
		return err
	}
	if !r.c.Quiet {
		said := stdout
		if r.c.Check || r.c.Dry {
			said = stderr // the diff or the names of the files are to be read by programs
		}
		for _, line := range r.locked() {
			fmt.Fprintln(said, line)
		}
	}
	switch {
	case r.c.Check:
		_, err := stdout.Write(write.Diff(changed, r.dir))
		return err
	case r.c.Dry:
		for _, f := range changed {
			fmt.Fprintln(stdout, f.Action(), diag.Relative(r.dir, f.Name))
		}
	}
	return nil
}

// locked says what each service locks. Of a run with mistakes nobody knows.
func (r *runner) locked() []string {
	if r.list.Len() > 0 || r.c.Strict && r.list.Warnings() > 0 {
		return []string{}
	}
	return append([]string{}, r.summary...)
}

func (r *runner) reportJSON(changed []write.File, stdout io.Writer) error {
	out := report{Diagnostics: []diagnostic{}, Notes: append([]string{}, r.loaded.Notes...), Services: r.locked(), Files: []file{}}
	for _, d := range r.list.Sorted() {
		severity := "error"
		if d.Warning {
			severity = "warning"
		}
		j := diagnostic{Severity: severity, Message: d.Message}
		if d.Pos.IsValid() {
			j.File, j.Line, j.Column, j.Width = diag.Relative(r.dir, d.Pos.Filename), d.Pos.Line, d.Pos.Column, d.Width
		}
		out.Diagnostics = append(out.Diagnostics, j)
	}
	for _, f := range changed {
		out.Files = append(out.Files, file{diag.Relative(r.dir, f.Name), f.Action()})
	}
	if r.c.Check {
		out.Diff = string(write.Diff(changed, r.dir))
	}
	e := json.NewEncoder(stdout)
	e.SetIndent("", "\t")
	e.SetEscapeHTML(false)
	return e.Encode(out)
}
