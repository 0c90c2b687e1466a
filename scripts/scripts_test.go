package scripts_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

const (
	ours   = "6b2c1a9e-0d1f-8a55-8f0e-3c2b1a0d9e8f:7"  // version 8: a process of this library
	theirs = "11111111-2222-4333-8444-555555555555:42" // a Java program

	claim = "120000" // ms; the lease of an owner that is handed a lock

	lease = 600_000 // ms; long, so that a slow machine cannot end one
	other = 300_000 // ms; the lease of a lock that exists already

	unlocked = "0" // the message
	plain    = "publish"
)

// wakeTimeout ends a test whose message never arrives.
const wakeTimeout = 20 * time.Second

// backends are the servers on which the scripts must behave alike.
var backends = []struct {
	name   string
	client func(t *testing.T) rueidis.Client
}{
	{"redis", func(t *testing.T) rueidis.Client { return redistest.Shared(t).Client() }},
	{"embedded", func(t *testing.T) rueidis.Client {
		m := miniredis.NewMiniRedis()
		m.ClockTTL(true)
		require.NoError(t, m.Start())
		t.Cleanup(m.Close)
		return redistest.NewClient(t, m.Addr(), func(o *rueidis.ClientOption) { o.DisableCache = true })
	}},
}

// A scene is one lock key on one server.
type scene struct {
	t       *testing.T
	c       rueidis.Client
	key     string
	channel string
	heard   chan string
}

func newScene(t *testing.T, c rueidis.Client) *scene {
	t.Helper()
	s := newSceneUnheard(t, c)
	s.listen()
	return s
}

func newSceneUnheard(t *testing.T, c rueidis.Client) *scene {
	t.Helper()
	key := redistest.Key(t, "order")
	s := &scene{t: t, c: c, key: key, channel: "redisson_lock__channel:{" + key + "}", heard: make(chan string, 16)}
	for _, script := range scripts.All() {
		s.load(script)
	}
	return s
}

// listen begins to listen to the channel of the lock, as Redisson's waiters do.
func (s *scene) listen() {
	s.t.Helper()
	conn, release := s.c.Dedicate()
	s.t.Cleanup(release)
	conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { s.heard <- m.Message }})
	require.NoError(s.t, conn.Do(s.t.Context(), s.c.B().Subscribe().Channel(s.channel).Build()).Error())
}

func (s *scene) load(script *scripts.Script) {
	s.t.Helper()
	sum, err := s.c.Do(s.t.Context(), s.c.B().ScriptLoad().Script(script.Source()).Build()).ToString()
	require.NoError(s.t, err)
	require.Equal(s.t, sum, script.SHA1(), "the name by which EVALSHA finds %s", script.Name)
}

// command sends words in which KEY stands for the lock.
func (s *scene) command(words ...string) rueidis.RedisResult {
	s.t.Helper()
	args := slices.Clone(words)
	for i, word := range args {
		args[i] = strings.ReplaceAll(word, "KEY", s.key)
	}
	return s.c.Do(s.t.Context(), s.c.B().Arbitrary(args...).Build())
}

func (s *scene) int(words ...string) int64 {
	s.t.Helper()
	n, err := s.command(words...).ToInt64()
	require.NoError(s.t, err)
	return n
}

