package scripts_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lockgen/lockgen/scripts"
)

// A lockModel is a model of the scripts of the mutex, in Go.
type lockModel struct {
	process string // that listens; others do not
	java    bool   // a Java program listens to Redisson's channel

	holder string
	count  int
	line   []string
	said   []string // on Redisson's channel
	told   []string // to the process that listens
}

// tell records a message about an owner, and reports whether its process listens.
func (m *lockModel) tell(what, owner string) bool {
	n, hears := strings.CutPrefix(owner, m.process+":")
	if hears {
		m.told = append(m.told, what+" "+n)
	}
	return hears
}

func (m *lockModel) grant(owner string) { m.holder, m.count = owner, 1 }

func (m *lockModel) release() { m.holder, m.count = "", 0 }

// soon sends soon to the first process from number i on that listens.
func (m *lockModel) soon(i int) {
	for ; i < len(m.line); i++ {
		if m.tell("soon", m.line[i]) {
			return
		}
	}
}

// look sends what to the first process that listens, and soon to the next one.
func (m *lockModel) look(what string) {
	for len(m.line) > 0 && !m.tell(what, m.line[0]) {
		m.line = m.line[1:]
	}
	m.soon(1)
}

// next grants the lock to the first process in the queue that listens, and returns its owner; it
// stops at last.
func (m *lockModel) next(last string) string {
	for len(m.line) > 0 {
		place := m.line[0]
		m.line = m.line[1:]
		if place == last {
			return place
		}
		waits := len(m.line) > 0 && m.line[0] != last
		soon := waits && m.tell("soon", m.line[0])
		if m.tell("granted", place) {
			m.grant(place)
			if waits && !soon {
				m.soon(1)
			}
			return place
		}
	}
	return ""
}

// ask returns whether the owner has the lock.
func (m *lockModel) ask(owner, line string) bool {
	if m.holder != "" && m.holder != owner {
		first := line != "0" && !slices.Contains(m.line, owner)
		if first {
			m.line = append(m.line, owner)
		}
		if first && len(m.line) == 1 || line == "2" {
			m.tell("wanted", m.holder)
		}
		return false
	}
	m.grant(owner)
	if i := slices.Index(m.line, owner); i >= 0 && line == "2" {
		m.line = slices.Delete(slices.Clone(m.line), i, i+1)
	}
	return true
}

func (m *lockModel) giveBack(owner, again, start string) int64 {
	if m.holder != owner {
		stood := slices.Index(m.line, owner)
		if stood >= 0 {
			m.line = slices.Delete(slices.Clone(m.line), stood, stood+1)
		}
		if stood == 0 || m.holder == "" {
			m.look("look")
		}
		return -1
	}
	m.release()
	if again != "" {
		m.line = append(slices.Clone(m.line), again)
	}
	if start == "0" || len(m.line) == 0 || !m.java {
		switch place := m.next(again); {
		case place == "":
			m.said = append(m.said, "0")
			return 0
		case place != again:
			return 1
		case !m.java:
			m.grant(again)
			return 2
		}
		m.line = []string{again}
	}
	m.said = append(m.said, "00")
	m.look("soon")
	return 0
}

func (m *lockModel) free(owner string) int64 {
	switch {
	case len(m.line) > 0:
		return 3
	case m.holder != owner:
		return -1
	}
	m.release()
	m.said = append(m.said, "0")
	return 0
}

func (m *lockModel) force() int64 {
	if m.holder == "" {
		return 0
	}
	m.tell("taken", m.holder)
	m.release()
	if m.next("") == "" {
		m.said = append(m.said, "0")
	}
	return 1
}

// The operations of Redisson on a lock: it counts its own threads' holds and publishes when the last one is over.
const (
	javaLocks = `if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
		redis.call('hincrby', KEYS[1], ARGV[1], 1) redis.call('pexpire', KEYS[1], 600000) return 1 end return 0`
	javaUnlocks = `if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return -1 end
		if redis.call('hincrby', KEYS[1], ARGV[1], -1) > 0 then return 0 end
		redis.call('del', KEYS[1]) redis.call('publish', KEYS[2], '0') return 1`
)

