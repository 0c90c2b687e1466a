package scripts_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// A peer is a process of this library that listens to its channel.
type peer struct {
	t     *testing.T
	c     rueidis.Client
	uuid  string
	heard chan string
}

// newPeer returns a process that listens from now on.
func newPeer(t *testing.T, c rueidis.Client, uuid string) *peer {
	t.Helper()
	p := &peer{t: t, c: c, uuid: uuid, heard: make(chan string, 64)}
	conn, release := c.Dedicate()
	t.Cleanup(release)
	conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { p.heard <- m.Message }})
	require.NoError(t, conn.Do(t.Context(), c.B().Subscribe().Channel(p.channel()).Build()).Error())
	return p
}

func (p *peer) channel() string { return "lockgen_process:" + p.uuid }

// told returns the messages to the process until now. T replaces times.
func (p *peer) told() []string {
	p.t.Helper()
	const end = "end"
	require.NoError(p.t, p.c.Do(p.t.Context(), p.c.B().Publish().Channel(p.channel()).Message(end).Build()).Error())
	var got []string
	for {
		select {
		case m := <-p.heard:
			if m == end {
				return got
			}
			m, about, _ := strings.Cut(m, " of ")
			if about != "" {
				require.Regexp(p.t, `^(lock|fair|rw) .*:order$`, about)
			}
			got = append(got, aTime.ReplaceAllString(m, "T"))
		case <-time.After(wakeTimeout):
			require.Fail(p.t, "the channel is silent")
		}
	}
}

var aTime = regexp.MustCompile(`\b\d{16}\b`)

// uuidOf returns the uuid of a process of this library, one for each test and number.
func uuidOf(s *scene, n int) string {
	sum := 0
	for _, c := range []byte(s.key) {
		sum = (sum*31 + int(c)) % 100_000_000
	}
	return strconv.Itoa(100_000_000 + sum)[1:] + "-0000-8000-8000-" + strconv.FormatInt(1_000_000_000_000+int64(n), 10)[1:]
}

// line returns the wait queue.
func (s *scene) line() []string {
	s.t.Helper()
	owners, err := s.c.Do(s.t.Context(), s.c.B().Lrange().Key(s.waiting()).Start(0).Stop(-1).Build()).AsStrSlice()
	require.NoError(s.t, err)
	return owners
}

func (s *scene) lineTTL() int64 {
	s.t.Helper()
	ms, err := s.c.Do(s.t.Context(), s.c.B().Pttl().Key(s.waiting()).Build()).AsInt64()
	require.NoError(s.t, err)
	return ms
}

// onBackends runs test against each kind of server.
func onBackends(t *testing.T, test func(t *testing.T, s *scene)) {
	t.Helper()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			test(t, newSceneUnheard(t, b.client(t)))
		})
	}
}

func TestAcquire_StandsInLineOnce(t *testing.T) {
	t.Parallel()
	onBackends(t, func(t *testing.T, s *scene) {
		holder := newPeer(t, s.c, uuidOf(s, 0))
		n, err := s.acquire(holder.uuid + ":1")
		require.NoError(t, err)
		require.EqualValues(t, -2, n)
		second, third := uuidOf(s, 2)+":5", uuidOf(s, 3)+":6"
		for range 2 {
			reply, err := s.ask(second, "1")
			require.NoError(t, err)
			require.Len(t, reply, 4)
			require.Greater(t, reply[0], int64(other), "how long the holder has it")
			require.Zero(t, reply[1], "it is of this library")
			require.InDelta(t, time.Now().Unix(), reply[2], 60)
		}
		_, err = s.ask(third, "1")
		require.NoError(t, err)
		_, err = s.ask(uuidOf(s, 4)+":7", "0")
		require.NoError(t, err)
		require.Equal(t, []string{second, third}, s.line())
		require.Equal(t, []string{"wanted 1"}, holder.told(), "once, by the first in line")
		require.Greater(t, s.lineTTL(), int64(lease), "the line outlives the lease")
	})
}

