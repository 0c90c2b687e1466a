package directive

import (
	"slices"
	"strings"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/diag"
)

// arguments is what stands behind the verb of something that may have been meant as a directive.
type arguments struct {
	list    []string // as they should be written
	words   bool     // there are words that are no arguments
	first   bool     // the first of all is an option of ours
	known   bool     // one of them is
	changed bool     // an argument isn't written as it should be
	parted  bool     // name and value of one aren't parted by = alone
	talk    bool     // the first is a word with which sentences go on
	reason  bool     // the rest begins like a reason
	remark  bool     // the words are another comment
}

// text is how the arguments should be written.
func (a *arguments) text() string {
	if len(a.list) == 0 {
		return ""
	}
	return " " + strings.Join(a.list, " ")
}

// talk are words that follow the subject of a sentence.
var talk = []string{
	"is", "are", "was", "were", "has", "have", "had", "takes", "needs", "means", "says", "does", "stands", "belongs", "goes", "comes", "can", "may", "must", "should", "will",
	"would", "makes", "gives", "and", "or", "with", "without", "like", "as", "for", "of", "on", "in", "above", "below", "directive", "directives", "comment", "comments",
}

// reasons begin what follows a directive that isn't part of it.
var reasons = []string{"-", "--", "\u2013", "\u2014", "#", "because", "since"}

// parseArguments reads what could be arguments, in any way that somebody may have written them.
func parseArguments(text string) arguments {
	var a arguments
	inner := strings.TrimLeft(text, ",;:(")
	if strings.HasPrefix(text, "(") {
		inner = strings.TrimSuffix(inner, ")")
	}
	a.changed = inner != text
	if value, ok := strings.CutPrefix(inner, "="); ok { // lock=order:{id}
		inner, a.changed = "key="+strings.TrimLeft(value, " \t"), true
	}
	if inner != "" && inner == text && !strings.ContainsAny(inner[:1], " \t") && !a.changed {
		if !strings.Contains(inner, "=") {
			a.words = true // a verb that goes on, or ends a sentence
			return a
		}
	}
	words := strings.Fields(inner)
	for i := 0; i < len(words); {
		arg, n, known := loosely(words[i:])
		switch {
		case n == 0 && strings.HasPrefix(words[i], "//"):
			a.reason, a.remark, a.words = a.reason || i == 0, !a.words, true
			return a
		case n == 0:
			word := strings.ToLower(strings.Trim(words[i], ".,;:!?"))
			if i == 0 {
				a.talk, a.reason = slices.Contains(talk, word), slices.Contains(reasons, words[i]) || slices.Contains(reasons, word)
			}
			a.words = true
			n = 1
		default:
			a.first = a.first || known && i == 0
			a.known = a.known || known
			quoted := words[i][0] == '"' || words[i][0] == '`'
			a.parted = a.parted || !quoted && (n > 1 || !strings.Contains(words[i], "=") && strings.Contains(words[i], ":"))
			a.changed = a.changed || arg != strings.Join(words[i:i+n], " ")
			a.list = append(a.list, arg)
		}
		i += n
	}
	return a
}

// loosely reads one argument off the words, however it is written, and returns how it should be, how many words it has, and whether it is an option of
// ours: name=value, name = value, name: value, "name=a value", or a flag. Without words it is none.
func loosely(words []string) (arg string, n int, known bool) {
	word := words[0]
	if quote := word[:1]; quote == `"` || quote == "`" {
		if name, _, ok := strings.Cut(word[1:], "="); !ok || !identifier(name) {
			return "", 0, false
		}
		for n = 1; n < len(words) && !(strings.HasSuffix(words[n-1], quote) && (n > 1 || len(word) > 1)); n++ {
		}
		name, _, _ := strings.Cut(word[1:], "=")
		return strings.Join(words[:n], " "), n, optionNamed(name)
	}
	if i := slices.IndexFunc(options, func(o option) bool { return o.name == word }); i >= 0 && options[i].flag {
		return word, 1, true
	}
	name, value, parted := strings.Cut(word, "=")
	n = 1
	switch {
	case parted && value == "" && len(words) > 1 && !strings.Contains(words[1], "=") && !optionNamed(words[1]): // key= b
		value, n = words[1], 2
	case parted:
	case len(words) > 2 && words[1] == "=": // key = b
		value, n, parted = words[2], 3, true
	case len(words) > 1 && strings.HasPrefix(words[1], "=") && len(words[1]) > 1: // key =b
		value, n, parted = words[1][1:], 2, true
	default:
		name, value, parted = strings.Cut(word, ":")
		if !parted || !slices.ContainsFunc(options, func(o option) bool { return o.name == strings.ToLower(name) }) {
			return "", 0, false
		}
		if value == "" { // key: b
			if len(words) == 1 {
				return "", 0, false
			}
			value, n = words[1], 2
		}
	}
	if !parted || !identifier(name) {
		return "", 0, false
	}
	if n < len(words) {
		value = strings.TrimRight(value, ",;")
	}
	if right := diag.Nearest(name, optionNamesOfAll()); optionNamed(name) && right != "" {
		name = right
	}
	return name + "=" + value, n, optionNamed(name)
}

// optionNamed reports whether a name is that of an option, or so near that nothing else can be
// meant.
func optionNamed(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(options, func(o option) bool { return o.name == name || len(o.name) > 3 && diag.Distance(o.name, name) == 1 })
}

func optionNamesOfAll() []string {
	var names []string
	for _, o := range options {
		names = append(names, o.name)
	}
	return names
}

func identifier(s string) bool {
	for i := range len(s) {
		if !isLetter(s[i]) && s[i] != '_' {
			return false
		}
	}
	return s != ""
}
