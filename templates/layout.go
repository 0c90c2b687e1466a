package templates

import (
	"bytes"
	"go/doc/comment"
	"go/format"
	"go/token"
	"slices"
	"strings"
	"sync"
)

// Layouts remembers how gofmt lays out declarations. For most that depends on neither names nor literals, and most functions that are generated
// differ in nothing else: gofmt is asked about the first of them. To ask it about each was a third of the work of a large run. The zero value knows
// none; several goroutines can use one.
type Layouts struct {
	mu    sync.Mutex
	known map[string][][]byte // the space of gofmt between the names of a declaration, by that of jennifer
}

// A declaration is one taken apart: names and literals, and what is before, between and behind them.
type declaration struct {
	names, between [][]byte
	key            []byte // the space between, with the kinds of the names
}

// write adds what jennifer has written to out, as gofmt has it: declarations with an empty line between any two.
func (l *Layouts) write(out *bytes.Buffer, raw []byte) error {
	var d declaration
	for decl := range bytes.SplitSeq(raw, []byte("\n\n\n")) {
		if out.Len() > 0 {
			out.WriteByte('\n')
		}
		code := decl
		for bytes.HasPrefix(code, []byte("//")) {
			_, code, _ = bytes.Cut(code, []byte("\n"))
		}
		between, err := l.of(&d, code)
		if err != nil {
			return err
		}
		if between != nil {
			out.Write(decl[:len(decl)-len(code)])
			for i, name := range d.names {
				out.Write(between[i])
				out.Write(name)
			}
			out.Write(between[len(d.names)])
		} else {
			// The doc comment is as gofmt has it already. Gofmt would take its first line for a comment behind a package clause, and drop an empty second line.
			doc := len(decl) - len(code)
			if bytes.HasPrefix(code, []byte("\n")) {
				doc = 0 // the file begins with it
			}
			out.Write(decl[:doc])
			src, err := format.Source(decl[doc:])
			if err != nil {
				return err
			}
			out.Write(bytes.TrimSpace(src))
		}
		out.WriteByte('\n')
	}
	return nil
}

// of takes a declaration apart and returns what gofmt has between its names, or nil if it must be asked each time.
func (l *Layouts) of(d *declaration, code []byte) ([][]byte, error) {
	if !d.split(code) {
		return nil, nil
	}
	l.mu.Lock()
	between := l.known[string(d.key)]
	l.mu.Unlock()
	if between != nil {
		return between, nil
	}
	src, err := format.Source(code)
	if err != nil {
		return nil, err
	}
	var formatted declaration
	if !formatted.split(src) || !slices.EqualFunc(d.names, formatted.names, bytes.Equal) {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[string][][]byte{}
	}
	l.known[string(d.key)] = formatted.between
	return formatted.between, nil
}

// split takes a declaration apart, unless its layout depends on more: gofmt counts the letters of a function on one line, aligns what stands in
// groups, structs and interfaces, and moves comments.
func (d *declaration) split(src []byte) bool {
	d.names, d.between, d.key = d.names[:0], d.between[:0], d.key[:0]
	if bytes.HasPrefix(src, []byte("func ")) != bytes.Contains(src, []byte("\n")) {
		return false
	}
	from := 0 // of what is between
	for at := 0; at < len(src); {
		end, kind := at+1, byte(0)
		switch c := src[at]; {
		case letter(c):
			for end < len(src) && (letter(src[end]) || digit(src[end])) {
				end++
			}
			switch word := string(src[at:end]); {
			case !token.IsKeyword(word):
				kind = 'a'
			case (word == "struct" || word == "interface") && !bytes.HasPrefix(src[end:], []byte("{}")):
				return false
			}
		case digit(c):
			for end < len(src) && digit(src[end]) {
				end++
			}
			kind = '0'
		case c == '"' || c == '\'':
			for src[end] != c {
				if src[end] == '\\' {
					end++
				}
				end++
			}
			end++
			kind = c
		case c == '/' || c == '`':
			return false
		}
		if kind != 0 {
			d.names, d.between = append(d.names, src[at:end]), append(d.between, src[from:at])
			d.key = append(append(d.key, src[from:at]...), '$', kind)
			from = end
		}
		at = end
	}
	d.between = append(d.between, src[from:])
	d.key = append(d.key, src[from:]...)
	return true
}

func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_' || c >= 0x80 }

func digit(c byte) bool { return '0' <= c && c <= '9' }

// formatDoc lays out a doc comment as gofmt does.
func formatDoc(lines []string) []string {
	text := new(comment.Printer).Comment(new(comment.Parser).Parse(strings.Join(lines, "\n")))
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}
