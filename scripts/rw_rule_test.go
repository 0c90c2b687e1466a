package scripts_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// A rwRule is THE RULE of rw.lua, without Redis: the waiters, the turn, and the transitions.
type rwRule struct {
	hears func(owner string) bool

	mode             string   // of the lock: read, write, or empty when it is free
	readers, writers []string // places, an owner each, with a + behind those that get no messages
	whose, last      string   // read, write or redisson; the last side of this library. Empty for no turn
	called           []string // owners that were called and have not come
	ended            bool     // the turn does not count any more
}

// counts reports whether the turn counts.
func (r *rwRule) counts() bool {
	return r.whose != "" && !r.ended && (r.whose == "redisson" || len(r.called) > 0)
}

func ownerAt(place string) string { return strings.TrimSuffix(place, "+") }

// comes reports whether the waiter at a place, when it is called, can come.
func (r *rwRule) comes(place string) bool {
	return r.hears(ownerAt(place)) || strings.HasSuffix(place, "+")
}

func (r *rwRule) line(side string) *[]string {
	if side == "write" {
		return &r.writers
	}
	return &r.readers
}

func (r *rwRule) stand(side, place string) {
	line := r.line(side)
	if i := slices.IndexFunc(*line, func(p string) bool { return ownerAt(p) == ownerAt(place) }); i >= 0 {
		(*line)[i] = place
	} else if place != "" {
		*line = append(*line, place)
	}
}

// out removes an owner from a queue and reports whether it was there.
func (r *rwRule) out(side, owner string) bool {
	line := r.line(side)
	before := len(*line)
	*line = slices.DeleteFunc(*line, func(p string) bool { return ownerAt(p) == owner })
	return len(*line) < before
}

// turnOf gives the turn to a side.
func (r *rwRule) turnOf(side string, called []string) {
	r.whose, r.last, r.called, r.ended = side, side, called, false
}

// callSide calls the next waiters of a side, and reports whether there are others than asker, and whether asker is one
// of them.
func (r *rwRule) callSide(side, asker string) (others, mine bool) {
	var called []string
	for line := r.line(side); len(*line) > 0; {
		place := (*line)[0]
		*line = (*line)[1:]
		switch {
		case ownerAt(place) == asker:
			mine = true
		case r.comes(place):
			called = append(called, ownerAt(place))
		default:
			continue
		}
		if side == "write" {
			break
		}
	}
	if mine || len(called) > 0 {
		r.turnOf(side, called)
	}
	return len(called) > 0, mine
}

// choose assigns the turn, and reports whether another waiter than asker has it now.
func (r *rwRule) choose(asker string) (others bool) {
	sides := []string{"write", "read"}
	if r.last == "write" {
		sides = []string{"read", "write"}
	}
	for _, side := range sides {
		if others, mine := r.callSide(side, asker); others || mine {
			return !mine
		}
	}
	r.whose, r.last, r.called, r.ended = "", "", nil, false
	return false
}

// ask makes an owner ask, which waits at place, and reports whether it has the lock.
func (r *rwRule) ask(side, owner, place string) bool {
	process := strings.Split(owner, ":")[0] + ":"
	switch called := slices.IndexFunc(r.called, func(c string) bool { return strings.HasPrefix(c, process) }); {
	case r.mode == "write", r.mode == "read" && side == "write":
		r.stand(side, place)
		return false
	case len(r.readers) == 0 && len(r.writers) == 0 && r.whose == "": // there are no waiters, nor were there any lately
	case r.counts() && r.whose == side && called >= 0:
		r.called = slices.DeleteFunc(r.called, func(c string) bool { return strings.HasPrefix(c, process) })
		r.out(side, owner)
	case side == "read" && len(r.writers) == 0 && (r.counts() && r.whose == "read" || !r.counts() && r.mode == "read"):
		r.out(side, owner)
	case r.counts(), r.mode == "read":
		r.stand(side, place)
		return false
	default:
		r.stand(side, place)
		if r.choose(owner) {
			return false
		}
	}
	r.mode = side
	return true
}

