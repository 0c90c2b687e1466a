package scripts_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/scripts"
)

// onServers runs a test on each server.
func onServers(t *testing.T, test func(t *testing.T, s *scene)) {
	t.Helper()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			test(t, newSceneUnheard(t, b.client(t)))
		})
	}
}

func TestElect(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, s *scene) {
		record := "lockgen_leader:{" + s.key + "}"
		s.channel = record
		s.listen()
		elect := func(owner, token, keep, value string) int64 {
			n, err := s.eval(scripts.Elect, []string{s.key, record}, owner, token, plain, keep, value).AsInt64()
			require.NoError(t, err)
			return n
		}
		leader := func() (ttl int64, said string) {
			words, err := s.eval(scripts.Leader, []string{s.key, record}).ToArray()
			require.NoError(t, err)
			ttl, err = words[0].AsInt64()
			require.NoError(t, err)
			said, err = words[1].ToString()
			require.NoError(t, err)
			return ttl, said
		}
		check := func(want string, heard ...string) {
			t.Helper()
			_, got := leader()
			require.Equal(t, want, got)
			require.Equal(t, heard, s.messages())
		}
		require.Zero(t, elect(ours, "7", "60000", "v"), "it is not the leader's to say who has not the lock")
		ttl, _ := leader()
		require.Equal(t, int64(-2), ttl)
		check("")

		s.set(oursHeld)
		for range 2 {
			require.Equal(t, int64(1), elect(ours, "7", "60000", "a value"))
		}
		ttl, _ = leader()
		require.Greater(t, ttl, int64(other/2))
		check("7 "+ours+" a value", "1")
		require.Positive(t, s.int("PTTL", record))
		require.Equal(t, int64(1), elect(ours, "7", "60000", "another"))
		check("7 "+ours+" another", "1")

		// Two requests had no answer before the present one. The first of them comes now.
		require.Equal(t, int64(1), elect(ours, "007", "60000", "newest"))
		check("007 "+ours+" newest", "1")
		require.Zero(t, elect(ours, "7", "60000", "late"))
		require.Zero(t, elect(ours, "07", "60000", "late"))
		check("007 " + ours + " newest")
		require.Equal(t, int64(1), elect(ours, "007", "60000", "newer"))
		check("007 "+ours+" newer", "1")

		// The next candidate of the same process has the same owner. A late request of the candidate before it is
		// refused.
		require.Equal(t, int64(1), elect(ours, "8", "60000", "next"))
		require.Zero(t, elect(ours, "7", "60000", "late"))
		require.Zero(t, elect(ours, "7", "0", ""))
		require.Zero(t, elect(ours, "00007", "60000", "late"), "the zeros count within a term")
		check("8 "+ours+" next", "1")

		// Another owner holds the lock, and has not announced that it leads.
		require.NoError(t, s.command("DEL", "KEY").Error())
		s.set(theirsHeld)
		require.Zero(t, elect(ours, "8", "60000", "late"))
		check("")
		require.Equal(t, int64(1), elect(theirs, "9", "60000", ""))
		check("9 "+theirs+" ", "1")
		require.Equal(t, int64(1), elect(theirs, "09", "60000", ""))
		check("09 "+theirs+" ", "1")
		for range 2 {
			_ = elect(theirs, "9", "0", "")
		}
		check("", "0")
		require.Zero(t, s.int("EXISTS", record))

		// The leader with the larger token has died, and the clock was set back since it was elected.
		require.NoError(t, s.command("DEL", "KEY").Error())
		s.set(theirsHeld)
		require.Equal(t, int64(1), elect(theirs, "99", "60000", "dead"))
		require.NoError(t, s.command("DEL", "KEY").Error())
		s.set(oursHeld)
		check("", "1")
		require.Equal(t, int64(1), elect(ours, "10", "60000", "alive"))
		require.Zero(t, elect(theirs, "99", "60000", "late"))
		check("10 "+ours+" alive", "1")
		_ = elect(ours, "10", "0", "")
		check("", "0")

		// Keys of other types are refused and stay unchanged.
		require.NoError(t, s.command("DEL", "KEY").Error())
		s.set(aString)
		require.ErrorContains(t, s.eval(scripts.Elect, []string{s.key, record}, ours, "7", plain, "60000", "v").Error(), "WRONGTYPE")
		require.Equal(t, "text", s.dump())
	})
}

const (
	hour = 3_600_000 // ms
	day  = 24 * hour
)

// A schedule calls the scripts of a schedule whose lock is that of a scene.
type schedule struct {
	*scene
	state string
}

func newSchedule(s *scene) schedule { return schedule{s, "lockgen_every:{" + s.key + "}"} }

// every asks as a process that knows the starts of the last intervals that were begun and done.
func (x schedule) every(interval int64, owner, token string, begun, done int64) []int64 {
	x.t.Helper()
	reply, err := x.eval(scripts.Every, []string{x.key, x.state}, strconv.FormatInt(interval, 10), owner, token,
		strconv.FormatInt(begun, 10), "60000", strconv.FormatInt(done, 10)).AsIntSlice()
	require.NoError(x.t, err)
	require.Len(x.t, reply, 5)
	return reply
}