func TestAcquire_KnowsRedissonsHolders(t *testing.T) {
	t.Parallel()
	for _, state := range [][][]string{theirsHeld, readLock, writeLock} {
		onBackends(t, func(t *testing.T, s *scene) {
			s.set(state)
			reply, err := s.ask(uuidOf(s, 1)+":1", "1")
			require.NoError(t, err)
			require.EqualValues(t, 1, reply[1])
		})
	}
}

func TestAcquire_OfAFreeLockLeavesTheLine(t *testing.T) {
	t.Parallel()
	onBackends(t, func(t *testing.T, s *scene) {
		s.set(theirsHeld)
		me, next := uuidOf(s, 1)+":1", uuidOf(s, 2)+":1"
		for _, owner := range []string{me, next} {
			_, err := s.ask(owner, "1")
			require.NoError(t, err)
		}
		s.command("DEL", "KEY")
		reply, err := s.ask(me, "2")
		require.NoError(t, err)
		require.Equal(t, []int64{-2, 0, 0, 0}, reply)
		require.Equal(t, []string{next}, s.line())
	})
}

func TestRelease_HandsOverToTheFirstInLine(t *testing.T) {
	t.Parallel()
	onBackends(t, func(t *testing.T, s *scene) {
		holder := uuidOf(s, 0) + ":1"
		second, third := newPeer(t, s.c, uuidOf(s, 2)), newPeer(t, s.c, uuidOf(s, 3))
		_, err := s.acquire(holder)
		require.NoError(t, err)
		for _, owner := range []string{second.uuid + ":5", third.uuid + ":6"} {
			_, err := s.ask(owner, "1")
			require.NoError(t, err)
		}
		n, err := s.release(holder)
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		require.Equal(t, fields{second.uuid + ":5": "1"}, s.dump())
		require.Greater(t, s.int("PTTL", "KEY"), int64(0))
		require.LessOrEqual(t, s.int("PTTL", "KEY"), int64(120_000), "the claim lease")
		require.Equal(t, []string{third.uuid + ":6"}, s.line())
		require.Equal(t, []string{"granted 5 T 1 0"}, second.told())
		require.Equal(t, []string{"soon 6 120000"}, third.told())

		n, err = s.release(holder)
		require.NoError(t, err)
		require.EqualValues(t, -1, n, "sent twice")
		require.Equal(t, fields{second.uuid + ":5": "1"}, s.dump())

		n, err = s.release(second.uuid + ":5")
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		require.Equal(t, []string{"granted 6 T 0 0"}, third.told())
		require.Empty(t, s.line())
		n, err = s.release(third.uuid + ":6")
		require.NoError(t, err)
		require.Zero(t, n)
		require.Nil(t, s.dump())
	})
}

func TestRelease_SkipsProcessesThatDoNotListen(t *testing.T) {
	t.Parallel()
	onBackends(t, func(t *testing.T, s *scene) {
		holder := uuidOf(s, 0) + ":1"
		_, err := s.acquire(holder)
		require.NoError(t, err)
		alive := newPeer(t, s.c, uuidOf(s, 3))
		for _, owner := range []string{uuidOf(s, 1) + ":1", uuidOf(s, 2) + ":1", alive.uuid + ":1", uuidOf(s, 4) + ":1"} {
			_, err := s.ask(owner, "1")
			require.NoError(t, err)
		}
		n, err := s.release(holder)
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		require.Equal(t, fields{alive.uuid + ":1": "1"}, s.dump())
		n, err = s.release(alive.uuid + ":1")
		require.NoError(t, err)
		require.Zero(t, n, "the last one is dead")
		require.Nil(t, s.dump())
		require.Empty(t, s.line())
	})
}