// freed releases the lock, which a side held last, when no Redisson program listens.
func (r *rwRule) freed(side string) {
	r.mode, r.last = "", side
	r.choose("")
}

// leave removes a waiting owner from the queue.
func (r *rwRule) leave(side, owner string) {
	stood := r.out(side, owner)
	called := r.counts() && slices.Contains(r.called, owner)
	if called {
		r.called = slices.DeleteFunc(r.called, func(c string) bool { return c == owner })
	}
	switch {
	case !stood && !called:
	case r.mode == "" && !r.counts():
		r.choose("")
	case r.mode == "read" && side == "write" && len(r.writers) == 0:
		r.callSide("read", "")
	}
}

func (r *rwRule) clone() *rwRule {
	c := *r
	c.readers, c.writers, c.called = slices.Clone(r.readers), slices.Clone(r.writers), slices.Clone(r.called)
	return &c
}

// turn returns the value in Redis, and its time to live.
func (r *rwRule) turn() (value, ms string) {
	if ms = "160000"; r.ended {
		ms = "1900"
	}
	if r.whose == "" {
		return "", ms
	}
	return r.whose + " " + r.last + " " + strings.Join(r.called, " "), ms
}

// A rwWaiter is a waiter of the states below.
type rwWaiter struct {
	side, owner, place string
	dead               bool
}

// rwStates calls f with each state in which the lock is free and there are waiters: every order of the queues, every
// set of called waiters, and a turn that counts or is over.
func rwStates(hears func(string) bool, all []rwWaiter, f func(r *rwRule, waiting []rwWaiter)) {
	for what := range 1 << (2 * len(all)) { // for each waiter: absent, in the queue, or called
		for reverse := range 2 {
			var readers, writers, calledR, calledW []string
			var waiting []rwWaiter
			valid := true
			for i, w := range all {
				switch what >> (2 * i) & 3 {
				case 0:
					continue
				case 1:
					if w.side == "read" {
						readers = append(readers, w.place)
					} else {
						writers = append(writers, w.place)
					}
				case 2:
					if w.side == "read" {
						calledR = append(calledR, w.owner)
					} else {
						calledW = append(calledW, w.owner)
					}
				default:
					valid = false
				}
				waiting = append(waiting, w)
			}
			if !valid || len(calledW) > 1 || len(calledW) > 0 && len(calledR) > 0 {
				continue
			}
			if reverse == 1 {
				if len(readers) < 2 && len(writers) < 2 {
					continue
				}
				slices.Reverse(readers)
				slices.Reverse(writers)
			}
			state := func(whose, last string, ended bool) {
				f(&rwRule{
					hears: hears, readers: slices.Clone(readers), writers: slices.Clone(writers),
					whose: whose, last: last, called: slices.Concat(calledR, calledW), ended: ended,
				}, waiting)
			}
			for _, ended := range []bool{false, true} {
				switch {
				case calledR != nil:
					state("read", "read", ended)
				case calledW != nil:
					state("write", "write", ended)
				default:
					for _, last := range []string{"read", "write"} {
						state("redisson", last, ended)
						state(last, last, ended)
					}
					state("", "", false)
				}
			}
		}
	}
}

