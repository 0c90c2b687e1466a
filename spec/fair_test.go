package spec

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Owners of three processes: two of a, and one of each other; d does not listen.
const (
	fairA  = "aaaaaaaa-0d1f-8a55-8f0e-3c2b1a0d9e8f:1"
	fairA2 = "aaaaaaaa-0d1f-8a55-8f0e-3c2b1a0d9e8f:2"
	fairB  = "bbbbbbbb-0d1f-8a55-8f0e-3c2b1a0d9e8f:1"
	fairC  = "cccccccc-0d1f-8a55-8f0e-3c2b1a0d9e8f:1"
	fairD  = "dddddddd-0d1f-8a55-8f0e-3c2b1a0d9e8f:1"
)

// fairNote has a place of 5 s, a lease of 2 s and one token.
const fairNote = "5000 2000 1 60000"

// fairScene makes events of a fair lock: each at a time in ms, which is also that of the clients.
type fairScene struct{}

func (fairScene) event(at int64, action, owner string) FairSaid {
	return FairSaid{At: milliseconds(at), Action: action, Place: FairPlace{owner, 5000}, Clock: at,
		Hears: func(o string) bool { return !strings.HasPrefix(o, "d") }}
}

func (x fairScene) ask(at int64, owner string, queued bool, srv *FairSeen) FairSaid {
	e := x.event(at, "Ask", owner)
	e.Queued, e.Note, e.TTL, e.Srv = queued, fairNote, 10*time.Second, srv
	return e
}

// seen returns a lock that an owner has for so many ms, with its waiters, whose places last for 5 s each after it.
func (fairScene) seen(owner string, left int64, from int64, queue ...string) *FairSeen {
	s := &FairSeen{Left: milliseconds(left), Noted: time.Hour, Fair: Fair{Owner: owner, Queue: queue, Until: map[string]int64{}, Notes: map[string]string{}}}
	for i, o := range queue {
		s.Until[o], s.Notes[o] = from+int64(i+1)*5000, fairNote
	}
	return s
}

func (s *FairSeen) with(change func(s *FairSeen)) *FairSeen {
	to := *s
	to.Queue, to.Until, to.Notes = slices.Clone(s.Queue), maps.Clone(s.Until), maps.Clone(s.Notes)
	change(&to)
	return &to
}

