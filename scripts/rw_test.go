package scripts_test

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

const (
	our2    = "6b2c1a9e-0d1f-8a55-8f0e-3c2b1a0d9e8f:8" // of the same process as ours
	uuid    = "6b2c1a9e-0d1f-8a55-8f0e-3c2b1a0d9e8f"
	writing = ":write"
	inLine  = "90000"                                  // ms; for how long a queue is kept
	another = "1f2e3d4c-5b6a-8f55-8f0e-0123456789ab:9" // waits, and does not listen
)

// A sharedLock is a read-write lock with its companion keys.
type sharedLock struct{ *scene }

func newSharedLock(s *scene) sharedLock {
	s.channel = "redisson_rwlock:{" + s.key + "}"
	s.listen()
	l := sharedLock{s}
	l.subscribe(l.writer()) // as a waiter of this library
	return l
}

// subscribe adds a subscriber to a channel.
func (l sharedLock) subscribe(channel string) {
	l.t.Helper()
	conn, release := l.c.Dedicate()
	l.t.Cleanup(release)
	conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}})
	require.NoError(l.t, conn.Do(l.t.Context(), l.c.B().Subscribe().Channel(channel).Build()).Error())
}

func (l sharedLock) hold(owner string) string {
	return "{" + l.key + "}:" + owner + ":rwlock_timeout:1"
}
func (l sharedLock) reader() string { return "lockgen_reader:{" + l.key + "}" }
func (l sharedLock) writer() string { return "lockgen_writer:{" + l.key + "}" }
func (l sharedLock) turn() string   { return "lockgen_turn:{" + l.key + "}" }
func (l sharedLock) prefix() string { return "{" + l.key + "}:" }

func (l sharedLock) read(owner, under, mark, ms string) (int64, error) {
	return l.eval(scripts.RWRead, []string{l.key, l.hold(owner), l.reader(), l.writer(), l.turn()}, ms, owner, under, mark, "").AsInt64()
}

func (l sharedLock) endRead(owner string) (int64, error) {
	return l.eval(scripts.RWReadRelease, []string{l.key, l.hold(owner), l.channel, l.reader(), l.writer(), l.turn()}, owner, "00", plain, l.prefix()).AsInt64()
}

func (l sharedLock) renewRead(owner, ms string) (int64, error) {
	return first(l.eval(scripts.RWReadRenew, []string{l.key, l.hold(owner)}, owner, ms).AsIntSlice())
}

func (l sharedLock) write(owner, mark, ms string) (int64, error) {
	return first(l.writeFenced(owner, mark, ms, "0"))
}

func (l sharedLock) writeFenced(owner, mark, ms, tokens string) ([]int64, error) {
	return l.eval(scripts.RWWrite, []string{l.key, l.reader(), l.writer(), l.turn(), l.counter()},
		ms, owner+writing, mark, "", tokens, "60000").AsIntSlice()
}

func (l sharedLock) endWrite(owner string) (int64, error) {
	return l.eval(scripts.RWWriteRelease, []string{l.key, l.channel, l.reader(), l.writer(), l.turn()},
		owner+writing, "01", plain, l.prefix()).AsInt64()
}

// ask asks for a waiter in the queue. With + as its last argument the waiter gets no messages.
func (l sharedLock) ask(side, owner, under, ear string) (int64, error) {
	if side == "read" {
		return l.eval(scripts.RWRead, []string{l.key, l.hold(owner), l.reader(), l.writer(), l.turn()}, "600000", owner, under, inLine, ear).AsInt64()
	}
	return first(l.eval(scripts.RWWrite, []string{l.key, l.reader(), l.writer(), l.turn(), l.counter()},
		"600000", owner+writing, inLine, ear, "0", "60000").AsIntSlice())
}

func (l sharedLock) force(mode, message string, owners ...string) (int64, error) {
	args := append([]string{mode, message, plain, l.prefix()}, owners...)
	return l.eval(scripts.RWForceUnlock, []string{l.key, l.channel, l.reader(), l.writer(), l.turn()}, args...).AsInt64()
}

func (l sharedLock) yield() (int64, error) {
	return l.eval(scripts.RWYield, []string{l.key, l.writer(), l.channel, l.turn()}, "60000", "publish").AsInt64()
}

// companions returns the companion keys that exist.
func (l sharedLock) companions() []string {
	found := []string{}
	for _, owner := range []string{ours, our2, theirs} {
		if l.int("EXISTS", l.hold(owner)) == 1 {
			found = append(found, "hold of "+owner)
		}
	}
	for name, key := range map[string]string{"reader": l.reader(), "writer": l.writer(), "turn": l.turn(), "counter": l.counter()} {
		if l.int("EXISTS", key) == 1 {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found
}

func reads(owner string) [][]string {
	return [][]string{
		{"HSET", "KEY", "mode", "read", owner, "1"}, {"PEXPIRE", "KEY", "300000"},
		{"SET", "{KEY}:" + owner + ":rwlock_timeout:1", "1", "PX", "300000"},
	}
}

func writes(owner string) [][]string {
	return [][]string{{"HSET", "KEY", "mode", "write", owner + writing, "1"}, {"PEXPIRE", "KEY", "300000"}}
}

var (
	readerWaits = [][]string{{"RPUSH", "lockgen_reader:{KEY}", another + "+"}}
	writerWaits = [][]string{{"RPUSH", "lockgen_writer:{KEY}", another + writing + "+"}}
	deadWaits   = [][]string{{"RPUSH", "lockgen_reader:{KEY}", another}, {"RPUSH", "lockgen_writer:{KEY}", another + writing}}
	readersTurn = turnOf("read read "+another, "160000")
	writersTurn = turnOf("write write "+another+writing, "160000")
	redissons   = turnOf("redisson write ", "160000")
	deadReader  = [][]string{{"HSET", "KEY", "mode", "read", theirs, "1"}, {"PEXPIRE", "KEY", "300000"}}
)

func turnOf(value, ms string) [][]string {
	return [][]string{{"SET", "lockgen_turn:{KEY}", value, "PX", ms}}
}

// A rwRow describes the effect of a script on a state, sent once and again.
type rwRow struct {
	name          string
	before        [][]string
	first, second reply
	after         any
	expiry        int64
	companions    []string
	heard         []string
}

func runRWRows(t *testing.T, rows []rwRow, run func(l sharedLock) (int64, error)) {
	t.Helper()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			c := b.client(t)
			for _, r := range rows {
				t.Run(r.name, func(t *testing.T) {
					t.Parallel()
					l := newSharedLock(newSceneUnheard(t, c))
					l.set(r.before)
					n, err := run(l)
					r.first.check(t, n, err)
					n, err = run(l)
					r.second.check(t, n, err)
					require.Equal(t, r.after, l.dump())
					ttl := l.int("PTTL", "KEY")
					switch r.expiry {
					case lease: // of the script, no longer that of the state before
						require.Greater(t, ttl, int64(other))
						require.LessOrEqual(t, ttl, int64(lease))
					case other:
						require.Greater(t, ttl, int64(other-60_000))
						require.LessOrEqual(t, ttl, int64(other))
					default:
						require.Equal(t, r.expiry, ttl)
					}
					if r.companions == nil {
						r.companions = []string{}
					}
					require.Equal(t, r.companions, l.companions())
					require.Equal(t, r.heard, l.messages())
				})
			}
		})
	}
}

