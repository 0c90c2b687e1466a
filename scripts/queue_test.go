package scripts_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/scripts"
)

// TestAcquire_OfOneLockIsThatOfSeveral shows that a request for one lock, which queue.lua may answer, leaves, says and replies the same as
// one beside another lock, which it never answers.
func TestAcquire_OfOneLockIsThatOfSeveral(t *testing.T) {
	t.Parallel()
	const ttl = "600000"
	type names struct{ me, holder, dead string } // uuids; the first two processes listen
	held := func(owner func(x names) string) func(x names) [][]string {
		return func(x names) [][]string { return [][]string{{"HSET", "KEY", owner(x), "1"}, {"PEXPIRE", "KEY", ttl}} }
	}
	by := func(at int, c string) func(names) string { // the holder with another character in its uuid
		return func(x names) string { return x.holder[:at] + c + x.holder[at+1:] + ":1" }
	}
	for name, lock := range map[string]func(x names) [][]string{
		"free":                      func(names) [][]string { return nil },
		"held":                      held(func(x names) string { return x.holder + ":1" }),
		"held by a dead process":    held(func(x names) string { return x.dead + ":1" }),
		"held by the owner":         held(func(x names) string { return x.me + ":5" }),
		"held in a sharded cluster": held(by(19, "9")),
		"held in a plain cluster":   held(by(19, "a")),
		"held by Java":              held(by(14, "4")),
		"held by a thread":          held(func(x names) string { return x.holder + ":1:2" }),
		"held by something else":    held(func(names) string { return "somebody" }),
		"held for ever":             func(x names) [][]string { return [][]string{{"HSET", "KEY", x.holder + ":1", "1"}} },
		"held by two": func(x names) [][]string {
			return [][]string{{"HSET", "KEY", x.holder + ":1", "1", x.me + ":5", "1"}, {"PEXPIRE", "KEY", ttl}}
		},
		"no lock": func(names) [][]string { return [][]string{{"SET", "KEY", "text"}} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBackends(t, func(t *testing.T, s *scene) {
				s.key = "zero\x00" + s.key // a message does not end at a zero byte
				x := names{uuidOf(s, 0), uuidOf(s, 1), uuidOf(s, 2)}
				me, holder := newPeer(t, s.c, x.me), newPeer(t, s.c, x.holder)
				for _, queue := range [][][]string{
					nil, {{"RPUSH", s.waiting(), x.dead + ":4"}}, {{"RPUSH", s.waiting(), x.me + ":5"}}, {{"SET", s.waiting(), "text"}},
				} {
					for _, args := range [][]string{
						{":5", "0", "0", "0"}, {":5", "1", "0", "0"}, {":5", "2", "0", "0"}, {":5+1,60000", "1", "0", "0"}, {":5", "1", "1", "60000"},
					} {
						acquire := func(beside ...string) (all []any) {
							require.NoError(t, s.command("DEL", "KEY", s.waiting(), s.counter()).Error())
							s.set(append(lock(x), queue...))
							keys := append([]string{s.key, s.waiting(), s.counter()}, beside...)
							given := append([]string{ttl, x.me}, args[1:]...)
							given[1] += args[0]
							if beside != nil {
								given = append(given, ttl, x.me+":9", "0", "0", "0")
							}
							reply, err := s.eval(scripts.Acquire, keys, given...).ToArray()
							require.NoError(t, err)
							n, err := numbers(reply[:4], nil)
							said := []any{}
							for i, n := range n { // times vary
								switch {
								case n > 1_000_000 || i == 3:
									said = append(said, n > 1_000_000)
								case n > 500_000:
									said = append(said, "ttl")
								default:
									said = append(said, n)
								}
							}
							for _, key := range []string{"KEY", s.waiting()} {
								left := s.int("PTTL", key)
								said = append(said, left < 0, left > 500_000, left > 620_000)
							}
							if len(queue) == 0 || queue[0][0] == "RPUSH" {
								said = append(said, s.line())
							}
							return []any{err == nil, said, s.dump(), me.told(), holder.told()}
						}
						several := acquire(s.key+":else", s.waiting()+":else", s.counter()+":else")
						require.Equal(t, several, acquire(), "%v, %v", queue, args)
						require.NoError(t, s.command("DEL", s.key+":else").Error())
					}
				}
			})
		})
	}
}
