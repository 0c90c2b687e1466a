package survey

import (
	"encoding/json"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// FuzzQuoted shows that the texts of a key, for people and as JSON, name this key and no other one, and that the one for people prints as it is.
func FuzzQuoted(f *testing.F) {
	for _, key := range []string{
		"", "k", "order:7", `a"b`, `"a"`, `"`, `""`, `"\n"`, `"\xff"`, `"\"\\xff\""`, `\xff`, "\xff", "\xfe\xff", "a\nb\t\x1b[31m\x00", "\u202eevil", " a", "a ", "a b",
		"größe 鎖", "\ufffd", `"\u0061"`, "'\n'", "`\n`",
	} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		text := Quoted(key)
		require.Equal(t, key, KeyOf(text))
		require.True(t, utf8.ValidString(text))
		for _, r := range text {
			require.True(t, unicode.IsPrint(r), "%q", text)
		}
		require.Equal(t, text, Clean(text))
		encoded, err := json.Marshal(JSONKey(key))
		require.NoError(t, err)
		var decoded string
		require.NoError(t, json.Unmarshal(encoded, &decoded))
		require.Equal(t, key, KeyOf(decoded))
	})
}

func TestQuoted(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"order:7": "order:7", "a b": "a b", "größe 鎖": "größe 鎖", `"a"`: `"a"`, `say "hi"`: `say "hi"`, `\xff`: `\xff`,
		"": `""`, "a ": `"a "`, "\xff": `"\xff"`, "a\nb": `"a\nb"`, `"\xff"`: `"\"\\xff\""`,
	} {
		require.Equal(t, want, Quoted(key))
	}
	require.Equal(t, "a\nb", JSONKey("a\nb"))
	require.Equal(t, `"\xff"`, JSONKey("\xff"))
}

// TestJSON_KeysOfBytes shows that all keys in the JSON of locks and chains name their locks.
func TestJSON_KeysOfBytes(t *testing.T) {
	t.Parallel()
	w := Waiter{Who: Who{Process: "p"}, Under: []lockrt.LeaseRef{{Key: "\xfe", Owner: "o"}}}
	text, err := json.Marshal([]any{&Lock{Key: "\xff", Waiters: []Waiter{w}}, Circle{{Key: "\xfd", Waiter: w}}})
	require.NoError(t, err)
	require.NotContains(t, string(text), "\ufffd")
	for _, part := range []string{`"\"\\xff\""`, `"\"\\xfe\""`, `"\"\\xfd\""`, `"process":"p"`} {
		require.Contains(t, string(text), part)
	}
	require.Equal(t, "\xfe", w.Under[0].Key)
}

// TestMatches_Bytes shows that a pattern tells bytes apart that are not UTF-8.
func TestMatches_Bytes(t *testing.T) {
	t.Parallel()
	require.True(t, Matches("k:\xff*", "k:\xff\xfe"))
	require.False(t, Matches("k:\xff*", "k:\xfe\xff"))
	require.True(t, Matches("k:??", "k:\xfe\xff"))
	require.False(t, Matches("k:\xff", "k:\ufffd"))
}
