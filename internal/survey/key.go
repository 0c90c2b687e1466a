package survey

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// Quoted returns the text that names a key on a terminal or a page: the key itself, or the key quoted as in Go if it has characters that do not print,
// bytes that are not UTF-8, or a space at an end. Different keys have different texts, and [KeyOf] returns the key.
func Quoted(key string) string {
	if plain(key) {
		return key
	}
	return strconv.Quote(key)
}

// KeyOf returns the key that a text names: the text itself, unless it is one that [Quoted] and -json return for another key.
func KeyOf(text string) string {
	if key, ok := unquoted(text); ok && !plain(key) {
		return key
	}
	return text
}

// plain reports whether the text that names a key is the key itself. A key that looks like the text of another one is not plain.
func plain(key string) bool {
	if key == "" || key != strings.Trim(key, " ") || !utf8.ValidString(key) {
		return false
	}
	for _, r := range key {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return KeyOf(key) == key
}

func unquoted(text string) (key string, ok bool) {
	if !strings.HasPrefix(text, `"`) {
		return "", false
	}
	key, err := strconv.Unquote(text)
	return key, err == nil
}

// JSONKey returns a key for JSON, which has only UTF-8: the key itself if that is UTF-8, else the key as [Quoted] returns it. [KeyOf] returns the key.
func JSONKey(key string) string {
	if utf8.ValidString(key) && KeyOf(key) == key {
		return key
	}
	return Quoted(key)
}

// MarshalJSON writes the key as [JSONKey] does.
func (l *Lock) MarshalJSON() ([]byte, error) {
	type lock Lock // without this method
	text := lock(*l)
	text.Key = JSONKey(l.Key)
	return json.Marshal(text)
}

// MarshalJSON writes the key as [JSONKey] does.
func (l Link) MarshalJSON() ([]byte, error) {
	type link Link // without this method
	text := link(l)
	text.Key = JSONKey(l.Key)
	return json.Marshal(text)
}

// MarshalJSON writes the keys as [JSONKey] does.
func (w Waiter) MarshalJSON() ([]byte, error) {
	type waiter Waiter // without this method
	text := waiter(w)
	text.Under = nil
	for _, u := range w.Under {
		text.Under = append(text.Under, lockrt.LeaseRef{Key: JSONKey(u.Key), Owner: u.Owner})
	}
	return json.Marshal(text)
}
