package scripts_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/scripts"
)

// TestRelease_OfOneLockIsThatOfSeveral shows that a release of one lock, which pass.lua may do, leaves, says and replies the same as
// one beside another lock, which it never does.
func TestRelease_OfOneLockIsThatOfSeveral(t *testing.T) {
	t.Parallel()
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
				s.key = "zero\x00" + s.key                                 // a message does not end at a zero byte
				for _, owner := range []string{":1", ":1+1,60000", ":2"} { // the holder, also with the tokens of its place, and another one
					for _, next := range []string{"", ":3", ":3+2,60000"} { // the place by which the process wants the lock again
						x := names{uuidOf(s, 0), uuidOf(s, 1), uuidOf(s, 2), uuidOf(s, 3)}
						me, first, second, again := newPeer(t, s.c, x.me), newPeer(t, s.c, x.first), newPeer(t, s.c, x.second), ""
						if next != "" {
							again = x.me + next
						}
						release := func(beside ...string) []any {
							require.NoError(t, s.command("DEL", "KEY", s.waiting(), s.counter()).Error())
							require.NoError(t, s.command("HSET", "KEY", x.me+":1", "1").Error())
							if queue == nil {
								require.NoError(t, s.command("SET", s.waiting(), "text").Error())
							} else {
								for _, place := range queue(x) {
									require.NoError(t, s.command("RPUSH", s.waiting(), place).Error())
								}
							}
							keys := append([]string{s.key, s.waiting(), s.channel, s.counter()}, beside...)
							args := []string{unlocked, plain, claim, x.me + owner, again, "60000", "0"}
							if beside != nil {
								args = append(args, x.me+":9", "", "0", "0")
							}
							n, err := four(s.eval(scripts.Release, keys, args...))
							require.NoError(t, err)
							require.Equal(t, again != "", n[1] > 0, "it has the time")
							n[1], n[2], n[3] = 0, 0, min(n[3], 1)
							held, lasts := (s.int("PTTL", "KEY")+30_000)/60_000, s.int("PTTL", s.waiting()) > 0 // in minutes
							var places any
							if queue != nil {
								places = s.line()
							}
							return []any{n, s.dump(), held, lasts, places, me.told(), first.told(), second.told()}
						}
						several := release(s.key+":else", s.waiting()+":else", s.channel+":else", s.counter()+":else")
						require.Equal(t, several, release(), "%s, %s", owner, next)
					}
				}
			})
		})
	}
}
