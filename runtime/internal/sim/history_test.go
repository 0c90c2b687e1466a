package sim

import (
	"encoding/binary"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// A part is what a call takes, or releases, in the model.
type part struct {
	call  uint32
	units int
	token int64
	takes bool
	some  bool // it is not all of what the call has
}

// A taken is the state of a key in the model.
type taken struct {
	by    string // the numbers of the calls that have a part, of 4 bytes each, sorted
	used  int
	token int64 // the largest that was given
}

// never is the end of what may happen at any time, or not at all.
const never = 1 << 62

// modelOf returns the model of a key with so much room, and with tokens that rise.
func modelOf(room int) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return taken{} },
		Step: func(before, input, _ any) (bool, any) {
			s, in := before.(taken), input.(part)
			id := string(binary.BigEndian.AppendUint32(nil, in.call))
			at := 0
			for at < len(s.by) && s.by[at:at+4] < id {
				at += 4
			}
			has := at < len(s.by) && s.by[at:at+4] == id
			if in.some {
				return true, taken{s.by, s.used - in.units, s.token}
			}
			if !in.takes {
				if !has {
					return false, s
				}
				return true, taken{s.by[:at] + s.by[at+4:], s.used - in.units, s.token}
			}
			if s.used+in.units > room || in.token != 0 && in.token <= s.token {
				return false, s
			}
			return true, taken{s.by[:at] + id + s.by[at:], s.used + in.units, max(s.token, in.token)}
		},
	}
}

// explain has the model explain the history of each key.
//
// A holder took its key at some moment of the call that locked it. It holds the key at least until it begins to release it, and at most
// until the release has returned with success. If the lease was lost, or the server forgot it, the hold may have ended at any time since the
// call began. If the release failed, or the process died, it may have ended at any time after, or never. A call that failed explains
// nothing.
func (v *watch) explain() {
	v.mu.Lock()
	histories := map[string][]porcupine.Operation{}
	for _, c := range v.calls {
		if c.granted == 0 {
			continue
		}
		token := c.token
		if v.w.plan.back && v.w.plan.forgets || c.stale {
			token = 0
		}
		client := c.p.id*10 + c.worker
		take := part{uint32(c.n), c.takes() + len(c.partials), token, true, false}
		taking := porcupine.Operation{ClientId: client, Input: take, Call: int64(c.began), Return: int64(c.granted)}
		from, to := c.ending, c.ended
		if c.lost || from == 0 || v.excused(c) || c.p.gone() {
			from = c.began
		}
		if c.unlockErr != nil || to == 0 || c.p.gone() {
			to = never
		}
		take.takes, take.units = false, c.takes()
		giving := porcupine.Operation{ClientId: client, Input: take, Call: int64(from), Return: int64(to)}
		for _, key := range c.keys {
			histories[key] = append(histories[key], taking, giving)
			for _, p := range c.partials {
				some := porcupine.Operation{ClientId: client, Input: part{uint32(c.n), 1, token, false, true}, Call: int64(p.began), Return: int64(p.ended)}
				if from == c.began {
					some.Call = int64(c.began)
				}
				if p.ended == 0 {
					some.Return = never
				}
				histories[key] = append(histories[key], some)
			}
		}
	}
	v.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(histories)) {
		// The limit is of virtual time, so porcupine is never cut short.
		if porcupine.CheckOperationsTimeout(modelOf(v.w.plan.kind.room), histories[key], time.Hour) != porcupine.Ok {
			v.w.fail("porcupine: no order explains what was granted of %q", key)
		}
	}
	latches := 0
	for i := range v.w.latches {
		l := &v.w.latches[i]
		l.mu.Lock()
		history := l.history
		l.mu.Unlock()
		if len(history) == 0 {
			continue
		}
		latches++
		if porcupine.CheckOperationsTimeout(latchModel, history, time.Hour) != porcupine.Ok {
			v.w.fail("porcupine: no order explains what became of latch %d", i)
		}
	}
	v.w.mu.Lock()
	v.w.count("histories explained", len(histories)+latches)
	v.w.mu.Unlock()
}

// A latchStep is a call of a latch in the model: it sets the count, or counts down, or waits, and returned with success.
type latchStep struct {
	start   int // the count that it sets; else 0
	started bool
	down    bool
	left    int
	unknown bool // the call has failed: it may have had its effect, at any time since it began
}

// A latchState is a state of the model of a latch: its count, and the calls with an unknown outcome that may still have their effect. Which of them
// do is all the same, so the state counts them: porcupine would try each set of them otherwise, which takes minutes for twenty.
type latchState struct {
	count  int
	downs  int    // that may still count down
	starts string // the counts that may still be set, a byte each, sorted
}