func (s *scene) eval(script *scripts.Script, keys []string, args ...string) rueidis.RedisResult {
	return s.c.Do(s.t.Context(), s.c.B().Evalsha().Sha1(script.SHA1()).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
}

func (s *scene) waiting() string { return "lockgen_waiting:{" + s.key + "}" }
func (s *scene) counter() string { return "redisson_lock_token:{" + s.key + "}" }

// acquire asks without joining the wait queue, and returns the first number of the reply.
func (s *scene) acquire(owner string) (int64, error) { return first(s.ask(owner, "0")) }

func (s *scene) ask(owner, line string) ([]int64, error) {
	return s.askFenced(owner, line, 0, 0)
}

// release releases with no other waiter of the process, and returns the first number of the reply.
func (s *scene) release(owner string) (int64, error) {
	return first(s.giveBack(owner, "", "0", plain))
}

func (s *scene) giveBack(owner, again, start, publish string) ([]int64, error) {
	return four(s.eval(scripts.Release, []string{s.key, s.waiting(), s.channel, s.counter()}, unlocked, publish, claim, owner, again, "600000", start))
}

// four returns the four numbers of the reply about the first lock: a reply of one number has that for each, and zeros behind it.
func four(reply rueidis.RedisResult) ([]int64, error) {
	if n, err := reply.AsInt64(); err == nil {
		return []int64{n, 0, 0, 0}, nil
	}
	all, err := reply.ToArray()
	return numbers(all[:min(4, len(all))], err)
}

// numbers returns the reply of a script about one lock of several: numbers, or an error in place of the first.
func numbers(reply []rueidis.RedisMessage, err error) ([]int64, error) {
	if err != nil {
		return nil, err
	}
	n := make([]int64, len(reply))
	for i := range reply {
		if n[i], err = reply[i].AsInt64(); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func first(reply []int64, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return reply[0], nil
}

func (s *scene) renew(owner string) (int64, error) {
	renewed, err := s.eval(scripts.Renew, []string{s.key}, owner, "600000").AsIntSlice()
	if err != nil {
		return 0, err
	}
	require.Len(s.t, renewed, 1)
	return renewed[0], nil
}

func (s *scene) forceUnlock(owners ...string) (int64, error) {
	args := append([]string{unlocked, plain, claim}, owners...)
	return s.eval(scripts.ForceUnlock, []string{s.key, s.waiting(), s.channel, s.counter()}, args...).ToInt64()
}

// messages returns the messages that were published until now. A last message from the test marks
// the end.
func (s *scene) messages() []string {
	s.t.Helper()
	const end = "end"
	require.NoError(s.t, s.command("PUBLISH", s.channel, end).Error())
	var got []string
	for {
		select {
		case m := <-s.heard:
			if m == end {
				return got
			}
			got = append(got, m)
		case <-time.After(wakeTimeout):
			require.Fail(s.t, "the channel is silent")
		}
	}
}

// dump returns the type of the key and its whole content.
func (s *scene) dump() any {
	s.t.Helper()
	kind, err := s.command("TYPE", "KEY").ToString()
	require.NoError(s.t, err)
	var content any
	switch kind {
	case "hash":
		content, err = s.command("HGETALL", "KEY").AsStrMap()
	case "string":
		content, err = s.command("GET", "KEY").ToString()
	case "list":
		content, err = s.command("LRANGE", "KEY", "0", "-1").AsStrSlice()
	case "none":
		return nil
	}
	require.NoError(s.t, err)
	return content
}

// The states that a script may find.
var (
	free         [][]string
	oursHeld     = [][]string{{"HSET", "KEY", ours, "1"}, {"PEXPIRE", "KEY", "300000"}}
	oursCounted  = [][]string{{"HSET", "KEY", ours, "3"}, {"PEXPIRE", "KEY", "300000"}}
	oursAlways   = [][]string{{"HSET", "KEY", ours, "1"}}
	theirsHeld   = [][]string{{"HSET", "KEY", theirs, "1"}, {"PEXPIRE", "KEY", "300000"}}
	theirsTwice  = [][]string{{"HSET", "KEY", theirs, "2"}, {"PEXPIRE", "KEY", "300000"}}
	theirsAlways = [][]string{{"HSET", "KEY", theirs, "1"}}
	theirsOver   = [][]string{{"HSET", "KEY", theirs, "1"}, {"PEXPIRE", "KEY", "1"}, {"expired"}}
	oursOver     = [][]string{{"HSET", "KEY", ours, "1"}, {"PEXPIRE", "KEY", "1"}, {"expired"}}
	aString      = [][]string{{"SET", "KEY", "text"}}
	aList        = [][]string{{"RPUSH", "KEY", "a", "b"}}
	readLock     = [][]string{{"HSET", "KEY", "mode", "read", theirs, "1"}, {"PEXPIRE", "KEY", "300000"}}
	writeLock    = [][]string{{"HSET", "KEY", "mode", "write", theirs + ":write", "1"}, {"PEXPIRE", "KEY", "300000"}}
)

func (s *scene) set(state [][]string) {
	s.t.Helper()
	for _, words := range state {
		if words[0] == "expired" {
			require.Eventually(s.t, func() bool { return s.int("PTTL", "KEY") == -2 }, wakeTimeout, time.Millisecond)
			continue
		}
		require.NoError(s.t, s.command(words...).Error())
	}
}

// A reply is the reply of a script: a number, a number of milliseconds at most that, or an error.
type reply struct {
	n      int64
	ttl    bool
	failed string
}

func number(n int64) reply         { return reply{n: n} }
func atMost(ms int64) reply        { return reply{n: ms, ttl: true} }
func failure(message string) reply { return reply{failed: message} }

func (r reply) check(t *testing.T, n int64, err error) {
	t.Helper()
	switch {
	case r.failed != "":
		require.ErrorContains(t, err, r.failed)
	case r.ttl:
		require.NoError(t, err)
		require.Greater(t, n, int64(0))
		require.LessOrEqual(t, n, r.n)
	default:
		require.NoError(t, err)
		require.Equal(t, r.n, n)
	}
}

type fields = map[string]string

// A row describes the effect of a script on a state, when it is sent and when it is sent again.
type row struct {
	name   string
	before [][]string
	first  reply
	second reply
	after  any      // content of the key; nil when there is none
	expiry int64    // its time to live: lease, other; -1 never, -2 no key
	heard  []string // after both
}

func runRows(t *testing.T, rows []row, run func(s *scene) (int64, error)) {
	t.Helper()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			c := b.client(t)
			for _, r := range rows {
				t.Run(r.name, func(t *testing.T) {
					t.Parallel()
					s := newScene(t, c)
					s.set(r.before)
					n, err := run(s)
					r.first.check(t, n, err)
					n, err = run(s)
					r.second.check(t, n, err)
					require.Equal(t, r.after, s.dump())
					ttl := s.int("PTTL", "KEY")
					switch r.expiry {
					case lease: // of the script, no longer that of the state before
						require.Greater(t, ttl, int64(other))
						require.LessOrEqual(t, ttl, int64(lease))
					case other:
						require.Positive(t, ttl)
						require.LessOrEqual(t, ttl, int64(other))
					default:
						require.Equal(t, r.expiry, ttl)
					}
					require.Equal(t, r.heard, s.messages())
				})
			}
		})
	}
}

