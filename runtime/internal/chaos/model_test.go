//go:build linux

package chaos

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// A step is what happens to a key in the model.
type step struct {
	key   string
	id    int // of the attempt, from 1 on
	units int
	token int64 // 0 if it has none
	takes bool  // else it ends
}

// A state is that of a key in the model.
type state struct {
	by    string // the ids of the holders of a part of it, of 4 bytes each, sorted
	used  int
	token int64 // the largest that was given
}

// with returns the state when one more has a part.
func (s state) with(in step) state {
	id := binary.BigEndian.AppendUint32(nil, uint32(in.id))
	at := 0
	for at < len(s.by) && s.by[at:at+len(id)] < string(id) {
		at += len(id)
	}
	return state{s.by[:at] + string(id) + s.by[at:], s.used + in.units, max(s.token, in.token)}
}

// without returns the state when the one has its part no more, if it has one.
func (s state) without(in step) (state, bool) {
	id := binary.BigEndian.AppendUint32(nil, uint32(in.id))
	for at := 0; at < len(s.by); at += len(id) {
		if s.by[at:at+len(id)] == string(id) {
			return state{s.by[:at] + s.by[at+len(id):], s.used - in.units, s.token}, true
		}
	}
	return s, false
}

// modelOf returns the model of something that has so much room for each key, with tokens that rise.
func modelOf(room int) porcupine.Model {
	return porcupine.Model{
		Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
			byKey := map[string][]porcupine.Operation{}
			var keys []string
			for _, op := range all {
				key := op.Input.(step).key
				if byKey[key] == nil {
					keys = append(keys, key)
				}
				byKey[key] = append(byKey[key], op)
			}
			slices.Sort(keys)
			parts := make([][]porcupine.Operation, len(keys))
			for i, key := range keys {
				parts[i] = byKey[key]
			}
			return parts
		},
		Init: func() any { return state{} },
		Step: func(before, input, _ any) (bool, any) {
			s, in := before.(state), input.(step)
			switch {
			case !in.takes:
				after, had := s.without(in)
				return had, after
			case in.units == 0:
				return s.used == 0, s
			case s.used+in.units > room, in.token != 0 && in.token <= s.token:
				return false, s
			}
			return true, s.with(in)
		},
		DescribeOperation: func(input, _ any) string {
			in := input.(step)
			if in.takes {
				return fmt.Sprintf("take %d of %s: %d, token %d", in.units, in.key, in.id, in.token)
			}
			return fmt.Sprintf("end %s: %d", in.key, in.id)
		},
		DescribeState: func(of any) string {
			s := of.(state)
			return fmt.Sprintf("%d held by %x, token %d", s.used, s.by, s.token)
		},
	}
}

// operations returns the history for the model. A granted call took the key at some moment of the call. It ends no
// sooner than the trust in it does, and no later than Unlock returned with success; where that is not known, because
// Unlock failed, the lease was lost or its holder died, it may have ended at any time after, or not yet. A server that
// forgets may end it sooner.
//
// A call that failed may have taken the key and given it back before anybody noticed, as often as it
// likes: that explains nothing and forbids nothing, so it is left out.
func (h *history) operations() []porcupine.Operation {
	forgets := h.marks(forgotten)
	var all []porcupine.Operation
	id := 0
	for _, a := range h.settled() {
		if a.granted == never {
			continue
		}
		id++
		client := a.proc*goroutinesMost + a.call/callsMost
		all = append(all, porcupine.Operation{
			ClientId: client, Input: step{a.key, id, a.units, a.token, true}, Call: a.since, Return: a.granted,
		})
		if a.units == 0 {
			continue
		}
		_, from := a.trusted()
		if from == never {
			continue
		}
		if a.until < from { // it was over before Lock returned it, as to a process that was stopped meanwhile
			from = max(a.since, a.until)
		}
		for _, f := range forgets {
			if a.since <= f.Until && (f.Key == "" || f.Key == a.key) {
				from = min(from, max(f.At, a.since))
			}
		}
		to := never
		if a.unlockErr == "" {
			to = a.unlocked
		}
		all = append(all, porcupine.Operation{
			ClientId: client, Input: step{a.key, id, a.units, a.token, false}, Call: from, Return: to,
		})
	}
	return all
}

// explain has the model explain the history, within a time.
func (h *history) explain(room int, within time.Duration) (porcupine.CheckResult, porcupine.LinearizationInfo) {
	return porcupine.CheckOperationsVerbose(modelOf(room), h.operations(), within)
}
