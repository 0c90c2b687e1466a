package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A rule is a policy: a grant excludes all, and the first followers have it without a request.
type rule struct {
	line      *Line[struct{}]
	granted   bool
	followers int
}

func (p *rule) Excludes(*Waiter[struct{}]) bool { return p.granted }

func (p *rule) Follow(w *Waiter[struct{}]) bool {
	if p.followers == 0 {
		return false
	}
	p.followers--
	p.line.Queue.Remove(w)
	return true
}

func waits(once bool) *Waiter[struct{}] {
	w := NewWaiter[struct{}]()
	if !once {
		w.Call.Wait = -1
	}
	return w
}

func TestLine_Join(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before  int // waiters in the queue
		once    bool
		busy    int32
		granted bool
		want    Entry
	}{
		"free":                                {want: ToAsk},
		"free, for a call that tries once":    {once: true, want: ToAsk},
		"busy":                                {busy: 1, want: ToWait},
		"busy, for a call that tries once":    {busy: 1, once: true, want: ToWait},
		"granted":                             {granted: true, want: ToWait},
		"granted, for a call that tries once": {granted: true, once: true, want: TurnedAway},
		"behind another":                      {before: 1, want: ToWait},
		"behind another, for one that tries once": {before: 1, once: true, want: TurnedAway},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			line := &Line[struct{}]{Answers: Answers{Busy: test.busy}}
			for range test.before {
				line.Queue.Push(waits(false))
			}
			w := waits(test.once)
			require.Equal(t, test.want, line.Join(w, &rule{line: line, granted: test.granted}))
			require.Equal(t, test.want == ToAsk, w.Place.Leading())
			require.Equal(t, test.want != TurnedAway, w.Place.Queued())
		})
	}
}

func TestLine_Prompt(t *testing.T) {
	t.Parallel()
	line := &Line[struct{}]{Answers: Answers{Busy: 2}}
	p := &rule{line: line, followers: 1, granted: true}
	follower, head, last := waits(false), waits(false), waits(false)
	for _, w := range []*Waiter[struct{}]{follower, head, last} {
		require.Equal(t, ToWait, line.Join(w, p))
	}
	line.Continue(p)
	require.False(t, follower.Place.Queued(), "the first waiter follows the holder, even while a request is under way")
	require.Equal(t, head, line.Queue.First)
	held, _ := line.Last(last, p)
	require.True(t, held)
	p.granted = false
	line.Prompt(p)
	require.False(t, head.Place.Leading(), "a request is under way")
	line.Continue(p)
	require.True(t, head.Place.Leading())
	ev, ok := head.NextEvent()
	require.True(t, ok)
	require.Equal(t, Turn, ev.Kind)
	line.Prompt(p)
	ev, ok = head.NextEvent()
	require.True(t, ok)
	require.Equal(t, Reason, ev.Kind, "a reminder of the turn that it has")
	_, ok = last.NextEvent()
	require.False(t, ok, "only the head has the turn")
	held, _ = line.Last(last, p)
	require.False(t, held)
}

// The first waiter behind those that follow the holder has the turn at once.
func TestLine_PromptBehindFollowers(t *testing.T) {
	t.Parallel()
	line := new(Line[struct{}])
	for range 2 {
		line.Queue.Push(waits(false))
	}
	head := waits(false)
	line.Queue.Push(head)
	line.Prompt(&rule{line: line, followers: 2})
	require.Same(t, head, line.Queue.First)
	require.True(t, head.Place.Leading())
}

// The last answer counts: a grant ends a refusal, an answer ends an error. A goroutine that waits for the next answer hears of it, or that none
// will come.
func TestAnswers(t *testing.T) {
	t.Parallel()
	var x Answers
	heard := func(next <-chan struct{}) bool {
		select {
		case <-next:
			return true
		default:
			return false
		}
	}
	for name, step := range map[string]func(){
		"an answer": func() { x.Says(false, nil) }, "an error": func() { x.Fails(errBroke) }, "it is given up": x.Withdraws, "a change": x.Changes,
	} {
		next := x.Look().Answered
		require.True(t, x.Awaited())
		require.False(t, heard(next), name)
		step()
		require.True(t, heard(next), name)
		require.False(t, x.Awaited(), name)
		require.False(t, heard(x.Look().Answered), name)
	}
	for range 2 {
		x.Asks()
		x.Says(true, nil)
		require.NotZero(t, x.Look().Refused)
		x.Asks()
		x.Says(false, errBroke)
		require.NotZero(t, x.Look().Refused)
		require.Equal(t, errBroke, x.Look().Err)
		x.Asks()
		require.Equal(t, 1, x.Look().Asking)
		x.Says(false, nil)
		require.Zero(t, x.Look().Refused)
		require.NoError(t, x.Look().Err)
		require.Zero(t, x.Look().Asking)
	}
}

// The first waiter that listens behind a head that polls has it ask, once; those after it do not.
func TestLine_TheDeputyHasTheHeadAsk(t *testing.T) {
	t.Parallel()
	line := new(Line[struct{}])
	p := &rule{line: line}
	polls := func() *Waiter[struct{}] {
		w := waits(false)
		w.Terms.Polling = true
		return w
	}
	head := polls()
	require.Equal(t, ToAsk, line.Join(head, p))
	for _, step := range []struct {
		w      *Waiter[struct{}]
		prompt bool
	}{{polls(), false}, {waits(false), true}, {waits(false), false}, {polls(), false}, {waits(false), false}} {
		require.Equal(t, ToWait, line.Join(step.w, p))
		ev, ok := head.NextEvent()
		require.Equal(t, step.prompt, ok)
		if ok {
			require.Equal(t, Reason, ev.Kind)
		}
	}
}