func TestAcquire(t *testing.T) {
	t.Parallel()
	const taken, never = -2, -1
	runRows(t, []row{
		{"free", free, number(taken), number(taken), fields{ours: "1"}, lease, nil},
		{"ours", oursHeld, number(taken), number(taken), fields{ours: "1"}, lease, nil},
		{"ours with a count of another program", oursCounted, number(taken), number(taken), fields{ours: "1"}, lease, nil},
		{"somebody else's", theirsHeld, atMost(other), atMost(other), fields{theirs: "1"}, other, nil},
		{"somebody else's, entered twice", theirsTwice, atMost(other), atMost(other), fields{theirs: "2"}, other, nil},
		{"somebody else's for ever", theirsAlways, number(never), number(never), fields{theirs: "1"}, -1, nil},
		{"somebody else's, expired", theirsOver, number(taken), number(taken), fields{ours: "1"}, lease, nil},
		{"ours, expired", oursOver, number(taken), number(taken), fields{ours: "1"}, lease, nil},
		{"a string", aString, failure("WRONGTYPE"), failure("WRONGTYPE"), "text", -1, nil},
		{"a list", aList, failure("WRONGTYPE"), failure("WRONGTYPE"), []string{"a", "b"}, -1, nil},
		{"a read lock", readLock, atMost(other), atMost(other), fields{"mode": "read", theirs: "1"}, other, nil},
		{"a write lock", writeLock, atMost(other), atMost(other), fields{"mode": "write", theirs + ":write": "1"}, other, nil},
	}, func(s *scene) (int64, error) { return s.acquire(ours) })
}

