package templates

import (
	"slices"
	"strings"
	"unicode"
)

// article is the one that stands before a name as it is spoken: an Order, a User, an S, an SQLStore.
func article(name string) string {
	runes, lower := []rune(name), strings.ToLower(name)
	begins := func(prefix string) bool { return strings.HasPrefix(lower, prefix) }
	vowels := "aeiou"
	switch {
	case len(runes) == 1 || unicode.IsUpper(runes[1]) || unicode.IsDigit(runes[1]):
		vowels = "aefhilmnorsx" // the letters whose names begin with one
	case slices.ContainsFunc([]string{"eu", "one", "once", "uni", "usa", "use", "usu", "uti"}, begins):
		return "a"
	case begins("hour"), begins("honest"):
		return "an"
	}
	if strings.Contains(vowels, lower[:1]) {
		return "an"
	}
	return "a"
}
