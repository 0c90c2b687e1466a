package check

import (
	"go/ast"
	"slices"
	"strings"
	"unicode"
)

// doc is what a method's comment says, without directives, and whether it says that in a block comment.
func (m *method) doc() (lines []string, block bool) {
	if m.field == nil || m.field.Doc == nil {
		return nil, false
	}
	var texts []string
	for rest := m.field.Doc.List; len(rest) > 0; {
		n := 1
		isBlock := strings.HasPrefix(rest[0].Text, "/*")
		for !isBlock && n < len(rest) && !strings.HasPrefix(rest[n].Text, "/*") {
			n++
		}
		text := strings.TrimRight((&ast.CommentGroup{List: rest[:n]}).Text(), "\n")
		if isBlock {
			text = plain(text)
		}
		if text != "" {
			texts, block = append(texts, text), isBlock
		}
		rest = rest[n:]
	}
	if len(texts) == 0 {
		return nil, false
	}
	return strings.Split(strings.Join(texts, "\n"), "\n"), block && len(texts) == 1
}

// plain is the text of a block comment without what all of its lines begin with: stars and white space.
func plain(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRightFunc(line, unicode.IsSpace)
	}
	lines = slices.CompactFunc(lines, func(a, b string) bool { return a == "" && b == "" })
	if strings.Trim(lines[0], "* \t") == "" {
		lines = lines[1:] // the text behind /**
	}
	starred := len(lines) > 0
	for _, line := range lines {
		starred = starred && strings.HasPrefix(strings.TrimSpace(line), "*")
	}
	for i, line := range lines {
		if starred {
			_, lines[i], _ = strings.Cut(line, "*")
		}
	}
	indent, found := "", false
	for _, line := range lines {
		if line == "" {
			continue
		}
		own := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		if !found {
			indent, found = own, true
		}
		for !strings.HasPrefix(own, indent) {
			indent = indent[:len(indent)-1]
		}
	}
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, indent)
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}
