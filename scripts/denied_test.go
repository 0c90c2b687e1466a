package scripts_test

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	mini "github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// deniers are servers that deny a command to the client half from the call of deny on, until deny is called with nothing.
var deniers = []struct {
	name  string
	start func(t *testing.T) (whole, half rueidis.Client, deny func(command string))
}{
	{"redis", func(t *testing.T) (whole, half rueidis.Client, deny func(command string)) {
		server := redistest.Server(t)
		require.NoError(t, server.Do("ACL", "SETUSER", "half", "on", ">pass", "~*", "&*", "+@all").Error())
		half = server.NewClient(func(o *rueidis.ClientOption) { o.Username, o.Password = "half", "pass" })
		return server.Client(), half, func(command string) {
			rules := []string{"ACL", "SETUSER", "half", "+@all"}
			if command != "" {
				rules = append(rules, "-"+command)
			}
			require.NoError(t, server.Do(rules...).Error())
		}
	}},
	{"embedded", func(t *testing.T) (whole, half rueidis.Client, deny func(command string)) {
		m := miniredis.NewMiniRedis()
		m.ClockTTL(true)
		require.NoError(t, m.Start())
		t.Cleanup(m.Close)
		var denied atomic.Pointer[string]
		m.Server().SetPreHook(func(p *mini.Peer, cmd string, _ ...string) bool {
			command := denied.Load()
			if command == nil || !strings.EqualFold(cmd, *command) {
				return false
			}
			p.WriteError("NOPERM this user has no permissions to run the '" + *command + "' command")
			return true
		})
		c := redistest.NewClient(t, m.Addr(), func(o *rueidis.ClientOption) { o.DisableCache = true })
		return c, c, func(command string) { denied.Store(&command) }
	}},
}

// onDeniers runs a test on each of them, with what makes a scene for both clients.
func onDeniers(t *testing.T, test func(t *testing.T, scenes func(t *testing.T) (whole, half *scene), deny func(command string))) {
	t.Helper()
	for _, d := range deniers {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			whole, half, deny := d.start(t)
			test(t, func(t *testing.T) (*scene, *scene) {
				s := newSceneUnheard(t, whole)
				same := *s
				same.c = half
				return s, &same
			}, deny)
		})
	}
}

const notPermitted = "can't run this command|has no permissions to run" // before Redis 7.2, and since

// forEver returns the keys of a scene that never expire.
func (s *scene) forEver() []string {
	s.t.Helper()
	keys, err := s.c.Do(s.t.Context(), s.c.B().Keys().Pattern("*").Build()).AsStrSlice()
	require.NoError(s.t, err)
	stay := []string{}
	for _, key := range keys {
		if strings.Contains(key, s.key) && s.int("PTTL", key) == -1 {
			stay = append(stay, key)
		}
	}
	return stay
}

