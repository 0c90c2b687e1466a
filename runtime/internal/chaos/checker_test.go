//go:build linux

package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// tick is the unit of the times below.
const tick = int64(time.Millisecond)

// A tale is a history made by hand. Times are in ticks.
type tale struct{ events []event }

func (s *tale) at(at int64, w what, proc, call int, edits ...func(*event)) *tale {
	e := event{At: at * tick, What: w, Proc: proc, Call: call, Key: longKey, Units: 1}
	for _, edit := range edits {
		edit(&e)
	}
	s.events = append(s.events, e)
	return s
}

// hold has the process ask, be granted the key, and release it.
func (s *tale) hold(proc, call int, asked, got, gave int64, token int64) *tale {
	return s.at(asked, called, proc, call).at(got, granted, proc, call, has(token)).
		at(gave, unlock, proc, call, until(gave+100)).at(gave+1, unlocked, proc, call)
}

// part has the process ask for so much of the key, and release it.
func (s *tale) part(units, proc int, asked, got, gave int64) *tale {
	from := len(s.events)
	s.hold(proc, 1, asked, got, gave, 0)
	for i := range s.events[from:] {
		s.events[from+i].Units = units
	}
	return s
}

// loses has the process ask, be granted the key, and be told that it is lost.
func (s *tale) loses(proc, call int, asked, got, knew, end int64, token int64) *tale {
	return s.at(asked, called, proc, call).at(got, granted, proc, call, has(token)).
		at(knew, told, proc, call, until(end), failing(classLost)).
		at(knew+1, unlock, proc, call, until(end)).at(knew+2, unlocked, proc, call, failing(classLost))
}

func has(token int64) func(*event)    { return func(e *event) { e.Token = token } }
func until(at int64) func(*event)     { return func(e *event) { e.Until = at * tick } }
func seen(at int64) func(*event)      { return func(e *event) { e.Seen = at * tick } }
func failing(err string) func(*event) { return func(e *event) { e.Err = err } }
func everything(e *event)             { e.Key = "" }
func lateBy(d int64) func(*event)     { return func(e *event) { e.Late = d * tick } }

func bounded(g figure, ticks int64) rules {
	return rules{limits: map[figure]time.Duration{g: time.Duration(ticks * tick)}}
}