func TestRelease_GoesToTheEndOfTheLineInTheSameStep(t *testing.T) {
	t.Parallel()
	onBackends(t, func(t *testing.T, s *scene) {
		me, peer := newPeer(t, s.c, uuidOf(s, 1)), newPeer(t, s.c, uuidOf(s, 2))
		_, err := s.acquire(me.uuid + ":1")
		require.NoError(t, err)
		_, err = s.ask(peer.uuid+":1", "1")
		require.NoError(t, err)
		reply, err := s.giveBack(me.uuid+":1", me.uuid+":2", "0", plain)
		require.NoError(t, err)
		require.Len(t, reply, 4)
		require.EqualValues(t, 1, reply[0])
		require.InDelta(t, time.Now().Unix(), reply[1], 60)
		require.Equal(t, []string{me.uuid + ":2"}, s.line())
		require.Equal(t, []string{"granted 1 T 1 0"}, peer.told())
		require.Equal(t, []string{"wanted 1"}, me.told(), "the reply says when to ask again")
		n, err := s.release(peer.uuid + ":1")
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		require.Equal(t, []string{"granted 2 T 0 0"}, me.told())
	})
}

func TestRelease_KeepsWhatNobodyElseWants(t *testing.T) {
	t.Parallel()
	onBackends(t, func(t *testing.T, s *scene) {
		me := newPeer(t, s.c, uuidOf(s, 1))
		_, err := s.acquire(me.uuid + ":1")
		require.NoError(t, err)
		_, err = s.ask(uuidOf(s, 2)+":1", "1") // does not listen
		require.NoError(t, err)
		reply, err := s.giveBack(me.uuid+":1", me.uuid+":2", "5", plain)
		require.NoError(t, err)
		require.EqualValues(t, 2, reply[0])
		require.Equal(t, fields{me.uuid + ":2": "1"}, s.dump())
		require.Greater(t, s.int("PTTL", "KEY"), int64(other), "the whole lease")
		require.Empty(t, s.line())
		require.Equal(t, []string{"wanted 1"}, me.told())
	})
}

// left is the message when a lock is left to Redisson's waiters: to them it is the decimal number 0.
const left = "00"

func TestRelease_TakesTurnsWithRedissonsWaiters(t *testing.T) {
	t.Parallel()
	onBackends(t, func(t *testing.T, s *scene) {
		s.listen() // a Java program waits
		me, peer := newPeer(t, s.c, uuidOf(s, 1)), newPeer(t, s.c, uuidOf(s, 2))
		_, err := s.acquire(me.uuid + ":1")
		require.NoError(t, err)
		_, err = s.ask(peer.uuid+":1", "1")
		require.NoError(t, err)

		n, err := s.release(me.uuid + ":1")
		require.NoError(t, err)
		require.EqualValues(t, 1, n, "first one of ours")
		require.Empty(t, s.messages())

		reply, err := s.giveBack(peer.uuid+":1", peer.uuid+":2", "20", plain)
		require.NoError(t, err)
		require.EqualValues(t, 0, reply[0], "then whoever is faster, with a start for Java")
		require.Nil(t, s.dump())
		require.Equal(t, []string{left}, s.messages())
		require.Equal(t, []string{"granted 1 T 0 0", "soon 2 20"}, peer.told())
		require.Equal(t, []string{peer.uuid + ":2"}, s.line(), "the place is kept")

		_, err = s.ask(peer.uuid+":2", "2")
		require.NoError(t, err)
		reply, err = s.giveBack(peer.uuid+":2", peer.uuid+":3", "0", plain)
		require.NoError(t, err)
		require.EqualValues(t, 0, reply[0], "alone in line, but not alone")
		require.Equal(t, []string{left}, s.messages())
		require.Equal(t, []string{"soon 3 5"}, peer.told())
	})
}

func TestRelease_OfWhatIsNotHeldLeavesTheLine(t *testing.T) {
	t.Parallel()
	onBackends(t, func(t *testing.T, s *scene) {
		s.set(theirsHeld)
		a, b, c := newPeer(t, s.c, uuidOf(s, 1)), newPeer(t, s.c, uuidOf(s, 2)), newPeer(t, s.c, uuidOf(s, 3))
		for _, p := range []*peer{a, b, c} {
			_, err := s.ask(p.uuid+":1", "1")
			require.NoError(t, err)
		}
		for range 2 {
			n, err := s.release(b.uuid + ":1")
			require.NoError(t, err)
			require.EqualValues(t, -1, n)
		}
		require.Equal(t, []string{a.uuid + ":1", c.uuid + ":1"}, s.line())
		require.Empty(t, c.told())
		_, err := s.release(a.uuid + ":1")
		require.NoError(t, err)
		require.Equal(t, []string{"look 1"}, c.told(), "the first in line has to look after Redisson's releases")
		require.Equal(t, fields{theirs: "1"}, s.dump())
	})
}

