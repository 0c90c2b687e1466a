package survey

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lockgen/lockgen/templates/model"
)

// drawn is a key that could be written in a directive, with one key that it gives.
func drawn(t *rapid.T, label string) (*model.Key, string) {
	k, sample := &model.Key{}, ""
	literal := rapid.SampledFrom([]string{"a", "b", "1", "-", "x-1"})
	add := func(text string) {
		k.Parts = append(k.Parts, model.Part{Literal: text})
		sample += text
	}
	for i := range rapid.IntRange(1, 3).Draw(t, label+" segments") {
		if i > 0 {
			add(rapid.SampledFrom([]string{":", "/"}).Draw(t, label))
		}
		if rapid.Bool().Draw(t, label) {
			add(literal.Draw(t, label))
		}
		if rapid.Bool().Draw(t, label) {
			v := &model.Value{Leaf: rapid.SampledFrom([]model.Leaf{model.String, model.Int, model.Uint, model.Bool}).Draw(t, label)}
			k.Parts = append(k.Parts, model.Part{Value: v})
			sample += rapid.SampledFrom(map[model.Leaf][]string{
				model.String: {"a", "1", "x-1", "a%3Ab", "-"}, model.Int: {"0", "-1", "12"}, model.Uint: {"0", "1"}, model.Bool: {"true", "false"},
			}[v.Leaf]).Draw(t, label)
			if rapid.Bool().Draw(t, label) {
				add(literal.Draw(t, label))
			}
		}
	}
	return k, sample
}

// TestShape shows that a shape takes every key of its template, that two shapes meet only in keys that both take, and that two that both take
// some key are found to meet.
func TestShape(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, one := drawn(t, "a")
		b, other := drawn(t, "b")
		p, q := shapeOf(a), shapeOf(b)
		require.True(t, p.takes(one), "%s %s", p.text, one)
		require.True(t, q.takes(other), "%s %s", q.text, other)
		both, ok := meet(p, q)
		again, same := meet(q, p)
		require.Equal(t, ok, same, "%s %s", p.text, q.text)
		if ok {
			require.True(t, p.takes(both) && q.takes(both), "%s %s %s", p.text, q.text, both)
			require.True(t, p.takes(again) && q.takes(again))
		}
		if ok {
			as, af, afixed := p.outline()
			bs, bf, bfixed := q.outline()
			require.Equal(t, as, bs)
			require.True(t, !afixed || !bfixed || af == bf)
		}
		if p.takes(other) || q.takes(one) {
			require.True(t, ok, "%s %s: %s %s", p.text, q.text, one, other)
		}
	})
}

func TestNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"order:{}": "order:{}", "order:{id}": "order:{}", "a:{o.ID}/{{x}}": "a:{}/{{}}", "a": "a",
	} {
		got, ok := named(text)
		require.True(t, ok, text)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "a:{", "a}", "{{a}", "%41"} {
		_, ok := named(text)
		require.False(t, ok, text)
	}
}