// TestCheck shows of each rule that it can be broken, and that it is not when nothing is wrong.
func TestCheck(t *testing.T) {
	t.Parallel()
	story := func() *tale { return &tale{} }
	for _, tt := range []struct {
		name    string
		rules   rules
		lingers bool
		tale    *tale
		want    string // part of the one violation; empty for none
		wrong   bool   // the model cannot explain it either
	}{
		{name: "one after the other", tale: story().hold(1, 1, 1, 2, 5, 7).hold(2, 1, 3, 6, 9, 8)},
		{
			name: "granted twice", want: "double hold: 3ms", wrong: true,
			tale: story().hold(1, 1, 1, 2, 8, 0).hold(2, 1, 3, 5, 9, 0),
		},
		{
			name: "granted before the trust of the first ended", want: "double hold: 2ms", wrong: true,
			tale: story().loses(1, 1, 1, 2, 9, 7, 0).hold(2, 1, 3, 5, 20, 0),
		},
		{
			name: "told late, but the trust had ended by the clock",
			tale: story().loses(1, 1, 1, 2, 9, 4, 0).hold(2, 1, 3, 5, 20, 0),
		},
		{
			name: "the trust had ended before Lock returned, to a process that was stopped",
			tale: story().loses(1, 1, 1, 6, 9, 4, 0).hold(2, 1, 4, 5, 20, 0),
		},
		{
			name: "granted twice because the server forgot, within the bound", rules: bounded(double, 5),
			tale: story().loses(1, 1, 1, 2, 8, 50, 0).at(4, forgotten, 0, 0, until(4), everything).hold(2, 1, 3, 5, 9, 0),
		},
		{
			name: "granted twice because the server forgot, for too long", rules: bounded(double, 2), want: "double hold: 3ms, more than 2ms",
			tale: story().loses(1, 1, 1, 2, 8, 50, 0).at(4, forgotten, 0, 0, until(4), everything).hold(2, 1, 3, 5, 9, 0),
		},
		{
			name: "granted after the server was told to forget, and before it did", rules: bounded(double, 5),
			tale: story().loses(1, 1, 3, 4, 8, 50, 0).at(2, forgotten, 0, 0, until(5), everything).hold(2, 1, 3, 5, 9, 0),
		},
		{
			name: "granted after the server forgot", rules: bounded(double, 5), wrong: true,
			tale: story().loses(1, 1, 3, 4, 8, 50, 0).at(1, forgotten, 0, 0, until(2), everything).hold(2, 1, 3, 5, 9, 0),
		},
		{
			name: "the server forgot another key", rules: bounded(double, 5), wrong: true,
			tale: story().loses(1, 1, 1, 2, 8, 50, 0).
				at(4, forgotten, 0, 0, until(4), func(e *event) { e.Key = "other" }).hold(2, 1, 3, 5, 9, 0),
		},
		{
			name: "granted while its holder was stopped", want: "double hold", wrong: true,
			tale: story().at(1, called, 1, 1).at(2, granted, 1, 1).hold(2, 1, 3, 5, 9, 0),
		},
		{
			name: "granted after its holder was killed",
			tale: story().at(1, called, 1, 1).at(2, granted, 1, 1).at(4, killed, 1, 0).hold(2, 1, 3, 5, 9, 0),
		},
		{
			name: "Unlock has an unknown outcome",
			tale: story().at(1, called, 1, 1).at(2, granted, 1, 1).at(4, unlock, 1, 1, until(90)).
				at(6, unlocked, 1, 1, failing("no answer")).hold(2, 1, 3, 20, 21, 0),
		},
		{
			name: "a failed call forbids nothing",
			tale: story().at(1, called, 1, 1).at(9, failed, 1, 1, failing(classContext)).hold(2, 1, 2, 3, 4, 0),
		},
		{
			name: "a smaller token", want: "token 6 was given after 7", wrong: true,
			tale: story().hold(1, 1, 1, 2, 5, 7).hold(2, 1, 6, 7, 9, 6),
		},
		{
			name: "a token twice", want: "token 7 was given", wrong: true,
			tale: story().hold(1, 1, 1, 2, 5, 7).hold(2, 1, 4, 7, 9, 7),
		},
		{
			name: "granted what lingered since before the server forgot it", lingers: true, rules: bounded(double, 5),
			tale: story().hold(1, 1, 1, 2, 3, 7).at(4, forgotten, 0, 0, until(5), everything).hold(2, 1, 6, 7, 11, 20).
				loses(1, 2, 8, 9, 10, 60, 8).hold(2, 2, 12, 13, 14, 21),
		},
		{
			name: "granted twice what lingered since before the server forgot it", lingers: true, rules: bounded(double, 5),
			tale: story().hold(1, 1, 1, 2, 3, 7).at(4, forgotten, 0, 0, until(5), everything).hold(2, 1, 6, 7, 13, 20).
				hold(1, 2, 8, 9, 10, 8).loses(1, 3, 11, 11, 12, 60, 9),
		},
		{
			name: "granted what lingered since before the server forgot it, for too long", lingers: true, rules: bounded(double, 2),
			want: "double hold: 3ms, more than 2ms",
			tale: story().hold(1, 1, 1, 2, 3, 7).at(4, forgotten, 0, 0, until(5), everything).hold(2, 1, 6, 7, 15, 20).
				loses(1, 2, 8, 9, 12, 60, 8),
		},
		{
			name: "granted what lingers, though it does not", rules: bounded(double, 5), want: "token 8 was given after 20", wrong: true,
			tale: story().hold(1, 1, 1, 2, 3, 7).at(4, forgotten, 0, 0, until(5), everything).hold(2, 1, 6, 7, 11, 20).
				loses(1, 2, 8, 9, 10, 60, 8),
		},
		{
			name: "granted with a token of another lease than lingered", lingers: true, rules: bounded(double, 5), want: "token 9 was given after 20", wrong: true,
			tale: story().hold(1, 1, 1, 2, 3, 7).at(4, forgotten, 0, 0, until(5), everything).hold(2, 1, 6, 7, 11, 20).
				loses(1, 2, 8, 9, 10, 60, 9),
		},
		{
			name: "granted what lingers, and the server forgot it before that", lingers: true, rules: bounded(double, 5), want: "token 8 was given after 20", wrong: true,
			tale: story().at(1, forgotten, 0, 0, until(1), everything).hold(1, 1, 2, 3, 4, 7).hold(2, 1, 5, 7, 11, 20).
				loses(1, 2, 8, 9, 10, 60, 8),
		},
		{
			name: "granted what lingered, long after the server forgot it", lingers: true, rules: bounded(double, 5), want: "token 8 was given after 20", wrong: true,
			tale: story().hold(1, 1, 1, 2, 3, 7).at(4, forgotten, 0, 0, until(5), everything).hold(2, 1, 6, 7, 3111, 20).
				loses(1, 2, 3108, 3109, 3110, 3160, 8),
		},
		{
			name: "trusted after the end", want: "Lease.Err of \"long\" was nil 3ms after its trust had ended",
			tale: story().at(1, called, 1, 1).at(2, granted, 1, 1).at(9, unlock, 1, 1, until(5), seen(8)).at(10, unlocked, 1, 1),
		},
		{
			name: "lost", rules: rules{keeps: true, lease: time.Second}, want: "process 1 lost \"long\"",
			tale: story().loses(1, 1, 1, 2, 9, 7, 0),
		},
		{
			name: "lost when the machine did not let it run", rules: rules{keeps: true, lease: time.Second},
			tale: story().loses(1, 1, 1, 200, 900, 900, 0).at(500, stalled, 1, 0, until(700)),
		},
		{
			name: "lost in a fault that lasts for longer than it should", rules: rules{keeps: true, away: true, lease: 10 * time.Millisecond},
			tale: story().loses(1, 1, 1, 2, 19, 18, 0).at(10, broken, 0, 0).at(16, mended, 0, 0),
		},
		{
			name: "lost in a fault that does not", rules: rules{keeps: true, away: true, lease: 10 * time.Millisecond}, want: "process 1 lost \"long\"",
			tale: story().loses(1, 1, 1, 2, 19, 18, 0).at(10, broken, 0, 0).at(15, mended, 0, 0),
		},
		{
			name: "lost in a fault that a lease does not outlive which was handed over just before", rules: rules{keeps: true, away: true, lease: 30 * time.Second},
			tale: story().loses(1, 1, 1, 9_900, 11_800, 11_700, 0).at(10_000, broken, 0, 0).at(25_000, mended, 0, 0),
		},
		{
			name: "lost in a fault that a lease does not outlive which was handed over as it began", rules: rules{keeps: true, away: true, lease: 30 * time.Second},
			tale: story().loses(1, 1, 1, 10_005, 11_900, 11_800, 0).at(10_000, broken, 0, 0).at(25_000, mended, 0, 0),
		},
		{
			name: "lost in a fault that it outlives", rules: rules{keeps: true, away: true, lease: 30 * time.Second}, want: "process 1 lost \"long\"",
			tale: story().loses(1, 1, 1, 9_000, 11_800, 11_700, 0).at(10_000, broken, 0, 0).at(25_000, mended, 0, 0),
		},
		{
			name: "Unlock fails", rules: rules{keeps: true}, want: "Unlock \"long\" failed: no answer",
			tale: story().at(1, called, 1, 1).at(2, granted, 1, 1).at(4, unlock, 1, 1, until(90)).at(6, unlocked, 1, 1, failing("no answer")),
		},
		{
			name: "told in time", rules: rules{loses: true, limits: map[figure]time.Duration{telling: 9 * time.Millisecond}},
			tale: story().loses(1, 1, 1, 2, 19, 18, 0).at(10, broken, 0, 0).at(15, mended, 0, 0),
		},
		{
			name: "told late", rules: rules{loses: true, limits: map[figure]time.Duration{telling: 8 * time.Millisecond}}, want: "told: 9ms, more than 8ms",
			tale: story().loses(1, 1, 1, 2, 19, 18, 0).at(10, broken, 0, 0).at(15, mended, 0, 0),
		},
		{
			name: "never told", rules: rules{loses: true}, want: "process 1 was never told that it had lost \"long\"",
			tale: story().hold(1, 1, 1, 2, 19, 0).at(10, broken, 0, 0).at(15, mended, 0, 0),
		},
		{
			name: "nobody there to be told", rules: rules{loses: true}, want: "nobody held \"long\"",
			tale: story().at(10, broken, 0, 0).at(15, mended, 0, 0).hold(1, 1, 16, 17, 18, 0),
		},
		{
			name: "nobody there to be told, and the machine did something else for a twentieth of a lease", rules: rules{loses: true, lease: 100 * time.Millisecond}, want: "nobody held \"long\"",
			tale: story().at(100, stalled, 1, 0, until(105)).at(110, broken, 0, 0).at(115, mended, 0, 0).hold(1, 1, 116, 117, 118, 0),
		},
		{
			name: "nobody there to be told, since the machine did something else just before", rules: rules{loses: true, lease: 100 * time.Millisecond},
			tale: story().at(100, stalled, 1, 0, until(106)).at(110, broken, 0, 0).at(115, mended, 0, 0).hold(1, 1, 116, 117, 118, 0),
		},
		{
			name: "one loses that the fault is not about", rules: rules{spares: true}, want: "process 1 lost \"long\", though the fault is not about it",
			tale: story().loses(1, 1, 1, 2, 19, 18, 0).at(10, broken, 2, 0).at(15, mended, 2, 0),
		},
		{
			name: "held by nobody", rules: bounded(unheld, 4), want: "unheld: 5ms, more than 4ms",
			tale: story().hold(1, 1, 1, 2, 5, 0).hold(2, 1, 3, 10, 12, 0),
		},
		{
			name: "wanted by nobody", rules: bounded(unheld, 4),
			tale: story().hold(1, 1, 1, 2, 5, 0).hold(2, 1, 9, 10, 12, 0),
		},
		{
			name: "held by nobody while the machine did something else", rules: bounded(unheld, 4),
			tale: story().hold(1, 1, 1, 2, 5, 0).hold(2, 1, 3, 20, 22, 0).at(6, stalled, 2, 0, until(18)).at(30, closing, 0, 0),
		},
		{
			name: "served late", rules: bounded(service, 4), want: "served: 5ms, more than 4ms",
			tale: story().hold(1, 1, 1, 2, 5, 0).hold(2, 1, 3, 15, 17, 0).at(5, broken, 0, 0).at(10, mended, 0, 0),
		},
		{
			name: "never served", rules: rules{}, want: "nobody was granted it after the fault",
			tale: story().hold(1, 1, 1, 2, 5, 0).at(5, broken, 0, 0).at(6, called, 2, 1).at(10, mended, 0, 0).at(900, closing, 0, 0),
		},
		{
			name: "nobody to serve", rules: bounded(service, 4), want: "served: there was nothing to measure",
			tale: story().hold(1, 1, 1, 2, 15, 0).hold(2, 1, 3, 20, 21, 0).at(5, broken, 0, 0).at(10, mended, 0, 0),
		},
		{
			name: "served late after a holder that learns of its loss when the fault is over", rules: rules{loses: true, room: 1, limits: map[figure]time.Duration{service: 4 * ms}},
			want: "served: 5ms, more than 4ms",
			tale: story().loses(1, 1, 1, 2, 99, 15, 0).hold(2, 1, 3, 20, 21, 0).at(5, broken, 0, 0).at(10, mended, 0, 0),
		},
		{
			name: "hand-over is slow", rules: bounded(typical, 4), want: "hand-over: 5ms, more than 4ms",
			tale: story().hold(1, 1, 1, 3, 5, 0).hold(2, 1, 2, 10, 12, 0),
		},
		{
			name: "Lock outlives its context", rules: bounded(late, 4), want: "late: 5ms, more than 4ms",
			tale: story().at(1, called, 1, 1).at(9, failed, 1, 1, failing(classContext), lateBy(5)),
		},
		{
			name: "Unlock takes long", rules: bounded(giving, 4), want: "unlock: 5ms, more than 4ms",
			tale: story().at(1, called, 1, 1).at(2, granted, 1, 1).at(4, unlock, 1, 1, until(90)).at(9, unlocked, 1, 1),
		},
		{
			name: "Lock fails", want: "Lock \"long\" failed: OOM",
			tale: story().at(1, called, 1, 1).at(9, failed, 1, 1, failing("OOM")),
		},
		{
			name: "refused late", want: "refused: 8ms, more than 4ms",
			rules: rules{allowed: []string{"OOM"}, limits: map[figure]time.Duration{refusal: 4 * time.Millisecond}},
			tale:  story().at(1, broken, 0, 0).at(2, called, 1, 1).at(10, failed, 1, 1, failing("an OOM")).at(20, mended, 0, 0),
		},
		{
			name: "two have a part", rules: rules{room: 2},
			tale: story().part(1, 1, 1, 2, 8).part(1, 2, 3, 5, 9),
		},
		{
			name: "three have a part, and two is the most", rules: rules{room: 2}, want: "double hold: 1ms", wrong: true,
			tale: story().part(1, 1, 1, 2, 8).part(1, 2, 3, 5, 9).part(1, 3, 6, 7, 12),
		},
		{
			name: "one has a part of what another has all of", rules: rules{room: 2}, want: "double hold: 3ms", wrong: true,
			tale: story().part(2, 1, 1, 2, 8).part(1, 2, 3, 5, 9),
		},
		{
			name: "one has a part, a call that wants it all waits", rules: rules{room: 2, limits: map[figure]time.Duration{unheld: 4 * time.Millisecond}},
			tale: story().part(1, 1, 1, 2, 20).part(2, 2, 3, 22, 23),
		},
		{
			name: "one has a part, a call that wants another waits", rules: rules{room: 2, limits: map[figure]time.Duration{unheld: 4 * time.Millisecond}},
			want: "unheld: 7ms, more than 4ms",
			tale: story().part(1, 1, 1, 2, 20).part(1, 2, 3, 10, 12),
		},
		{
			name: "served late though another has a part", rules: rules{room: 2, limits: map[figure]time.Duration{service: 4 * time.Millisecond}},
			want: "served: 5ms, more than 4ms",
			tale: story().part(1, 1, 1, 2, 30).part(1, 2, 3, 15, 17).at(5, broken, 0, 0).at(10, mended, 0, 0),
		},
		{
			name: "it is free when one looks", rules: rules{room: 2},
			tale: story().part(2, 1, 1, 2, 8).part(0, 2, 3, 9, 9).part(2, 3, 7, 9, 12),
		},
		{
			name: "it is not free when one looks", rules: rules{room: 2}, wrong: true,
			tale: story().part(2, 1, 1, 2, 8).part(0, 2, 3, 5, 5),
		},
		{
			name: "it is free before one hears of it", rules: rules{room: 2},
			tale: story().part(2, 1, 1, 2, 8).part(0, 2, 3, 12, 12).part(2, 3, 7, 10, 15),
		},
		{
			name: "something is left", want: "process 1 left behind: a goroutine",
			tale: story().at(1, leaked, 1, 0, failing("a goroutine")),
		},
		{
			name: "Close waits for a connection that is found to be mute later", rules: rules{mutes: true, lease: defaultLease},
			tale: story().at(1, leaked, 1, 0, failing("lockgen: close: requests are still unanswered after 3s")),
		},
		{
			name: "Close waits for a connection that was found to be mute", rules: rules{mutes: true, lease: shortLease}, want: "process 1 left behind",
			tale: story().at(1, leaked, 1, 0, failing("lockgen: close: requests are still unanswered after 3s")),
		},
		{
			name: "Close waits though no connection is mute", rules: rules{lease: defaultLease}, want: "process 1 left behind",
			tale: story().at(1, leaked, 1, 0, failing("lockgen: close: requests are still unanswered after 3s")),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHistory(tt.tale.events...)
			h.lingers = tt.lingers
			tt.rules.room = max(1, tt.rules.room)
			found := h.check(tt.rules).violations
			if tt.want == "" {
				require.Empty(t, found)
			} else {
				require.Len(t, found, 1)
				require.Contains(t, found[0], tt.want)
			}
			result, _ := h.explain(tt.rules.room, time.Minute)
			if tt.wrong {
				require.Equal(t, porcupine.Illegal, result)
			} else {
				require.Equal(t, porcupine.Ok, result)
			}
		})
	}
}