func TestRelease(t *testing.T) {
	t.Parallel()
	const notOurs, freed = -1, 0
	runRows(t, []row{
		{"free", free, number(notOurs), number(notOurs), nil, -2, nil},
		{"ours", oursHeld, number(freed), number(notOurs), nil, -2, []string{unlocked}},
		{"ours with a count of another program", oursCounted, number(freed), number(notOurs), nil, -2, []string{unlocked}},
		{"somebody else's", theirsHeld, number(notOurs), number(notOurs), fields{theirs: "1"}, other, nil},
		{"somebody else's, expired", theirsOver, number(notOurs), number(notOurs), nil, -2, nil},
		{"ours, expired", oursOver, number(notOurs), number(notOurs), nil, -2, nil},
		{"a string", aString, number(notOurs), number(notOurs), "text", -1, nil},
		{"a list", aList, number(notOurs), number(notOurs), []string{"a", "b"}, -1, nil},
		{"a read lock", readLock, number(notOurs), number(notOurs), fields{"mode": "read", theirs: "1"}, other, nil},
		{"a write lock", writeLock, number(notOurs), number(notOurs), fields{"mode": "write", theirs + ":write": "1"}, other, nil},
	}, func(s *scene) (int64, error) { return s.release(ours) })
}

func TestRenew(t *testing.T) {
	t.Parallel()
	const renewed, notOurs = 1, 0
	runRows(t, []row{
		{"free", free, number(notOurs), number(notOurs), nil, -2, nil},
		{"ours", oursHeld, number(renewed), number(renewed), fields{ours: "1"}, lease, nil},
		{"ours with a count of another program", oursCounted, number(renewed), number(renewed), fields{ours: "3"}, lease, nil},
		{"ours for ever", oursAlways, number(renewed), number(renewed), fields{ours: "1"}, lease, nil},
		{"somebody else's", theirsHeld, number(notOurs), number(notOurs), fields{theirs: "1"}, other, nil},
		{"somebody else's, expired", theirsOver, number(notOurs), number(notOurs), nil, -2, nil},
		{"ours, expired", oursOver, number(notOurs), number(notOurs), nil, -2, nil},
		{"a string", aString, number(notOurs), number(notOurs), "text", -1, nil},
		{"a list", aList, number(notOurs), number(notOurs), []string{"a", "b"}, -1, nil},
		{"a read lock", readLock, number(notOurs), number(notOurs), fields{"mode": "read", theirs: "1"}, other, nil},
		{"a write lock", writeLock, number(notOurs), number(notOurs), fields{"mode": "write", theirs + ":write": "1"}, other, nil},
	}, func(s *scene) (int64, error) { return s.renew(ours) })
}

func TestForceUnlock(t *testing.T) {
	t.Parallel()
	const freed, nobody = 1, 0
	runRows(t, []row{
		{"free", free, number(nobody), number(nobody), nil, -2, nil},
		{"ours", oursHeld, number(freed), number(nobody), nil, -2, []string{unlocked}},
		{"somebody else's", theirsHeld, number(freed), number(nobody), nil, -2, []string{unlocked}},
		{"somebody else's, entered twice", theirsTwice, number(freed), number(nobody), nil, -2, []string{unlocked}},
		{"somebody else's, expired", theirsOver, number(nobody), number(nobody), nil, -2, nil},
		{"a string", aString, failure("WRONGTYPE"), failure("WRONGTYPE"), "text", -1, nil},
		{"a list", aList, failure("WRONGTYPE"), failure("WRONGTYPE"), []string{"a", "b"}, -1, nil},
	}, func(s *scene) (int64, error) { return s.forceUnlock() })
	runRows(t, []row{ // from one owner alone
		{"free", free, number(nobody), number(nobody), nil, -2, nil},
		{"its own", theirsHeld, number(freed), number(nobody), nil, -2, []string{unlocked}},
		{"another one's", oursHeld, number(nobody), number(nobody), fields{ours: "1"}, other, nil},
		{"a string", aString, failure("WRONGTYPE"), failure("WRONGTYPE"), "text", -1, nil},
	}, func(s *scene) (int64, error) { return s.forceUnlock(theirs) })
	runRows(t, []row{
		{"one of two owners that are named", theirsHeld, number(nobody), number(nobody), fields{theirs: "1"}, other, nil},
	}, func(s *scene) (int64, error) { return s.forceUnlock(ours, theirs) })
}

