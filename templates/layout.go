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

// Layouts remembers how gofmt lays out functions. That depends on neither names nor literals, and most generated functions differ in nothing else:
// gofmt is asked about the first of them. To ask it about each was a third of the work of a large run. The zero value knows none; several goroutines
// can use one.
type Layouts struct {
	mu    sync.Mutex
	known map[string][][]byte // what gofmt has between the names of a function, by what jennifer has there
}

// A function is one taken apart: names and literals, and what is before, between and behind them.
type function struct {
	names, between [][]byte
	key            []byte // what is between, with the kinds of the names
}

// write adds what jennifer has written to out, as gofmt has it: declarations with an empty line between any two.
func (l *Layouts) write(out *bytes.Buffer, raw []byte) error {
	var fn function
	for decl := range bytes.SplitSeq(raw, []byte("\n\n\n")) {
		if out.Len() > 0 {
			out.WriteByte('\n')
		}
		code := decl
		for bytes.HasPrefix(code, []byte("//")) {
			_, code, _ = bytes.Cut(code, []byte("\n"))
		}
		between, err := l.of(&fn, code)
		if err != nil {
			return err
		}
		if between != nil {
			out.Write(decl[:len(decl)-len(code)])
			for i, name := range fn.names {
				out.Write(between[i])
				out.Write(name)
			}
			out.Write(between[len(fn.names)])
		} else {
			src, err := format.Source(decl)
			if err != nil {
				return err
			}
			out.Write(bytes.TrimSpace(src))
		}
		out.WriteByte('\n')
	}
	return nil
}

// of takes a function apart and returns what gofmt has between its names, or nil if it must be asked about the declaration as it is.
func (l *Layouts) of(fn *function, code []byte) ([][]byte, error) {
	if !fn.split(code) {
		return nil, nil
	}
	l.mu.Lock()
	between := l.known[string(fn.key)]
	l.mu.Unlock()
	if between != nil {
		return between, nil
	}
	src, err := format.Source(code)
	if err != nil {
		return nil, err
	}
	var formatted function
	if !formatted.split(src) || !slices.EqualFunc(fn.names, formatted.names, bytes.Equal) {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[string][][]byte{}
	}
	l.known[string(fn.key)] = formatted.between
	return formatted.between, nil
}

// split takes a function apart, unless it is none, or one whose layout depends on more: gofmt counts the letters of functions on one line, aligns
// what is in structs and interfaces, and moves comments.
func (fn *function) split(src []byte) bool {
	fn.names, fn.between, fn.key = fn.names[:0], fn.between[:0], fn.key[:0]
	if !bytes.HasPrefix(src, []byte("func ")) || !bytes.HasSuffix(src, []byte("\n}")) {
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
			case word == "struct" || word == "interface":
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
			fn.names, fn.between = append(fn.names, src[at:end]), append(fn.between, src[from:at])
			fn.key = append(append(fn.key, src[from:at]...), '$', kind)
			from = end
		}
		at = end
	}
	fn.between = append(fn.between, src[from:])
	fn.key = append(fn.key, src[from:]...)
	return true
}

func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_' || c >= 0x80 }

func digit(c byte) bool { return '0' <= c && c <= '9' }

// formatDoc lays out a doc comment as gofmt does.
func formatDoc(lines []string) []string {
	text := new(comment.Printer).Comment(new(comment.Parser).Parse(strings.Join(lines, "\n")))
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}
