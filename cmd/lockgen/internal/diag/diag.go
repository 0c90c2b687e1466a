// Package diag collects what is wrong with the input and prints it for the person who wrote it.
package diag

import (
	"bytes"
	"cmp"
	"fmt"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Diagnostic is one mistake, at its place.
type Diagnostic struct {
	Pos     token.Position
	Width   int // in bytes of the source line; the caret is that long
	Message string
	Warning bool // it may be meant: files are written all the same
}

// A List holds the diagnostics of a run. Make it with New.
type List struct {
	fset     *token.FileSet
	all      []Diagnostic
	warnings []Diagnostic
}

// New makes a list for positions of fset.
func New(fset *token.FileSet) *List { return &List{fset: fset} }

// Fset returns the file set that positions are of.
func (l *List) Fset() *token.FileSet { return l.fset }

// Add notes a mistake between pos and end. Without an end the caret is one column wide.
func (l *List) Add(pos, end token.Pos, format string, args ...any) {
	p, width := l.place(pos, end)
	l.AddAt(p, width, format, args...)
}

// Warn notes what is allowed and probably not meant.
func (l *List) Warn(pos, end token.Pos, format string, args ...any) {
	p, width := l.place(pos, end)
	l.warnings = append(l.warnings, Diagnostic{p, width, fmt.Sprintf(format, args...), true})
}

func (l *List) place(pos, end token.Pos) (p token.Position, width int) {
	// Not adjusted by //line: the reader edits this file, not the one it was made from.
	p = l.fset.PositionFor(pos, false)
	if end > pos {
		return p, int(end - pos)
	}
	return p, 1
}

// AddAt is Add for a position that is known already.
func (l *List) AddAt(pos token.Position, width int, format string, args ...any) {
	l.all = append(l.all, Diagnostic{pos, width, fmt.Sprintf(format, args...), false})
}

// Len says how many mistakes there are. Warnings are none.
func (l *List) Len() int { return len(l.all) }

// Warnings says how many warnings there are.
func (l *List) Warnings() int { return len(l.warnings) }

// Silence forgets the warnings.
func (l *List) Silence() { l.warnings = nil }

// Place is pos as file:line, to be named inside a message.
func (l *List) Place(pos token.Pos) string {
	p := l.fset.PositionFor(pos, false)
	return fmt.Sprintf("%s:%d", filepath.Base(p.Filename), p.Line)
}

// Sorted returns mistakes and warnings in the order of file, line, column and text, each once.
func (l *List) Sorted() []Diagnostic {
	all := slices.Concat(l.all, l.warnings)
	slices.SortFunc(all, func(a, b Diagnostic) int {
		return cmp.Or(
			cmp.Compare(a.Pos.Filename, b.Pos.Filename),
			cmp.Compare(a.Pos.Line, b.Pos.Line),
			cmp.Compare(a.Pos.Column, b.Pos.Column),
			cmp.Compare(a.Message, b.Message),
		)
	})
	return slices.Compact(all)
}

// Print writes all diagnostics, sorted, with file names relative to dir where that is shorter:
//
//	orders.go:12:31: key path {o.Id}: *Order has no field or method Id; did you mean ID?
//		//lockgen:lock key=order:{o.Id}
//		                            ^^
func (l *List) Print(w io.Writer, dir string) error {
	lines := map[string][]string{}
	var out bytes.Buffer
	for _, d := range l.Sorted() {
		message := d.Message
		if d.Warning {
			message = "warning: " + message
		}
		if !d.Pos.IsValid() {
			fmt.Fprintf(&out, "%s\n", message)
			continue
		}
		fmt.Fprintf(&out, "%s:%d:%d: %s\n", Relative(dir, d.Pos.Filename), d.Pos.Line, d.Pos.Column, message)
		if _, ok := lines[d.Pos.Filename]; !ok {
			src, err := os.ReadFile(d.Pos.Filename)
			if err != nil {
				src = nil
			}
			lines[d.Pos.Filename] = strings.Split(string(src), "\n")
		}
		if src := lines[d.Pos.Filename]; d.Pos.Line <= len(src) {
			excerpt(&out, strings.TrimRight(src[d.Pos.Line-1], "\r"), d.Pos.Column-1, d.Width)
		}
	}
	_, err := w.Write(out.Bytes())
	return err
}

// excerpt writes the source line without its indentation and a caret below it.
func excerpt(out *bytes.Buffer, line string, col, width int) {
	trimmed := strings.TrimLeft(strings.TrimPrefix(line, "\ufeff"), " \t")
	col -= len(line) - len(trimmed)
	if trimmed == "" || col < 0 || col > len(trimmed) {
		return
	}
	end := min(col+width, len(trimmed))
	fmt.Fprintf(out, "\t%s\n\t", trimmed)
	for _, r := range trimmed[:col] {
		// A tab stays one, so that the caret stands below its column whatever the tab width.
		if r != '\t' {
			r = ' '
		}
		out.WriteRune(r)
	}
	out.WriteString(strings.Repeat("^", max(1, utf8.RuneCountInString(trimmed[col:end]))))
	out.WriteByte('\n')
}

// Relative returns name relative to dir if it is below dir, else name.
func Relative(dir, name string) string {
	rel, err := filepath.Rel(dir, name)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return name
	}
	return filepath.ToSlash(rel)
}