// latchModel is a latch.
var latchModel = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{latchState{}} },
	Step: func(before, input, _ any) (after []any) {
		s, in := before.(latchState), input.(latchStep)
		if in.unknown {
			return []any{s.with(in)}
		}
		for _, s := range s.reaches() {
			if s, ok := s.step(in); ok {
				after = append(after, s)
			}
		}
		return after
	},
}).ToModel()

// with adds a call with an unknown outcome.
func (s latchState) with(in latchStep) latchState {
	if in.down {
		s.downs++
	} else if in.start > 0 {
		starts := append([]byte(s.starts), byte(in.start))
		slices.Sort(starts)
		s.starts = string(starts)
	}
	return s
}

// reaches returns the states that calls with an unknown outcome may lead to, and the state itself.
func (s latchState) reaches() []latchState {
	all := []latchState{s}
	add := func(s latchState) {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	for i := 0; i < len(all); i++ {
		s := all[i]
		if s.count > 0 && s.downs > 0 {
			add(latchState{s.count - 1, s.downs - 1, s.starts})
		}
		for n := 0; s.count == 0 && n < len(s.starts); n++ {
			add(latchState{int(s.starts[n]), s.downs, s.starts[:n] + s.starts[n+1:]})
		}
	}
	return all
}

// step is a call with a known outcome, if that is right.
func (s latchState) step(in latchStep) (latchState, bool) {
	switch {
	case in.start > 0 && s.count == 0:
		s.count = in.start
		return s, in.started
	case in.start > 0:
		return s, !in.started
	case in.down:
		s.count = max(0, s.count-1)
		return s, in.left == s.count
	}
	return s, s.count == 0
}

// did adds a call of a goroutine, which has returned, to the history of a latch.
func (l *latched) did(g *worker, in latchStep, began time.Duration) {
	ended := int64(g.p.w.watch.now())
	if in.unknown {
		ended = int64(began) // from then on it may have its effect, or none
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.history = append(l.history, porcupine.Operation{ClientId: g.p.id*10 + g.id, Input: in, Call: int64(began), Return: ended})
}

// TestHistory_Latch has the model explain histories of a latch, and explain none that cannot be.
func TestHistory_Latch(t *testing.T) {
	start, none := latchStep{start: 2, started: true}, latchStep{start: 2}
	down := func(left int) latchStep { return latchStep{down: true, left: left} }
	wait := latchStep{}
	unknown := slices.Repeat([]latchStep{{down: true, unknown: true}}, 30)
	for name, tt := range map[string]struct {
		want  porcupine.CheckResult
		steps []latchStep // one after the other
	}{
		"open":                  {porcupine.Ok, []latchStep{start, none, down(1), down(0), wait}},
		"never started":         {porcupine.Ok, []latchStep{down(0), wait}},
		"an unknown outcome":    {porcupine.Ok, []latchStep{start, {down: true, unknown: true}, down(0), wait}},
		"or without effect":     {porcupine.Ok, []latchStep{start, {down: true, unknown: true}, down(1), down(0), wait}},
		"started twice":         {porcupine.Illegal, []latchStep{start, start}},
		"open too early":        {porcupine.Illegal, []latchStep{start, down(1), wait}},
		"one counts twice":      {porcupine.Illegal, []latchStep{start, down(0)}},
		"one does not count":    {porcupine.Illegal, []latchStep{start, down(1), down(1)}},
		"set by an unknown one": {porcupine.Ok, []latchStep{{start: 2, unknown: true}, down(1), none, down(0), wait}},
		"its effect comes late": {porcupine.Ok, []latchStep{{start: 2, unknown: true}, down(0), wait, down(1)}},
		"set twice by one":      {porcupine.Illegal, []latchStep{{start: 1, unknown: true}, none, down(0), none}},
		"thirty unknown ones":   {porcupine.Illegal, append(unknown, latchStep{start: 40, started: true}, wait)},
		"an unknown one is two": {porcupine.Illegal, []latchStep{{start: 3, started: true}, {down: true, unknown: true}, down(0)}},
	} {
		var history []porcupine.Operation
		for i, step := range tt.steps {
			op := porcupine.Operation{ClientId: i, Input: step, Call: int64(2 * i), Return: int64(2*i + 1)}
			if step.unknown {
				op.Return = op.Call
			}
			history = append(history, op)
		}
		require.Equal(t, tt.want, porcupine.CheckOperationsTimeout(latchModel, history, time.Minute), name)
	}
}