const taken = -2

// soon is the answer to the first in the queue, and to a waiter whose turn is after another's.
var soon = atMost(100_000)

var mine, his = "hold of " + ours, "hold of " + theirs

func TestRWRead(t *testing.T) {
	t.Parallel()
	alone, both := fields{"mode": "read", ours: "1"}, fields{"mode": "read", ours: "1", theirs: "1"}
	rows := []rwRow{
		{"free", free, number(taken), number(taken), alone, lease, []string{mine}, nil},
		{"ours", reads(ours), number(taken), number(taken), alone, lease, []string{mine}, nil},
		{"others read", reads(theirs), number(taken), number(taken), both, lease, []string{his, mine}, nil},
		{"others read for ever", reads(theirs)[:1], number(taken), number(taken), both, lease, []string{mine}, nil},
		{"others write", writes(theirs), soon, soon, fields{"mode": "write", theirs + writing: "1"}, other, []string{"reader"}, nil},
		{"the same process writes", writes(our2), number(taken), number(taken), fields{"mode": "write", our2 + writing: "1", ours: "1"}, lease, []string{mine}, nil},
		{"the same process reads and somebody waits to write", slices.Concat(reads(our2), writerWaits), number(taken), number(taken),
			fields{"mode": "read", ours: "1", our2: "1"}, lease, []string{mine, "hold of " + our2, "writer"}, nil},
		{"somebody waits to write", slices.Concat(reads(theirs), writerWaits), soon, soon, fields{"mode": "read", theirs: "1"}, other, []string{his, "reader", "writer"}, nil},
		{"it is a writer's turn", writersTurn, soon, soon, nil, -2, []string{"reader", "turn"}, nil},
		{"it is a writer's turn, who reads with others", slices.Concat(reads(theirs), writersTurn), soon, soon, fields{"mode": "read", theirs: "1"}, other, []string{his, "reader", "turn"}, nil},
		{"it is Redisson's turn", redissons, soon, soon, nil, -2, []string{"reader", "turn"}, nil},
		{"it was a writer's turn", turnOf("write write "+another+writing, "1900"), number(taken), number(taken), alone, lease, []string{mine, "turn"}, nil},
		{"it is another reader's turn", readersTurn, number(taken), number(taken), alone, lease, []string{mine, "turn"}, nil},
		{"it is another reader's turn and somebody waits to write", slices.Concat(readersTurn, writerWaits), soon, soon, nil, -2, []string{"reader", "turn", "writer"}, nil},
		{"it is its turn and somebody waits to write", slices.Concat(turnOf("read read "+our2, "160000"), writerWaits), number(taken), number(taken), alone, lease, []string{mine, "turn", "writer"}, nil},
		{"a writer waits, and writers were last", slices.Concat(turnOf("write write ", "1900"), writerWaits), number(taken), number(taken), alone, lease, []string{mine, "turn", "writer"}, nil},
		{"a writer waits, and readers were last", slices.Concat(turnOf("read read ", "1900"), writerWaits), atMost(500), soon, nil, -2, []string{"reader", "turn"}, nil},
		{"another reader waits", readerWaits, number(taken), number(taken), alone, lease, []string{mine, "turn"}, nil},
		{"the dead wait", deadWaits, number(taken), number(taken), alone, lease, []string{mine, "turn"}, nil},
		{"a mutex", theirsHeld, atMost(other), atMost(other), fields{theirs: "1"}, other, nil, nil},
		{"a string", aString, failure("WRONGTYPE"), failure("WRONGTYPE"), "text", -1, nil, nil},
	}
	runRWRows(t, rows, func(l sharedLock) (int64, error) {
		under := our2
		if mode, _ := l.command("HGET", "KEY", "mode").ToString(); mode == "write" {
			under += writing
		}
		return l.read(ours, under, inLine, "600000")
	})
}

func TestRWRead_WithoutAMark(t *testing.T) {
	t.Parallel()
	runRWRows(t, []rwRow{
		{"others write", writes(theirs), atMost(other), atMost(other), fields{"mode": "write", theirs + writing: "1"}, other, nil, nil},
	}, func(l sharedLock) (int64, error) { return l.read(ours, "", "0", "600000") })
	runRWRows(t, []rwRow{
		{"others read", reads(theirs), atMost(other), atMost(other), fields{"mode": "read", theirs: "1"}, other, []string{his}, nil},
	}, func(l sharedLock) (int64, error) { return l.write(ours, "0", "600000") })
}