// TestFairCheckRejects has traces leave the protocol, each with its last event.
func TestFairCheckRejects(t *testing.T) {
	var x fairScene
	with := func(some []FairSaid, last FairSaid) []FairSaid { return append(slices.Clone(some), last) }
	has := []FairSaid{x.ask(0, fairA, true, x.seen(fairA, 10_000, 0))}
	waits := with(has, x.ask(1, fairB, true, x.seen(fairA, 9_999, 10_000, fairB)))
	two := with(waits, x.ask(2, fairC, true, x.seen(fairA, 9_998, 10_000, fairB, fairC)))
	deaf := with(with(has, x.ask(1, fairD, true, x.seen(fairA, 9_999, 10_000, fairD))), x.ask(2, fairC, true, x.seen(fairA, 9_998, 10_000, fairD, fairC)))
	// release returns a release whose next owner gets a message.
	release := func(at int64, srv *FairSeen, first, last int64, named ...string) FairSaid {
		e := x.event(at, "Release", fairA)
		e.Srv, e.Named = srv, named
		if first > 0 {
			e.Drawn = []Draw{{First: first, Last: last}}
		}
		return e
	}
	next := x.seen(fairB, 2_000, 10_000, fairC).with(func(s *FairSeen) { s.Last = fairB })
	handed := with(two, release(3, next, 7, 7, fairB))
	followed := with(with(with(has, x.ask(1, fairB, true, x.seen(fairA, 9_999, 10_000, fairB))), x.ask(2, fairB[:36]+":2", true, x.seen(fairA, 9_998, 10_000, fairB, fairB[:36]+":2"))),
		release(3, x.seen(fairB, 2_000, 10_000, fairB[:36]+":2").with(func(s *FairSeen) { s.Last = fairB }), 7, 8, fairB, fairB[:36]+":2"))
	renew := func(owner string, srv *FairSeen) FairSaid {
		e := x.event(4, "Renew", owner)
		e.TTL, e.Srv = 10*time.Second, srv
		return e
	}
	for name, trace := range map[string][]FairSaid{
		"taken from another":                {has[0], x.ask(1, fairB, true, x.seen(fairB, 10_000, 0))},
		"a longer lease":                    {x.ask(0, fairA, true, x.seen(fairA, 20_000, 0))},
		"first in the queue, and not last":  with(waits, x.ask(2, fairC, true, x.seen(fairA, 9_998, 10_000, fairC, fairB))),
		"in the queue though it does not":   with(has, x.ask(1, fairB, false, x.seen(fairA, 9_999, 10_000, fairB))),
		"not in the queue though it waits":  with(has, x.ask(1, fairB, true, x.seen(fairA, 9_999, 10_000))),
		"a place that lasts too long":       with(has, x.ask(1, fairB, true, x.seen(fairA, 9_999, 15_000, fairB))),
		"nobody is granted it":              with(two, release(3, x.seen("", 0, 10_000, fairB, fairC), 0, 0)),
		"the last is granted it":            with(two, release(3, x.seen(fairC, 2_000, 10_000, fairB).with(func(s *FairSeen) { s.Last = fairC }), 7, 7, fairC)),
		"granted for a whole lease":         with(two, release(3, next.with(func(s *FairSeen) { s.Left = 10 * time.Second }), 7, 7, fairB)),
		"granted to one that hears nothing": with(deaf, release(3, x.seen(fairD, 2_000, 10_000, fairC).with(func(s *FairSeen) { s.Last = fairD }), 7, 7, fairD)),
		"those behind do not come forward":  with(two, release(3, next.with(func(s *FairSeen) { s.Until[fairC] = 20_000 }), 7, 7, fairB)),
		"without a message":                 with(two, release(3, next, 7, 7)),
		"another follows":                   with(two, release(3, next, 7, 8, fairB, fairC)),
		"too few tokens":                    with(followed[:3], release(3, followed[3].Srv, 7, 7, fairB, fairB[:36]+":2")),
		"a token that was drawn before": with(handed, func() FairSaid {
			e := x.ask(4, fairB, true, next)
			e.Tokens, e.Drawn = 1, []Draw{{First: 7, Last: 7}}
			return e
		}()),
		"who has asked may be dead":   with(handed, x.ask(4, fairB, true, next.with(func(s *FairSeen) { s.Left = 10 * time.Second }))),
		"a renewal for another":       with(waits, renew(fairB, x.seen(fairA, 10_000, 10_000, fairB))),
		"a renewal for longer":        with(waits, renew(fairA, x.seen(fairA, 20_000, 10_000, fairB))),
		"a lease that ends too early": with(waits, x.ask(500, fairB, true, x.seen(fairB, 10_000, 0))),
		"a lease that does not end":   with(waits, x.ask(10_500, fairB, true, x.seen(fairA, 1, 10_000, fairB))),
		"evicted too early":           with(two, x.ask(14_000, fairC, true, x.seen(fairC, 10_000, 0))),
		"remembered though it has asked": append(slices.Clone(handed), x.ask(4, fairB, true, next.with(func(s *FairSeen) { s.Left, s.Last = 10*time.Second, "" })),
			x.ask(20, fairC, true, next.with(func(s *FairSeen) { s.Left, s.Last = 9_984*time.Millisecond, fairB }))),
		"nobody is called":  with(deaf, release(3, x.seen("", 0, 10_000, fairD, fairC).with(func(s *FairSeen) { s.Until[fairD] = 2_003 }), 7, 7)),
		"what is no action": {x.event(0, "Dance", fairA)},
	} {
		c := NewFairCheck(2 * time.Millisecond)
		for i, e := range trace {
			err := c.Say(e)
			if i == len(trace)-1 {
				require.ErrorContains(t, err, "leaves the protocol", name)
			} else {
				require.NoError(t, err, name)
			}
		}
	}
	called := release(3, x.seen("", 0, 10_000, fairD, fairC).with(func(s *FairSeen) { s.Until[fairD] = 2_003 }), 7, 7)
	called.Calls = []string{fairD}
	for name, trace := range map[string][]FairSaid{
		"handed over, renewed by asking": append(slices.Clone(handed), x.ask(4, fairB, true, next.with(func(s *FairSeen) { s.Left, s.Last = 10*time.Second, "" }))),
		"followers":                      followed,
		"one that hears nothing has the time of its lease":    with(deaf, called),
		"the waiters of one that let it run out are expelled": append(slices.Clone(followed), x.ask(3_000, fairC, true, x.seen(fairC, 10_000, 0))),
		"a fault": with(two, FairSaid{At: milliseconds(5), Action: "Fault", Srv: x.seen("", 0, 0)}),
	} {
		c := NewFairCheck(2 * time.Millisecond)
		for _, e := range trace {
			require.NoError(t, c.Say(e), name)
		}
	}
}

// TestFairWithdrawn has owners leave, and the lock taken by force.
func TestFairWithdrawn(t *testing.T) {
	l := Fair{Owner: fairA, Queue: []string{fairB, fairC, fairA2, fairD}, Until: map[string]int64{fairB: 15_000, fairC: 20_000, fairA2: 25_000, fairD: 30_000}}
	hears := func(string) bool { return true }
	r := l.run(0, 10*time.Second, hears)
	r.withdraw(processOf(fairC), []FairPlace{{fairC, 5000}})
	require.Equal(t, Fair{Owner: fairA, Queue: []string{fairB, fairA2, fairD}, Until: map[string]int64{fairB: 15_000, fairA2: 20_000, fairD: 25_000}, Notes: map[string]string{}}, r.Fair)
	r = l.run(0, 10*time.Second, hears)
	r.withdraw(processOf(fairA), []FairPlace{{fairA, 5000}, {fairA2, 5000}})
	require.Empty(t, r.Owner, "the head waits without messages")
	require.Equal(t, []string{fairB, fairC, fairD}, r.Queue)
	require.EqualValues(t, 25_000, r.Until[fairD])
	r = l.run(0, 10*time.Second, hears)
	r.force([]string{fairB})
	require.Equal(t, fairA, r.Owner)
	r.Notes = map[string]string{fairB: fairNote}
	r.force(nil)
	require.Equal(t, fairB, r.Owner)
	require.Equal(t, fairB, r.Last)
	require.Equal(t, []string{fairB}, r.named)
	require.EqualValues(t, 15_000, r.Until[fairC])
	require.Equal(t, fairA, l.Owner, "a lock is immutable")
}

