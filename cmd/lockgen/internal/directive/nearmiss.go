package directive

import (
	"bytes"
	"go/ast"
	"go/token"
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
// A comment that starts with "//lockgen:" is ours whatever follows. Anything else (spaces, capitals, a misspelt name, another sign than the colon)
// is taken for an attempt only if a verb and then nothing but arguments follow, since comments may well speak about lockgen.
func attempt(text string) (attempted, bool) {
	if strings.HasPrefix(text, "//"+tool+":") {
		end := strings.IndexFunc(text, unicode.IsSpace)
		if end < 0 {
			end = len(text)
		}
		return attempted{width: end}, true
	}
	return near(text)
}

// near looks at a comment, or at what would be one, that is no directive as it stands.
func near(text string) (attempted, bool) {
	name, rest, ok := toolName(text)
	if !ok {
		return attempted{}, false
	}
	rest, colon := strings.CutPrefix(rest, ":")
	if !colon {
		rest = strings.TrimLeft(rest, otherSigns)
	}
	rest = strings.TrimLeft(rest, " \t")
	verb, args := strings.TrimSpace(firstLine(rest)), ""
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
	return attempted{"//" + tool + ":" + right, width}, true
}

// behindText notes a directive at the end of a comment that says something else before it. A comment that is nothing but a directive in another
// comment was put out of use, which is fine.
func behindText(list *diag.List, c *ast.Comment) {
	i := strings.LastIndex(c.Text, " //"+tool+":") + 1
	if i == 0 || strings.Trim(c.Text[:i], "/ \t") == "" {
		return
	}
	if a, ok := near(c.Text[i:]); ok {
		from := c.Pos() + token.Pos(i)
		list.Add(from, from+token.Pos(a.width), "%q behind other text is not a directive; write it in a line of its own", c.Text[i:i+a.width])
	}
}

// inBlock notes the lines of a block comment that are meant as directives. That of a package may show some as code, which is indented.
func inBlock(list *diag.List, c *ast.Comment, ofPackage bool) {
	file := list.Fset().File(c.Pos())
	number := file.PositionFor(c.Pos(), false).Line
	for line := range strings.SplitSeq(strings.TrimSuffix(c.Text, "*/"), "\n") {
		start := c.Pos()
		if len(line) != len(c.Text) && !strings.HasPrefix(line, "/*") {
			start = file.LineStart(number)
		}
		number++
		text := blockLine(line)
		a, ok := near("//" + text)
		indented := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
		if !ok || ofPackage && indented {
			continue
		}
		from := start + token.Pos(len(line)-len(text))
		to := from + token.Pos(a.width-len("//"))
		list.Add(from, to, "%q in a block comment is not a directive; write %s in a line of its own", text[:to-from], a.fix)
	}
}

// blockLine is a line of a block comment without what stands before its text, and without the marker that a directive would begin with.
func blockLine(line string) string {
	text := strings.TrimLeft(strings.TrimPrefix(line, "/*"), " \t")
	return strings.TrimLeft(strings.TrimLeft(text, "*/"), " \t")
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

// otherSigns may stand where the colon should. The last are the wide colon and semicolon of Chinese keyboards.
const otherSigns = " \t.,;-_=/\uff1a\uff1b"

// toolName finds a name like ours at the start of a comment, and returns it in lower case with what follows: a colon or, if the name is exactly
// ours, one of the other signs.
func toolName(text string) (name, rest string, ok bool) {
	if rest, ok = strings.CutPrefix(text, "//"); !ok {
		return "", "", false
	}
	rest = strings.TrimLeft(strings.TrimLeft(rest, "/"), " \t+@")
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
	block := 0 // how much of what is left was looked at as a block comment
	for len(src) > 0 {
		i := bytes.IndexByte(src, '/')
		if i < 0 || i+2 > len(src) {
			return false
		}
		src, block = src[i:], block-i
		switch {
		case src[1] == '/':
			if names(src) {
				return true
			}
		case src[1] != '*':
			src, block = src[1:], block-1
			continue
		case block <= 0:
			if block = bytes.Index(src[2:], []byte("*/")); block < 0 {
				block = len(src) - 2
			}
			if mentionedInBlock(src[:2+block]) {
				return true
			}
			block += 2
		}
		src, block = src[2:], block-2
	}
	return false
}

func mentionedInBlock(src []byte) bool {
	for line := range bytes.SplitSeq(src, []byte("\n")) {
		if names([]byte("//" + blockLine(string(line)))) {
			return true
		}
	}
	return false
}

// names says whether a comment begins with a name like ours.
func names(src []byte) bool {
	head := src[:min(len(src), 64)]
	for !utf8.Valid(head) && len(head) > 60 {
		head = head[:len(head)-1]
	}
	_, _, ok := toolName(string(head))
	return ok
}