func TestRWReadRelease(t *testing.T) {
	t.Parallel()
	const notOurs, still, freed = -1, 0, 1
	runRWRows(t, []rwRow{
		{"free", free, number(notOurs), number(notOurs), nil, -2, nil, nil},
		{"ours", reads(ours), number(freed), number(notOurs), nil, -2, nil, []string{"00"}},
		{"ours, and only the key of the hold is left", reads(ours)[2:], number(notOurs), number(notOurs), nil, -2, nil, nil},
		{"others read too", slices.Concat(reads(theirs), reads(ours)), number(still), number(notOurs), fields{"mode": "read", theirs: "1"}, other, []string{his}, nil},
		{"others read too, for less long than we did", slices.Concat(reads(theirs), reads(ours), [][]string{{"PEXPIRE", "KEY", "600000"}}),
			number(still), number(notOurs), fields{"mode": "read", theirs: "1"}, other, []string{his}, nil},
		{"a Java thread reads twice, the second time for longer", [][]string{
			{"HSET", "KEY", "mode", "read", theirs, "2", ours, "1"}, {"PEXPIRE", "KEY", "600000"},
			{"SET", "{KEY}:" + theirs + ":rwlock_timeout:1", "1", "PX", "1000"}, {"SET", "{KEY}:" + theirs + ":rwlock_timeout:2", "1", "PX", "300000"},
		}, number(still), number(notOurs), fields{"mode": "read", theirs: "2"}, other, []string{his}, nil},
		{"others have died", slices.Concat(deadReader, reads(ours)), number(freed), number(notOurs), nil, -2, nil, []string{"00"}},
		{"the same process writes", slices.Concat(reads(ours), writes(our2)), number(still), number(notOurs), fields{"mode": "write", our2 + writing: "1"}, other, nil, nil},
		{"others write", writes(theirs), number(notOurs), number(notOurs), fields{"mode": "write", theirs + writing: "1"}, other, nil, nil},
		{"both kinds wait: it is a writer's turn", slices.Concat(reads(ours), readerWaits, writerWaits), number(freed), number(notOurs), nil, -2, []string{"reader", "turn"}, []string{"00"}},
		{"it waits", [][]string{{"RPUSH", "lockgen_reader:{KEY}", ours}}, number(notOurs), number(notOurs), nil, -2, nil, nil},
		{"a mutex", oursHeld, number(freed), number(notOurs), nil, -2, nil, []string{"00"}},
		{"a string", aString, number(notOurs), number(notOurs), "text", -1, nil, nil},
	}, func(l sharedLock) (int64, error) { return l.endRead(ours) })
}

func TestRWReadRenew(t *testing.T) {
	t.Parallel()
	const renewed, notOurs = 1, 0
	runRWRows(t, []rwRow{
		{"free", free, number(notOurs), number(notOurs), nil, -2, nil, nil},
		{"ours", reads(ours), number(renewed), number(renewed), fields{"mode": "read", ours: "1"}, lease, []string{mine}, nil},
		{"ours, without the key of the hold", reads(ours)[:2], number(renewed), number(renewed), fields{"mode": "read", ours: "1"}, lease, []string{mine}, nil},
		{"with others, whose holds it leaves", slices.Concat(reads(ours), deadReader), number(renewed), number(renewed),
			fields{"mode": "read", ours: "1", theirs: "1"}, lease, []string{mine}, nil},
		{"under a write lock", slices.Concat(reads(ours), writes(our2)), number(renewed), number(renewed), fields{"mode": "write", ours: "1", our2 + writing: "1"}, lease, []string{mine}, nil},
		{"others read", reads(theirs), number(notOurs), number(notOurs), fields{"mode": "read", theirs: "1"}, other, []string{his}, nil},
		{"a string", aString, number(notOurs), number(notOurs), "text", -1, nil, nil},
	}, func(l sharedLock) (int64, error) { return l.renewRead(ours, "600000") })
	for _, b := range backends {
		t.Run(b.name+", only looked at", func(t *testing.T) {
			t.Parallel()
			l := newSharedLock(newSceneUnheard(t, b.client(t)))
			l.set(reads(ours))
			n, err := l.renewRead(ours, "1000")
			require.NoError(t, err)
			require.EqualValues(t, 1, n)
			require.Greater(t, l.int("PTTL", "KEY"), int64(other-60_000))
			require.Greater(t, l.int("PTTL", l.hold(ours)), int64(other-60_000))
		})
	}
}

