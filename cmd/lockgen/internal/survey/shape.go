package survey

import (
	"go/types"
	"regexp"
	"strings"

	"github.com/lockgen/lockgen/templates/model"
)

// A shape is what keys of one template have in common: order:{} for order:{o.ID} and order:{id}. Values hold no separators, so a key has the
// separators of its shape, in their order, and between two of them at most one value.
type shape struct {
	text     string
	segments []segment
	open     bool // a function makes it, and can put separators into it
	made     bool // a function makes it, whose name is in the text
}

// A segment is what stands between two separators: a literal, or a value between two literals that can be empty.
type segment struct {
	separator  string // before it; empty for the first
	head, tail string // around the value; without one all is in head
	value      *model.Value
}

// shapeOf finds the shape of a key.
func shapeOf(k *model.Key) shape {
	s := shape{segments: []segment{{}}}
	for _, part := range k.Parts {
		last := &s.segments[len(s.segments)-1]
		if part.Value != nil {
			s.text += "{}"
			s.open = s.open || part.Value.Leaf == model.Raw
			s.made = s.made || part.Value.Func != nil
			last.value = part.Value
			continue
		}
		s.text += part.Literal
		for _, r := range part.Literal {
			switch c := string(r); {
			case strings.Contains(separators, c):
				s.segments = append(s.segments, segment{separator: c})
				last = &s.segments[len(s.segments)-1]
			case last.value == nil:
				last.head += c
			default:
				last.tail += c
			}
		}
	}
	if s.made {
		s.text = k.Text // the key of a function is known by the function's name
	}
	return s
}

const separators = ":/"

var placeholder = regexp.MustCompile(`\{[^{}]*\}`)

// named is the shape that somebody writes with or without names in it, as in order:{id}; ok is false if it is none.
func named(text string) (s string, ok bool) {
	s = placeholder.ReplaceAllString(text, "{}")
	rest := strings.ReplaceAll(strings.ReplaceAll(s, "{{}}", ""), "{}", "")
	return s, s != "" && !strings.ContainsAny(rest, "{}%")
}

// outline is what shapes that meet have in common: their separators and, unless one begins with a value, the text before the first of them. That is
// empty, and not fixed, for a shape that begins with a value.
func (s shape) outline() (separators, first string, fixed bool) {
	for _, seg := range s.segments {
		separators += seg.separator
	}
	if s.segments[0].value != nil {
		return separators, "", false
	}
	return separators, s.segments[0].head, true
}

// values lists the values of a shape, in their order.
func (s shape) values() []*model.Value {
	var all []*model.Value
	for _, seg := range s.segments {
		if seg.value != nil {
			all = append(all, seg.value)
		}
	}
	return all
}

// takes reports whether a key can be of this shape.
func (s shape) takes(key string) bool {
	if s.open {
		return false // nobody knows
	}
	for i, seg := range s.segments {
		rest, ok := strings.CutPrefix(key, seg.separator)
		if !ok {
			return false
		}
		end := len(rest)
		if i+1 < len(s.segments) {
			if end = strings.IndexAny(rest, separators); end < 0 {
				return false
			}
		}
		if !seg.takes(rest[:end]) {
			return false
		}
		key = rest[end:]
	}
	return true
}

func (s segment) takes(text string) bool {
	if s.value == nil {
		return text == s.head
	}
	value, ok := strings.CutPrefix(text, s.head)
	if !ok {
		return false
	}
	value, ok = strings.CutSuffix(value, s.tail)
	one := s.value
	if one.Each != nil {
		one = one.Each
	}
	return ok && (value == "" && one.Empty || written(s.value.Leaf, value))
}

// written reports whether a leaf can give this text.
func written(leaf model.Leaf, text string) bool {
	switch leaf {
	case model.Int:
		return integer.MatchString(text)
	case model.Uint:
		return unsigned.MatchString(text)
	case model.Bool:
		return text == "true" || text == "false"
	case model.Hex:
		return bytes.MatchString(text)
	default:
		return text != "" && !strings.ContainsAny(text, ":/{} \t\r\n")
	}
}

var (
	integer  = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)
	unsigned = regexp.MustCompile(`^(0|[1-9][0-9]*)$`)
	bytes    = regexp.MustCompile(`^([0-9A-F]{2})+$`)
)

// meet returns a key that both shapes take, if there is one.
func meet(a, b shape) (key string, ok bool) {
	if len(a.segments) != len(b.segments) {
		return "", false
	}
	for i := range a.segments {
		if a.segments[i].separator != b.segments[i].separator {
			return "", false
		}
	}
	for i := range a.segments {
		text, ok := common(a.segments[i], b.segments[i])
		if !ok {
			return "", false
		}
		key += a.segments[i].separator + text
	}
	return key, true
}

// common returns a text that both segments take. Where both have values it begins with the longer head and ends with the longer tail; which
// value stands between matters only to the few kinds of values that can't be all.
func common(a, b segment) (string, bool) {
	var samples []string
	switch {
	case a.value == nil:
		samples = []string{a.head}
	case b.value == nil:
		samples = []string{b.head}
	default:
		for _, middle := range []string{"1", "", "true", "false", "A1", "1A", "11"} {
			samples = append(samples, longer(a.head, b.head)+middle+longer(a.tail, b.tail))
		}
		// Of a value that has only two texts, part of one can be what the other segment begins or ends with.
		for _, s := range []segment{a, b} {
			if s.value.Leaf == model.Bool {
				samples = append(samples, s.head+"true"+s.tail, s.head+"false"+s.tail)
			}
		}
	}
	for _, s := range samples {
		if a.takes(s) && b.takes(s) {
			return s, true
		}
	}
	return "", false
}

func longer(a, b string) string {
	if len(a) >= len(b) {
		return a
	}
	return b
}

// kind is the type that a value names: what a pointer points to. It is nil if only a user of the interface settles the type.
func kind(v *model.Value) types.Type {
	t := types.Unalias(v.Type)
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	if _, ok := t.(*types.TypeParam); ok {
		return nil
	}
	return t
}
