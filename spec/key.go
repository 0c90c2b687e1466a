package spec

import "encoding/binary"

// Key identifies a state.
func (s State) Key() string {
	k := make(key, 0, 160)
	k.server(s.Srv)
	for _, p := range s.Proc {
		k.word(p.St)
		k.numbers(p.N, p.Made, p.Slack, p.Trust)
		k.flags(p.Asking, p.Doubt, p.Joined)
	}
	k.numbers(len(s.Net), len(s.Gone), len(s.Lost), len(s.Copy), s.Left)
	for _, m := range s.Net {
		k.word(m.Kind)
		k.numbers(m.O.P, m.O.N, m.Age, m.Arg, m.TTL)
	}
	for _, g := range s.Gone {
		k.numbers(g.O.P, g.O.N, g.Until)
		k.flags(g.Doubt)
	}
	for _, o := range s.Lost {
		k.numbers(o.P, o.N)
	}
	for _, c := range s.Copy {
		k.server(c)
	}
	k.flags(s.Fell)
	return string(k)
}

// A key is a state as a string. Numbers in it are small, except in traces.
type key []byte

func (k *key) numbers(some ...int) {
	for _, n := range some {
		*k = binary.AppendVarint(*k, int64(n))
	}
}

func (k *key) flags(some ...bool) {
	for _, b := range some {
		if b {
			*k = append(*k, 1)
		} else {
			*k = append(*k, 0)
		}
	}
}

func (k *key) word(w string) {
	k.numbers(len(w))
	*k = append(*k, w...)
}

func (k *key) server(s Server) {
	k.numbers(s.Owner.P, s.Owner.N, s.Left, s.Since, len(s.Line))
	k.flags(s.Kept)
	k.word(s.How)
	for _, o := range s.Line {
		k.numbers(o.P, o.N)
	}
}