func TestRWWrite(t *testing.T) {
	t.Parallel()
	alone := fields{"mode": "write", ours + writing: "1"}
	runRWRows(t, []rwRow{
		{"free", free, number(taken), number(taken), alone, lease, nil, nil},
		{"ours", writes(ours), number(taken), number(taken), alone, lease, nil, nil},
		{"ours, with what it reads", slices.Concat(reads(our2), writes(ours)), number(taken), number(taken),
			fields{"mode": "write", ours + writing: "1", our2: "1"}, lease, []string{"hold of " + our2}, nil},
		{"others write", writes(theirs), soon, soon, fields{"mode": "write", theirs + writing: "1"}, other, []string{"writer"}, nil},
		{"others write, and others wait", slices.Concat(writes(theirs), writerWaits), atMost(other), atMost(other), fields{"mode": "write", theirs + writing: "1"}, other, []string{"writer"}, nil},
		{"others read", reads(theirs), soon, soon, fields{"mode": "read", theirs: "1"}, other, []string{his, "writer"}, nil},
		{"it reads itself", reads(ours), soon, soon, fields{"mode": "read", ours: "1"}, other, []string{mine, "writer"}, nil},
		{"it is another writer's turn", writersTurn, soon, soon, nil, -2, []string{"turn", "writer"}, nil},
		{"it is its turn", turnOf("write write "+our2+writing, "160000"), number(taken), number(taken), alone, lease, []string{"turn"}, nil},
		{"it is readers' turn", readersTurn, soon, soon, nil, -2, []string{"turn", "writer"}, nil},
		{"it is Redisson's turn", redissons, soon, soon, nil, -2, []string{"turn", "writer"}, nil},
		{"it was readers' turn", turnOf("read read "+another, "1900"), number(taken), number(taken), alone, lease, []string{"turn"}, nil},
		{"a reader waits, and readers were last", slices.Concat(turnOf("read read ", "1900"), readerWaits), number(taken), number(taken), alone, lease, []string{"reader", "turn"}, nil},
		{"a reader waits, and writers were last", slices.Concat(turnOf("write write ", "1900"), readerWaits), atMost(500), soon, nil, -2, []string{"turn", "writer"}, nil},
		{"another writer waits", writerWaits, atMost(500), soon, nil, -2, []string{"turn", "writer"}, nil},
		{"the dead wait", deadWaits, number(taken), number(taken), alone, lease, []string{"reader", "turn"}, nil},
		{"a mutex", theirsHeld, atMost(other), atMost(other), fields{theirs: "1"}, other, nil, nil},
		{"a string", aString, failure("WRONGTYPE"), failure("WRONGTYPE"), "text", -1, nil, nil},
	}, func(l sharedLock) (int64, error) { return l.write(ours, inLine, "600000") })
}

func TestRWWriteRelease(t *testing.T) {
	t.Parallel()
	const notOurs, shared, freed = -1, 0, 1
	runRWRows(t, []rwRow{
		{"free", free, number(notOurs), number(notOurs), nil, -2, nil, nil},
		{"ours", writes(ours), number(freed), number(notOurs), nil, -2, nil, []string{"01"}},
		{"ours, with what it reads", slices.Concat(reads(our2), writes(ours), [][]string{{"PEXPIRE", "KEY", "600000"}}), number(shared), number(notOurs),
			fields{"mode": "read", our2: "1"}, other, []string{"hold of " + our2}, []string{"01"}},
		{"ours, with what it read for a time that is over", slices.Concat([][]string{{"HSET", "KEY", our2, "1"}}, writes(ours)), number(freed), number(notOurs), nil, -2, nil, []string{"01"}},
		{"both kinds wait: it is a reader's turn", slices.Concat(writes(ours), readerWaits, writerWaits), number(freed), number(notOurs), nil, -2, []string{"turn", "writer"}, []string{"01"}},
		{"a writer waits", slices.Concat(writes(ours), writerWaits), number(freed), number(notOurs), nil, -2, []string{"turn"}, []string{"01"}},
		{"the dead wait", slices.Concat(writes(ours), deadWaits), number(freed), number(notOurs), nil, -2, nil, []string{"01"}},
		{"it waits", [][]string{{"RPUSH", "lockgen_writer:{KEY}", "x", ours + writing}, {"RPUSH", "lockgen_reader:{KEY}", "y"}},
			number(notOurs), number(notOurs), nil, -2, nil, nil},
		{"it waits, and others write", slices.Concat(writes(theirs), [][]string{{"RPUSH", "lockgen_writer:{KEY}", "x", ours + writing + "+"}}),
			number(notOurs), number(notOurs), fields{"mode": "write", theirs + writing: "1"}, other, []string{"writer"}, nil},
		{"it waits, others read, and readers wait for it", slices.Concat(reads(theirs), readerWaits, [][]string{{"RPUSH", "lockgen_writer:{KEY}", ours + writing}}),
			number(notOurs), number(notOurs), fields{"mode": "read", theirs: "1"}, other, []string{his, "turn"}, nil},
		{"it is its turn, and readers wait", slices.Concat(turnOf("write write "+ours+writing, "160000"), readerWaits), number(notOurs), number(notOurs), nil, -2, []string{"turn"}, nil},
		{"it goes on reading, and readers wait", slices.Concat(reads(our2), writes(ours), [][]string{{"PEXPIRE", "KEY", "600000"}}, readerWaits), number(shared), number(notOurs),
			fields{"mode": "read", our2: "1"}, other, []string{"hold of " + our2, "turn"}, []string{"01"}},
		{"others write", writes(theirs), number(notOurs), number(notOurs), fields{"mode": "write", theirs + writing: "1"}, other, nil, nil},
		{"others read", reads(theirs), number(notOurs), number(notOurs), fields{"mode": "read", theirs: "1"}, other, []string{his}, nil},
		{"a string", aString, number(notOurs), number(notOurs), "text", -1, nil, nil},
	}, func(l sharedLock) (int64, error) { return l.endWrite(ours) })
}

