package survey

import (
	"go/types"
	"strings"

	"github.com/lockgen/lockgen/templates/model"
)

// spellings warns of one thing that keys of one shape write in two ways: as bytes, a number or a boolean, and as what a method makes of it. The keys
// differ, so they don't exclude each other.
func (s *Survey) spellings(keys []key) {
	for i := range keys[0].shape.values() {
		plain := map[string]*key{} // by the type that is written as it is
		for j := range keys {
			if v := keys[j].shape.values()[i]; len(v.Steps) == 0 || !v.Steps[len(v.Steps)-1].Call {
				if t := kind(v); t != nil && !isBasic(t) && exact(v.Leaf) && plain[path(t)] == nil {
					plain[path(t)] = &keys[j]
				}
			}
		}
		for j := range keys {
			k := &keys[j]
			for _, on := range called(k, i) {
				if other := plain[path(on)]; other != nil && s.meets(other, k) {
					s.twice(other, k, short(on))
					break
				}
			}
		}
	}
}

// exact reports whether a value is written in a way that no method of its type decides.
func exact(leaf model.Leaf) bool {
	return leaf == model.Hex || leaf == model.Int || leaf == model.Uint || leaf == model.Bool
}

// called lists the types whose methods a value of a key is made by.
func called(k *key, i int) []types.Type {
	v := k.shape.values()[i]
	if v.Func != nil || v.Each != nil {
		return nil
	}
	var on []types.Type
	t := k.use.Method.Params[v.Param].Type
	for _, step := range v.Steps {
		obj, _, _ := types.LookupFieldOrMethod(t, true, k.use.Interface.Pkg(), step.Name)
		switch obj := obj.(type) {
		case *types.Var:
			t = obj.Type()
		case *types.Func:
			if p, ok := t.Underlying().(*types.Pointer); ok {
				t = p.Elem()
			}
			on = append(on, types.Unalias(t))
			t = obj.Signature().Results().At(0).Type()
		default:
			return on
		}
	}
	return on
}

func (s *Survey) twice(first, k *key, thing string) {
	at, end := k.Directive.Key.ValuePos()
	s.list.Warn(at, end, "%s and %s at %s are different keys of one %s, so they don't exclude each other: write it the same way in both places",
		k.Text, first.Text, s.place(first.Directive.Slash), thing)
}

// tags warns of keys that differ only in their hash tags. Groups are those of one shape each, in the order of their places.
func (s *Survey) tags(groups [][]key) {
	bare := map[string]*key{}
	for _, keys := range groups {
		k := &keys[0]
		if k.shape.open || k.shape.made {
			continue
		}
		text := strings.NewReplacer("{}", "{}", "{", "", "}", "").Replace(k.shape.text)
		first := bare[text]
		if first == nil {
			bare[text] = k
			continue
		}
		if s.meets(first, k) && alike(first, k) {
			at, end := k.Directive.Key.ValuePos()
			s.list.Warn(at, end, "%s and %s at %s are different keys, since a hash tag's braces are part of the key: write it the same way in both places",
				k.Text, first.Text, s.place(first.Directive.Slash))
		}
	}
}

// alike reports whether the values of two keys can be of the same things.
func alike(a, b *key) bool {
	vs := b.shape.values()
	for i, v := range a.shape.values() {
		s, t := kind(v), kind(vs[i])
		if s != nil && t != nil && !isBasic(s) && !isBasic(t) && path(s) != path(t) {
			return false
		}
	}
	return true
}
