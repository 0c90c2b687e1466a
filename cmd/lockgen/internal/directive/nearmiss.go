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
// A comment that starts with "//lockgen:" is ours whatever follows. Anything else (spaces, capitals, a misspelt name, a block comment, another
// sign than the colon) is taken for an attempt only if a verb and then nothing but arguments follow, since comments may well speak about lockgen.
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
	rest, colon := strings.CutPrefix(rest, ":")
	if !colon {
		rest = strings.TrimLeft(rest, otherSigns)
	}
	rest = strings.TrimLeft(rest, " \t")
	verb, args := strings.TrimSpace(firstLine(strings.TrimSuffix(rest, "*/"))), ""
	if end := strings.IndexFunc(verb, unicode.IsSpace); end >= 0 {
		verb, args = verb[:end], verb[end:]
	}
	width := len(text) - len(rest) + len(verb)
	right := verb
	switch {
	case !colon:
		// Two words in a row: a sentence begins like that too, unless it has arguments or begins where only directives do.
		if !slices.Contains(verbs, verb) || args == "" && !strings.HasPrefix(text, "//"+tool) {
			right = ""
		}
	case name == tool:
		if !slices.Contains(verbs, verb) {
			right = diag.Nearest(verb, verbs)
		}
	case !slices.Contains(verbs, verb):
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

// otherSigns may stand where the colon should. The last is the wide colon of Chinese keyboards.
const otherSigns = " \t.-=/\uff1a"

// toolName finds a name like ours at the start of a comment, and returns it in lower case with what follows: a colon or, if the name is exactly
// ours, one of the other signs.
func toolName(text string) (name, rest string, ok bool) {
	rest, ok = strings.CutPrefix(text, "//")
	if !ok {
		if rest, ok = strings.CutPrefix(text, "/*"); !ok {
			return "", "", false
		}
		rest = strings.TrimLeft(rest, "* \t\r\n")
	} else {
		rest = strings.TrimLeft(rest, "/")
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
	rest = rest[end:]
	if colon := strings.TrimLeft(rest, " \t"); strings.HasPrefix(colon, ":") {
		return name, colon, diag.Distance(name, tool) <= 2
	}
	return name, rest, name == tool && strings.IndexAny(rest, otherSigns) == 0
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