func (x schedule) done(start int64) int64 {
	x.t.Helper()
	n, err := x.eval(scripts.EveryDone, []string{x.state}, strconv.FormatInt(start, 10), "60000").AsInt64()
	require.NoError(x.t, err)
	return n
}

// store has the server record a schedule, begun by theirs.
func (x schedule) store(begun, done int64) {
	x.t.Helper()
	x.set([][]string{
		{"HSET", x.state, "begun", strconv.FormatInt(begun, 10), "by", theirs + " 1", "done", strconv.FormatInt(done, 10)},
		{"PEXPIRE", x.state, "60000"},
	})
}

// stored requires the record of the server, which expires.
func (x schedule) stored(begun int64, by string, done int64) {
	x.t.Helper()
	record, err := x.command("HGETALL", x.state).AsStrMap()
	require.NoError(x.t, err)
	require.Equal(x.t, map[string]string{"begun": strconv.FormatInt(begun, 10), "by": by, "done": strconv.FormatInt(done, 10)}, record)
	require.Positive(x.t, x.int("PTTL", x.state))
}

// today returns the start of a day that does not end while the test runs.
func (x schedule) today() int64 {
	for {
		reply := x.every(day, "", "0", -1, -1)
		require.Equal(x.t, int64(1), reply[0])
		require.Zero(x.t, reply[1]%day)
		require.Positive(x.t, reply[2])
		require.LessOrEqual(x.t, reply[2], int64(day))
		require.Equal(x.t, []int64{-1, -1}, reply[3:])
		if reply[2] > 60_000 {
			return reply[1]
		}
		select {
		case <-time.After(time.Duration(reply[2]) * time.Millisecond):
		case <-x.t.Context().Done():
		}
	}
}

func TestEvery(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, s *scene) {
		x := newSchedule(s)
		state, done := x.state, x.done
		every := func(interval int64, owner, token string, known int64) []int64 {
			return x.every(interval, owner, token, known, -1)
		}
		start := x.today()
		require.Equal(t, int64(-1), every(day, ours, "7", -1)[0], "a client without the lock begins nothing")
		require.Zero(t, s.int("EXISTS", state))
		for range 2 { // the server lost the schedule while the interval was run
			require.Equal(t, int64(1), done(start))
			require.Positive(t, s.int("PTTL", state))
			require.Equal(t, []int64{start, start}, every(day, "", "0", -1)[3:])
		}
		s.set(oursHeld)
		require.Zero(t, every(day, ours, "7", -1)[0])
		require.NoError(t, s.command("DEL", s.key, state).Error())

		s.set(oursHeld)
		for range 2 { // the reply may be lost
			require.Equal(t, []int64{2, start}, every(day, ours, "7", -1)[:2])
		}
		require.Positive(t, s.int("PTTL", state))
		require.Equal(t, int64(0), every(day, "", "0", -1)[0])
		require.Equal(t, int64(0), every(day, ours, "8", -1)[0], "the next one of the same process is another one")
		require.Equal(t, start, every(day, "", "0", -1)[3])
		for range 2 {
			require.Equal(t, int64(1), done(start))
		}
		require.Equal(t, start, every(day, "", "0", -1)[4])
		require.Zero(t, done(start-day), "a later one was done, too")
		require.Equal(t, start, every(day, "", "0", -1)[4])

		// A server that lost its data learns the intervals from the processes that remember them.
		require.NoError(t, s.command("DEL", state).Error())
		require.Equal(t, int64(0), every(day, ours, "9", start)[0])
		require.Equal(t, int64(2), every(day, ours, "9", start-day)[0])

		// The clock was set back since. If by less than an interval, the interval is waited for; if by more, it begins
		// anew.
		require.NoError(t, s.command("HSET", state, "begun", strconv.FormatInt(start+day, 10), "done", strconv.FormatInt(start+day, 10)).Error())
		reply := every(day, ours, "9", -1)
		require.Equal(t, int64(0), reply[0])
		require.Greater(t, reply[2], int64(day), "the next one that can begin is the one after")
		require.NoError(t, s.command("HSET", state, "begun", strconv.FormatInt(start+2*day, 10), "done", strconv.FormatInt(start+2*day, 10)).Error())
		reply = every(day, ours, "9", -1)
		require.Equal(t, []int64{2, start}, reply[:2])
		require.Equal(t, int64(-1), reply[4])
		require.Equal(t, int64(1), done(start), "although it says that a later one was done")
		require.Equal(t, start, every(day, "", "0", -1)[4])

		// An interval of another length continues from the one that was begun.
		require.Zero(t, every(day, "", "0", -1)[0])
		reply = every(1, "", "0", -1)
		require.Equal(t, int64(1), reply[0])
		require.Equal(t, start, reply[3])

		// The first interval starts at 0, and one that is longer than the time since 1970 is the first.
		require.NoError(t, s.command("DEL", state).Error())
		const century = 100 * 365 * day
		require.Equal(t, []int64{1, 0}, every(century, "", "0", -1)[:2])
		for range 2 {
			require.Equal(t, []int64{2, 0}, every(century, ours, "9", -1)[:2])
		}
		require.Equal(t, []int64{0, -1}, every(century, "", "0", -1)[3:])
		require.Equal(t, int64(0), every(century, ours, "10", 0)[0])
		require.Equal(t, int64(1), done(0))
		require.Equal(t, []int64{0, 0}, every(century, "", "0", -1)[3:])

		require.NoError(t, s.command("DEL", "KEY").Error())
		require.NoError(t, s.command("SET", state, "text").Error())
		require.ErrorContains(t, s.eval(scripts.Every, []string{s.key, state}, "1000", ours, "7", "0", "1").Error(), "WRONGTYPE")
		require.ErrorContains(t, s.eval(scripts.EveryDone, []string{state}, "1000", "1").Error(), "WRONGTYPE")
		require.NoError(t, s.command("DEL", state).Error())
	})
}