// lean returns the reply of a script about its one lock, which may be one value for all locks.
func lean(reply rueidis.RedisResult) (int64, error) {
	return first(values(reply))
}

// values returns the four values of the reply of a script about its one lock.
func values(reply rueidis.RedisResult) ([]int64, error) {
	if message, err := reply.ToMessage(); err != nil || message.IsInt64() {
		n, err := reply.AsInt64()
		return []int64{n, 0, 0, 0}, err
	}
	return numbers(reply.ToArray())
}

// TestLock_BehavesAsItsModel runs random steps of the mutex, each perhaps twice, beside a model with a process that
// listens, one that does not, and a Java thread. Leases end in Redis as time would end them.
func TestLock_BehavesAsItsModel(t *testing.T) {
	t.Parallel()
	for _, b := range backends {
		for _, java := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, java listens %t", b.name, java), func(t *testing.T) {
				t.Parallel()
				testLockModel(t, newSceneUnheard(t, b.client(t)), java)
			})
		}
	}
}

func testLockModel(t *testing.T, s *scene, java bool) {
	t.Helper()
	told := make(chan string, 256)
	subscribe := func(what func(rueidis.DedicatedClient) rueidis.Completed, heard chan string) {
		conn, release := s.c.Dedicate()
		t.Cleanup(release)
		conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) {
			if heard != nil {
				heard <- m.Message
			}
		}})
		require.NoError(t, conn.Do(t.Context(), what(conn)).Error())
	}
	process := fmt.Sprintf("%08x-0d1f-8a55-8f0e-3c2b1a0d9e8f", rand.Uint32())
	// PUBSUB NUMSUB does not count subscribers of a pattern.
	subscribe(func(rueidis.DedicatedClient) rueidis.Completed {
		return s.c.B().Psubscribe().Pattern(strings.NewReplacer("[", `\[`, "*", `\*`, "?", `\?`).Replace(s.channel)).Build()
	}, s.heard)
	subscribe(func(rueidis.DedicatedClient) rueidis.Completed {
		return s.c.B().Subscribe().Channel("lockgen_process:" + process).Build()
	}, told)
	if java {
		subscribe(func(rueidis.DedicatedClient) rueidis.Completed {
			return s.c.B().Subscribe().Channel(s.channel).Build()
		}, nil)
	}
	deaf := fmt.Sprintf("%08x-0d1f-8a55-8f0e-3c2b1a0d9e8f", rand.Uint32())
	owners := []string{process + ":1", process + ":2", process + ":3", deaf + ":1", deaf + ":2"}
	keys := []string{s.key, s.waiting(), s.channel}
	toldUntilNow := func() (all []string) {
		require.NoError(t, s.command("PUBLISH", "lockgen_process:"+process, "end").Error())
		for message := range told {
			if message == "end" {
				return all
			}
			words := strings.Fields(message)
			all = append(all, words[0]+" "+words[1])
		}
		return nil
	}

	rapid.Check(t, func(r *rapid.T) {
		for _, key := range keys[:2] {
			s.int("DEL", key)
		}
		s.messages()
		toldUntilNow()
		m := &lockModel{process: process, java: java}
		who := rapid.SampledFrom(owners)
		times := func(r *rapid.T) int { return rapid.IntRange(1, 2).Draw(r, "times") }
		r.Repeat(map[string]func(*rapid.T){
			"ask": func(r *rapid.T) {
				o, line := who.Draw(r, "owner"), rapid.SampledFrom([]string{"0", "1", "2"}).Draw(r, "line")
				for range times(r) {
					want := m.ask(o, line)
					got, err := s.ask(o, line)
					require.NoError(r, err)
					require.Equal(r, want, got[0] == taken, "reply %d", got[0])
					if !want {
						require.Equal(r, m.holder == theirs, got[1] == 1, "foreign")
					}
				}
			},
			"take": func(r *rapid.T) {
				o := who.Draw(r, "owner")
				for range times(r) {
					want := m.ask(o, "0")
					got, err := lean(s.eval(scripts.Take, []string{s.key}, o, "600000"))
					require.NoError(r, err)
					require.Equal(r, want, got == taken, "reply %d", got)
				}
			},
			"give back": func(r *rapid.T) {
				o, again := who.Draw(r, "owner"), ""
				if rapid.Bool().Draw(r, "again") { // an owner that was not used before
					again = who.Draw(r, "by")
					if again == o || again == m.holder || slices.Contains(m.line, again) {
						again = ""
					}
				}
				start := rapid.SampledFrom([]string{"0", "5", "50"}).Draw(r, "start")
				for range times(r) {
					if again != "" && (again == m.holder || slices.Contains(m.line, again)) {
						break // the first run has released it, and the second is not the owner's
					}
					want := m.giveBack(o, again, start)
					got, err := s.giveBack(o, again, start, plain)
					require.NoError(r, err)
					require.Equal(r, want, got[0])
					require.Equal(r, want == 0 && m.java, got[3] > 0, "Redisson's waiters listen")
				}
			},
			"free": func(r *rapid.T) {
				o := who.Draw(r, "owner")
				for range times(r) {
					want := m.free(o)
					got, err := values(s.eval(scripts.Free, keys, unlocked, plain, o))
					require.NoError(r, err)
					require.Equal(r, []int64{want, 0, 0}, got[:3])
					require.Equal(r, want == 0 && m.java, got[3] > 0, "Redisson's waiters listen")
				}
			},
			"renew": func(r *rapid.T) {
				o := who.Draw(r, "owner")
				want := int64(0)
				if m.holder == o {
					want = 1
				}
				twice(r, want, func() (int64, error) { return s.renew(o) })
			},
			"force": func(r *rapid.T) {
				want := m.force()
				got, err := s.forceUnlock()
				require.NoError(r, err)
				require.Equal(r, want, got)
			},
			"expire": func(*rapid.T) {
				m.release()
				s.int("DEL", "KEY")
			},
			"java locks": func(r *rapid.T) {
				want := m.holder == "" || m.holder == theirs
				if want {
					m.holder = theirs
					m.count++
				}
				got, err := s.c.Do(t.Context(), s.c.B().Eval().Script(javaLocks).Numkeys(1).Key(s.key).Arg(theirs).Build()).AsBool()
				require.NoError(r, err)
				require.Equal(r, want, got)
			},
			"java unlocks": func(r *rapid.T) {
				want := int64(-1)
				if m.holder == theirs {
					want = 0
					if m.count--; m.count == 0 {
						want = 1
						m.release()
						m.said = append(m.said, "0")
					}
				}
				got, err := s.c.Do(t.Context(), s.c.B().Eval().Script(javaUnlocks).Numkeys(2).Key(s.key, s.channel).Arg(theirs).Build()).AsInt64()
				require.NoError(r, err)
				require.Equal(r, want, got)
			},
			"": func(r *rapid.T) {
				holder, err := s.command("HGETALL", "KEY").AsStrMap()
				require.NoError(r, err)
				want := map[string]string{}
				if m.holder != "" {
					want[m.holder] = fmt.Sprint(m.count)
					require.Positive(r, s.int("PTTL", "KEY"))
				}
				require.Equal(r, want, holder)
				line, err := s.command("LRANGE", s.waiting(), "0", "-1").AsStrSlice()
				require.NoError(r, err)
				require.Equal(r, append([]string{}, m.line...), append([]string{}, line...))
				if len(line) > 0 {
					require.Positive(r, s.int("PTTL", s.waiting()), "a line of the dead goes by itself")
				}
				require.Equal(r, m.said, s.messages())
				require.Equal(r, m.told, toldUntilNow())
				m.said, m.told = nil, nil
			},
		})
	})
}
