package scripts_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/scripts"
)

// withoutPass returns the text of release with a file in place of pass.lua that hands nothing over.
func withoutPass(t *testing.T) string {
	t.Helper()
	pass, err := os.ReadFile("pass.lua")
	require.NoError(t, err)
	rest, first := strings.CutPrefix(scripts.Release.Source(), string(pass))
	require.True(t, first)
	return `local now, left = {err = ''}, {} for i = 1, #KEYS / 4 do left[i] = {} end` + rest
}

// TestRelease_HandedOverOrNot shows that a release that pass.lua may do leaves, says and replies the same as one that it leaves to release: of
// one lock, and of one lock of two.
func TestRelease_HandedOverOrNot(t *testing.T) {
	t.Parallel()
	without := withoutPass(t)
	type names struct{ me, first, second, dead string } // uuids; the first three processes listen
	for name, queue := range map[string]func(x names) []string{
		"nobody":                     func(names) []string { return nil },
		"one":                        func(x names) []string { return []string{x.first + ":5"} },
		"two":                        func(x names) []string { return []string{x.first + ":5", x.second + ":6"} },
		"three":                      func(x names) []string { return []string{x.first + ":5", x.second + ":6", x.first + ":7"} },
		"one of two is dead":         func(x names) []string { return []string{x.dead + ":4", x.second + ":6"} },
		"the second is dead":         func(x names) []string { return []string{x.first + ":5", x.dead + ":4"} },
		"the second of three":        func(x names) []string { return []string{x.first + ":5", x.dead + ":4", x.second + ":6"} },
		"the second demands tokens":  func(x names) []string { return []string{x.first + ":5", x.second + ":6+2,60000"} },
		"the second of a cluster":    func(x names) []string { return []string{x.first + ":5", x.second[:19] + "a" + x.second[20:] + ":6"} },
		"the second is sharded":      func(x names) []string { return []string{x.first + ":5", x.second[:19] + "9" + x.second[20:] + ":6"} },
		"the second is of Redisson":  func(x names) []string { return []string{x.first + ":5", "else:7"} },
		"one, dead":                  func(x names) []string { return []string{x.dead + ":4"} },
		"one that demands tokens":    func(x names) []string { return []string{x.first + ":5+2,60000"} },
		"one on a sharded channel":   func(x names) []string { return []string{x.first[:19] + "9" + x.first[20:] + ":5"} },
		"one of a cluster":           func(x names) []string { return []string{x.first[:19] + "a" + x.first[20:] + ":5"} },
		"a place of another library": func(names) []string { return []string{"somebody", "else:7"} },
		"no list":                    nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBackends(t, func(t *testing.T, s *scene) {
				x := names{uuidOf(s, 0), uuidOf(s, 1), uuidOf(s, 2), uuidOf(s, 3)}
				me, first, second := newPeer(t, s.c, x.me), newPeer(t, s.c, x.first), newPeer(t, s.c, x.second)
				third := newPeer(t, s.c, uuidOf(s, 4))
				s.key = "zero\x00" + s.key                                 // a message does not end at a zero byte
				for _, owner := range []string{":1", ":1+1,60000", ":2"} { // the holder, also with the tokens of its place, and another one
					for _, next := range []string{"", ":3", ":3+2,60000"} { // the place by which the process wants the lock again
						again := ""
						if next != "" {
							again = x.me + next
						}
						// The lock has a place among several; another one beside it is released as well, or handed over to the process beside.
						release := func(script string, place, several int, beside *peer) []any {
							require.NoError(t, s.command("DEL", "KEY", s.waiting(), s.counter()).Error())
							require.NoError(t, s.command("HSET", "KEY", x.me+":1", "1").Error())
							if queue == nil {
								require.NoError(t, s.command("SET", s.waiting(), "text").Error())
							} else {
								for _, place := range queue(x) {
									require.NoError(t, s.command("RPUSH", s.waiting(), place).Error())
								}
							}
							var keys []string
							args := []string{unlocked, plain, claim}
							for i := range several {
								if i == place {
									keys = append(keys, s.key, s.waiting(), s.channel, s.counter())
									args = append(args, x.me+owner, again, "60000", "0")
									continue
								}
								other := "else:" + s.key
								keys = append(keys, other, s.waiting()+":else", s.channel+":else", s.counter()+":else")
								args = append(args, x.me+":9", "", "0", "0")
								if beside != nil {
									require.NoError(t, s.c.Do(t.Context(), s.c.B().Hset().Key(other).FieldValue().FieldValue(x.me+":9", "1").Build()).Error())
									require.NoError(t, s.c.Do(t.Context(), s.c.B().Rpush().Key(s.waiting()+":else").Element(beside.uuid+":8").Build()).Error())
								}
							}
							reply := s.c.Do(t.Context(), s.c.B().Eval().Script(script).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
							n := make([]int64, 4)
							if all, err := reply.AsInt64(); err == nil {
								n[0] = all
							} else {
								all, err := reply.ToArray()
								require.NoError(t, err)
								require.Len(t, all, 4*several)
								n, err = numbers(all[4*place:4*place+4], nil)
								require.NoError(t, err)
							}
							require.Equal(t, again != "", n[1] > 0, "it has the time")
							n[1], n[2], n[3] = 0, 0, min(n[3], 1)
							if several > 1 && beside != nil {
								require.Equal(t, []string{"granted 8 T 0 0"}, beside.told())
								require.NoError(t, s.c.Do(t.Context(), s.c.B().Del().Key("else:"+s.key).Build()).Error())
							}
							held, lasts := (s.int("PTTL", "KEY")+30_000)/60_000, s.int("PTTL", s.waiting()) > 0 // in minutes
							var places any
							if queue != nil {
								places = s.line()
							}
							return []any{n, s.dump(), held, lasts, places, me.told(), first.told(), second.told()}
						}
						want := release(without, 0, 1, nil)
						with := scripts.Release.Source()
						require.Equal(t, want, release(with, 0, 1, nil), "%s, %s", owner, next)
						for place := range 2 {
							require.Equal(t, want, release(with, place, 2, nil), "%s, %s, with place %d beside one that is not held", owner, next, place)
							require.Equal(t, want, release(with, place, 2, third), "%s, %s, with place %d beside one that is handed over", owner, next, place)
						}
					}
				}
			})
		})
	}
}