func TestRWForceUnlock(t *testing.T) {
	t.Parallel()
	const nobody, freed = 0, 1
	runRWRows(t, []rwRow{
		{"free", free, number(nobody), number(nobody), nil, -2, nil, nil},
		{"others read", slices.Concat(reads(ours), reads(theirs)), number(freed), number(nobody), nil, -2, nil, []string{"00"}},
		{"others write", writes(theirs), number(nobody), number(nobody), fields{"mode": "write", theirs + writing: "1"}, other, nil, nil},
		{"a mutex", theirsHeld, number(nobody), number(nobody), fields{theirs: "1"}, other, nil, nil},
		{"a string", aString, failure("WRONGTYPE"), failure("WRONGTYPE"), "text", -1, nil, nil},
	}, func(l sharedLock) (int64, error) { return l.force("read", "00") })
	runRWRows(t, []rwRow{
		{"written", writes(theirs), number(freed), number(nobody), nil, -2, nil, []string{"01", "00"}},
		{"written and read", slices.Concat(reads(ours), writes(our2)), number(freed), number(nobody), nil, -2, nil, []string{"01", "00"}},
		{"read", reads(theirs), number(nobody), number(nobody), fields{"mode": "read", theirs: "1"}, other, []string{his}, nil},
	}, func(l sharedLock) (int64, error) { return l.force("write", "01") })
	bothRead := slices.Concat(reads(ours), reads(theirs))
	runRWRows(t, []rwRow{ // from these readers alone
		{"they read", bothRead, number(freed), number(nobody), nil, -2, nil, []string{"00"}},
		{"one of them reads", reads(theirs), number(nobody), number(nobody), fields{"mode": "read", theirs: "1"}, other, []string{his}, nil},
	}, func(l sharedLock) (int64, error) { return l.force("read", "00", theirs, ours) })
	runRWRows(t, []rwRow{
		{"others read, too", bothRead, number(nobody), number(nobody), fields{"mode": "read", ours: "1", theirs: "1"}, other, []string{his, "hold of " + ours}, nil},
	}, func(l sharedLock) (int64, error) { return l.force("read", "00", theirs) })
	for _, owner := range []string{ours, ours + writing} {
		runRWRows(t, []rwRow{ // from this writer alone
			{"it writes", writes(ours), number(freed), number(nobody), nil, -2, nil, []string{"01", "00"}},
			{"it writes and reads", slices.Concat(reads(ours), writes(ours)), number(freed), number(nobody), nil, -2, nil, []string{"01", "00"}},
			{"others write", writes(theirs), number(nobody), number(nobody), fields{"mode": "write", theirs + writing: "1"}, other, nil, nil},
		}, func(l sharedLock) (int64, error) { return l.force("write", "01", owner) })
	}
}

// TestRW_ALockThatIsFreedIsLeftToRedissonsWaiters shows that no process of this library gets a released lock for a
// moment while Redisson's waiters listen.
func TestRW_ALockThatIsFreedIsLeftToRedissonsWaiters(t *testing.T) {
	t.Parallel()
	onBackends(t, func(t *testing.T, s *scene) {
		l := newSharedLock(s)
		ends := map[string]func(string) (int64, error){"read": l.endRead, "write": l.endWrite}
		begin := func(side string, more ...[]string) {
			set := reads(ours)
			if side == "write" {
				set = writes(ours)
			}
			l.int("DEL", "KEY", l.reader(), l.writer(), l.turn())
			l.set(append(set, more...))
		}
		turn := func() string {
			text, err := l.command("GET", l.turn()).ToString()
			require.True(t, err == nil || rueidis.IsRedisNil(err), err)
			return text
		}
		for side, end := range ends {
			begin(side)
			twiceIs(t, 1, -1, func() (int64, error) { return end(ours) })
			require.Zero(t, l.int("EXISTS", l.turn()), "nobody of Redisson's listens")
		}
		l.subscribe(l.channel)
		for side, end := range ends {
			begin(side)
			twiceIs(t, 1, -1, func() (int64, error) { return end(ours) })
			if text := turn(); text != "" { // it may be over by now
				require.Equal(t, "redisson", text, side)
				require.LessOrEqual(t, l.int("PTTL", l.turn()), int64(5))
			}
			begin(side, readerWaits[0], writerWaits[0])
			twiceIs(t, 1, -1, func() (int64, error) { return end(ours) })
			if side == "write" {
				require.Equal(t, "read read "+another, turn(), "the waiting readers are before Redisson's")
			}
			begin(side, writerWaits[0])
			twiceIs(t, 1, -1, func() (int64, error) { return end(ours) })
			require.Equal(t, "redisson "+side+" ", turn())
			require.LessOrEqual(t, l.int("PTTL", l.turn()), int64(10005), side)
			// The turn keeps them out, as long as it lives:
			for _, value := range []string{"redisson", "redisson " + side + " "} {
				l.command("SET", l.turn(), value, "PX", "160000")
				n, err := l.read(our2, "", "0", "600000")
				require.NoError(t, err)
				require.Greater(t, n, int64(5))
				n, err = l.write(our2, "0", "600000")
				require.NoError(t, err)
				require.Greater(t, n, int64(5))
			}
		}

		// A writer that continues as a reader frees nothing.
		l.int("DEL", "KEY", l.reader(), l.writer(), l.turn())
		l.set(slices.Concat(reads(ours), writes(ours)))
		twiceIs(t, 0, -1, func() (int64, error) { return l.endWrite(ours) })
		require.Zero(t, l.int("EXISTS", l.turn()))
	})
}

// TestRWWriteRelease_RedissonsWaitersAreToldSoThatNoneForgets shows the messages: Redisson's
// threads that were refused and do not wait yet remember a 0, and miss a 1.
func TestRWWriteRelease_RedissonsWaitersAreToldSoThatNoneForgets(t *testing.T) {
	t.Parallel()
	onBackends(t, func(t *testing.T, s *scene) {
		l := newSharedLock(s)
		end := func(state ...[]string) []string {
			l.int("DEL", "KEY", l.reader(), l.writer(), l.turn())
			l.set(state)
			_, err := l.endWrite(ours)
			require.NoError(t, err)
			return l.messages()
		}
		require.Equal(t, []string{"01"}, end(writes(ours)...), "nobody of Redisson's listens")
		l.subscribe(l.channel)
		require.Equal(t, []string{"01", "00"}, end(writes(ours)...))
		require.Equal(t, []string{"01", "00"}, end(slices.Concat(reads(ours), writes(ours))...), "readers stay")
	})
}

