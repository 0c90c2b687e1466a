package partial

import "bytes"

// withoutBodies returns source whose functions have empty bodies: white space as long as what stood there, so that all positions stay. Nobody looks
// into bodies, and to parse them takes most of the time. Source that isn't understood is returned as it is.
func withoutBodies(src []byte) []byte {
	out := src
	for _, body := range bodies(src) {
		if &out[0] == &src[0] {
			out = bytes.Clone(src)
		}
		for i := body.from; i < body.to; i++ {
			if out[i] != '\n' && out[i] != '\r' {
				out[i] = ' '
			}
		}
	}
	return out
}

// Outline returns what source is without the bodies of its functions, for comparisons: two files with one outline declare the same. Of source that
// isn't understood it is all.
func Outline(src []byte) []byte {
	var out []byte
	from := 0
	for _, body := range bodies(src) {
		out = append(out, src[from:body.from]...)
		from = body.to
	}
	return append(out, src[from:]...)
}

// A body is the place of what stands between the braces of a function.
type body struct{ from, to int }

// bodies lists those of the functions that a file declares, or none if it isn't understood.
func bodies(src []byte) []body {
	var all []body
	s := &reader{src: src}
	for s.next() {
		if s.depth != 0 || !bytes.HasPrefix(src[s.at:], []byte("func")) || s.at > 0 && src[s.at-1] != '\n' {
			continue
		}
		if from, to, ok := s.body(); ok {
			all = append(all, body{from, to})
		}
	}
	if s.wrong || s.depth != 0 {
		return nil
	}
	return all
}

// A reader goes through Go source byte by byte, past comments and literals, and counts brackets.
type reader struct {
	src   []byte
	at    int // the byte that was reached
	after int // where the next begins
	depth int // of braces, brackets and parentheses
	wrong bool
}

// next goes on to the next byte of code. It has already counted a bracket that opens there.
func (s *reader) next() bool {
	for s.after < len(s.src) && !s.wrong {
		s.at = s.after
		rest := s.src[s.at:]
		switch c := rest[0]; {
		case c == '/' && len(rest) > 1 && rest[1] == '/':
			if s.skip(rest, "\n", 2, true); s.broken() {
				return true
			}
		case c == '/' && len(rest) > 1 && rest[1] == '*':
			if s.skip(rest, "*/", 2, false); s.broken() {
				return true
			}
		case c == '`':
			s.skip(rest, "`", 1, false)
		case c == '"' || c == '\'':
			s.quoted(rest)
		default:
			s.after++
			switch c {
			case '(', '[', '{':
				s.depth++
			case ')', ']', '}':
				s.depth--
				s.wrong = s.wrong || s.depth < 0
			}
			return !s.wrong
		}
	}
	return false
}

func (s *reader) skip(rest []byte, end string, from int, last bool) {
	i := bytes.Index(rest[from:], []byte(end))
	switch {
	case i >= 0:
		s.after += from + i + len(end)
	case last:
		s.after = len(s.src)
	default:
		s.wrong = true
	}
}

// broken goes to the first line break in a comment that was skipped, if it has one: the comment counts as that.
func (s *reader) broken() bool {
	i := bytes.IndexByte(s.src[s.at:s.after], '\n')
	s.at += max(i, 0)
	return i >= 0
}

func (s *reader) quoted(rest []byte) {
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case '\n':
			s.wrong = true
			return
		case rest[0]:
			s.after += i + 1
			return
		}
	}
	s.wrong = true
}

// body goes on from a top-level func past its body, and returns what is between the braces. Without a body it ends at the end of the line.
func (s *reader) body() (from, to int, ok bool) {
	from, to = 0, 0 // of the last word
	for s.next() {
		switch c := s.src[s.at]; {
		case c == '{' && s.depth == 1 && !isType(s.src[from:to]):
			from = s.at + 1
			for s.depth > 0 {
				if !s.next() {
					return 0, 0, false
				}
			}
			return from, s.at, true
		case c == '\n' && s.depth == 0:
			return 0, 0, false
		case c == ' ' || c == '\t' || c == '\r':
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c >= 0x80:
			if to != s.at {
				from = s.at
			}
			to = s.at + 1
		default:
			from, to = 0, 0
		}
	}
	return 0, 0, false
}

// isType reports whether a brace behind this word opens that of a type.
func isType(word []byte) bool {
	return bytes.Equal(word, []byte("interface")) || bytes.Equal(word, []byte("struct"))
}
