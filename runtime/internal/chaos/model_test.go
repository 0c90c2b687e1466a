//go:build linux

package chaos

import (
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// A step is what happens to a lock in the model.
type step struct {
	key   string
	id    int   // of the attempt, from 1 on
	token int64 // 0 if it has none
	takes bool  // else it ends
}

// A held is the state of a lock in the model.
type held struct {
	by    int   // 0 if nobody has it
	token int64 // the largest that was given
}

// model is a lock that one may have at a time, with tokens that rise.
var model = porcupine.Model{
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
	Init: func() any { return held{} },
	Step: func(state, input, _ any) (bool, any) {
		s, in := state.(held), input.(step)
		switch {
		case !in.takes:
			return s.by == in.id, held{0, s.token}
		case s.by != 0, in.token != 0 && in.token <= s.token:
			return false, s
		}
		return true, held{in.id, max(s.token, in.token)}
	},
	DescribeOperation: func(input, _ any) string {
		in := input.(step)
		if in.takes {
			return fmt.Sprintf("take %s: %d, token %d", in.key, in.id, in.token)
		}
		return fmt.Sprintf("end %s: %d", in.key, in.id)
	},
	DescribeState: func(state any) string {
		s := state.(held)
		return fmt.Sprintf("held by %d, token %d", s.by, s.token)
	},
}

// operations returns what the model is to explain. Who was granted the key took it at some moment of the
// call. It ends no sooner than the trust in it does, and no later than Unlock returned with success; where
// that is not known, because Unlock failed, the lease was lost or its holder died, it may have ended at
// any time after, or not yet. A server that forgets may end it sooner.
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
			ClientId: client, Input: step{a.key, id, a.token, true}, Call: a.called, Return: a.granted,
		})
		_, from := a.trusted()
		if from == never {
			continue
		}
		for _, f := range forgets {
			if a.called <= f.Until && (f.Key == "" || f.Key == a.key) {
				from = min(from, max(f.At, a.called))
			}
		}
		to := never
		if a.unlockErr == "" {
			to = a.unlocked
		}
		all = append(all, porcupine.Operation{
			ClientId: client, Input: step{a.key, id, a.token, false}, Call: from, Return: to,
		})
	}
	return all
}

// explain has the model explain the history.
func (h *history) explain() (porcupine.CheckResult, porcupine.LinearizationInfo) {
	return porcupine.CheckOperationsVerbose(model, h.operations(), time.Minute)
}