// TestWorst shows that of several runs of a fault the worst is kept, and how many they were is said.
func TestWorst(t *testing.T) {
	t.Parallel()
	all := &findings{figures: map[figure]time.Duration{}}
	all.add(&findings{runs: 1, grants: 3, losses: 1, figures: map[figure]time.Duration{unheld: 2 * time.Second, late: time.Millisecond}, paused: time.Second})
	all.add(&findings{runs: 1, grants: 4, figures: map[figure]time.Duration{unheld: time.Second, telling: time.Minute}})
	require.Equal(t, map[figure]time.Duration{unheld: 2 * time.Second, late: time.Millisecond, telling: time.Minute}, all.figures)
	require.Equal(t, time.Second, all.paused)
	require.True(t, strings.HasSuffix(line(runs[0], all), "| 7 | 1 | kept, 2 runs |"), line(runs[0], all))
	all.add(&findings{runs: 1, violations: []string{"two holders"}})
	all.add(&findings{runs: 1, violations: []string{"two holders", "left behind: a|b\nwith stacks"}})
	require.True(t, strings.HasSuffix(line(runs[0], all), `| **missed** in 2 of 4 runs: two holders; left behind: a\|b |`), line(runs[0], all))
	require.NotContains(t, line(runs[0], &findings{runs: 1}), "runs |")
}