func TestRenew_OneSickLockDoesNotHarmTheOthers(t *testing.T) {
	t.Parallel()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			c := b.client(t)
			held, gone, text, foreign, heldToo := newScene(t, c), newScene(t, c), newScene(t, c), newScene(t, c), newScene(t, c)
			held.set(oursHeld)
			text.set(aString)
			foreign.set(theirsHeld)
			heldToo.set(oursHeld)
			got, err := held.eval(scripts.Renew,
				[]string{held.key, gone.key, text.key, foreign.key, heldToo.key},
				ours, "600000", ours, "600000", ours, "600000", ours, "600000", ours, "450000").AsIntSlice()
			require.NoError(t, err)
			require.Equal(t, []int64{1, 0, 0, 0, 1}, got)
			require.Greater(t, held.int("PTTL", "KEY"), int64(500_000))
			require.Greater(t, heldToo.int("PTTL", "KEY"), int64(other))
			require.LessOrEqual(t, heldToo.int("PTTL", "KEY"), int64(450_000))
		})
	}
}

func TestRenew_ALongerTimeStays(t *testing.T) {
	t.Parallel()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, b.client(t))
			s.set([][]string{{"HSET", "KEY", ours, "1"}, {"PEXPIRE", "KEY", "1200000"}})
			n, err := s.renew(ours)
			number(1).check(t, n, err)
			require.Greater(t, s.int("PTTL", "KEY"), int64(lease))
		})
	}
}

// On a connection with tracking, the server reports a change of every lock of one run: of those that were renewed, and of one that the
// run only looked at.
func TestRenew_HasEachLockTracked(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := redistest.NewClient(t, server.Addr(), func(o *rueidis.ClientOption) { o.DisableCache = true })
	renewed, renewedToo, looked := newSceneUnheard(t, c), newSceneUnheard(t, c), newSceneUnheard(t, c)
	for _, s := range []*scene{renewed, renewedToo, looked} {
		s.set(oursHeld)
	}
	conn, release := c.Dedicate()
	t.Cleanup(release)
	changed := make(chan string, 100)
	conn.SetOnInvalidations(func(keys []rueidis.RedisMessage) {
		for i := range keys {
			key, _ := keys[i].ToString()
			changed <- key
		}
	})
	require.NoError(t, conn.Do(t.Context(), c.B().ClientTracking().On().Optout().Noloop().Build()).Error())
	keys := []string{renewed.key, looked.key, renewedToo.key}
	for range 2 { // the second run renews nothing, and is as good
		said, err := conn.Do(t.Context(), c.B().Evalsha().Sha1(scripts.Renew.SHA1()).Numkeys(3).Key(keys...).Arg(ours, "600000", ours, "1000", ours, "600000").Build()).AsIntSlice()
		require.NoError(t, err)
		require.Equal(t, []int64{1, 1, 1}, said)
	}
	for len(changed) > 0 { // servers before 7.0.5 report what the first run renewed, before the reply to the second one
		require.Contains(t, []string{renewed.key, renewedToo.key}, <-changed)
	}
	for _, key := range keys {
		require.NoError(t, server.Do("DEL", key).Error())
		select {
		case got := <-changed:
			require.Equal(t, key, got)
		case <-time.After(wakeTimeout):
			require.Fail(t, "the change of a lock is not reported", key)
		}
	}
}

// A renewal reads the locks that it has written once more, for tracking, unless its caller does.
func TestRenew_ReadsWhatItHasWritten(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := server.Client()
	s := newSceneUnheard(t, c)
	for script, reading := range map[*scripts.Script]string{scripts.Renew: "exists", scripts.RWReadRenew: "hexists"} {
		reads := func(more ...string) (calls int) {
			s.set(oursHeld)
			keys := []string{s.key}
			if script == scripts.RWReadRenew {
				keys = append(keys, s.key+":hold")
			}
			require.NoError(t, server.Do("CONFIG", "RESETSTAT").Error())
			said, err := s.eval(script, keys, append([]string{ours, "600000"}, more...)...).AsIntSlice()
			require.NoError(t, err)
			require.Equal(t, []int64{1}, said)
			stats, err := server.Do("INFO", "commandstats").ToString()
			require.NoError(t, err)
			_, rest, _ := strings.Cut(stats, "cmdstat_"+reading+":calls=")
			_, _ = fmt.Sscanf(rest, "%d", &calls)
			return calls
		}
		require.Equal(t, 1, reads()-reads("the caller reads them"), script.Name)
	}
}