// A server that lost its data, or a part of them, learns the last interval that was done from a process that remembers it.
func TestEvery_LearnsWhatWasDone(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, s *scene) {
		x := newSchedule(s)
		start := x.today()
		s.set(oursHeld)

		require.Equal(t, []int64{start - day, start - 2*day}, x.every(day, "", "0", start-day, start-2*day)[3:])
		require.Zero(t, s.int("EXISTS", x.state), "the question stores nothing")
		for range 2 { // the reply may be lost
			reply := x.every(day, ours, "7", start-day, start-2*day)
			require.Equal(t, []int64{2, start}, reply[:2])
			require.Equal(t, []int64{start, start - 2*day}, reply[3:])
			x.stored(start, ours+" 7", start-2*day)
		}
		require.Equal(t, []int64{start, start - 2*day}, x.every(day, "", "0", -1, -1)[3:], "so that others know it, too")

		// The later one counts.
		x.store(start-2*day, start-3*day)
		require.Equal(t, []int64{start - 2*day, start - 3*day}, x.every(day, "", "0", start-4*day, start-4*day)[3:])
		require.Equal(t, int64(2), x.every(day, ours, "8", start-day, start-day)[0])
		x.stored(start, ours+" 8", start-day)

		// A start that is beyond the clock of the server does not hide the one that the server has.
		require.Equal(t, []int64{start, start - day}, x.every(day, "", "0", start+2*day, start+2*day)[3:])
		require.Zero(t, x.every(day, ours, "9", start+2*day, start+2*day)[0])
		x.store(start+2*day, start+day)
		require.Equal(t, []int64{start - day, start - 2*day}, x.every(day, "", "0", start-day, start-2*day)[3:])
		require.Equal(t, int64(2), x.every(day, ours, "10", start-day, start-2*day)[0])
		x.stored(start, ours+" 10", start-2*day)

		// Another process has begun the interval elsewhere: an owner that began an earlier one here does not begin it.
		require.Zero(t, s.int("HSET", x.state, "begun", strconv.FormatInt(start-day, 10)))
		require.Zero(t, x.every(day, ours, "10", start, -1)[0])

		require.NoError(t, s.command("DEL", x.state).Error())
		require.Equal(t, int64(2), x.every(day, ours, "11", -1, -1)[0])
		require.Zero(t, s.int("HEXISTS", x.state, "done"), "none is known")
		require.NoError(t, s.command("DEL", s.key, x.state).Error())
	})
}

// The end of a run repairs the record of a server that went back to a state before the begin.
func TestEveryDone_WhatWasLost(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, s *scene) {
		x := newSchedule(s)
		start := x.today()
		for _, held := range [][][]string{nil, oursHeld, theirsHeld} {
			require.NoError(t, s.command("DEL", s.key, x.state).Error())
			s.set(held)
			x.store(start-2*day, start-3*day)
			for range 2 {
				require.Equal(t, int64(1), x.done(start))
				x.stored(start, "", start)
			}
			require.Zero(t, x.every(day, "", "0", -1, -1)[0], "a process that does not know of the interval")
		}
		require.Zero(t, x.every(day, theirs, "2", -1, -1)[0], "nor may one begin it that waited for the lock")

		// The clock was set back, and an earlier interval has begun since.
		x.store(start, start-day)
		require.Zero(t, x.done(start+day))
		x.stored(start, theirs+" 1", start-day)

		// A late request about an earlier interval leaves the later one begun, by its owner.
		x.store(start, start-2*day)
		for range 2 {
			require.Equal(t, int64(1), x.done(start-day))
			x.stored(start, theirs+" 1", start-day)
		}
		require.Zero(t, x.done(start-2*day))
		x.stored(start, theirs+" 1", start-day)
		require.NoError(t, s.command("DEL", s.key, x.state).Error())
	})
}
