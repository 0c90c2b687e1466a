package deadlock

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// A Key is the key of a lock. In messages, which are JSON and so UTF-8, it is a text, or coded and the bytes of the key if it is not UTF-8, or begins with coded.
type Key string

// coded is what a text of base64 begins with.
const coded = "\x00"

// MarshalJSON writes the key for a message.
func (k Key) MarshalJSON() ([]byte, error) {
	text := string(k)
	if !utf8.ValidString(text) || strings.HasPrefix(text, coded) {
		text = coded + base64.StdEncoding.EncodeToString([]byte(text))
	}
	return json.Marshal(text)
}

// UnmarshalJSON reads the key of a message.
func (k *Key) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	if code, is := strings.CutPrefix(s, coded); is {
		bytes, err := base64.StdEncoding.DecodeString(code)
		if err != nil {
			return err
		}
		s = string(bytes)
	}
	*k = Key(s)
	return nil
}
