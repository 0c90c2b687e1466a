package survey

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Clean escapes characters that must not reach a terminal or a page: controls, marks that change the direction of text,
// and invalid UTF-8.
func Clean(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == ' ' || unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
		i += n
	}
	return b.String()
}

// Short formats a duration in at most two units.
func Short(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

// Matches reports whether a pattern fits a key: a pattern in which * stands for any text and ? for one character.
func Matches(pattern, key string) bool {
	if pattern == "" {
		return true
	}
	p, k := charactersOf(pattern), charactersOf(key)
	star, mark := -1, 0
	i, j := 0, 0
	for j < len(k) {
		switch {
		case i < len(p) && p[i] == '*':
			star, mark = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == k[j]):
			i, j = i+1, j+1
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}

// charactersOf returns the characters of text. A byte that is not UTF-8 is a character of its own.
func charactersOf(text string) []rune {
	runes := []rune(text)
	if utf8.ValidString(text) {
		return runes
	}
	runes = runes[:0]
	for text != "" {
		r, n := utf8.DecodeRuneInString(text)
		if r == utf8.RuneError && n == 1 {
			r = unicode.MaxRune + 1 + rune(text[0])
		}
		runes, text = append(runes, r), text[n:]
	}
	return runes
}