// A script that may not set a time to live returns an error, and leaves no new key. The lock stays as it was.
func TestDenied_LeavesNoKeyForEver(t *testing.T) {
	t.Parallel()
	type step struct {
		before [][]string
		run    func(s *scene) error
		stays  func(s *scene) []string // the keys that never expire, as in Redisson's layout
		fine   bool                    // it needs no PEXPIRE
	}
	queued := func(s *scene) []string {
		l := fairLock{scene: s}
		return []string{l.queue(), l.times()}
	}
	steps := map[string]step{
		"take": {run: func(s *scene) error { return s.eval(scripts.Take, []string{s.key}, ours, "600000").Error() }},
		"acquire": {run: func(s *scene) error {
			_, err := s.ask(ours, "0")
			return err
		}},
		"acquire, with tokens": {run: func(s *scene) error {
			_, err := s.askFenced(ours, "0", 2, 60_000)
			return err
		}},
		"acquire, and wait": {before: theirsHeld, run: func(s *scene) error {
			_, err := s.ask(ours, "1")
			return err
		}},
		"fair": {run: func(s *scene) error {
			_, err := (&fairLock{scene: s}).ask(ours, "1", fairWait, epoch, "0")
			return err
		}},
		"fair, and wait": {before: theirsHeld, stays: queued, run: func(s *scene) error {
			_, err := (&fairLock{scene: s}).ask(ours, "1", fairWait, epoch, "0")
			return err
		}},
		"read": {run: func(s *scene) error {
			_, err := sharedLock{s}.ask("read", ours, "", "")
			return err
		}},
		"read, and wait": {before: writes(theirs), run: func(s *scene) error {
			_, err := sharedLock{s}.ask("read", ours, "", "")
			return err
		}},
		"write": {run: func(s *scene) error {
			_, err := sharedLock{s}.ask("write", ours, "", "")
			return err
		}},
		"write, and wait": {before: reads(theirs), run: func(s *scene) error {
			_, err := sharedLock{s}.ask("write", ours, "", "")
			return err
		}},
		"raise": {fine: true, run: func(s *scene) error { return s.eval(scripts.Raise, []string{s.counter()}, "5", "60000").Error() }},
		"introduce": {run: func(s *scene) error {
			return s.eval(scripts.Introduce, []string{"lockgen_process:" + s.key}, "60000", "host", "h", "pid", "7").Error()
		}},
		"every": {before: oursHeld, run: func(s *scene) error {
			return s.eval(scripts.Every, []string{s.key, "lockgen_every:{" + s.key + "}"}, "1000", ours, "7", "-1", "60000", "-1").Error()
		}},
	}
	onDeniers(t, func(t *testing.T, scenes func(t *testing.T) (whole, half *scene), deny func(command string)) {
		for name, x := range steps {
			t.Run(name, func(t *testing.T) {
				s, half := scenes(t)
				s.set(x.before)
				before := s.dump()
				deny("pexpire")
				err := x.run(half)
				deny("")
				if x.fine {
					require.NoError(t, err)
				} else {
					require.Error(t, err)
					require.Regexp(t, notPermitted, err.Error())
				}
				require.Equal(t, before, s.dump())
				if x.stays == nil {
					require.Empty(t, s.forEver())
				} else {
					require.Subset(t, x.stays(s), s.forEver())
				}
				require.NoError(t, x.run(half), "with the permission")
			})
		}
	})
}

// An interval of a schedule that cannot be recorded does not begin, and the record of the one before stays.
func TestDenied_EveryKeepsTheIntervalBefore(t *testing.T) {
	t.Parallel()
	onDeniers(t, func(t *testing.T, scenes func(t *testing.T) (whole, half *scene), deny func(command string)) {
		for name, record := range map[string]map[string]string{
			"done":     {"begun": "1000", "by": theirs + " 5", "done": "1000"},
			"not done": {"begun": "1000", "by": theirs + " 5"},
		} {
			t.Run(name, func(t *testing.T) {
				s, half := scenes(t)
				state := newSchedule(s).state
				s.set(oursHeld)
				for field, value := range record {
					s.set([][]string{{"HSET", state, field, value}, {"PEXPIRE", state, "300000"}})
				}
				run := func(s *scene) ([]int64, error) {
					return s.eval(scripts.Every, []string{s.key, state}, "1000", ours, "7", "2000", "60000", "2000").AsIntSlice()
				}
				deny("pexpire")
				_, err := run(half)
				deny("")
				require.Error(t, err)
				require.Regexp(t, notPermitted, err.Error())
				stored, err := s.command("HGETALL", state).AsStrMap()
				require.NoError(t, err)
				require.Equal(t, record, stored)
				require.Positive(t, s.int("PTTL", state))
				reply, err := run(half)
				require.NoError(t, err)
				require.EqualValues(t, 2, reply[0])
				require.EqualValues(t, 2000, reply[4])
			})
		}
	})
}

// A lock whose holder may not grant it any more is free at once, and its waiters are told to ask.
func TestDenied_WaitersAskForWhatCannotBeHandedOver(t *testing.T) {
	t.Parallel()
	onDeniers(t, func(t *testing.T, scenes func(t *testing.T) (whole, half *scene), deny func(command string)) {
		for _, denied := range []string{"pexpire", "hset"} {
			for _, force := range []bool{false, true} {
				s, half := scenes(t)
				holder := uuidOf(s, 0) + ":1"
				second, third := newPeer(t, s.c, uuidOf(s, 2)), newPeer(t, s.c, uuidOf(s, 3))
				_, err := s.acquire(holder)
				require.NoError(t, err)
				for _, owner := range []string{second.uuid + ":5", third.uuid + ":6"} {
					_, err := s.ask(owner, "1")
					require.NoError(t, err)
				}
				deny(denied)
				n, want := int64(0), int64(0)
				if force {
					want = 1
					n, err = half.forceUnlock()
				} else {
					n, err = half.release(holder)
				}
				deny("")
				require.NoError(t, err)
				require.Equal(t, want, n)
				require.Nil(t, s.dump())
				require.Empty(t, s.forEver())
				require.Equal(t, []string{"look 5"}, second.told())
				require.Equal(t, []string{"look 6"}, third.told())
				n, err = first(s.ask(second.uuid+":5", "2"))
				require.NoError(t, err)
				require.EqualValues(t, -2, n)
				require.Positive(t, s.int("PTTL", "KEY"))
			}
		}
	})
}