// TestRWRule_WhoeverWaitsForAFreeLockIsNextInTurn shows that whenever the lock is free and there are waiters, there are
// some of whom each gets the lock when it asks next. The exception is the turn of a Redisson program, or of called
// waiters that have died; then it holds when that turn is over, a matter of milliseconds. No dead process, and no side,
// keeps the others out for longer.
func TestRWRule_WhoeverWaitsForAFreeLockIsNextInTurn(t *testing.T) {
	t.Parallel()
	of := func(i int) string { return fmt.Sprintf("1f2e3d4c-5b6a-8f55-8f0e-00000000000%d:9", i) }
	hearing := map[string]bool{of(1): true, of(4) + writing: true}
	hears := func(owner string) bool { return hearing[owner] }
	all := []rwWaiter{
		{"read", of(1), of(1), false}, {"read", of(2), of(2) + "+", false}, {"read", of(3), of(3), true},
		{"write", of(4) + writing, of(4) + writing, false}, {"write", of(5) + writing, of(5) + writing + "+", false},
		{"write", of(6) + writing, of(6) + writing, true},
	}
	states := 0
	next := func(r *rwRule, waiting []rwWaiter) (granted []string) {
		for _, w := range waiting {
			if !w.dead && r.clone().ask(w.side, w.owner, w.place) {
				granted = append(granted, w.owner)
			}
		}
		return granted
	}
	rwStates(hears, all, func(r *rwRule, waiting []rwWaiter) {
		states++
		if !slices.ContainsFunc(waiting, func(w rwWaiter) bool { return !w.dead }) {
			return
		}
		granted := next(r, waiting)
		alive := slices.ContainsFunc(waiting, func(w rwWaiter) bool { return !w.dead && slices.Contains(r.called, w.owner) })
		if len(granted) == 0 {
			require.True(t, r.counts() && !alive, "%+v", r)
			over := r.clone()
			over.ended = true
			require.NotEmpty(t, next(over, waiting), "%+v", r)
		}
		// A refused process calls others, each of which gets the lock: it takes the turn from no waiter.
		for _, w := range waiting {
			if after := r.clone(); !w.dead && !after.ask(w.side, w.owner, w.place) {
				require.True(t, after.counts(), "%+v, when %s asks", r, w.owner)
				if slices.ContainsFunc(waiting, func(w rwWaiter) bool { return !w.dead && slices.Contains(after.called, w.owner) }) {
					require.NotEmpty(t, next(after, waiting), "%+v", after)
				}
				require.Contains(t, *after.line(w.side), w.place, "it keeps its place: %+v", r)
			}
		}
		// After a waiter leaves, some other waiter has the turn.
		for _, w := range waiting {
			after := r.clone()
			after.leave(w.side, w.owner)
			rest := slices.DeleteFunc(slices.Clone(waiting), func(x rwWaiter) bool { return x.owner == w.owner })
			after.ended = true
			if slices.ContainsFunc(rest, func(x rwWaiter) bool { return !x.dead }) {
				require.NotEmpty(t, next(after, rest), "%+v", after)
			}
		}
	})
	t.Logf("%d states", states)
	require.Greater(t, states, 1000)
}