// fairJ are owners of a program with Redisson.
const fairJ, fairJ2 = "5f0c1b2a-3d4e-4f60-8123-456789abcdef:1", "5f0c1b2a-3d4e-4f60-8123-456789abcdef:2"

// TestFairJava has threads of Redisson in the queue beside an owner of this library.
func TestFairJava(t *testing.T) {
	l := Fair{Owner: fairA, Queue: []string{fairJ, fairB, fairJ2}, Until: map[string]int64{fairJ: 15_000, fairB: 20_000, fairJ2: 25_000}, Notes: map[string]string{fairB: fairNote}}
	at := func(now int64, change func(r *fairRun)) *fairRun {
		r := l.run(now, 10*time.Second, func(string) bool { return true })
		change(r)
		return r
	}
	r := at(0, func(r *fairRun) { r.javaAsk(FairPlace{fairJ, 5000}, true) })
	require.EqualValues(t, 15_000, r.Until[fairJ], "a place that a thread has does not last longer")
	r = at(0, func(r *fairRun) { r.javaAsk(FairPlace{fairJ[:37] + "3", 5000}, true) })
	require.EqualValues(t, 30_000, r.Until[fairJ[:37]+"3"])
	r = at(16_000, func(r *fairRun) { r.javaAsk(FairPlace{fairJ[:37] + "3", 5000}, false) })
	require.Equal(t, []string{fairB, fairJ2}, r.Queue, "a place is over")
	r = at(0, func(r *fairRun) { r.release(FairPlace{fairA, 5000}, nil) })
	require.Empty(t, r.Owner)
	require.Equal(t, []string{fairJ}, r.calls, "it asks")
	require.True(t, r.javaAsk(FairPlace{fairJ, 5000}, true))
	require.Equal(t, fairJ, r.Owner)
	require.Equal(t, map[string]int64{fairB: 15_000, fairJ2: 20_000}, r.Until)
	r.javaRelease(FairPlace{fairJ, 5000}, true)
	require.Equal(t, fairJ, r.Owner, "it has the lock more than once")
	r.javaRelease(FairPlace{fairJ2, 5000}, false)
	require.Equal(t, fairJ, r.Owner, "another thread has it")
	r.calls = nil
	r.javaRelease(FairPlace{fairJ, 5000}, false)
	require.Empty(t, r.Owner)
	require.Equal(t, []string{fairB}, r.calls, "Redisson hands nothing over")
	r = at(0, func(r *fairRun) { r.javaLeave(FairPlace{fairJ, 5000}) })
	require.Equal(t, []string{fairB, fairJ2}, r.Queue)
	require.Equal(t, map[string]int64{fairB: 15_000, fairJ2: 20_000}, r.Until)
	require.Empty(t, r.calls)
}

// TestFairTrusts has a process ask, or give back, that was granted the lock last and lost it to a thread.
func TestFairTrusts(t *testing.T) {
	l := Fair{Owner: fairJ, Queue: []string{fairA2, fairB}, Until: map[string]int64{fairA2: 15_000, fairB: 20_000}, Notes: map[string]string{fairA2: fairNote, fairB: fairNote}, Last: fairA}
	for name, test := range map[string]struct {
		does func(r *fairRun)
		last string
	}{
		"asks":             {func(r *fairRun) { r.ask(FairPlace{fairA2, 5000}, true, fairNote, 10*time.Second, 0) }, ""},
		"gives back":       {func(r *fairRun) { r.release(FairPlace{fairA, 5000}, nil) }, ""},
		"withdraws":        {func(r *fairRun) { r.withdraw(processOf(fairA), nil) }, ""},
		"another one asks": {func(r *fairRun) { r.ask(FairPlace{fairB, 5000}, true, fairNote, 10*time.Second, 0) }, fairA},
		"may hear nothing": {func(r *fairRun) {
			r.Owner = fairA
			r.ask(FairPlace{fairA2, 5000}, true, fairNote, 10*time.Second, 0)
		}, fairA},
	} {
		r := l.run(0, 10*time.Second, func(string) bool { return true })
		test.does(r)
		require.Equal(t, test.last, r.Last, name)
		require.Equal(t, l.Queue, r.Queue, name)
	}
}