func TestRelease_ShardedChannel(t *testing.T) {
	t.Parallel()
	s := newScene(t, redistest.Shared(t).Client())
	s.set(oursHeld)
	// A listener on the plain channel of the same name gets no message.
	n, err := first(s.giveBack(ours, "", "0", "spublish"))
	if err != nil { // servers before 7.0 do not know the command
		require.ErrorContains(t, err, "nknown Redis command")
		return
	}
	require.Zero(t, n)
	require.Empty(t, s.messages())
	require.Nil(t, s.dump())
}

// TestOutOfMemory shows that holders renew and release when a server takes no more data, and that a
// refused acquisition leaves nothing.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := server.Client()
	held, free := newScene(t, c), newScene(t, c)
	held.set(oursHeld)
	server.Do("CONFIG", "SET", "maxmemory", "1")

	_, err := free.acquire(ours)
	require.ErrorContains(t, err, "OOM")
	require.Nil(t, free.dump())

	n, err := held.renew(ours)
	require.NoError(t, err)
	require.Equal(t, int64(1), n)
	require.Greater(t, held.int("PTTL", "KEY"), int64(other))

	n, err = held.release(ours)
	require.NoError(t, err)
	require.Zero(t, n)
	require.Equal(t, []string{unlocked}, held.messages())

	server.Do("CONFIG", "SET", "maxmemory", "0")
	held.set(theirsHeld)
	server.Do("CONFIG", "SET", "maxmemory", "1")
	n, err = held.forceUnlock()
	require.NoError(t, err)
	require.Equal(t, int64(1), n)
	require.Nil(t, held.dump())
}

// TestReadOnly shows that a replica refuses every script that writes.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	s := newScene(t, server.Client())
	server.Do("REPLICAOF", "127.0.0.1", "1") // no server is there; it is a replica all the same
	_, err := s.acquire(ours)
	require.ErrorContains(t, err, "READONLY")
}

// A javaProgram does the same as Redisson's scripts, with plain commands.
type javaProgram struct {
	*scene
	owner string
}

// lock returns -2 when it acquired the lock, else the remaining milliseconds.
func (j javaProgram) lock() int64 {
	if j.int("EXISTS", "KEY") == 0 || j.int("HEXISTS", "KEY", j.owner) == 1 {
		j.int("HINCRBY", "KEY", j.owner, "1")
		j.int("PEXPIRE", "KEY", "300000")
		return -2
	}
	return j.int("PTTL", "KEY")
}

// unlock reports whether it was the owner.
func (j javaProgram) unlock() bool {
	if j.int("HEXISTS", "KEY", j.owner) == 0 {
		return false
	}
	if j.int("HINCRBY", "KEY", j.owner, "-1") > 0 {
		j.int("PEXPIRE", "KEY", "300000")
		return true
	}
	j.int("DEL", "KEY")
	j.int("PUBLISH", j.channel, "0")
	return true
}

func TestRedissonPeer(t *testing.T) {
	t.Parallel()
	const taken = -2
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, b.client(t))
			java := javaProgram{scene: s, owner: theirs}

			require.Equal(t, int64(taken), java.lock())
			n, err := s.acquire(ours)
			require.NoError(t, err)
			require.Greater(t, n, int64(0), "refused, with the time to wait")
			n, err = s.release(ours)
			require.NoError(t, err)
			require.Equal(t, int64(-1), n)
			n, err = s.renew(ours)
			require.NoError(t, err)
			require.Zero(t, n)

			require.Equal(t, int64(taken), java.lock(), "Java enters again")
			require.True(t, java.unlock())
			n, err = s.acquire(ours)
			require.NoError(t, err)
			require.Greater(t, n, int64(0), "Java holds it once more than it gave back")
			require.True(t, java.unlock())
			require.Equal(t, []string{unlocked}, s.messages())

			n, err = s.acquire(ours)
			require.NoError(t, err)
			require.Equal(t, int64(taken), n)
			require.Equal(t, fields{ours: "1"}, s.dump())
			require.Greater(t, java.lock(), int64(0), "refused, with the time to wait")
			require.False(t, java.unlock())
			require.Equal(t, fields{ours: "1"}, s.dump())

			n, err = s.release(ours)
			require.NoError(t, err)
			require.Zero(t, n)
			require.Equal(t, []string{"0"}, s.messages(), "a decimal integer, or Java's listener fails")
			require.Equal(t, int64(taken), java.lock())

			n, err = s.forceUnlock()
			require.NoError(t, err)
			require.Equal(t, int64(1), n)
			require.False(t, java.unlock(), "taken by force")
		})
	}
}

