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
	"unicode"
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

// PlaceFrom is Place in a message about from, which may be in another directory: then the path begins there.
func (l *List) PlaceFrom(from, pos token.Pos) string {
	p := l.fset.PositionFor(pos, false)
	name := p.Filename
	if rel, err := filepath.Rel(filepath.Dir(l.fset.PositionFor(from, false).Filename), name); err == nil && len(rel) < len(name) {
		name = filepath.ToSlash(rel)
	}
	return fmt.Sprintf("%s:%d", name, p.Line)
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

// excerpt writes the source line without its indentation, or what is around the place in a long one, and a caret below it.
func excerpt(out *bytes.Buffer, line string, col, width int) {
	trimmed := strings.TrimLeft(strings.TrimPrefix(line, "\ufeff"), " \t")
	col -= len(line) - len(trimmed)
	if trimmed == "" || col < 0 || col > len(trimmed) {
		return
	}
	before, marked := trimmed[:col], trimmed[col:min(col+width, len(trimmed))]
	after := trimmed[col+len(marked):]
	if len(trimmed) > longest {
		before = tail(before, longest/3)
		if len(marked) > longest/3 {
			after = ""
		}
		marked = head(marked, longest/3)
		after = head(after, longest/3)
	}
	fmt.Fprintf(out, "\t%s%s%s\n\t", before, marked, after)
	for _, r := range before {
		// A tab stays one, so that the caret stands below its column whatever the tab width.
		if r == '\t' {
			out.WriteRune(r)
			continue
		}
		out.WriteString(strings.Repeat(" ", columns(r)))
	}
	carets := 0
	for _, r := range marked {
		carets += columns(r)
	}
	out.WriteString(strings.Repeat("^", max(1, carets)))
	out.WriteByte('\n')
}

// longest is how much of a line is shown, in bytes.
const longest = 200

// head and tail are the beginning and the end of s, of about n bytes.
func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}

func tail(s string, n int) string {
	at := len(s) - n
	if at <= 0 {
		return s
	}
	for at < len(s) && !utf8.RuneStart(s[at]) {
		at++
	}
	return "..." + s[at:]
}

// columns says how many a letter takes where all have the same width: those of Chinese, Japanese and Korean take two, as emoji do, and marks on letters none.
func columns(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul), 0x3000 <= r && r <= 0x303f, 0xff00 <= r && r <= 0xff60, 0x1f300 <= r && r <= 0x1faff:
		return 2
	}
	return 1
}

// Relative returns name relative to dir if it is below dir, else name.
func Relative(dir, name string) string {
	rel, err := filepath.Rel(dir, name)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return name
	}
	return filepath.ToSlash(rel)
}
