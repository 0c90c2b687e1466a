package directive

import (
	"bytes"
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/diag"
)

// behindText notes a directive at the end of a comment that says something else before it. A comment that is nothing but a directive in another
// comment was put out of use, which is fine.
func behindText(list *diag.List, c *ast.Comment) {
	for from := 0; ; {
		next := strings.Index(c.Text[from:], " //")
		if next < 0 {
			return
		}
		i := from + next + 1
		from = i
		if strings.Trim(c.Text[:i], "/ \t") == "" {
			continue
		}
		n, ok := take(firstLine(c.Text[i:]))
		if !ok || !n.colon || n.name != tool || !slices.Contains(verbs, n.verb) {
			continue
		}
		if a := parseArguments(n.rest); !a.words || a.remark {
			at := c.Pos() + token.Pos(i)
			list.Add(at, at+token.Pos(n.width), "%q behind other text is not a directive; write it in a line of its own", c.Text[i:i+n.width])
			return
		}
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

// Mentioned reports whether source may hold a directive or an attempt at one. It reads bytes, not Go: what it finds can
// stand in a string.
func Mentioned(src []byte) bool {
	if bytes.IndexByte(src, '\r') >= 0 { // Go leaves them out of comments
		src = bytes.ReplaceAll(src, []byte("\r"), nil)
	}
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

// names reports whether a comment begins with a name like ours.
func names(src []byte) bool {
	if !plausible(src) {
		return false
	}
	head := src[:min(len(src), 64)]
	for !utf8.Valid(head) && len(head) > 60 {
		head = head[:len(head)-1]
	}
	_, ok := take(firstLine(string(head)))
	return ok
}

// plausible reports whether a comment can begin with a name like ours. Most can't, by their first letters, and all
// comments of a module are asked.
func plausible(src []byte) bool {
	at := len("//")
	for at < len(src) && strings.IndexByte("/ \t+@#!", src[at]) >= 0 {
		at++
	}
	if bytes.HasPrefix(src[at:], []byte("go:")) {
		at += len("go:")
	}
	end := at
	for end < len(src) && isLetter(src[end]) {
		end++
	}
	if end == len(src) || src[end] >= 0x80 {
		return true
	}
	word := src[at:end]
	switch common := min(len(word), len(tool)); {
	case strings.EqualFold(string(word[:common]), tool[:common]):
		return len(word) > 0
	case len(word) < len(tool)-2 || len(word) > len(tool)+2:
		return false
	}
	for end < len(src) && (src[end] == ' ' || src[end] == '\t') {
		end++
	}
	return end == len(src) || src[end] == ':' || src[end] >= 0x80
}
