// Package key reads key templates and finds out how the values of their placeholders are written.
//
//	template = { literal | "{" path [ "..." ] "}" | "{{" path "}}" }
//	path     = param { "." ( field | method "()" ) }
//	literal  = letters, digits and any of _.@#+~=,- with ":" and "/" as separators
//
// Two different sets of values never give one key: values are escaped so that they hold no separator, and two placeholders have at least one
// separator between them, so a key can be taken apart again. With double braces the value stands in braces in the key too: that makes it the
// hash tag by which Redis Cluster chooses the slot, and all keys with that value are in one.
//
// With three dots the path names a list, and the template gives one key for each of its elements.
package key

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Template is a parsed key.
type Template struct {
	Text  string
	Parts []Part
}

// A Part is a literal or a placeholder.
type Part struct {
	Literal  string
	Path     []Name // of a placeholder; the first is a parameter
	Tag      bool   // of a placeholder: the value is the key's hash tag
	Each     bool   // of a placeholder: the path names a list, and each element gives a key
	Off, End int    // in the text, without the braces
}

// A Name is one element of a path.
type Name struct {
	Text     string
	Call     bool // a method
	Off, End int  // of Text

	buffer bool // a method that appends, which no template says
}

// An Error is a mistake between two bytes of the template.
type Error struct {
	Off, End int
	Message  string
	Unknown  bool // for want of a type that the compiler does not know
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

func errorAt(off, end int, format string, args ...any) error {
	return &Error{Off: off, End: end, Message: fmt.Sprintf(format, args...)}
}

// Rename is the text with other names for the parameters.
func (t *Template) Rename(name func(param string) string) string {
	var b strings.Builder
	at := 0
	for _, p := range t.Parts {
		if p.Path != nil {
			first := p.Path[0]
			b.WriteString(t.Text[at:first.Off] + name(first.Text))
			at = first.End
		}
	}
	return b.String() + t.Text[at:]
}

// literalBytes may stand in a key beside letters and digits. The last two separate.
const literalBytes = "_.@#+~=,-:/"

// Parse reads a template. Its errors are of type *Error.
func Parse(text string) (*Template, error) {
	t := &Template{Text: text}
	separated, tagged, listed := true, false, false
	for off := 0; off < len(text); {
		if text[off] != '{' {
			n, err := literal(text, off)
			if err != nil {
				return nil, err
			}
			t.Parts = append(t.Parts, Part{Literal: text[off:n], Off: off, End: n})
			separated = separated || strings.ContainsAny(text[off:n], ":/")
			off = n
			continue
		}
		opening, closing := "{", "}"
		tag := strings.HasPrefix(text[off:], "{{")
		if tag {
			opening, closing = "{{", "}}"
		}
		from := off + len(opening)
		n := strings.Index(text[from:], closing)
		if n < 0 {
			return nil, errorAt(off, len(text), "%s without %s", opening, closing)
		}
		to := from + n
		end := to + len(closing)
		switch {
		case !separated:
			return nil, errorAt(off, end, "%s needs a : or / before it: without one, different values could give one key", text[off:end])
		case tag && tagged:
			return nil, errorAt(off, end, "%s is a second hash tag; a key has at most one", text[off:end])
		}
		inner, each := strings.CutSuffix(text[from:to], "...")
		switch {
		case each && tag:
			return nil, errorAt(off, end, "%s is a hash tag of several values; it keeps keys together, so it has one value", text[off:end])
		case each && listed:
			return nil, errorAt(off, end, "%s is a second list; a key has at most one", text[off:end])
		}
		listed = listed || each
		path, err := parsePath(text[off:end], inner, from)
		if err != nil {
			return nil, err
		}
		t.Parts = append(t.Parts, Part{Path: path, Tag: tag, Each: each, Off: from, End: to})
		separated, tagged, off = false, tagged || tag, end
	}
	if len(t.Parts) == 0 {
		return nil, errorAt(0, 1, "empty key")
	}
	return t, nil
}

// literal returns where the literal at off ends.
func literal(text string, off int) (int, error) {
	for i, r := range text[off:] {
		switch {
		case r == '{':
			return off + i, nil
		case r == '}':
			return 0, errorAt(off+i, off+i+1, "} without {")
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune(literalBytes, r):
		default:
			return 0, errorAt(off+i, off+i+utf8.RuneLen(max(r, 0)), "a key can't have %q outside of {}; it can have letters, digits and %s", r, literalBytes)
		}
	}
	return len(text), nil
}

// CheckPrefix says what is wrong with a prefix, which goes before a colon.
func CheckPrefix(prefix string) error {
	if i := strings.IndexAny(prefix, "{}"); i >= 0 {
		return errorAt(i, len(prefix), "a prefix has no placeholders")
	}
	if _, err := literal(prefix, 0); err != nil {
		return err
	}
	if last := len(prefix) - 1; strings.ContainsAny(prefix[last:], ":/") {
		return errorAt(last, last+1, "a prefix needs no %s at its end, the key follows behind a colon", prefix[last:])
	}
	return nil
}

// parsePath reads what stands between the braces of a whole placeholder, which starts at base of the template.
func parsePath(whole, text string, base int) ([]Name, error) {
	if text == "" {
		return nil, errorAt(base-1, base+1, "%s names nothing; put a parameter into it, such as {id}", whole)
	}
	var path []Name
	off := base
	for part := range strings.SplitSeq(text, ".") {
		n := Name{Text: part, Off: off, End: off + len(part)}
		if part == "" && len(path) > 0 {
			n.Off-- // at the dot that nothing follows
		}
		off += len(part) + 1
		if name, ok := strings.CutSuffix(part, "()"); ok {
			n.Text, n.Call = name, true
			n.End -= len("()")
		}
		switch fn, call := strings.CutPrefix(text, "@"); {
		case identifier(n.Text):
		case call && identifier(fn):
			return nil, errorAt(base, base+len(text), "%s: a function makes a whole key, not a part of one: key=@%s, and %s returns a lockrt.Key", whole, fn, fn)
		default:
			return nil, errorAt(n.Off, max(n.End, n.Off+1), "%s is not a path; a path is a parameter and then fields or methods(), joined by dots", whole)
		}
		path = append(path, n)
	}
	if path[0].Call {
		return nil, errorAt(base, off-1, "%s starts with a call; a path starts with a parameter, and a function makes a whole key: key=@%s", whole, path[0].Text)
	}
	return path, nil
}

func identifier(s string) bool {
	for i, r := range s {
		if r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r)) {
			return false
		}
	}
	return s != "" && s != "_" && utf8.ValidString(s)
}