var (
	indexUsed  = regexp.MustCompile(`(?:KEYS|ARGV)\[[^\]]+\]`)
	documented = regexp.MustCompile(`(?m)^-- ((?:KEYS|ARGV)\[[^\]]+\])  `)
	parameters = regexp.MustCompile(`local function (\w+)\(([^)]*)\)`)
	forEach    = regexp.MustCompile(`return each\((\w+), (\d+), `)
	walksKeys  = regexp.MustCompile(`for (\w+), \w+ in ipairs\(KEYS\)`)
)

// header returns the comment before the first line of code and the code after it.
func header(source string) (comment, code string) {
	for line := range strings.Lines(source) {
		if code == "" && (strings.HasPrefix(line, "--") || strings.TrimSpace(line) == "") {
			comment += line
			continue
		}
		code += line
	}
	return comment, code
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	for _, script := range scripts.All() {
		t.Run(script.Name, func(t *testing.T) {
			t.Parallel()
			comment, code := header(script.Step)
			for _, section := range []string{"-- Reply: ", "-- Twice: "} {
				require.Equal(t, 1, strings.Count(comment, "\n"+section), "%q", section)
			}
			var said []string
			for _, m := range documented.FindAllStringSubmatch(comment, -1) {
				said = append(said, m[1])
			}
			used := make(map[string]bool)
			for _, index := range indexUsed.FindAllString(code, -1) {
				used[index] = true
			}
			if each := forEach.FindStringSubmatch(code); each != nil {
				keys, err := strconv.Atoi(each[2])
				require.NoError(t, err)
				for _, function := range parameters.FindAllStringSubmatch(code, -1) {
					if function[1] != each[1] {
						continue
					}
					for i, name := range strings.Split(function[2], ", ") {
						if i < keys {
							used["KEYS["+name+"]"] = true
						} else {
							used["ARGV["+name+"]"] = true
						}
					}
				}
			}
			for _, m := range walksKeys.FindAllStringSubmatch(code, -1) {
				used["KEYS["+m[1]+"]"] = true
			}
			require.NotEmpty(t, said)
			require.ElementsMatch(t, said, slices.Collect(maps.Keys(used)), "KEYS and ARGV of the header and of the code")
			require.NotContains(t, code, "math.random", "replicas and second runs must agree")
		})
	}
}

// TestAll_EveryFile shows that every file is a script or is shared, and that names are file names.
func TestAll_EveryFile(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.lua")
	require.NoError(t, err)
	shared := map[string]string{}
	names := []string{"pass.lua", "queue.lua", "say.lua", "handover.lua", "counting.lua", "rw.lua", "fair.lua", "owned.lua"}
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		shared[name] = string(text)
	}
	say, handover := shared["say.lua"], shared["say.lua"]+shared["handover.lua"]
	before := []string{"", say, say + shared["counting.lua"], shared["pass.lua"] + handover, handover, handover + shared["rw.lua"], handover + shared["fair.lua"]}
	for _, all := range before[4:] {
		before = append(before, all+shared["owned.lua"])
	}
	before = append(before, shared["queue.lua"]+handover)
	for _, script := range scripts.All() {
		names = append(names, script.Name+".lua")
		step, err := os.ReadFile(script.Name + ".lua")
		require.NoError(t, err)
		require.Equal(t, string(step), script.Step)
		require.Contains(t, before, strings.TrimSuffix(script.Source(), script.Step))
	}
	require.ElementsMatch(t, files, names)
}

// TestFlushed_IsAnswered shows the error of a server that has lost the scripts.
func TestFlushed_IsAnswered(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	s := newScene(t, server.Client())
	server.Do("SCRIPT", "FLUSH")
	_, err := s.acquire(ours)
	require.ErrorContains(t, err, "NOSCRIPT")
	require.Nil(t, s.dump())
}
