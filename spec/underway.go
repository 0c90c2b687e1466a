package spec

import (
	"cmp"
	"slices"
)

// A trace does not tell which of several messages of one owner arrives.

// sent marks the youngest request of o as sent now: of two that were asked at one moment, the later one, by the count in TTL.
func sent(s State, o Owner) State {
	youngest := -1
	for i, m := range s.Net {
		if m.Kind == "acquire" && m.O == o && (youngest < 0 || cmp.Or(cmp.Compare(m.Age, s.Net[youngest].Age), cmp.Compare(m.TTL, s.Net[youngest].TTL)) < 0) {
			youngest = i
		}
	}
	if youngest < 0 {
		return s
	}
	to := s.clone()
	to.Net[youngest].Age = 0
	return to.tidy(true)
}

// pick returns the messages of a kind and an owner that agree with also: the youngest of them, and the messages under
// way without the oldest. A trace does not tell which of several arrived: its age counts as little as possible, and the
// rest can be answered as late as possible.
func (s State) pick(kind string, o Owner, also func(Message) bool) (m Message, rest []Message, ok bool) {
	oldest := -1
	for i, x := range s.Net {
		if x.Kind != kind || x.O != o || !also(x) {
			continue
		}
		if oldest < 0 {
			oldest, m = i, x
			continue
		}
		if x.youth() < s.Net[oldest].youth() {
			oldest = i
		}
		if x.youth() > m.youth() {
			m = x
		}
	}
	if oldest < 0 {
		return m, nil, false
	}
	if kind == "renewed" { // sets do not distinguish equal messages
		return m, s.Net, true
	}
	return m, slices.Delete(slices.Clone(s.Net), oldest, oldest+1), true
}

// youth orders messages by the trust that they permit: for a refusal, by how long its request was under way.
func (m Message) youth() int {
	switch m.Kind {
	case "refused":
		return -m.Arg
	case "granted", "renewed":
		return m.TTL - m.Age
	}
	return -m.Age
}