// TestRelease_OfSeveralLocks shows that one number is the reply when all of several locks are handed over, and that a lock that one release
// of a script hands over to an owner is released by another one of this owner, further on in the same script.
func TestRelease_OfSeveralLocks(t *testing.T) {
	t.Parallel()
	onBackends(t, func(t *testing.T, s *scene) {
		me, they := uuidOf(s, 0), newPeer(t, s.c, uuidOf(s, 1))
		keys, args := []string(nil), []string{unlocked, plain, claim}
		var want []string
		for _, n := range []string{"5", "6", "7"} {
			lock := n + ":" + s.key
			require.NoError(t, s.c.Do(t.Context(), s.c.B().Hset().Key(lock).FieldValue().FieldValue(me+":1", "1").Build()).Error())
			require.NoError(t, s.c.Do(t.Context(), s.c.B().Rpush().Key(s.waiting()+n).Element(they.uuid+":"+n).Build()).Error())
			keys, args = append(keys, lock, s.waiting()+n, s.channel+n, s.counter()+n), append(args, me+":1", "", "0", "0")
			want = append(want, "granted "+n+" T 0 0")
		}
		n, err := s.eval(scripts.Release, keys, args...).AsInt64()
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		require.Equal(t, want, they.told())

		require.NoError(t, s.c.Do(t.Context(), s.c.B().Rpush().Key(s.waiting()+"5").Element(me+":2", they.uuid+":9").Build()).Error())
		newPeer(t, s.c, me)
		keys, args = append(keys[:4], keys[:4]...), append(args[:3], they.uuid+":5", "", "0", "0", me+":2", "", "0", "0")
		n, err = s.eval(scripts.Release, keys, args...).AsInt64()
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		require.Equal(t, []string{"soon 9 " + claim, "granted 9 T 0 0"}, they.told())

		// Of the two that name one lock, a waiter that leaves comes first: the release after it hands over to the waiter behind.
		require.NoError(t, s.c.Do(t.Context(), s.c.B().Hset().Key(s.key).FieldValue().FieldValue(me+":1", "1").Build()).Error())
		require.NoError(t, s.c.Do(t.Context(), s.c.B().Rpush().Key(s.waiting()).Element(me+":2", they.uuid+":9").Build()).Error())
		keys = []string{s.key, s.waiting(), s.channel, s.counter()}
		reply, err := s.eval(scripts.Release, append(keys, keys...), unlocked, plain, claim, me+":2", "", "0", "0", me+":1", "", "0", "0").ToArray()
		require.NoError(t, err)
		left, err := reply[0].AsInt64()
		require.NoError(t, err)
		handed, err := reply[4].AsInt64()
		require.NoError(t, err)
		require.Equal(t, []int64{-1, 1}, []int64{left, handed})
		require.Contains(t, they.told(), "granted 9 T 0 0")
	})
}