func TestForceUnlock_TellsTheVictimAndHandsOver(t *testing.T) {
	t.Parallel()
	onBackends(t, func(t *testing.T, s *scene) {
		victim, next := newPeer(t, s.c, uuidOf(s, 1)), newPeer(t, s.c, uuidOf(s, 2))
		_, err := s.acquire(victim.uuid + ":1")
		require.NoError(t, err)
		_, err = s.ask(next.uuid+":1", "1")
		require.NoError(t, err)
		n, err := s.forceUnlock()
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		require.Equal(t, []string{"wanted 1", "taken 1"}, victim.told())
		require.Equal(t, []string{"granted 1 T 0 0"}, next.told())
		require.Equal(t, fields{next.uuid + ":1": "1"}, s.dump())
	})
}

func TestHandOver_WithoutMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	s := newSceneUnheard(t, server.Client())
	me, next := newPeer(t, s.c, uuidOf(s, 1)), newPeer(t, s.c, uuidOf(s, 2))
	_, err := s.acquire(me.uuid + ":1")
	require.NoError(t, err)
	_, err = s.ask(next.uuid+":1", "1")
	require.NoError(t, err)
	server.Do("CONFIG", "SET", "maxmemory", "1")
	reply, err := s.giveBack(me.uuid+":1", me.uuid+":2", "0", plain)
	require.NoError(t, err, "once it has deleted, a script may write")
	require.EqualValues(t, 1, reply[0])
	require.Equal(t, fields{next.uuid + ":1": "1"}, s.dump())
	require.Equal(t, []string{me.uuid + ":2"}, s.line())
}

// TestNotPermitted shows that an error that does not tell whose the lock is stays an error.
func TestNotPermitted(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	admin := newSceneUnheard(t, server.Client())
	admin.set(oursHeld)
	server.Do("ACL", "SETUSER", "half", "on", ">pass", "~*", "&*", "+@all", "-hexists", "-hdel")
	half := *admin
	half.c = server.NewClient(func(o *rueidis.ClientOption) { o.Username, o.Password = "half", "pass" })
	_, err := half.renew(ours)
	require.Error(t, err)
	require.Regexp(t, "can't run this command|has no permissions to run", err.Error(), "before Redis 7.2, and since")
	_, err = half.release(ours)
	require.Error(t, err)
	require.Regexp(t, "can't run this command|has no permissions to run", err.Error(), "before Redis 7.2, and since")
	require.Equal(t, fields{ours: "1"}, admin.dump())
}

func TestInspect(t *testing.T) {
	t.Parallel()
	onBackends(t, func(t *testing.T, s *scene) {
		inspect := func() []string {
			words, err := s.eval(scripts.Inspect, []string{s.key, s.waiting(), s.channel}, "publish").ToArray()
			require.NoError(t, err)
			var got []string
			for _, w := range words {
				if n, err := w.AsInt64(); err == nil {
					got = append(got, strconv.FormatInt(n, 10))
				} else {
					text, err := w.ToString()
					require.NoError(t, err)
					got = append(got, text)
				}
			}
			return got
		}
		require.Equal(t, []string{"-2", "0", "0"}, inspect())
		s.set(theirsAlways)
		_, err := s.ask(uuidOf(s, 1)+":1", "1")
		require.NoError(t, err)
		s.listen()
		for range 2 {
			require.Equal(t, []string{"-1", "1", "1", theirs, "1"}, inspect())
		}
		s.command("HSET", "KEY", "mode", "read")
		require.Equal(t, []string{"-1", "1", "1", theirs, "1"}, inspect(), "the mode is no owner")
		s.command("DEL", "KEY")
		s.set(aString)
		_, err = s.eval(scripts.Inspect, []string{s.key, s.waiting(), s.channel}, "publish").ToArray()
		require.ErrorContains(t, err, "WRONGTYPE")
	})
}

