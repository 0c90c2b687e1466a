package key_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/cmd/lockgen/internal/key"
	"github.com/lockgen/lockgen/runtime/gen"
)

func TestParse(t *testing.T) {
	t.Parallel()
	got, err := key.Parse("order:{o.Owner.ID}/x-{t.Unix()}")
	require.NoError(t, err)
	require.Equal(t, []key.Part{
		{Literal: "order:", Off: 0, End: 6},
		{Path: []key.Name{{Text: "o", Off: 7, End: 8}, {Text: "Owner", Off: 9, End: 14}, {Text: "ID", Off: 15, End: 17}}, Off: 7, End: 17},
		{Literal: "/x-", Off: 18, End: 21},
		{Path: []key.Name{{Text: "t", Off: 22, End: 23}, {Text: "Unix", Call: true, Off: 24, End: 28}}, Off: 22, End: 30},
	}, got.Parts)
}

func TestParse_Refuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":            "empty key",
		"{a}{b}":      "{b} needs a : or / before it: without one, different values could give one key",
		"{a}-x-{b}":   "{b} needs a : or / before it: without one, different values could give one key",
		"a\xffb":      `a key can't have '�' outside of {}; it can have letters, digits and _.@#+~=,-:/`,
		"{a.1}":       "{a.1} is not a path; a path is a parameter and then fields or methods(), joined by dots",
		"{_}":         "{_} is not a path; a path is a parameter and then fields or methods(), joined by dots",
		"{a b}":       "{a b} is not a path; a path is a parameter and then fields or methods(), joined by dots",
		"{{a":         "{{ without }}",
		"{{a}:x}}":    "{{a}:x}} is not a path; a path is a parameter and then fields or methods(), joined by dots",
		"{{a}}:{{b}}": "{{b}} is a second hash tag; a key has at most one",
		"{{a}}{b}":    "{b} needs a : or / before it: without one, different values could give one key",
	} {
		_, err := key.Parse(text)
		require.EqualError(t, err, want, text)
	}
}

func TestCheckPrefix(t *testing.T) {
	t.Parallel()
	require.NoError(t, key.CheckPrefix("shop/eu:1"))
	require.EqualError(t, key.CheckPrefix("shop:"), "a prefix needs no : at its end, the key follows behind a colon")
	require.EqualError(t, key.CheckPrefix("a{b}"), "a prefix has no placeholders")
	require.Error(t, key.CheckPrefix("a b"))
}

// FuzzParse accepts no template in which two sets of values could give one key, whatever it looks like.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"order:{a}", "{a}:{b}/{a}", "{a}", "x{a}y:z{b}", "{a}-{b}", "{{a}}", "{a...}", "a:{b.c().d}", "{", "}", "%", "{a}/"} {
		f.Add(text, "1", "2", "1:", ":2")
	}
	f.Fuzz(func(t *testing.T, text, a1, b1, a2, b2 string) {
		tmpl, err := key.Parse(text)
		if err != nil {
			var at *key.Error
			require.True(t, errors.As(err, &at), text)
			require.NotEmpty(t, at.Message)
			require.True(t, 0 <= at.Off && at.Off < at.End, "%q: %d to %d", text, at.Off, at.End)
			return
		}
		var whole strings.Builder
		seen := map[byte]bool{}
		for _, part := range tmpl.Parts {
			if part.Path == nil {
				whole.WriteString(part.Literal)
				continue
			}
			if part.Tag {
				whole.WriteString("{{" + text[part.Off:part.End] + "}}")
			} else {
				whole.WriteString("{" + text[part.Off:part.End] + "}")
			}
			seen[text[part.Off]%2] = true
		}
		require.Equal(t, text, whole.String())
		if a1 == "" || b1 == "" || a2 == "" || b2 == "" || len(seen) == 0 {
			return
		}
		same := (!seen[0] || a1 == a2) && (!seen[1] || b1 == b2)
		require.Equal(t, same, fill(tmpl, a1, b1) == fill(tmpl, a2, b2), "%s: %q %q and %q %q", text, a1, b1, a2, b2)
	})
}

// fill builds the key as generated code does, with one of two values for each placeholder.
func fill(t *key.Template, a, b string) string {
	var out []byte
	for _, part := range t.Parts {
		switch {
		case part.Path == nil:
			out = append(out, part.Literal...)
		case t.Text[part.Off]%2 == 0:
			out = gen.AppendString(out, a)
		default:
			out = gen.AppendString(out, b)
		}
	}
	return string(out)
}
