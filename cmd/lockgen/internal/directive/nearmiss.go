package directive

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"unicode"

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
// A comment that starts with "//lockgen:" is ours whatever follows. For anything else (spaces, capitals, a misspelt name, another sign than the colon)
// it takes more than the name, since comments may well speak about lockgen.
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
	n, ok := take(firstLine(text))
	if !ok {
		return attempted{}, false
	}
	a := parseArguments(n.rest)
	if n.verb == "" || !n.colon && optionNamed(n.verb) {
		return n.verbless(a)
	}
	right := diag.Nearest(n.verb, verbs)
	if !n.meant(right, &a) {
		return attempted{}, false
	}
	if right == "" {
		right = string(Lock)
	}
	fix := "//" + tool + ":" + right
	if a.changed || a.words {
		fix += a.text()
	}
	return attempted{fix, n.width}, true
}

// verbless is for a name with nothing behind it, or with nothing but arguments.
func (n *spelling) verbless(a arguments) (attempted, bool) {
	switch {
	case n.verb != "" || len(a.list) > 0:
		a = parseArguments(n.verb + n.rest)
		if !a.known {
			return attempted{}, false
		}
		return attempted{"//" + tool + ":" + string(Lock) + a.text(), n.nameWidth}, true
	case n.tight && n.name == tool && n.rest == "":
		return attempted{"//" + tool + ": and a verb: " + strings.Join(verbs, ", "), n.nameWidth}, true
	}
	return attempted{}, false
}

// meant reports whether somebody must have meant a directive by this. Right is the verb that was meant, or empty.
func (n *spelling) meant(right string, a *arguments) bool {
	exact := right == n.verb
	alone := !a.words && len(a.list) == 0
	switch {
	case right == "":
		// Another verb than ours, with our options.
		return n.name == tool && n.colon && a.first
	case n.name != tool:
		// Two misspellings in a row are more likely somebody else's comment, unless our options follow.
		return exact && n.colon && !a.words || a.first && (exact || n.colon)
	case n.inside:
		return exact && n.colon && !a.words || a.first
	case n.colon && exact:
		return !a.words || a.first || n.whole && (a.known && !a.talk || a.reason)
	case n.colon:
		return a.first || !a.words && (!alone || n.whole)
	case n.glued:
		return a.first || exact && n.tight && !a.words
	case n.spaced:
		// Two words in a row: a sentence begins like that too, unless it has arguments or begins where only directives do.
		return a.first || exact && !a.words && (n.tight || !alone)
	default:
		return a.first || exact && !a.words && (n.tight || !alone || n.sign != '/')
	}
}

// A spelling is the beginning of a comment read as that of a directive.
type spelling struct {
	tight     bool   // nothing but slashes stands before the name
	name      string // in lower case, without signs in it
	inside    bool   // it had signs in it
	colon     bool   // a colon parts name and verb
	glued     bool   // nothing does
	spaced    bool   // a space does
	whole     bool   // name, sign and verb are one word
	sign      rune   // that parts them, if it is no colon
	verb      string // in the spelling of the comment
	rest      string // behind the verb
	nameWidth int    // in bytes of the comment, markers included
	width     int    // with the verb
}

// otherSigns may stand where the colon should. The last is the wide semicolon of Chinese keyboards.
const otherSigns = " \t.,;-_=/\uff1b"

const colons = ":\uff1a"

// take takes the beginning of a comment apart. It is ok only if there is a name like ours.
func take(comment string) (n *spelling, ok bool) {
	text, at := visible(comment)
	body, ok := strings.CutPrefix(text, "//")
	if !ok {
		return nil, false
	}
	body = strings.TrimLeft(body, "/")
	rest := strings.TrimLeft(body, " \t+@#!")
	n = &spelling{tight: rest == body}
	if behind, ok := strings.CutPrefix(rest, "go:"); ok {
		rest = behind
	}
	if rest, ok = n.takeName(rest); !ok {
		return nil, false
	}
	n.nameWidth = at(len(text) - len(rest))
	sign := strings.TrimLeft(rest, " \t")
	switch {
	case n.glued:
	case sign != "" && strings.ContainsRune(colons, firstRune(sign)):
		n.colon, n.whole = true, sign == rest
		sign = strings.TrimLeft(sign, colons)
		rest = strings.TrimLeft(sign, " \t")
		n.whole = n.whole && rest == sign
	case rest == "":
	default:
		n.sign = firstRune(rest)
		n.spaced = n.sign == ' ' || n.sign == '\t'
		if !strings.ContainsRune(otherSigns, n.sign) {
			return nil, false
		}
		rest = strings.TrimLeft(rest, otherSigns)
	}
	end := 0
	for end < len(rest) && isLetter(rest[end]) {
		end++
	}
	n.verb, n.rest = rest[:end], strings.TrimRight(rest[end:], " \t\r")
	n.width = at(len(text) - len(rest) + end)
	return n, true
}