// twiceIs runs a step twice and compares the replies.
func twiceIs(t *testing.T, first, second int64, run func() (int64, error)) {
	t.Helper()
	for _, want := range []int64{first, second} {
		got, err := run()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestRWYield(t *testing.T) {
	t.Parallel()
	onBackends(t, func(t *testing.T, s *scene) {
		l := newSharedLock(s)
		yields := func(want int64, what string) {
			t.Helper()
			for range 2 {
				got, err := l.yield()
				require.NoError(t, err)
				require.Equal(t, want, got, what)
			}
			require.Equal(t, want, l.int("EXISTS", l.turn()), what)
		}
		l.set(reads(ours))
		yields(0, "nobody of Redisson's listens")
		l.set(writerWaits)
		for range 2 {
			got, err := l.yield()
			require.NoError(t, err)
			require.EqualValues(t, 1, got, "somebody of this library waits to write")
		}
		l.int("DEL", l.writer())
		l.subscribe(l.channel)
		yields(1, "one does")
		require.LessOrEqual(t, l.int("PTTL", l.turn()), int64(70_000))
		n, err := l.read(our2, "", "0", "600000")
		require.NoError(t, err)
		require.Positive(t, n, "a later call waits")
		n, err = l.endRead(ours)
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		require.LessOrEqual(t, l.int("PTTL", l.turn()), int64(5), "from now on it is only the start")
		l.int("DEL", l.turn())
		yields(0, "nobody reads")
		l.set(writes(ours))
		yields(0, "somebody writes")
		l.int("DEL", "KEY")
		l.set(aString)
		_, err = l.yield()
		require.ErrorContains(t, err, "WRONGTYPE")
	})
}

// TestRW_TellsProcesses shows which messages processes get on their own channels.
func TestRW_TellsProcesses(t *testing.T) {
	t.Parallel()
	onBackends(t, func(t *testing.T, s *scene) {
		l := newSharedLock(s)
		p := newPeer(t, l.c, uuidOf(s, 1))
		for range 2 {
			_, err := l.read(p.uuid+":3", "", "0", "600000")
			require.NoError(t, err)
		}
		require.Empty(t, p.told())
		_, err := l.write(ours, "0", "600000")
		require.NoError(t, err)
		require.Empty(t, p.told(), "a call that does not wait is no reason")
		_, err = l.write(ours, inLine, "600000")
		require.NoError(t, err)
		require.Equal(t, []string{"wanted 3"}, p.told())
		n, err := l.force("read", "00")
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		require.Equal(t, []string{"taken 3"}, p.told())
		n, err = l.write(p.uuid+":4", "0", "600000")
		require.NoError(t, err)
		require.EqualValues(t, taken, n)
		_, err = l.force("write", "01")
		require.NoError(t, err)
		require.Equal(t, []string{"taken 4"}, p.told())
	})
}

func TestRWWrite_DrawsTokens(t *testing.T) {
	t.Parallel()
	onBackends(t, func(t *testing.T, s *scene) {
		l := newSharedLock(s)
		last := int64(0)
		for range 3 {
			reply, err := l.writeFenced(ours, "0", "600000", "1")
			require.NoError(t, err)
			require.EqualValues(t, taken, reply[0])
			require.Greater(t, reply[1], last)
			last = reply[1]
		}
		_, err := l.endWrite(ours)
		require.NoError(t, err)
		require.NoError(t, l.command("SET", l.counter(), "text").Error())
		_, err = l.writeFenced(ours, "0", "600000", "1")
		require.ErrorContains(t, err, "the counter of fencing tokens is not an integer")
		require.Nil(t, l.dump())
	})
}

// TestRW_OutOfMemory shows that holders renew and release when a server takes no more data.
func TestRW_OutOfMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	read, written, kept, none := newSharedLock(newSceneUnheard(t, server.Client())), newSharedLock(newSceneUnheard(t, server.Client())),
		newSharedLock(newSceneUnheard(t, server.Client())), newSharedLock(newSceneUnheard(t, server.Client()))
	read.set(reads(ours))
	written.set(writes(ours))
	kept.set(slices.Concat(reads(our2), writes(ours)))
	server.Do("CONFIG", "SET", "maxmemory", "1")
	_, err := none.read(ours, "", inLine, "600000")
	require.ErrorContains(t, err, "OOM")
	_, err = none.write(ours, inLine, "600000")
	require.ErrorContains(t, err, "OOM")
	require.Nil(t, none.dump())
	n, err := written.read(our2, "", inLine, "600000")
	require.NoError(t, err)
	require.Positive(t, n, "refused, without a mark")
	for _, step := range []func() (int64, error){
		func() (int64, error) { return read.renewRead(ours, "600000") },
		func() (int64, error) { return read.endRead(ours) },
		func() (int64, error) { return written.endWrite(ours) },
	} {
		n, err := step()
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
	}
	n, err = kept.endWrite(ours)
	require.NoError(t, err)
	require.Zero(t, n)
	require.Equal(t, fields{"mode": "read", our2: "1"}, kept.dump())
}

// javaReadWrite does the same as Redisson's scripts for a read-write lock, with plain commands.
type javaReadWrite struct {
	sharedLock
	owner string
}

func (j javaReadWrite) timeout(i int64) string {
	return "{" + j.key + "}:" + j.owner + ":rwlock_timeout:" + strconv.FormatInt(i, 10)
}

func (j javaReadWrite) mode() string {
	mode, _ := j.command("HGET", "KEY", "mode").ToString()
	return mode
}

func (j javaReadWrite) readLock(ms int64) int64 {
	lease := strconv.FormatInt(ms, 10)
	mode := j.mode()
	if mode == "" {
		j.int("HSET", "KEY", "mode", "read")
	}
	if mode != "write" || j.int("HEXISTS", "KEY", j.owner+writing) == 1 {
		i := j.int("HINCRBY", "KEY", j.owner, "1")
		require.NoError(j.t, j.command("SET", j.timeout(i), "1", "PX", lease).Error())
		j.int("PEXPIRE", "KEY", strconv.FormatInt(max(j.int("PTTL", "KEY"), ms), 10))
		return taken
	}
	return j.int("PTTL", "KEY")
}

func (j javaReadWrite) readUnlock() bool {
	if j.int("HEXISTS", "KEY", j.owner) == 0 {
		return false
	}
	left := j.int("HINCRBY", "KEY", j.owner, "-1")
	if left == 0 {
		j.int("HDEL", "KEY", j.owner)
	}
	j.int("DEL", j.timeout(left+1))
	if j.int("HLEN", "KEY") > 1 {
		most := int64(-3)
		fields, err := j.command("HGETALL", "KEY").AsStrMap()
		require.NoError(j.t, err)
		for field, value := range fields {
			n, _ := strconv.Atoi(value)
			for i := n; i >= 1; i-- {
				most = max(most, j.int("PTTL", "{"+j.key+"}:"+field+":rwlock_timeout:"+strconv.Itoa(i)))
			}
		}
		if most > 0 {
			j.int("PEXPIRE", "KEY", strconv.FormatInt(most, 10))
			return true
		}
		if j.mode() == "write" {
			return true
		}
	}
	j.int("DEL", "KEY")
	j.int("PUBLISH", j.channel, "0")
	return true
}

func (j javaReadWrite) writeLock() int64 {
	mode := j.mode()
	if mode == "" {
		j.int("HSET", "KEY", "mode", "write", j.owner+writing, "1")
		j.int("PEXPIRE", "KEY", "300000")
		return taken
	}
	if mode == "write" && j.int("HEXISTS", "KEY", j.owner+writing) == 1 {
		j.int("HINCRBY", "KEY", j.owner+writing, "1")
		j.int("PEXPIRE", "KEY", strconv.FormatInt(j.int("PTTL", "KEY")+300_000, 10))
		return taken
	}
	return j.int("PTTL", "KEY")
}

func (j javaReadWrite) writeUnlock() bool {
	if j.mode() != "write" || j.int("HEXISTS", "KEY", j.owner+writing) == 0 {
		return false
	}
	if j.int("HINCRBY", "KEY", j.owner+writing, "-1") > 0 {
		return true
	}
	j.int("HDEL", "KEY", j.owner+writing)
	if j.int("HLEN", "KEY") > 1 {
		j.int("HSET", "KEY", "mode", "read")
		return true
	}
	j.int("DEL", "KEY")
	j.int("PUBLISH", j.channel, "1")
	return true
}

// TestRWRedissonPeer shows that a Java program and this library share a read-write lock.
func TestRWRedissonPeer(t *testing.T) {
	t.Parallel()
	onBackends(t, func(t *testing.T, s *scene) {
		l := newSharedLock(s)
		java := javaReadWrite{l, theirs}
		do := func(want int64) func(int64, error) {
			return func(got int64, err error) {
				t.Helper()
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
		}
		// Both read; the last reader frees the lock, whichever that is.
		require.EqualValues(t, taken, java.readLock(300_000))
		require.EqualValues(t, taken, java.readLock(200_000))
		do(taken)(l.read(ours, "", "0", "600000"))
		require.True(t, java.readUnlock())
		require.True(t, java.readUnlock())
		require.Equal(t, fields{"mode": "read", ours: "1"}, l.dump())
		require.Greater(t, l.int("PTTL", "KEY"), int64(other), "it lives as long as our hold")
		require.EqualValues(t, taken, java.readLock(300_000))
		do(0)(l.endRead(ours))
		require.LessOrEqual(t, l.int("PTTL", "KEY"), int64(other), "and then as long as Java's")
		n, err := l.write(ours, "0", "600000")
		require.NoError(t, err)
		require.Positive(t, n)
		require.True(t, java.readUnlock())
		require.Equal(t, []string{"0"}, l.messages())
		require.Nil(t, l.dump())

		// This library writes and Java waits; then Java writes and this library waits.
		do(taken)(l.write(ours, "0", "600000"))
		require.Positive(t, java.readLock(300_000))
		require.Positive(t, java.writeLock())
		require.False(t, java.writeUnlock())
		do(1)(l.endWrite(ours))
		require.Equal(t, []string{"01"}, l.messages(), "which Redisson reads as 1")
		require.EqualValues(t, taken, java.writeLock())
		require.EqualValues(t, taken, java.writeLock())
		require.EqualValues(t, taken, java.readLock(300_000), "under its write lock")
		n, err = l.read(ours, "", "0", "600000")
		require.NoError(t, err)
		require.Positive(t, n)
		do(-1)(l.endWrite(ours))
		require.True(t, java.writeUnlock())
		require.True(t, java.writeUnlock())
		do(taken)(l.read(ours, "", "0", "600000"))
		require.True(t, java.readUnlock())
		do(1)(l.endRead(ours))
		require.Equal(t, []string{"00"}, l.messages())

		// This library continues to read after writing; then Java may read.
		do(taken)(l.write(our2, "0", "600000"))
		do(taken)(l.read(ours, our2+writing, "0", "600000"))
		require.Positive(t, java.readLock(300_000))
		do(0)(l.endWrite(our2))
		require.Equal(t, []string{"01"}, l.messages())
		require.EqualValues(t, taken, java.readLock(300_000))
		do(0)(l.endRead(ours))
		require.True(t, java.readUnlock())
		require.Nil(t, l.dump())
		require.Empty(t, l.companions())
	})
}

// TestRW_Model runs random steps, each perhaps twice, beside a model. Some holds end by themselves:
// the test ends them in Redis as time would.
func TestRW_Model(t *testing.T) {
	t.Parallel()
	owners := []string{ours, our2, theirs}
	onBackends(t, func(t *testing.T, s *scene) {
		l := newSharedLock(s)
		rapid.Check(t, func(r *rapid.T) {
			for _, key := range append([]string{l.key, l.reader(), l.writer(), l.turn()}, l.hold(ours), l.hold(our2), l.hold(theirs)) {
				require.NoError(t, l.command("DEL", key).Error())
			}
			l.messages()
			reading, writer := map[string]bool{}, "" // true while the hold lives
			rule := &rwRule{hears: func(string) bool { return false }}
			var heard []string
			alive := func() bool { return slices.Contains(slices.Collect(maps.Values(reading)), true) }
			owner := rapid.SampledFrom(owners)
			sync := func() { // the content of the lock; time stands still for the turn
				switch rule.mode = ""; {
				case writer != "":
					rule.mode = "write"
				case len(reading) > 0:
					rule.mode = "read"
				}
				_, ms := rule.turn()
				l.int("PEXPIRE", l.turn(), ms)
			}
			deaf := rapid.SampledFrom([]string{"", "+"})
			end := func(r *rapid.T, side, o string, run func() (int64, error)) { // of an owner without a hold, which may wait
				for range 2 {
					twiceIs := int64(-1)
					got, err := run()
					require.NoError(r, err)
					require.Equal(r, twiceIs, got)
					rule.leave(side, o)
					sync()
				}
			}
			r.Repeat(map[string]func(*rapid.T){
				"read": func(r *rapid.T) {
					o := owner.Draw(r, "owner")
					under := ""
					if rapid.Bool().Draw(r, "under") {
						under = owner.Draw(r, "of") + writing
					}
					ear := deaf.Draw(r, "ear")
					for range rapid.IntRange(1, 2).Draw(r, "times") {
						_, member := reading[o]
						want := member || writer != "" && under == writer+writing || rule.ask("read", o, o+ear)
						got, err := l.ask("read", o, under, ear)
						require.NoError(r, err)
						require.Equal(r, want, got == taken)
						if want {
							reading[o] = true
						}
						sync()
					}
				},
				"end read": func(r *rapid.T) {
					o := owner.Draw(r, "owner")
					run := func() (int64, error) { return l.endRead(o) }
					if _, member := reading[o]; member {
						delete(reading, o)
						want := int64(0)
						if writer == "" && !alive() {
							want = 1
							clear(reading)
							heard = append(heard, "00")
							rule.freed("read")
						}
						got, err := run()
						require.NoError(r, err)
						require.Equal(r, want, got)
						sync()
					}
					end(r, "read", o, run)
				},
				"renew": func(r *rapid.T) {
					o := owner.Draw(r, "owner")
					want := int64(0)
					if _, member := reading[o]; member {
						want, reading[o] = 1, true
					}
					twice(r, want, func() (int64, error) { return l.renewRead(o, "600000") })
				},
				"a hold ends": func(r *rapid.T) {
					o := owner.Draw(r, "owner")
					if reading[o] {
						l.int("DEL", l.hold(o))
						reading[o] = false
						if writer == "" && !alive() { // the lock ends with the longest hold
							clear(reading)
							l.int("DEL", "KEY")
						}
					}
				},
				"write": func(r *rapid.T) {
					o := owner.Draw(r, "owner")
					ear := deaf.Draw(r, "ear")
					for range rapid.IntRange(1, 2).Draw(r, "times") {
						want := writer == o || rule.ask("write", o+writing, o+writing+ear)
						got, err := l.ask("write", o, "", ear)
						require.NoError(r, err)
						require.Equal(r, want, got == taken)
						if want {
							writer = o
						}
						sync()
					}
				},
				"end write": func(r *rapid.T) {
					o := owner.Draw(r, "owner")
					run := func() (int64, error) { return l.endWrite(o) }
					if writer == o {
						writer = ""
						want := int64(0)
						if alive() {
							rule.callSide("read", "")
						} else {
							want = 1
							clear(reading)
							rule.freed("write")
						}
						heard = append(heard, "01")
						got, err := run()
						require.NoError(r, err)
						require.Equal(r, want, got)
						sync()
					}
					end(r, "write", o+writing, run)
				},
				"all end": func(*rapid.T) {
					for _, o := range owners {
						l.int("DEL", l.hold(o))
					}
					l.int("DEL", "KEY")
					clear(reading)
					writer = ""
				},
				"a line ends": func(r *rapid.T) {
					if rapid.Bool().Draw(r, "reader") {
						l.int("DEL", l.reader())
						rule.readers = nil
					} else {
						l.int("DEL", l.writer())
						rule.writers = nil
					}
				},
				"a turn ends": func(*rapid.T) { rule.ended = true },
				"force": func(r *rapid.T) {
					mode, message := "read", "00"
					if rapid.Bool().Draw(r, "write") {
						mode, message = "write", "01"
					}
					want := int64(0)
					if mode == "write" && writer != "" || mode == "read" && writer == "" && len(reading) > 0 {
						want = 1
						heard = append(heard, message)
						if mode == "write" {
							heard = append(heard, "00")
						}
						clear(reading)
						writer = ""
						rule.freed(mode)
					}
					got, err := l.force(mode, message)
					require.NoError(r, err)
					require.Equal(r, want, got)
				},
				"": func(r *rapid.T) {
					sync()
					require.Equal(r, heard, l.messages(), "what was said")
					heard = nil
					want := fields{}
					var companions []string
					for o, lives := range reading {
						want[o] = "1"
						if lives {
							companions = append(companions, "hold of "+o)
							require.Greater(r, l.int("PTTL", "KEY"), int64(other), "no lock ends before a hold")
						}
					}
					switch {
					case writer != "":
						want["mode"], want[writer+writing] = "write", "1"
						require.Greater(r, l.int("PTTL", "KEY"), int64(other))
					case len(reading) > 0:
						want["mode"] = "read"
					}
					if len(want) == 0 {
						require.Nil(r, l.dump())
					} else {
						require.Equal(r, want, l.dump())
					}
					if rule.whose != "" {
						companions = append(companions, "turn")
					}
					if len(rule.readers) > 0 {
						companions = append(companions, "reader")
					}
					if len(rule.writers) > 0 {
						companions = append(companions, "writer")
					}
					slices.Sort(companions)
					require.Equal(r, strings.Join(companions, ","), strings.Join(l.companions(), ","))
				},
			})
		})
	})
}