// A release of several locks that may not look at the second waiter hands over to the first all the same, and so do the ones behind it.
func TestDenied_TheFirstWaiterNeedsNoSecond(t *testing.T) {
	t.Parallel()
	onDeniers(t, func(t *testing.T, scenes func(t *testing.T) (whole, half *scene), deny func(command string)) {
		s, half := scenes(t)
		me, first := uuidOf(s, 0), newPeer(t, s.c, uuidOf(s, 1))
		var keys []string
		args := []string{unlocked, plain, claim}
		for _, n := range []string{"1", "2", "3"} {
			lock, queue := n+":"+s.key, s.waiting()+n
			s.set([][]string{{"HSET", lock, me + ":" + n, "1"}, {"PEXPIRE", lock, "300000"}})
			if n != "1" { // nobody waits for it
				s.set([][]string{{"RPUSH", queue, first.uuid + ":" + n, first.uuid + ":9"}})
			}
			keys, args = append(keys, lock, queue, s.channel+n, s.counter()+n), append(args, me+":"+n, "", "0", "0")
		}
		deny("lindex")
		reply, err := half.eval(scripts.Release, keys, args...).ToArray()
		deny("")
		require.NoError(t, err)
		for i, want := range []int64{0, 1, 1} {
			what, err := reply[4*i].AsInt64()
			require.NoError(t, err)
			require.Equal(t, want, what)
		}
		require.Equal(t, []string{"granted 2 T 1 0", "granted 3 T 1 0"}, first.told())
	})
}

// A process that releases a lock and wants it once more neither keeps it nor leaves a place in the queue for ever.
func TestDenied_ReleaseKeepsNothing(t *testing.T) {
	t.Parallel()
	onDeniers(t, func(t *testing.T, scenes func(t *testing.T) (whole, half *scene), deny func(command string)) {
		s, half := scenes(t)
		me := uuidOf(s, 1)
		_, err := s.acquire(me + ":1")
		require.NoError(t, err)
		deny("pexpire")
		reply, err := half.giveBack(me+":1", me+":2", "0", plain)
		deny("")
		require.NoError(t, err)
		require.Zero(t, reply[0])
		require.Nil(t, s.dump())
		require.Empty(t, s.line())

		_, err = s.acquire(me + ":3")
		require.NoError(t, err)
		deny("hset")
		reply, err = half.giveBack(me+":3", me+":4", "0", plain)
		deny("")
		require.NoError(t, err)
		require.Zero(t, reply[0])
		require.Nil(t, s.dump())
	})
}

// So it is with a fair lock, whose head keeps its place.
func TestDenied_TheHeadOfAFairQueueAsks(t *testing.T) {
	t.Parallel()
	onDeniers(t, func(t *testing.T, scenes func(t *testing.T) (whole, half *scene), deny func(command string)) {
		for _, denied := range []string{"pexpire", "hset"} {
			s, denier := scenes(t)
			l := newFairLock(s)
			half := *l
			half.scene = denier
			for _, owner := range []string{l.deaf, l.hears} {
				_, err := l.ask(owner, "1", fairWait, epoch, "0")
				require.NoError(t, err)
			}
			deny(denied)
			n, err := half.giveBack(l.deaf, fairWait, epoch)
			deny("")
			require.NoError(t, err)
			require.Zero(t, n)
			require.Nil(t, l.dump())
			require.Equal(t, []string{l.hears}, l.state().queue)
			require.Subset(t, []string{l.queue(), l.times()}, l.forEver())
			select {
			case m := <-l.told:
				require.Equal(t, "look 1", m)
			case <-time.After(wakeTimeout):
				require.Fail(t, "the head is not told")
			}
			n, err = first(l.ask(l.hears, "2", fairWait, epoch, "0"))
			require.NoError(t, err)
			require.EqualValues(t, taken, n)
		}
	})
}