// takeName reads a name like ours, and returns what follows. A name that is only like ours has a colon behind it.
func (n *spelling) takeName(text string) (rest string, ok bool) {
	end := 0
	for end < len(text) && end <= len(tool)+len(Defaults) && isLetter(text[end]) {
		end++
	}
	n.name, rest = strings.ToLower(text[:end]), text[end:]
	if behind, ok := strings.CutPrefix(n.name, tool); ok {
		switch {
		case behind == "":
			return rest, true
		case slices.Contains(verbs, behind):
			n.name, n.glued = tool, true
			return text[len(tool):], true
		}
	}
	if end > 0 && end < len(tool) && len(rest) > 1 && strings.IndexByte(" -_.", rest[0]) >= 0 {
		more := 1
		for more < len(rest) && more <= len(tool) && isLetter(rest[more]) {
			more++
		}
		if n.name+strings.ToLower(rest[1:more]) == tool {
			n.inside = true
			n.name = tool
			return rest[more:], true
		}
	}
	if end < len(tool)-2 || end > len(tool)+2 {
		return "", false
	}
	sign := strings.TrimLeft(rest, " \t")
	return rest, sign != "" && strings.ContainsRune(colons, firstRune(sign)) && diag.Distance(n.name, tool) <= 2
}

func firstRune(s string) rune {
	for _, r := range s {
		return r
	}
	return -1
}

func isLetter(b byte) bool { return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' }

// invisible are characters without visible glyphs, of no width or as wide as a space, with their names.
var invisible = map[rune]string{
	'\u00a0': "no-break space", '\u00ad': "soft hyphen", '\u180e': "vowel separator", '\u2007': "figure space", '\u200b': "zero-width space", '\u200c': "zero-width non-joiner",
	'\u200d': "zero-width joiner", '\u202f': "narrow no-break space", '\u2060': "word joiner", '\u3000': "wide space", '\ufeff': "byte order mark",
}

// visible is a text as it looks: with plain spaces, and without what has no width. At finds the byte of the text that one of the result comes from.
func visible(text string) (looks string, at func(int) int) {
	same := func(i int) int { return i }
	if ascii(text) {
		return text, same
	}
	var b strings.Builder
	from := make([]int, 0, len(text)+1)
	for i, r := range text {
		size := len(string(r))
		switch _, odd := invisible[r]; {
		case !odd && r == unicode.ReplacementChar:
			size = 1
			b.WriteByte('?')
		case !odd:
			b.WriteRune(r)
		case unicode.IsSpace(r):
			size = 1
			b.WriteByte(' ')
		default:
			size = 0
		}
		for j := range size {
			from = append(from, min(i+j, len(text)))
		}
	}
	from = append(from, len(text))
	return b.String(), func(i int) int { return from[i] }
}

func ascii(text string) bool {
	for i := range len(text) {
		if text[i] >= 0x80 {
			return false
		}
	}
	return true
}

// unseen notes the first invisible character of a directive: it would be part of a name or a value, or part two of them, and nobody would see why.
func unseen(list *diag.List, c *ast.Comment) bool {
	for i, r := range c.Text {
		name, odd := invisible[r]
		if !odd {
			continue
		}
		looks, _ := visible(c.Text)
		looks = strings.TrimRight(looks, " \t\r")
		if n, ok := take(looks); ok && diag.Nearest(n.verb, verbs) != "" {
			looks = "//" + tool + ":" + diag.Nearest(n.verb, verbs) + n.rest
		}
		list.Add(c.Pos()+token.Pos(i), c.Pos()+token.Pos(i+len(string(r))), "a %s (%U) can't be in a directive; write %s", name, r, looks)
		return true
	}
	return false
}