// TestRWRule_IsWhatTheScriptsDo shows that the scripts follow the rule, in every state, for every
// process that asks or leaves.
func TestRWRule_IsWhatTheScriptsDo(t *testing.T) {
	t.Parallel()
	s := newScene(t, redistest.Shared(t).Client())
	l := newSharedLock(s)
	p, q := newPeer(t, l.c, uuidOf(s, 1)), newPeer(t, l.c, uuidOf(s, 2))
	for _, peer := range []*peer{p, q} {
		go func() {
			for {
				select {
				case <-peer.heard:
				case <-t.Context().Done():
					return
				}
			}
		}()
	}
	r1, w1 := p.uuid+":9", q.uuid+":9"+writing
	r2, w2 := uuidOf(s, 3)+":9", uuidOf(s, 4)+":9"+writing
	r3, w3 := uuidOf(s, 5)+":9", uuidOf(s, 6)+":9"+writing
	hears := func(owner string) bool { return owner == r1 || owner == w1 }
	all := []rwWaiter{
		{"read", r1, r1, false}, {"read", r2, r2 + "+", false}, {"read", r3, r3, true},
		{"write", w1, w1, false}, {"write", w2, w2 + "+", false}, {"write", w3, w3, true},
	}
	for _, script := range []*scripts.Script{scripts.RWRead, scripts.RWWrite, scripts.RWReadRelease, scripts.RWWriteRelease} {
		require.NoError(t, l.c.Do(t.Context(), l.c.B().ScriptLoad().Script(script.Source()).Build()).Error())
	}
	run := func(script *scripts.Script, keys []string, args ...string) rueidis.Completed {
		return l.c.B().Evalsha().Sha1(script.SHA1()).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
	}
	state := func(r *rwRule) (cmds []rueidis.Completed) {
		cmds = append(cmds, l.c.B().Del().Key(l.key, l.reader(), l.writer(), l.turn()).Build())
		if len(r.readers) > 0 {
			cmds = append(cmds, l.c.B().Rpush().Key(l.reader()).Element(r.readers...).Build())
		}
		if len(r.writers) > 0 {
			cmds = append(cmds, l.c.B().Rpush().Key(l.writer()).Element(r.writers...).Build())
		}
		if value, ms := r.turn(); value != "" {
			cmds = append(cmds, l.c.B().Arbitrary("SET").Keys(l.turn()).Args(value, "PX", ms).Build())
		}
		return cmds
	}
	in := func(r *rwRule, cmd rueidis.Completed) rueidis.RedisResult {
		cmds := append(state(r), cmd)
		return l.c.DoMulti(t.Context(), cmds...)[len(cmds)-1]
	}
	look := func(after *rwRule, what string) {
		t.Helper()
		replies := l.c.DoMulti(t.Context(), l.c.B().Lrange().Key(l.reader()).Start(0).Stop(-1).Build(),
			l.c.B().Lrange().Key(l.writer()).Start(0).Stop(-1).Build(), l.c.B().Get().Key(l.turn()).Build(), l.c.B().Hget().Key(l.key).Field("mode").Build())
		for i, want := range [][]string{after.readers, after.writers} {
			got, err := replies[i].AsStrSlice()
			require.NoError(t, err)
			require.ElementsMatch(t, want, got, what)
			require.Equal(t, fmt.Sprint(want), fmt.Sprint(got), what)
		}
		got, _ := replies[2].ToString()
		want, _ := after.turn()
		require.Equal(t, want, got, what)
		mode, _ := replies[3].ToString()
		require.Equal(t, after.mode, mode, what)
	}
	n := 0
	rwStates(hears, all, func(r *rwRule, waiting []rwWaiter) {
		if n++; n%3 != 0 && testing.Short() {
			return
		}
		for _, w := range waiting {
			after, what := r.clone(), fmt.Sprintf("%+v, %s asks", r, w.owner)
			granted := after.ask(w.side, w.owner, w.place)
			deaf := strings.TrimPrefix(w.place, w.owner)
			if w.side == "read" {
				got, err := in(r, run(scripts.RWRead, []string{l.key, l.hold(w.owner), l.reader(), l.writer(), l.turn()}, "600000", w.owner, "", inLine, deaf)).AsInt64()
				require.NoError(t, err)
				require.Equal(t, granted, got == taken, what)
			} else {
				got, err := in(r, run(scripts.RWWrite, []string{l.key, l.reader(), l.writer(), l.turn(), l.counter()}, "600000", w.owner, inLine, deaf, "0", "60000")).AsIntSlice()
				require.NoError(t, err)
				require.Equal(t, granted, got[0] == taken, what)
			}
			look(after, what)

			after, what = r.clone(), fmt.Sprintf("%+v, %s leaves", r, w.owner)
			after.leave(w.side, w.owner)
			if w.side == "read" {
				in(r, run(scripts.RWReadRelease, []string{l.key, l.hold(w.owner), l.channel, l.reader(), l.writer(), l.turn()}, w.owner, "00", plain, l.prefix()))
			} else {
				in(r, run(scripts.RWWriteRelease, []string{l.key, l.channel, l.reader(), l.writer(), l.turn()}, w.owner, "01", plain, l.prefix()))
			}
			look(after, what)
		}
	})
	t.Logf("%d states", n)
}