func TestTell_OnlyProcessesOfThisLibraryHaveAChannel(t *testing.T) {
	t.Parallel()
	onBackends(t, func(t *testing.T, s *scene) {
		java := newPeer(t, s.c, strings.Split(theirs, ":")[0])
		s.set(theirsHeld)
		_, err := s.ask(uuidOf(s, 1)+":1", "1")
		require.NoError(t, err)
		_, err = s.forceUnlock()
		require.NoError(t, err)
		require.Empty(t, java.told())
		for _, script := range scripts.All() {
			require.NotContains(t, script.Step, "lockgen_process", "one place knows the name")
		}
	})
}

func TestLook_GoesPastThoseWhoDoNotListen(t *testing.T) {
	t.Parallel()
	onBackends(t, func(t *testing.T, s *scene) {
		s.listen() // a Java program waits
		holder, first, second := uuidOf(s, 0)+":1", newPeer(t, s.c, uuidOf(s, 2)), newPeer(t, s.c, uuidOf(s, 4))
		_, err := s.acquire(holder)
		require.NoError(t, err)
		for _, owner := range []string{uuidOf(s, 1) + ":1", first.uuid + ":2", uuidOf(s, 3) + ":3", second.uuid + ":4"} {
			_, err := s.ask(owner, "1")
			require.NoError(t, err)
		}
		reply, err := s.giveBack(holder, "", "40", plain)
		require.NoError(t, err)
		require.EqualValues(t, 0, reply[0])
		require.Equal(t, []string{"soon 2 40"}, first.told())
		require.Equal(t, []string{"soon 4 120000"}, second.told(), "in case the first one is not there")
		require.Equal(t, []string{first.uuid + ":2", uuidOf(s, 3) + ":3", second.uuid + ":4"}, s.line())
	})
}

func TestRelease_AnnouncesItWhateverTheLineIs(t *testing.T) {
	t.Parallel()
	for _, again := range []string{"", "7f7f7f7f-0000-8000-8000-000000000000:2"} {
		onBackends(t, func(t *testing.T, s *scene) {
			s.listen()
			holder := uuidOf(s, 0) + ":1"
			for _, release := range []func() error{
				func() error { _, err := s.giveBack(holder, again, "0", plain); return err },
				func() error { _, err := s.forceUnlock(); return err },
			} {
				require.NoError(t, s.command("DEL", s.waiting()).Error())
				_, err := s.acquire(holder)
				require.NoError(t, err)
				require.NoError(t, s.command("SET", s.waiting(), "no list").Error())
				require.NoError(t, release())
				require.Nil(t, s.dump())
				require.Equal(t, []string{unlocked}, s.messages())
			}
			_, err := s.release(holder)
			require.NoError(t, err, "sent twice")
		})
	}
}

// TestLateRequests_ShortenNothing shows that a late request does not shorten a lease that was
// prolonged since.
func TestLateRequests_ShortenNothing(t *testing.T) {
	t.Parallel()
	onBackends(t, func(t *testing.T, s *scene) {
		owner := uuidOf(s, 0) + ":1"
		_, err := s.acquire(owner)
		require.NoError(t, err)
		require.NoError(t, s.command("PEXPIRE", "KEY", "3600000").Error())
		_, err = s.acquire(owner)
		require.NoError(t, err)
		_, err = s.renew(owner)
		require.NoError(t, err)
		require.Greater(t, s.int("PTTL", "KEY"), int64(lease))

		require.NoError(t, s.command("PERSIST", "KEY").Error())
		n, err := s.renew(owner)
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		require.Greater(t, s.int("PTTL", "KEY"), int64(other), "a lock that somebody made live for ever expires again")
	})
}