// A request that counts does nothing if it cannot store its result, and stores no result if it cannot do it: sent again, it
// is done once.
func TestDenied_CountsOnceOrNotAtAll(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("x", 16)
	stores := []string{"pexpire", "zadd", "zremrangebyscore", "zscore"}
	type step struct {
		before [][]string
		run    func(c *counter, number, again string) (int64, error)
		want   int64
		denied []string
	}
	steps := map[string]step{
		"acquire": {[][]string{{"SET", "KEY", "5"}}, func(c *counter, number, again string) (int64, error) {
			return c.take(number, again, "0", "2")
		}, 1, append([]string{"incrby"}, stores...)},
		"release": {[][]string{{"SET", "KEY", "5"}}, func(c *counter, number, _ string) (int64, error) {
			return c.add(number, "2", "0")
		}, 1, append([]string{"incrby"}, stores...)},
		"drain": {[][]string{{"SET", "KEY", "5"}}, func(c *counter, number, _ string) (int64, error) {
			return c.drain(number)
		}, 5, append([]string{"incrby"}, stores...)},
		"create": {nil, func(c *counter, number, _ string) (int64, error) {
			return c.create(number, "5", "60000")
		}, 1, append([]string{"set"}, stores...)},
		"permits": {[][]string{{"SET", "KEY", "5", "PX", "300000"}}, func(c *counter, number, again string) (int64, error) {
			return first(c.permits(number, again, "0", id))
		}, 1, append([]string{"incrby", "pttl", "zcount", "zrange"}, stores...)},
		"permit release": {[][]string{{"SET", "KEY", "5"}, {"ZADD", "{KEY}:timeout", strconv.FormatInt(time.Now().UnixMilli()+hour, 10), id}}, func(c *counter, number, _ string) (int64, error) {
			keys := []string{c.key, c.channel, c.leases(), c.requests()}
			return c.eval(scripts.PermitRelease, keys, append([]string{id, plain, "1", "0"}, c.head(number)...)...).AsInt64()
		}, 1, append([]string{"incrby", "zrem"}, stores...)},
		"start": {nil, func(c *counter, number, _ string) (int64, error) {
			return c.startLatch(number, "2")
		}, 1, append([]string{"set"}, stores...)},
		"count down": {[][]string{{"SET", "KEY", "2"}}, func(c *counter, number, _ string) (int64, error) {
			return c.countDown(number)
		}, 1, append([]string{"incrby"}, stores...)},
		"open": {[][]string{{"SET", "KEY", "1"}}, func(c *counter, number, _ string) (int64, error) {
			return c.countDown(number)
		}, 0, append([]string{"del"}, stores...)},
		"delete": {[][]string{{"SET", "KEY", "2"}}, func(c *counter, number, _ string) (int64, error) {
			return c.deleteLatch(number)
		}, 1, []string{"pexpire", "del", "zscore"}},
	}
	state := func(c *counter) []any {
		taken, err := c.command("ZRANGE", c.leases(), "0", "-1").AsStrSlice()
		require.NoError(c.t, err)
		return []any{c.dump(), taken, c.int("EXISTS", c.deleted())}
	}
	onDeniers(t, func(t *testing.T, scenes func(t *testing.T) (whole, half *scene), deny func(command string)) {
		for name, x := range steps {
			for _, denied := range x.denied {
				for _, known := range []bool{false, true} { // of the client, by an earlier request
					s, denier := scenes(t)
					c, half := &counter{scene: s}, &counter{scene: denier}
					if known {
						n, err := c.take(c.number(), "1", "0", "1")
						require.NoError(t, err)
						require.Zero(t, n)
					}
					s.set(x.before)
					before, number := state(c), c.number()
					deny(denied)
					_, err := x.run(half, number, "0")
					deny("")
					require.Error(t, err, "%s without %s", name, denied)
					require.Regexp(t, notPermitted, err.Error())
					if before[0] == nil { // a semaphore that was created expires
						require.Eventually(t, func() bool { return c.int("EXISTS", "KEY") == 0 }, wakeTimeout, time.Millisecond)
					}
					require.Equal(t, before, state(c), "%s without %s", name, denied)
					require.Subset(t, []string{c.key, c.leases()}, c.forEver(), "%s without %s", name, denied)

					n, err := x.run(half, number, "1")
					require.NoError(t, err, name)
					require.Equal(t, x.want, n, "%s, not permitted at first: %s", name, denied)
					once := state(c)
					require.NotEqual(t, before, once, name)
					n, err = x.run(half, number, "1")
					require.NoError(t, err, name)
					require.Equal(t, x.want, n, "sent again")
					require.Equal(t, once, state(c), "%s once", name)
					require.Positive(t, c.int("PTTL", c.requests()))
				}
			}
		}
	})
}

