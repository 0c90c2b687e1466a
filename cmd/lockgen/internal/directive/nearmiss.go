package directive

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/diag"
)

const tool = "lockgen"

// An attempted directive: a comment that is one, or that its author must have meant to be one.
type attempted struct {
	fix   string // how it would be right; empty if it starts as directives do
	width int    // of the part that is wrong or that names the verb
}

// attempt looks at a whole comment, its markers included.
//
// A comment that starts with "//lockgen:" is ours whatever follows. Anything else (spaces, capitals, a misspelt name, a block comment) is taken
// for an attempt only if a verb and then nothing but arguments follow, since comments may well speak about lockgen.
func attempt(text string) (attempted, bool) {
	if strings.HasPrefix(text, "//"+tool+":") {
		end := strings.IndexFunc(text, unicode.IsSpace)
		if end < 0 {
			end = len(text)
		}
		return attempted{width: end}, true
	}
	name, rest, ok := toolName(text)
	if !ok {
		return attempted{}, false
	}
	rest = strings.TrimLeft(rest, " \t")
	line := firstLine(strings.TrimSuffix(rest, "*/"))
	verb, args, _ := strings.Cut(strings.TrimSpace(line), " ")
	width := len(text) - len(rest) + len(verb)
	right := verb
	if name == tool {
		if !slices.Contains(verbs, verb) {
			right = diag.Nearest(verb, verbs)
		}
	} else if !slices.Contains(verbs, verb) {
		// Two misspellings in a row are more likely somebody else's comment.
		right = ""
	}
	if right == "" || !onlyArguments(args) {
		return attempted{}, false
	}
	fix := "//" + tool + ":" + right
	if strings.HasPrefix(text, "/*") {
		fix += " in a line of its own, not in a block comment"
	}
	return attempted{fix, width}, true
}

// onlyArguments says whether s reads as arguments of a directive and not as a sentence.
func onlyArguments(s string) bool {
	for f := range strings.FieldsSeq(s) {
		if !strings.Contains(f, "=") {
			return false
		}
	}
	return true
}

// toolName finds a name like ours and the colon behind it at the start of a comment, and returns it in lower case with what follows the colon.
func toolName(text string) (name, rest string, ok bool) {
	rest, ok = strings.CutPrefix(text, "//")
	if !ok {
		if rest, ok = strings.CutPrefix(text, "/*"); !ok {
			return "", "", false
		}
		rest = strings.TrimLeft(rest, "*\r\n")
	}
	rest = strings.TrimLeft(rest, " \t+@")
	end := 0
	for end < len(rest) && end <= len(tool)+2 && isLetter(rest[end]) {
		end++
	}
	if end < len(tool)-2 || end > len(tool)+2 {
		return "", "", false
	}
	name = strings.ToLower(rest[:end])
	rest, ok = strings.CutPrefix(strings.TrimLeft(rest[end:], " \t"), ":")
	if !ok || diag.Distance(name, tool) > 2 {
		return "", "", false
	}
	return name, rest, true
}

func isLetter(b byte) bool { return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' }

// Mentioned says whether source may hold a directive or an attempt at one. It reads bytes, not Go: what it finds can stand in a string.
func Mentioned(src []byte) bool {
	for len(src) > 0 {
		i := bytes.IndexByte(src, '/')
		if i < 0 || i+2 > len(src) {
			return false
		}
		src = src[i:]
		if src[1] != '/' && src[1] != '*' {
			src = src[1:]
			continue
		}
		head := src[:min(len(src), 64)]
		for !utf8.Valid(head) && len(head) > 60 {
			head = head[:len(head)-1]
		}
		if _, _, ok := toolName(string(head)); ok {
			return true
		}
		src = src[2:]
	}
	return false
}