// A permit comes back once: a script that may not remove it, or may not make it available, does neither. So it is with permits that
// have expired.
func TestDenied_PermitsComeBackOnceOrNotAtAll(t *testing.T) {
	t.Parallel()
	over, held, later := strings.Repeat("o", 16), strings.Repeat("h", 16), strconv.FormatInt(time.Now().UnixMilli()+hour, 10)
	takenUntil := func(expiry string) [][]string {
		return [][]string{{"SET", "KEY", "5"}, {"ZADD", "{KEY}:timeout", expiry, over, later, held}}
	}
	type step struct {
		run    func(c *counter) (int64, error)
		before [][]string
		want   int64
		free   string // after it
		left   []string
		denied []string
		fine   int64 // its reply without INCRBY, or 0 if it fails
	}
	const removes = "zremrangebyscore"
	one := func(c *counter) (int64, error) { return c.giveBackPermits(over+over, "0", "0") }
	expired := takenUntil("1000")
	steps := map[string]step{
		"release":                  {run: one, before: takenUntil(later), want: 1, free: "6", left: []string{held}, denied: []string{"incrby", "zrem", "zscore", "get"}},
		"release what has expired": {run: one, before: expired, want: 0, free: "6", left: []string{held}, denied: []string{"incrby", "zrem"}},
		"renew": {run: func(c *counter) (int64, error) { return c.renewPermits(held) },
			before: expired, want: 1, free: "6", left: []string{held}, denied: []string{"incrby", removes}, fine: 1},
		"count": {run: func(c *counter) (int64, error) { return first(c.countPermits()) },
			before: expired, want: 6, free: "6", left: []string{held}, denied: []string{"incrby", "zcount", removes}},
		"lease": {run: func(c *counter) (int64, error) { return c.leaseOf(held, "-1") },
			before: expired, want: -1, free: "6", left: []string{held}, denied: []string{"incrby", "zcount", removes}},
		"total": {run: func(c *counter) (int64, error) { return c.totalPermits(c.number(), "8") },
			before: expired, want: 7, free: "7", left: []string{held}, denied: []string{"incrby", "zcount", removes}},
		"acquire": {run: func(c *counter) (int64, error) {
			return first(c.permits(c.number(), "0", "0", strings.Repeat("n", 16)))
		},
			before: expired, want: 1, free: "5", left: []string{held, strings.Repeat("n", 16)}, denied: []string{"incrby", "zcount", removes}},
	}
	taken := func(c *counter) []string {
		ids, err := c.command("ZRANGE", c.leases(), "0", "-1").AsStrSlice()
		require.NoError(c.t, err)
		return ids
	}
	onDeniers(t, func(t *testing.T, scenes func(t *testing.T) (whole, half *scene), deny func(command string)) {
		for name, x := range steps {
			for _, denied := range x.denied {
				s, denier := scenes(t)
				c, half := &counter{scene: s}, &counter{scene: denier}
				s.set(x.before)
				deny(denied)
				n, err := x.run(half)
				deny("")
				if x.fine != 0 && denied == "incrby" {
					require.NoError(t, err, name)
					require.Equal(t, x.fine, n, name)
				} else {
					require.Error(t, err, "%s without %s", name, denied)
					require.Regexp(t, notPermitted, err.Error())
				}
				require.Equal(t, "5", c.dump(), "%s without %s", name, denied)
				require.ElementsMatch(t, []string{over, held}, taken(c), "%s without %s", name, denied)

				n, err = x.run(half)
				require.NoError(t, err, name)
				require.Equal(t, x.want, n, name)
				require.Equal(t, x.free, c.dump(), "%s, not permitted at first: %s", name, denied)
				require.ElementsMatch(t, x.left, taken(c), "%s, not permitted at first: %s", name, denied)
			}
		}
	})
}
